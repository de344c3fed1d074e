"""The measuring step: every measurement that is still missing, and nothing else.

A measurement belongs to the pixels of two pictures, so edits that came out the same share theirs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

from stillme.core.records import Attempt, Measurement, MeasureRequest, Reading, Status, Trial, digest
from stillme.engine.backends import ExecutionMode
from stillme.engine.processes import ProcessPool
from stillme.engine.progress import Progress, Stage
from stillme.engine.ray import ActorPool
from stillme.engine.threads import StopEvent
from stillme.ledger import Run
from stillme.measures import set_up
from stillme.plan.design import Design, trials_to_measure
from stillme.steps.step import Group, Step, TimedReply

MIN_PAIRS_FOR_PROCESSES = 20  # loading the models takes as long as measuring some ten pairs
INSTRUMENTS = "instruments"  # all measures together: they share what they see of a pair


@dataclass(frozen=True)
class MeasureTask:
    """One source and one edit, and the measures to take of them: id -> key."""

    source: str
    image: str
    measures: Mapping[str, str]


def select_measured_trials(design: Design) -> list[Trial]:
    """The trials that are measured, in the plan's order; none without measures."""
    if not design.measures:
        return []
    share = design.config.audit.measuring.share
    return trials_to_measure(design.trials, design.portraits, design.config.protocol, share)


def measure_tasks(run: Run, design: Design) -> dict[str, MeasureTask]:
    """Trial -> what is measured of its edit, for the edits that are there."""
    pictures = dict(run.query("SELECT key, image FROM edit WHERE status = ?", (Status.OK.value,)))
    tasks: dict[str, MeasureTask] = {}
    for trial in select_measured_trials(design):
        if trial.edit in pictures:
            source, image = trial.image, pictures[trial.edit]
            keys = {name: measurement_key(source, image, settings) for name, settings in design.measures.items()}
            tasks[trial.key] = MeasureTask(source=source, image=image, measures=keys)
    return tasks


def distinct_pairs(run: Run, design: Design) -> list[MeasureTask]:
    """Each pair of pictures once, however many trials came out as it."""
    return list({(task.source, task.image): task for task in measure_tasks(run, design).values()}.values())


def measurement_key(source: str, image: str, settings: str) -> str:
    return digest("measurement", source=source, image=image, settings=settings)


def pending_measurements(run: Run, design: Design) -> tuple[list[MeasureTask], int]:
    """The pairs with something left to measure, source by source, and how many measurements are there."""
    done = run.keys("measurement")
    all_tasks = distinct_pairs(run, design)
    pending = []
    for task in all_tasks:
        keys = {name: key for name, key in task.measures.items() if key not in done}
        if keys:
            pending.append(MeasureTask(source=task.source, image=task.image, measures=keys))
    pending.sort(key=attrgetter("source"))
    return pending, count_measurements(all_tasks) - count_measurements(pending)


def count_measurements(tasks: Sequence[MeasureTask]) -> int:
    """How many measurements these are."""
    return sum(len(task.measures) for task in tasks)


def count_measurement_statuses(run: Run, design: Design) -> dict[str, Counter[str]]:
    """Measure -> how its measurements ended, of those that the design asks for."""
    ended = dict(run.query("SELECT key, status FROM measurement"))
    counts: dict[str, Counter[str]] = {name: Counter() for name in design.measures}
    for task in distinct_pairs(run, design):
        for name, key in task.measures.items():
            if key in ended:
                counts[name][ended[key]] += 1
    return counts


def measure(run: Run, design: Design, progress: Progress, stop: StopEvent) -> None:
    """Take the missing measurements and record each one, whatever came of it."""
    if not design.measures:
        return
    pending, n_done = pending_measurements(run, design)
    make = partial(set_up, {name: one.factory for name, one in design.config.measures.items() if one.factory})
    with progress.stage("Measures", count_measurements(pending), n_done) as stage:
        MeasureStep(run, design, stage, stop).run(
            Group(
                mode=ExecutionMode.THREADS,
                items=pending,
                make={INSTRUMENTS: make},
                factories={INSTRUMENTS: make},
            )
        )


class MeasureStep(Step[MeasureTask, Sequence[Reading]]):
    """The measurements of a run: an item is one pair with everything that is measured of it."""

    min_items_for_processes = MIN_PAIRS_FOR_PROCESSES
    shares_backends = False  # a model serves one caller

    def __init__(self, run: Run, design: Design, stage: Stage, stop: StopEvent) -> None:
        super().__init__(run, design.config.audit.engine.threads, stop)
        self.settings = design.measures
        self.stage = stage

    def name_of(self, task: MeasureTask) -> str:
        return INSTRUMENTS

    def request(self, task: MeasureTask) -> MeasureRequest:
        source, image = self.source(task.source), self.ledger.image(task.image)
        return MeasureRequest(task.source, source, image, tuple(task.measures))

    def call(self, instruments: Any, request: MeasureRequest) -> Any:
        return instruments.measure(request)

    def crash_reply(self, task: MeasureTask, detail: str) -> Sequence[Reading]:
        return [Reading(Status.CRASHED, detail=detail)] * len(task.measures)

    def record(self, task: MeasureTask, timed: TimedReply[Sequence[Reading]]) -> Future[None]:
        """What did not end for good is an attempt without a measurement: it is measured again on the next run."""
        measurements = []
        for (name, key), reading in zip(task.measures.items(), timed.reply, strict=True):
            self.stage.count(reading.status, 0.0)
            if reading.status.is_final:
                measurements.append(
                    Measurement(
                        key=key,
                        source=task.source,
                        image=task.image,
                        measure=name,
                        settings=self.settings[name],
                        status=reading.status,
                        figures=reading.figures,
                        detail=reading.detail,
                    )
                )
            else:
                attempt = Attempt(
                    subject=key,
                    status=reading.status,
                    started=timed.started,
                    seconds=round(timed.seconds, 6),
                    detail=reading.detail,
                )
                self.ledger.add_attempt(attempt)
        return self.ledger.add_measurements(measurements)

    def proxy(self, pool: ProcessPool | ActorPool, name: str) -> Any:
        assert isinstance(pool, ProcessPool)  # measures do not work on clusters
        return pool.instruments(name)

    def together(self, task: MeasureTask) -> object:
        return task.source
