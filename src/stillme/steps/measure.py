"""The measuring step: every measurement that is still missing, and nothing else.

A measurement belongs to the pixels of two pictures, so edits that came out the same share theirs.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any

from stillme.core.errors import StillmeError
from stillme.core.records import Attempt, Measurement, MeasureRequest, Reading, Status, Trial, digest
from stillme.engine.local import Stop, work
from stillme.engine.processes import Apart
from stillme.engine.progress import Progress, Stage
from stillme.ledger import Run
from stillme.ledger.run import now
from stillme.measures import Measures, set_up
from stillme.plan import trials
from stillme.plan.design import Design

WORTH_A_PROCESS = 20  # pairs; loading the models takes as long as some ten
BENCH = "bench"


@dataclass(frozen=True)
class Sitting:
    """One source and one edit, and the measures to take of them: id -> key."""

    source: str
    image: str
    measures: Mapping[str, str]


def measured(design: Design) -> list[Trial]:
    """The trials that are measured, in the plan's order; none without measures."""
    if not design.measures:
        return []
    share = design.config.audit.measuring.share
    return trials.measured(design.trials, design.portraits, design.config.protocol, share)


def sittings(run: Run, design: Design) -> dict[str, Sitting]:
    """Trial -> what is measured of its edit, for the edits that are there."""
    pictures = dict(run.query("SELECT key, image FROM edit WHERE status = ?", (Status.OK.value,)))
    return {
        trial.key: _sitting(trial.image, pictures[trial.edit], design)
        for trial in measured(design)
        if trial.edit in pictures
    }


def pairs(run: Run, design: Design) -> list[Sitting]:
    """Each pair of pictures once, however many trials came out as it."""
    return list({(one.source, one.image): one for one in sittings(run, design).values()}.values())


def _sitting(source: str, image: str, design: Design) -> Sitting:
    keys = {name: key_of(source, image, settings) for name, settings in design.measures.items()}
    return Sitting(source, image, keys)


def key_of(source: str, image: str, settings: str) -> str:
    return digest("measurement", source=source, image=image, settings=settings)


def missing(run: Run, design: Design) -> tuple[list[Sitting], int]:
    """The pairs with something left to measure, source by source, and how many measurements are there."""
    done = run.keys("measurement")
    wanted = pairs(run, design)
    left = (_left(one, done) for one in wanted)
    todo = sorted((one for one in left if one.measures), key=attrgetter("source"))
    return todo, count(wanted) - count(todo)


def _left(sitting: Sitting, done: set[str]) -> Sitting:
    keys = {name: key for name, key in sitting.measures.items() if key not in done}
    return Sitting(sitting.source, sitting.image, keys)


def count(sittings: list[Sitting]) -> int:
    """How many measurements these are."""
    return sum(len(one.measures) for one in sittings)


def standing(run: Run, design: Design) -> dict[str, Counter[str]]:
    """Measure -> how its measurements ended, of those that the design asks for."""
    ended = dict(run.query("SELECT key, status FROM measurement"))
    counts: dict[str, Counter[str]] = {name: Counter() for name in design.measures}
    for sitting in pairs(run, design):
        for name, key in sitting.measures.items():
            if key in ended:
                counts[name][ended[key]] += 1
    return counts


def measure(run: Run, design: Design, progress: Progress, stop: Stop) -> None:
    """Takes the missing measurements and records each one, whatever came of it."""
    if not design.measures:
        return
    todo, already = missing(run, design)
    threads = design.config.audit.engine.threads if len(todo) >= WORTH_A_PROCESS else 1
    with progress.stage("Measures", count(todo), already) as stage, _instruments(design, threads) as instruments:
        step = _Step(run, design, instruments, stage)
        work(todo, step.do, threads, stop, together=attrgetter("source"))


@contextmanager
def _instruments(design: Design, threads: int) -> Iterator[Measures]:
    """The instruments: here for one thread, else in a process a thread: a model serves one caller."""
    recipes = {name: one.recipe for name, one in design.config.measures.items() if one.recipe}
    if threads == 1:
        yield _Late(recipes)
        return
    apart = Apart({BENCH: partial(set_up, recipes)})
    try:
        yield apart.instruments(BENCH)
    finally:
        apart.close()


class _Late:
    """Instruments that are made when they are first used: a resume with nothing to do loads no model."""

    def __init__(self, recipes: Mapping[str, Any]) -> None:
        self._recipes = recipes
        self._bench: Measures | None = None

    def measure(self, request: MeasureRequest) -> Sequence[Reading]:
        if self._bench is None:
            self._bench = set_up(self._recipes)
        return self._bench.measure(request)


class _Step:
    """One pair: measured and recorded."""

    def __init__(self, run: Run, design: Design, instruments: Measures, stage: Stage) -> None:
        self.run, self.design, self.instruments, self.stage = run, design, instruments, stage
        self._source = lru_cache(maxsize=16)(run.image)

    def do(self, sitting: Sitting) -> Future[None]:
        names = tuple(sitting.measures)
        source, image = self._source(sitting.source), self.run.image(sitting.image)
        started, clock = now(), time.perf_counter()
        readings = _ask(self.instruments, MeasureRequest(sitting.source, source, image, names))
        seconds = round(time.perf_counter() - clock, 6)
        for reading in readings:
            self.stage.count(reading.status, 0.0)
        taken = list(zip(names, readings, strict=True))
        done = [self._measurement(sitting, name, one) for name, one in taken if one.status.is_final]
        failed = [(sitting.measures[name], one) for name, one in taken if not one.status.is_final]
        for key, one in failed:
            self.run.add_attempt(Attempt(key, one.status, started, seconds, detail=one.detail))
        return self.run.add_measurements(done)

    def _measurement(self, sitting: Sitting, name: str, reading: Reading) -> Measurement:
        key, settings = sitting.measures[name], self.design.measures[name]
        about = (key, sitting.source, sitting.image, name, settings)
        return Measurement(*about, reading.status, reading.figures, reading.detail)


def _ask(instruments: Measures, request: MeasureRequest) -> Sequence[Reading]:
    """A bug in an instrument costs one pair, not the run."""
    try:
        return instruments.measure(request)
    except StillmeError:
        raise  # a damaged model would fail every pair: the run ends with that sentence
    except Exception as error:
        return [Reading(Status.CRASHED, detail=f"{type(error).__name__}: {error}")] * len(request.measures)
