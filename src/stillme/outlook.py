"""What a run would do, before anything is written or spent: editor by editor, what is missing, its time, its cost.

No model is loaded and no service is asked. Times come from the run's own calls once there are a few of them, and
from the backends' own guesses before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from statistics import median
from typing import Any

from stillme import design as designs
from stillme import gpus
from stillme import judge as judging
from stillme import measure as measuring
from stillme.backends import Lane, Prepared, Price
from stillme.config import Config, check_keys
from stillme.design import Design
from stillme.gpus import Gpu
from stillme.ledger import Run
from stillme.ledger.run import LEDGER
from stillme.records import Status, Trial

ENOUGH = 5  # calls of an editor after which its own pace is known
VRAM = "vram_gb"


@dataclass(frozen=True)
class Cost:
    """In USD. `known` is false where an editor may cost something and nobody knows how much."""

    low: float = 0.0
    expected: float = 0.0
    high: float = 0.0
    known: bool = True

    def __add__(self, other: Cost) -> Cost:
        sums = (self.low + other.low, self.expected + other.expected, self.high + other.high)
        return Cost(*sums, self.known and other.known)


@dataclass(frozen=True)
class Ahead:
    """What is ahead of one editor. `measured`: its pace is that of its own calls, not a guess.

    `dropped`: parameter -> why it will have no effect. `vram_gb`: what it needs; None where it does not say.
    """

    editor: str
    trials: int
    controls: int
    done: int
    missing: int
    seconds: float
    seconds_a_call: float
    measured: bool
    cost: Cost
    price_date: str
    vram_gb: float | None
    images: int
    dropped: Mapping[str, str]
    caveats: tuple[str, ...]


@dataclass(frozen=True)
class Outlook:
    """What a run would do: counts, cost and time of what is missing.

    `gpus`: this machine's; None where no editor needs one, and where nobody could look.
    """

    portraits: int
    prompts: int
    editors: int
    trials: int
    controls: int
    edits_done: int
    edits_missing: int
    measurements_done: int
    measurements_missing: int
    verdicts_done: int
    verdicts_missing: int
    cost_usd: float
    cost: Cost
    spent_usd: float
    budget_usd: float | None
    seconds: float
    ahead: tuple[Ahead, ...]
    gpus: tuple[Gpu, ...] | None


def look_ahead(config: Config) -> Outlook:
    """The plan, without writing or spending anything."""
    check_keys(config)
    portraits = [p for prepared in config.sources.values() for p, _ in prepared.make().portraits()]
    design = designs.make(config, portraits)
    done = _already(config, design)
    todo = [trial for trial in design.distinct_edits() if trial.edit not in done.edits]
    verdicts = done.verdicts_missing + _verdicts_of(design, todo)
    measurements = done.measurements_missing + _measurements_of(design, todo)
    judges = [config.judges[name] for name in design.judges]
    ahead = _each_ahead(design, todo, done.calls)
    cost = sum((one.cost for one in ahead), _mean_cost(judges, verdicts))
    controls = sum(trial.is_control for trial in design.trials)
    return Outlook(
        portraits=len(portraits),
        prompts=len({t.prompt for t in design.trials if not t.is_control}),
        editors=len(config.editors),
        trials=len(design.trials) - controls,
        controls=controls,
        edits_done=len(design.distinct_edits()) - len(todo),
        edits_missing=len(todo),
        measurements_done=done.measurements,
        measurements_missing=measurements,
        verdicts_done=done.verdicts,
        verdicts_missing=verdicts,
        cost_usd=cost.expected,
        cost=cost,
        spent_usd=done.spent_usd,
        budget_usd=config.audit.budgets.cost_usd,
        seconds=_side_by_side(config, ahead) + _afterwards(config, judges, verdicts, measurements),
        ahead=tuple(ahead),
        gpus=_cards(config, ahead),
    )


def _cards(config: Config, ahead: Iterable[Ahead]) -> tuple[Gpu, ...] | None:
    """This machine's cards, where an editor needs one; those of a cluster are not looked at."""
    if config.audit.engine.kind == "ray" or not any(one.vram_gb for one in ahead):
        return None
    return gpus.here()


def _verdicts_of(design: Design, todo: Iterable[Trial]) -> int:
    return sum(not trial.is_control for trial in todo) * len(set(design.judges.values()))


def _measurements_of(design: Design, todo: Iterable[Trial]) -> int:
    chosen = {trial.edit for trial in measuring.measured(design)}
    return sum(trial.edit in chosen for trial in todo) * len(design.measures)


def _afterwards(config: Config, judges: Sequence[Prepared[Any]], verdicts: int, measurements: int) -> float:
    """Measuring and judging come after the edits, on as many threads as there are."""
    seconds = verdicts * _mean([judge.seconds for judge in judges])
    seconds += measurements * _mean([measure.seconds for measure in config.measures.values()])
    return seconds / config.audit.engine.threads


