"""What a run would do, before anything is written or spent: what is missing, its time, its cost, editor by editor
and judge by judge.

No model is loaded and no service is asked. Times come from the run's own calls once there are a few of them, and
from the backends' own guesses before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from statistics import median
from typing import Any

from stillme.core import gpus
from stillme.core.gpus import Gpu
from stillme.core.records import CONTROLS, DIAGNOSE, MITIGATE, Portrait, Status, Trial
from stillme.engine.backends import Lane, Prepared, Price
from stillme.ledger import Run
from stillme.ledger.run import LEDGER
from stillme.plan import design as designs
from stillme.plan import trials as plan
from stillme.plan.config import Config, check_keys
from stillme.plan.design import Design
from stillme.plan.trials import Known
from stillme.steps import calibrate as calibrating
from stillme.steps import judge as judging
from stillme.steps import measure as measuring
from stillme.steps import portraits as gathering

ENOUGH = 5  # calls of an editor or a judge after which its own pace is known
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
class JudgeAhead:
    """What is ahead of one judge. `repeats_…`: second looks, which are in no score.

    `calls`: at most, because looks at equal pixels share one. `batch_wait_s`: how long it is waited for batches,
    whose time nobody knows, so that `seconds` is 0; None where it is asked live.
    """

    judge: str
    done: int
    missing: int
    repeats_done: int
    repeats_missing: int
    calls: int
    is_remote: bool
    batch_wait_s: float | None
    seconds: float
    seconds_a_call: float
    measured: bool
    cost: Cost
    price_date: str
    dropped: Mapping[str, str]
    caveats: tuple[str, ...]


@dataclass(frozen=True)
class ExperimentAhead:
    """What is ahead of one experiment: its trials, the calls that are missing, and what they cost.

    `portraits_missing`: off which features are still to be read. `most`: the counts are the most that it can be,
    because its cases will be drawn from what another experiment finds. `notes`: what to know before it is run.
    """

    experiment: str
    trials: int
    edits_missing: int
    verdicts_missing: int
    portraits_missing: int
    cost: Cost
    most: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class CalibrationAhead:
    """What calibrating one judge takes, and what came of it where it was done: passed, failed, or cannot tell."""

    judge: str
    calls: int
    cost: Cost
    verdict: str = ""


@dataclass(frozen=True)
class Outlook:
    """What a run would do: counts, cost and time of what is missing. Second looks are counted apart.

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
    repeats_done: int
    repeats_missing: int
    cost_usd: float
    cost: Cost
    spent_usd: float
    budget_usd: float | None
    seconds: float
    ahead: tuple[Ahead, ...]
    judges: tuple[JudgeAhead, ...]
    gpus: tuple[Gpu, ...] | None
    experiments: tuple[ExperimentAhead, ...]
    calibration: tuple[CalibrationAhead, ...]


def look_ahead(config: Config) -> Outlook:
    """The plan, without writing or spending anything."""
    check_keys(config)
    portraits = gathering.listed(config)
    known = _known(config, portraits)
    design = designs.make(config, portraits, plan.supposed(config, portraits, known))
    done = _already(config, design)
    todo = [trial for trial in design.distinct_edits() if trial.edit not in done.edits]
    measurements = done.measurements_missing + _measurements_of(design, todo)
    ahead = _each_ahead(design, todo, done.calls)
    judges = _judges_ahead(design, todo, done)
    experiments = _experiments_ahead(design, todo, done, known)
    reading = _cost(config.extractor, _unread(design, known)) if config.extractor else Cost()
    cost = sum((*(one.cost for one in ahead), *(one.cost for one in judges), reading), Cost())
    controls = sum(trial.is_control for trial in design.trials)
    return Outlook(
        portraits=len(portraits),
        prompts=len({t.prompt for t in design.trials if t.experiment == DIAGNOSE}),
        editors=len(config.editors),
        trials=len(design.trials) - controls,
        controls=controls,
        edits_done=len(design.distinct_edits()) - len(todo),
        edits_missing=len(todo),
        measurements_done=done.measurements,
        measurements_missing=measurements,
        verdicts_done=sum(one.done for one in judges),
        verdicts_missing=sum(one.missing for one in judges),
        repeats_done=sum(one.repeats_done for one in judges),
        repeats_missing=sum(one.repeats_missing for one in judges),
        cost_usd=cost.expected,
        cost=cost,
        spent_usd=done.spent_usd,
        budget_usd=config.audit.budgets.cost_usd,
        seconds=_editing(config, ahead) + _measuring(config, measurements) + _judging(config, judges),
        ahead=tuple(ahead),
        judges=tuple(judges),
        gpus=_cards(config, ahead),
        experiments=tuple(experiments),
        calibration=tuple(_calibration_ahead(design)),
    )


