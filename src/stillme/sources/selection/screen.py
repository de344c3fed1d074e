"""The pre-screen: measures candidates, judges them by the protocol's criteria, and counts who passes by group.

It ranks and pre-ticks; a person decides, with these numbers at hand. A figure that could not be measured is
neither good nor bad: its criterion is then not measured. A filter that passes one group less often than the others
is itself a finding: it may be the photographs, the instrument, or both. Either way the chosen portraits carry it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import polars as pl

from stillme.core.errors import StillmeError
from stillme.core.records import Reading, Status, digest
from stillme.engine.backends import require_packages
from stillme.engine.processes import ProcessPool
from stillme.engine.progress import Progress
from stillme.engine.threads import StopEvent, run_in_threads
from stillme.protocol.schema import Rule
from stillme.sources.selection.config import Plan
from stillme.sources.selection.store import Store, by_cell

MIN_PORTRAITS_FOR_PROCESSES = 20  # loading the models takes a process as long as some ten portraits
NOT_MEASURED = "not measured"
_WORKER = "eye"  # the name under which the pool of processes knows the worker


# Measuring


@dataclass(frozen=True)
class ScreeningWorker:
    """Measures images with models that were loaded once; lives in a process of its own."""

    optics: Any

    def look(self, content: bytes) -> Reading:
        from stillme.measures import portrait

        return portrait.read(content, self.optics)


def load_worker() -> ScreeningWorker:
    from stillme.measures.view import VisionModels

    return ScreeningWorker(VisionModels())


def screening_settings() -> str:
    """Names everything that changes a reading."""
    from stillme.measures import portrait

    return digest("screening", **portrait.effective())


def load_readings(store: Store) -> dict[str, Reading]:
    """Image -> what the pre-screen read as it measures today; where it has not, as it last did."""
    newest = store.query(
        "SELECT settings FROM screening ORDER BY settings = ? DESC, rowid DESC LIMIT 1", [screening_settings()]
    )
    return store.readings(newest[0][0]) if newest else {}


def screen_candidates(store: Store, progress: Progress, threads: int) -> None:
    """Measure what is missing and record each final reading; one that failed is tried again by the next run."""
    require_packages(["cv2"], "The pre-screen")
    current = screening_settings()
    all_images = list(dict.fromkeys(candidate.portrait.image for candidate in store.candidates()))
    measured = store.readings(current)
    todo = [image for image in all_images if image not in measured]
    threads = threads if len(todo) >= MIN_PORTRAITS_FOR_PROCESSES else 1
    stop_event = StopEvent()
    with (
        progress.stage("Pre-screen", len(todo), len(all_images) - len(todo)) as stage,
        _open_measure(threads) as measure,
    ):

        def screen_image(image: str) -> Future[None]:
            try:
                reading = measure(store.image(image))
            except StillmeError:
                raise
            except Exception as error:  # a bug in an instrument costs one reading, not the step
                reading = Reading(Status.CRASHED, detail=f"{type(error).__name__}: {error}")
            stage.count(reading.status)
            if reading.status.is_final:
                return store.add_reading(image, current, reading)
            nothing_to_store: Future[None] = Future()
            nothing_to_store.set_result(None)
            return nothing_to_store

        run_in_threads(todo, screen_image, threads, stop_event)
    if stop_event:
        raise KeyboardInterrupt


@contextmanager
def _open_measure(threads: int) -> Iterator[Callable[[bytes], Reading]]:
    """One worker in this process for one thread, else a process per thread: a model serves one caller."""
    if threads == 1:
        workers: list[ScreeningWorker] = []

        def measure(content: bytes) -> Reading:
            workers[:] = workers or [load_worker()]  # loaded with the first image, not before
            return workers[0].look(content)

        yield measure
        return
    pool = ProcessPool({_WORKER: load_worker})
    try:
        yield partial(pool.ask, _WORKER, "look")
    finally:
        pool.close()


# Criteria


@dataclass(frozen=True)
class RuleCheck:
    """One rule next to the figure that it asks for; `value` is None where that could not be measured."""

    rule: Rule
    value: float | None

    @property
    def holds(self) -> bool | None:
        return None if self.value is None else self.excess == 0

    @property
    def excess(self) -> float:
        """How far beyond its bound the figure is, in parts of that bound; 0 within, and where it is missing."""
        if self.value is None:
            return 0.0
        low, high = self.rule.at_least, self.rule.at_most
        if low is not None and self.value < low:
            return (low - self.value) / (abs(low) or 1)
        if high is not None and self.value > high:
            return (self.value - high) / (abs(high) or 1)
        return 0.0

    @property
    def words(self) -> str:
        """As people read it: 'turned to a side: 31°, at most 20° either way'."""
        if self.value is None:
            return f"{self.rule.label}: {NOT_MEASURED}, {bounds(self.rule)}"
        rule = self.rule
        value = abs(self.value) if _is_symmetric(rule) else self.value
        # Rounding must not hide that a figure is beyond its bound: 20.3° is not shown as 20°, at most 20°.
        looks_within = not self.holds and round(value, rule.digits) in (rule.at_least, rule.at_most)
        digits = rule.digits + 1 if looks_within else rule.digits
        return f"{rule.label}: {_format_number(f'{value:.{digits}f}', rule.unit)}, {bounds(rule)}"


@dataclass(frozen=True)
class Outcome:
    """The rules of one criterion applied to one portrait."""

    checks: tuple[RuleCheck, ...]

    @property
    def passed(self) -> bool | None:
        """False as soon as one rule fails; else None where a figure is missing."""
        results = [check.holds for check in self.checks]
        return False if False in results else None if None in results else True

    @property
    def excess(self) -> float:
        return sum(check.excess for check in self.checks)


Criteria = Mapping[str, Sequence[Rule]]


def judge(figures: Mapping[str, float], criteria: Criteria) -> dict[str, Outcome]:
    """Criterion -> outcome, in the order of the criteria."""
    return {
        name: Outcome(tuple(RuleCheck(rule, figures.get(rule.figure)) for rule in rules))
        for name, rules in criteria.items()
    }


def rank(judged: Iterable[tuple[str, Mapping[str, Outcome]]]) -> list[str]:
    """The keys, best first: most criteria met, then fewest not measured, then least beyond the bounds."""

    def order(item: tuple[str, Mapping[str, Outcome]]) -> tuple[int, int, float, str]:
        key, outcomes = item
        passed = [outcome.passed for outcome in outcomes.values()]
        excess = sum(outcome.excess for outcome in outcomes.values())
        return -passed.count(True), passed.count(None), excess, key

    return [key for key, _ in sorted(judged, key=order)]


def bounds(rule: Rule) -> str:
    """What a rule allows, in words; bounds as the protocol has them, without digits that it does not have."""
    low, high = (
        "" if bound is None else _format_number(f"{bound:g}", rule.unit) for bound in (rule.at_least, rule.at_most)
    )
    if rule.at_most is None:
        return f"at least {low}"
    if rule.at_least is None:
        return f"at most {high}"
    return f"at most {high} either way" if _is_symmetric(rule) else f"{low} to {high}"


def _is_symmetric(rule: Rule) -> bool:
    """Whether the same is allowed either way, as with angles."""
    return rule.at_least is not None and rule.at_most is not None and rule.at_least == -rule.at_most


def _format_number(digits: str, unit: str) -> str:
    gap = "" if unit in ("", "°") else " "
    return f"{digits}{gap}{unit}".replace("-", "−", 1)


# What a reviewer is shown of it


@dataclass(frozen=True)
class Found:
    """One criterion of one candidate. `passed` None: not measured. `measured`: the numbers, in words."""

    passed: bool | None = None
    measured: str = NOT_MEASURED

    @classmethod
    def of(cls, outcome: Outcome, problem: str) -> Found:
        """`problem`: why nothing could be measured, or empty."""
        words = "; ".join(check.words for check in outcome.checks)
        return cls(outcome.passed, f"{words} ({problem})" if problem else words)


NOTHING = Found()


@dataclass(frozen=True)
class Screened:
    """What the pre-screen says of the candidates; empty where it did not run."""

    found: Mapping[str, Mapping[str, Found]] = field(default_factory=dict)  # candidate, criterion
    ranks: Mapping[str, int] = field(default_factory=dict)  # candidate -> its rank in its cell, best first

    def of(self, candidate: str, criterion: str) -> Found:
        return self.found.get(candidate, {}).get(criterion, NOTHING)


def load_screened(plan: Plan, store: Store) -> Screened:
    """What the pre-screen measured, read by the protocol's rules."""
    reading_by_image = load_readings(store)
    measured = [candidate for candidate in store.candidates() if candidate.portrait.image in reading_by_image]
    outcomes, found = {}, {}
    for candidate in measured:
        reading = reading_by_image[candidate.portrait.image]
        judged = outcomes[candidate.key] = judge(reading.figures, plan.rules.criteria)
        is_read = reading.status is Status.OK
        problem = "" if is_read else reading.detail or reading.status.value.replace("_", " ")
        found[candidate.key] = {name: Found.of(outcome, problem) for name, outcome in judged.items()}
    ranks: dict[str, int] = {}
    for candidates in by_cell(plan.grid, measured).values():
        best_first = rank((candidate.key, outcomes[candidate.key]) for candidate in candidates)
        ranks.update({key: position for position, key in enumerate(best_first, start=1)})
    return Screened(found=found, ranks=ranks)