def _mean_cost(judges: Sequence[Prepared[Any]], verdicts: int) -> Cost:
    return sum((_cost(judge, verdicts / len(judges)) for judge in judges), Cost())


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


# What a run has already


@dataclass(frozen=True)
class Call:
    """A call that an editor answered: when, and for how long."""

    start: float
    seconds: float


@dataclass(frozen=True)
class _Done:
    """What a run has already; an edit that was refused has no verdict to wait for."""

    edits: frozenset[str] = frozenset()
    verdicts: int = 0
    verdicts_missing: int = 0
    measurements: int = 0
    measurements_missing: int = 0
    spent_usd: float = 0.0
    calls: Mapping[str, Sequence[Call]] = field(default_factory=dict)


def _already(config: Config, design: Design) -> _Done:
    if not (config.run / LEDGER).is_file():
        return _Done()
    with Run.look(config.run) as seen:
        seen.expect(config.protocol)
        todo, done = judging.missing(seen, design)
        unmeasured, measured = measuring.missing(seen, design)
        left = measuring.count(unmeasured)
        edits, spent = frozenset(seen.keys("edit")), seen.spent_usd()
        return _Done(edits, done, len(todo), measured, left, spent, _calls(seen, design))


def _calls(seen: Run, design: Design) -> dict[str, list[Call]]:
    """Editor -> the calls that it answered, with these very settings."""
    editor_of = {trial.edit: trial.editor for trial in design.distinct_edits()}
    found: dict[str, list[Call]] = {}
    for subject, status, started, seconds in seen.query("SELECT subject, status, started, seconds FROM attempt"):
        if subject in editor_of and Status(status).is_final:
            start = datetime.fromisoformat(started).timestamp()
            found.setdefault(editor_of[subject], []).append(Call(start, seconds))
    return found


# Editor by editor


def _each_ahead(design: Design, todo: Sequence[Trial], calls: Mapping[str, Sequence[Call]]) -> list[Ahead]:
    every, left = (Counter(trial.editor for trial in some) for some in (design.distinct_edits(), todo))
    asked = Counter((trial.editor, trial.is_control) for trial in design.trials)
    return [
        _ahead(
            design.config, name, (asked[name, False], asked[name, True], total, left[name]), calls.get(name, ())
        )
        for name, total in every.items()
    ]


def _ahead(config: Config, name: str, counts: tuple[int, int, int, int], calls: Sequence[Call]) -> Ahead:
    prepared = config.editor(name)
    trials, controls, total, missing = counts
    measured = len(calls) >= ENOUGH
    each = median(call.seconds for call in calls) if measured else prepared.seconds
    at_once = _at_once(config, prepared, calls if measured else ())
    return Ahead(
        editor=name,
        trials=trials,
        controls=controls,
        done=total - missing,
        missing=missing,
        seconds=missing * each / at_once,
        seconds_a_call=each,
        measured=measured,
        cost=_cost(prepared, missing),
        price_date=prepared.price.date if prepared.price else "",
        vram_gb=prepared.needs.get(VRAM),
        images=prepared.most_images,
        dropped=dict(prepared.dropped),
        caveats=prepared.caveats,
    )


def _cost(prepared: Prepared[Any], calls: float) -> Cost:
    one = prepared.price_usd
    price = prepared.price or Price(one, one, one, date="")
    known = prepared.lane is not Lane.REMOTE or prepared.price is not None or one > 0
    low, expected, high = (round(calls * usd, 6) for usd in (price.low, price.expected, price.high))
    return Cost(low, expected, high, known or not calls)


def _at_once(config: Config, prepared: Prepared[Any], calls: Sequence[Call]) -> float:
    """How many calls are under way at a time: as it was, or as it is set."""
    if prepared.lane is Lane.THREADS:
        return config.audit.engine.threads
    if calls:
        return overlap(calls)
    return prepared.concurrency if prepared.lane is Lane.REMOTE else 1


def overlap(calls: Iterable[Call]) -> float:
    """How many calls were under way on average, while any was; pauses between sessions count for nothing.

    >>> overlap([Call(0, 10), Call(0, 10), Call(1000, 10), Call(1000, 10)])
    2.0
    """
    busy, until, total = 0.0, float("-inf"), 0.0
    for call in sorted(calls, key=lambda call: call.start):
        end = call.start + call.seconds
        busy += max(0.0, end - max(call.start, until))
        until = max(until, end)
        total += call.seconds
    return max(1.0, total / busy) if busy else 1.0


def _side_by_side(config: Config, ahead: Iterable[Ahead]) -> float:
    """Quick editors take turns; models and services work beside them. The slowest decides."""
    together, alone = 0.0, [0.0]
    for one in ahead:
        if config.editor(one.editor).lane is Lane.THREADS:
            together += one.seconds
        else:
            alone.append(one.seconds)
    return max(together, *alone)