def _known(config: Config, portraits: Sequence[Portrait]) -> Known:
    if not (config.run / LEDGER).is_file():
        return Known()
    with Run.look(config.run) as seen:
        seen.expect(config.protocol)
        return designs.known(seen, config, portraits)


def _cards(config: Config, ahead: Iterable[Ahead]) -> tuple[Gpu, ...] | None:
    """This machine's cards, where an editor needs one; those of a cluster are not looked at."""
    if config.audit.engine.kind == "ray" or not any(one.vram_gb for one in ahead):
        return None
    return gpus.here()


def _measurements_of(design: Design, todo: Iterable[Trial]) -> int:
    chosen = {trial.edit for trial in measuring.measured(design)}
    return sum(trial.edit in chosen for trial in todo) * len(design.measures)


def _measuring(config: Config, measurements: int) -> float:
    """Measuring comes after the edits, on as many threads as there are."""
    each = [measure.seconds for measure in config.measures.values()]
    return measurements * sum(each) / len(each) / config.audit.engine.threads if each else 0.0


# What a run has already


@dataclass(frozen=True)
class Call:
    """A call that an editor or a judge answered: when, and for how long."""

    start: float
    seconds: float


@dataclass(frozen=True)
class _Done:
    """What a run has already; an edit that was refused has no verdict to wait for.

    `looks`: (judge, is it a second look, is it done) -> how many; `open`: (experiment, judge) -> how many are not.
    `calls`, `answers`: editor, judge -> its calls.
    """

    edits: frozenset[str] = frozenset()
    looks: Counter[tuple[str, bool, bool]] = field(default_factory=Counter)
    open: Counter[tuple[str, str]] = field(default_factory=Counter)
    measurements: int = 0
    measurements_missing: int = 0
    spent_usd: float = 0.0
    calls: Mapping[str, Sequence[Call]] = field(default_factory=dict)
    answers: Mapping[str, Sequence[Call]] = field(default_factory=dict)


def _already(config: Config, design: Design) -> _Done:
    if not (config.run / LEDGER).is_file():
        return _Done()
    with Run.look(config.run) as seen:
        seen.expect(config.protocol)
        unmeasured, measured = measuring.missing(seen, design)
        return _Done(
            edits=frozenset(seen.keys("edit")),
            looks=_looks(seen, design),
            open=Counter((look.trial.experiment, look.judge) for look in judging.missing(seen, design)[0]),
            measurements=measured,
            measurements_missing=measuring.count(unmeasured),
            spent_usd=seen.spent_usd(),
            calls=_calls(seen, design),
            answers=_answers(seen, design),
        )


def _looks(seen: Run, design: Design) -> Counter[tuple[str, bool, bool]]:
    done = seen.keys("verdict")
    every = judging.wanted(seen, design)
    return Counter((look.judge, look.repeat > 0, look.key in done) for look in every)


def _answers(seen: Run, design: Design) -> dict[str, list[Call]]:
    """Judge -> the calls that it answered, with these very settings."""
    subjects = "SELECT DISTINCT settings, iif(call = '', key, call) AS subject FROM verdict"
    rows = seen.query(
        "SELECT v.settings, a.status, a.started, a.seconds "  # noqa: S608 (names are ours, values are parameters)
        f"FROM attempt a JOIN ({subjects}) v ON v.subject = a.subject"
    )
    found: dict[str, list[Call]] = {}
    for settings, status, started, seconds in rows:
        if Status(status).is_final:
            found.setdefault(settings, []).append(_call(started, seconds))
    return {name: found.get(settings, []) for name, settings in design.judges.items()}