# Who passes


@dataclass(frozen=True, kw_only=True)
class Screening:
    """Pass rates of all candidates. The field names are keys of `screen --json`."""

    candidates: int
    statuses: Mapping[str, int]
    overall: Mapping[str, tuple[int, int]]  # criterion -> passed, measured
    rates: pl.DataFrame  # as `stats.passing` makes them
    findings: Sequence[str]  # a sentence for each criterion that a group passes less often than the others


def summarize_screening(plan: Plan, store: Store, reading_by_image: Mapping[str, Reading]) -> Screening | None:
    """Pass rates of everything drawn so far; None where nothing was screened. `reading_by_image`: by SHA-256."""
    from stillme.stats.passing import passing

    candidates = store.candidates()
    measured = [candidate for candidate in candidates if candidate.portrait.image in reading_by_image]
    if not measured:
        return None
    rows = [
        {"criterion": criterion, "passed": outcome.passed, **candidate.portrait.labels}
        for candidate in measured
        for criterion, outcome in judge(
            reading_by_image[candidate.portrait.image].figures, plan.rules.criteria
        ).items()
    ]
    text_columns = dict.fromkeys(("criterion", *plan.grid.axes), pl.String)
    judged = pl.DataFrame(rows, schema={**text_columns, "passed": pl.Boolean})
    rates = passing(judged, list(plan.grid.axes))
    statuses = [reading_by_image[candidate.portrait.image].status for candidate in measured]
    return Screening(
        candidates=len(candidates),
        statuses={status.value: statuses.count(status) for status in Status if status in statuses},
        overall={
            str(criterion): (int(part["passed"].sum() or 0), int(part["passed"].count()))
            for (criterion,), part in judged.group_by("criterion", maintain_order=True)
        },
        rates=rates,
        findings=_less_often_sentences(rates, plan),
    )


def _less_often_sentences(rates: pl.DataFrame, plan: Plan) -> list[str]:
    labels = {criterion.id: criterion.label.lower() for criterion in plan.protocol.groups.selection_criteria}
    sentences = []
    for row in rates.filter("less_often").iter_rows(named=True):
        group = f"{plan.grid.axes[row['dimension']][row['group']]} ({row['dimension']})"
        rate = f"{row['passed']} of {row['measured']} candidates ({row['rate']:.0%})"
        p_value = "below 0.001" if row["p_holm"] < 0.001 else f"{row['p_holm']:.3f}"
        others = f"{row['others_rate']:.0%} of the others (p {p_value}, corrected)"
        sentences.append(f"{group}: {labels[row['criterion']]} holds for {rate}, against {others}.")
    return sentences
