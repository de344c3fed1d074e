"""Taking measures as the measuring step does: one process a thread, the edits of a source together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from pathlib import Path

from stillme import measures
from stillme.core.records import MeasureRequest, Reading
from stillme.engine import backends
from stillme.engine.processes import ProcessPool
from stillme.engine.threads import StopEvent, run_in_threads
from stillme.protocol import builtin

KINDS = ("skin_tone_shift", "change", "identity")
SKIN = KINDS[0]
PROCESSES = 2
BENCH = "bench"
PATIENCE = 300  # seconds for the other process to come up


@dataclass(frozen=True)
class Case:
    """One pair of pictures: which source, what was done to it, and what is to be measured."""

    source: str
    edit: str
    request: MeasureRequest

    @classmethod
    def of(cls, source: str, content: bytes, edit: str, edited: bytes, kinds: tuple[str, ...] = KINDS) -> Case:
        return cls(source, edit, MeasureRequest(source, content, edited, kinds))


@dataclass(frozen=True)
class Taken:
    """What was read of a case, by kind of measure."""

    case: Case
    readings: dict[str, Reading]


def recipes(kinds: Sequence[str] = KINDS) -> dict[str, Callable[[], measures.Reader]]:
    """Kind -> how any process makes that measure, with its default settings."""
    place = backends.BackendContext(Path(), builtin())
    modules = {kind: backends.load(measures.BACKENDS, kind) for kind in kinds}
    return {
        kind: partial(backends.rebuild_backend, module.__name__, module.Settings(), place)
        for kind, module in modules.items()
    }


def take(cases: Iterable[Case]) -> tuple[list[Taken], float]:
    """Everything read, source by source, and the seconds from when both processes had answered once."""
    apart = ProcessPool({BENCH: partial(measures.set_up, recipes())})
    crew = _Crew(apart)
    try:
        run_in_threads(cases, crew.do, PROCESSES, StopEvent(), together=attrgetter("source"))
        seconds = time.perf_counter() - crew.started
    finally:
        apart.close()
    return sorted(crew.taken, key=lambda one: (one.case.source, one.case.edit)), seconds


@dataclass
class _Crew:
    """What the threads share. Each one's first case is taken twice: to load the models, and for the clock."""

    apart: ProcessPool
    taken: list[Taken] = field(default_factory=list)
    started: float = 0.0

    def __post_init__(self) -> None:
        self._warm = threading.local()
        self._line = threading.Barrier(PROCESSES, action=self._start)

    def _start(self) -> None:
        self.started = time.perf_counter()

    def do(self, case: Case) -> Future[None]:
        instruments = self.apart.instruments(BENCH)
        if not hasattr(self._warm, "up"):
            self._warm.up = instruments.measure(case.request)
            self._line.wait(PATIENCE)
        readings = instruments.measure(case.request)
        self.taken.append(Taken(case, dict(zip(case.request.measures, readings, strict=True))))
        return _done()


def _done() -> Future[None]:
    done: Future[None] = Future()
    done.set_result(None)
    return done