def _call(started: str, seconds: float) -> Call:
    return Call(datetime.fromisoformat(started).timestamp(), seconds)


def _calls(seen: Run, design: Design) -> dict[str, list[Call]]:
    """Editor -> the calls that it answered, with these very settings."""
    editor_of = {trial.edit: trial.editor for trial in design.distinct_edits()}
    found: dict[str, list[Call]] = {}
    for subject, status, started, seconds in seen.query("SELECT subject, status, started, seconds FROM attempt"):
        if subject in editor_of and Status(status).is_final:
            found.setdefault(editor_of[subject], []).append(_call(started, seconds))
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
    pace = _pace(config, prepared, calls)
    return Ahead(
        editor=name,
        trials=trials,
        controls=controls,
        done=total - missing,
        missing=missing,
        seconds=missing * pace.each / pace.at_once,
        seconds_a_call=pace.each,
        measured=pace.is_measured,
        cost=_cost(prepared, missing),
        price_date=_dated(prepared),
        vram_gb=prepared.needs.get(VRAM),
        images=prepared.most_images,
        dropped=dict(prepared.dropped),
        caveats=prepared.caveats,
    )


def _dated(prepared: Prepared[Any]) -> str:
    return prepared.price.date if prepared.price else ""


def _cost(prepared: Prepared[Any], calls: float) -> Cost:
    one = prepared.price_usd
    price = prepared.price or Price(one, one, one, date="")
    known = prepared.lane is not Lane.REMOTE or prepared.price is not None or one > 0
    low, expected, high = (round(calls * usd, 6) for usd in (price.low, price.expected, price.high))
    return Cost(low, expected, high, known or not calls)


@dataclass(frozen=True)
class _Pace:
    """How long a call takes, and how many are under way."""

    each: float
    at_once: float
    is_measured: bool


def _pace(config: Config, prepared: Prepared[Any], calls: Sequence[Call]) -> _Pace:
    """That of its own calls once there are enough of them, and a guess before."""
    if len(calls) < ENOUGH:
        return _Pace(prepared.seconds, _at_once(config, prepared, ()), is_measured=False)
    each = median(call.seconds for call in calls)
    return _Pace(each, _at_once(config, prepared, calls), is_measured=True)


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


def _editing(config: Config, ahead: Iterable[Ahead]) -> float:
    return _side_by_side((config.editor(one.editor).lane, one.seconds) for one in ahead)


def _judging(config: Config, ahead: Iterable[JudgeAhead]) -> float:
    return _side_by_side((config.judges[one.judge].lane, one.seconds) for one in ahead)


def _side_by_side(each: Iterable[tuple[Lane, float]]) -> float:
    """Quick ones take turns; models and services work beside them. The slowest decides."""
    together, alone = 0.0, [0.0]
    for lane, seconds in each:
        if lane is Lane.THREADS:
            together += seconds
        else:
            alone.append(seconds)
    return max(together, *alone)


# Experiment by experiment


def _experiments_ahead(design: Design, todo: Sequence[Trial], done: _Done, known: Known) -> list[ExperimentAhead]:
    """An edit that several experiments need is counted in the first of them."""
    asked = Counter(trial.experiment for trial in design.trials)
    return [_experiment_ahead(design, name, asked[name], todo, done, known) for name in asked]


