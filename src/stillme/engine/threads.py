"""Work on this machine, in threads. An item is taken only while its result can still be recorded.

Each result is handed to the ledger and acknowledged after its commit; at most IN_FLIGHT results wait for theirs,
which is what a crash can cost.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import groupby
from typing import TypeVar

Item = TypeVar("Item")

IN_FLIGHT = 64  # results of a thread that wait for their commit: enough for the ledger to commit many at once
INTERRUPTED = "it was interrupted"
FAILED = "something failed"


class StopEvent:
    """Says that no new work should be taken, and why."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.reason = ""

    def set(self, reason: str) -> None:
        self.reason = self.reason or reason
        self._event.set()

    def __bool__(self) -> bool:
        return self._event.is_set()


def run_in_threads(
    items: Iterable[Item],
    do: Callable[[Item], Future[None]],
    threads: int,
    stop: StopEvent,
    together: Callable[[Item], object] | None = None,
) -> None:
    """Call `do` for each item on several threads until all are done or `stop` is set; raise what failed.

    `together`: neighbours with the same value stay on one thread, where its caches are warm.
    """
    chunks = ([item] for item in items) if together is None else (list(run) for _, run in groupby(items, together))
    taking = threading.Lock()  # a generator may not be asked by two threads at once
    failures: list[BaseException] = []

    def items_of_one_thread() -> Iterator[Item]:
        while True:
            with taking:
                chunk = next(chunks, None)
            if chunk is None:
                return
            for item in chunk:
                if stop:
                    return
                yield item

    def work() -> None:
        unacknowledged: deque[Future[None]] = deque()
        try:
            for item in items_of_one_thread():
                unacknowledged.append(do(item))
                if len(unacknowledged) >= IN_FLIGHT:
                    unacknowledged.popleft().result()
            while unacknowledged:
                unacknowledged.popleft().result()
        except BaseException as error:
            failures.append(error)
            stop.set(FAILED)

    _run([_Worker(work, f"worker-{n}") for n in range(threads)], stop)
    if failures:
        raise failures[0]


def run_side_by_side(jobs: Sequence[Callable[[], None]], stop: StopEvent) -> None:
    """Run several pieces of work at once, each in a thread; raise what failed when all have ended."""
    failures: list[BaseException] = []

    def run(job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:
            failures.append(error)
            stop.set(FAILED)

    if len(jobs) == 1:
        jobs[0]()
        return
    _run([_Worker(partial(run, job), f"job-{n}") for n, job in enumerate(jobs)], stop)
    if failures:
        raise failures[0]


class _Worker(threading.Thread):
    """A thread that says when it has ended. After Ctrl-C in `join`, Python 3.11 takes one that runs for ended."""

    def __init__(self, do: Callable[[], None], name: str) -> None:
        super().__init__(target=do, name=name, daemon=True)
        self.ended = threading.Event()

    def run(self) -> None:
        try:
            super().run()
        finally:
            self.ended.set()


def _run(workers: Sequence[_Worker], stop: StopEvent) -> None:
    """Until all have ended. After Ctrl-C what is in flight ends and is recorded; a second one leaves at once."""
    for worker in workers:
        worker.start()
    try:
        _join(workers)
    except KeyboardInterrupt:
        stop.set(INTERRUPTED)
        _join(workers)


def _join(workers: Sequence[_Worker]) -> None:
    for worker in workers:
        while not worker.ended.wait(timeout=0.2):
            pass  # a wait without end would not let Ctrl-C through on every platform
