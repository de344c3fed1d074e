"""Work on this machine, in threads. A call is taken only while its result can still be recorded.

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

IN_FLIGHT = 64
INTERRUPTED = "it was interrupted"


class Stop:
    """Says that no new work should be taken, and why."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.reason = ""

    def set(self, reason: str) -> None:
        self.reason = self.reason or reason
        self._event.set()

    def __bool__(self) -> bool:
        return self._event.is_set()


def work(
    items: Iterable[Item],
    do: Callable[[Item], Future[None]],
    threads: int,
    stop: Stop,
    together: Callable[[Item], object] | None = None,
) -> None:
    """Calls `do` for each item on several threads until all are done or `stop` is set; raises what failed.

    `together`: neighbours with the same value stay on one thread, where its caches are warm.
    """
    crew = _Crew(_chunks(items, together), do, stop)
    workers = [_Worker(crew.run, f"worker-{n}") for n in range(threads)]
    _run(workers, stop)
    if crew.failure is not None:
        raise crew.failure


def side_by_side(jobs: Sequence[Callable[[], None]], stop: Stop) -> None:
    """Runs several pieces of work at once, each in a thread; raises what failed when all have ended."""
    failures: list[BaseException] = []

    def run(job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:
            failures.append(error)
            stop.set("something failed")

    if len(jobs) == 1:
        jobs[0]()
        return
    threads = [_Worker(partial(run, job), f"lane-{n}") for n, job in enumerate(jobs)]
    _run(threads, stop)
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


def _run(workers: Sequence[_Worker], stop: Stop) -> None:
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


class _Crew:
    """What the threads of one piece of work share."""

    def __init__(self, chunks: Iterable[list[Item]], do: Callable[[Item], Future[None]], stop: Stop) -> None:
        self._chunks = iter(chunks)
        self._do: Callable[..., Future[None]] = do
        self._stop = stop
        self._taking = threading.Lock()
        self.failure: BaseException | None = None

    def run(self) -> None:
        unacknowledged: deque[Future[None]] = deque()
        try:
            for item in self._taken():
                unacknowledged.append(self._do(item))
                if len(unacknowledged) >= IN_FLIGHT:
                    unacknowledged.popleft().result()
            while unacknowledged:
                unacknowledged.popleft().result()
        except BaseException as error:
            self.failure = self.failure or error
            self._stop.set("something failed")

    def _taken(self) -> Iterator[object]:
        """Items for one thread, chunk by chunk, until there are none or the work is stopped."""
        while True:
            with self._taking:
                chunk = next(self._chunks, None)
            if chunk is None:
                return
            for item in chunk:
                if self._stop:
                    return
                yield item


def _chunks(items: Iterable[Item], together: Callable[[Item], object] | None) -> Iterator[list[Item]]:
    if together is None:
        return ([item] for item in items)
    return (list(group) for _, group in groupby(items, together))