def _experiment_ahead(
    design: Design, name: str, trials: int, todo: Sequence[Trial], done: _Done, known: Known
) -> ExperimentAhead:
    config, to_make = design.config, Counter(trial.editor for trial in todo if trial.experiment == name)
    looks = {judge: done.open[name, judge] for judge in design.judges}
    if name != CONTROLS:
        for judge in _asked_once(design):
            looks[judge] += to_make.total()
    unread = _unread(design, known) if name == MITIGATE else 0
    costs = [_cost(config.editor(editor), count) for editor, count in to_make.items()]
    costs += [_cost(config.judges[judge], _with_repeats(config, judge, count)) for judge, count in looks.items()]
    costs += [_cost(config.extractor, unread)] if config.extractor else []
    return ExperimentAhead(
        name,
        trials,
        to_make.total(),
        sum(looks.values()),
        unread,
        sum(costs, Cost()),
        most=name == MITIGATE and config.select == "drifted" and known.drifted is None,
        notes=tuple(_mitigation_notes(config)) if name == MITIGATE else (),
    )


def _with_repeats(config: Config, judge: str, looks: int) -> float:
    is_remote = config.judges[judge].lane is Lane.REMOTE
    return looks * (1 + config.audit.judging.repeats) if is_remote else looks


def _unread(design: Design, known: Known) -> int:
    """Portraits off which features are still to be read."""
    if design.config.extractor is None:
        return 0
    wanted = {trial.image for trial in design.trials if trial.experiment == MITIGATE}
    return len(wanted - set(known.features))


def _mitigation_notes(config: Config) -> Iterator[str]:
    wanted, row = config.audit.experiments.mitigate, config.extractor_row
    if config.select == "drifted":
        yield (
            "cases are chosen by the drift that was seen in them, so their second edits will look better even if "
            "nothing helps (regression to the mean); the arm 'reseed' shows by how much."
        )
    if row is not None and wanted is not None and wanted.extractor is None:
        yield f"features are read by the primary judge, {row.id}, which then judges what came of them."


def _calibration_ahead(design: Design) -> Iterator[CalibrationAhead]:
    if design.config.protocol.calibration is None:
        return
    verdicts = _calibrated(design)
    for judge, calls in calibrating.calls(design).items():
        cost = _cost(design.config.judges[judge], calls)
        yield CalibrationAhead(judge, calls, cost, verdicts.get(judge, ""))


def _calibrated(design: Design) -> dict[str, str]:
    """Judge -> what its calibration came to, where the run has one."""
    if not (design.config.run / LEDGER).is_file():
        return {}
    with Run.look(design.config.run) as seen:
        found = calibrating.findings(seen, design)
    return {} if found is None else {judge: found.verdict(judge).value for judge in found.judges}


def _asked_once(design: Design) -> list[str]:
    """Judges with equal settings share their looks: the last one is asked."""
    return list({settings: name for name, settings in design.judges.items()}.values())


# Judge by judge


def _judges_ahead(design: Design, todo: Iterable[Trial], done: _Done) -> list[JudgeAhead]:
    """Looks at the edits that are there, and at those that are still to be made, as if none of them failed."""
    to_come = sum(not trial.is_control for trial in todo)
    asked = _asked_once(design)
    return [_judge_ahead(design.config, name, to_come if name in asked else 0, done) for name in design.judges]


def _judge_ahead(config: Config, name: str, to_come: int, done: _Done) -> JudgeAhead:
    prepared, is_remote = config.judges[name], config.judges[name].lane is Lane.REMOTE
    again = round(to_come * config.audit.judging.repeats) if is_remote else 0
    missing, repeats = done.looks[name, False, False] + to_come, done.looks[name, True, False] + again
    in_batches = prepared.batch_wait_s is not None
    pace = _pace(config, prepared, () if in_batches else done.answers.get(name, ()))
    return JudgeAhead(
        judge=name,
        done=done.looks[name, False, True],
        missing=missing,
        repeats_done=done.looks[name, True, True],
        repeats_missing=repeats,
        calls=missing + repeats,
        is_remote=is_remote,
        batch_wait_s=prepared.batch_wait_s,
        seconds=0.0 if in_batches else (missing + repeats) * pace.each / pace.at_once,
        seconds_a_call=pace.each,
        measured=pace.is_measured,
        cost=_cost(prepared, missing + repeats),
        price_date=_dated(prepared),
        dropped=dict(prepared.dropped),
        caveats=prepared.caveats,
    )
