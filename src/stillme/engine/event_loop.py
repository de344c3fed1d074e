"""Work that waits for a network: many calls at once on one event loop, their results recorded by a few threads.

A call is taken only while its result can still be recorded: few results wait for their commit, which is what a
crash can cost besides the calls that were under way.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, suppress
from typing import Generic, TypeVar

from stillme.engine.threads import FAILED, IN_FLIGHT, INTERRUPTED, StopEvent

Item = TypeVar("Item")
Reply = TypeVar("Reply")
Ask = Callable[[Item], Awaitable[Reply]]
Record = Callable[[Item, Reply], "Future[None]"]
RECORDERS = 4  # threads that check, store and record


def ask_all(
    items: Iterable[Item],
    opened: Callable[[], AbstractAsyncContextManager[Ask[Item, Reply]]],
    record: Record[Item, Reply],
    concurrency: int,
    stop: StopEvent,
    recorders: int = RECORDERS,
) -> None:
    """Ask for every item, `concurrency` at a time, until all are recorded or `stop` is set; raise what failed.

    `opened` gives the function to ask with, on the loop that it will be used on. `record` may block; with no
    recorders it may not, and is called on the loop itself.
    """
    try:
        asyncio.run(_Callers(iter(items), record, stop, recorders).run(opened, concurrency))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


class _Callers(Generic[Item, Reply]):
    """The callers of one piece of work, and what they share."""

    def __init__(
        self, items: Iterator[Item], record: Record[Item, Reply], stop: StopEvent, recorders: int
    ) -> None:
        self._items = items
        self._record = record
        self._stop = stop
        self._recorders = ThreadPoolExecutor(recorders, thread_name_prefix="recorder") if recorders else None
        self._failure: BaseException | None = None
        self._outcomes: list[BaseException | None] = []  # how recording ended, until the loop hears of it
        self._outcomes_lock = threading.Lock()

    async def run(
        self, opened: Callable[[], AbstractAsyncContextManager[Ask[Item, Reply]]], concurrency: int
    ) -> None:
        self._loop = asyncio.get_running_loop()
        # How many results may wait for their commit. Recorders have work to do before; without them it is a
        # quarter of the calls, so that a slow disk slows the asking down and a crash costs little besides those.
        places = IN_FLIGHT if self._recorders else max(1, min(IN_FLIGHT, concurrency // 4))
        self._places = asyncio.Semaphore(places)
        self._listen_for_ctrl_c()
        try:
            async with opened() as ask:
                async with asyncio.TaskGroup() as group:
                    for _ in range(concurrency):
                        group.create_task(self._call(ask))
                for _ in range(places):  # every place free: every result is recorded
                    await self._places.acquire()
        finally:
            if self._recorders:
                self._recorders.shutdown()
        if self._failure is not None:
            raise self._failure

    def _listen_for_ctrl_c(self) -> None:
        """After Ctrl-C what is under way ends and is recorded: it may be paid for. A second one leaves at once."""
        task, earlier = asyncio.current_task(), itertools.count()

        def interrupt() -> None:
            self._stop.set(INTERRUPTED)
            if next(earlier) and task is not None:
                task.cancel()

        if threading.current_thread() is threading.main_thread():
            with suppress(NotImplementedError):  # Windows: there the first one leaves at once
                self._loop.add_signal_handler(signal.SIGINT, interrupt)

    async def _call(self, ask: Ask[Item, Reply]) -> None:
        """One caller: item by item, until there are none or the work is stopped."""
        while not self._stop and (item := next(self._items, None)) is not None:
            try:
                reply = await ask(item)
            except Exception as error:
                self._fail(error)
                return
            await self._places.acquire()
            if self._recorders:
                self._recorders.submit(self._keep, item, reply)
            else:
                self._keep(item, reply)

    def _keep(self, item: Item, reply: Reply) -> None:
        """In a recorder's thread, or on the loop."""
        try:
            self._record(item, reply).add_done_callback(lambda committed: self._report(committed.exception()))
        except Exception as error:
            self._report(error)

    def _report(self, failure: BaseException | None) -> None:
        """Tell the loop once about all that were committed together: each message costs it a turn."""
        with self._outcomes_lock:
            self._outcomes.append(failure)
            if len(self._outcomes) > 1:
                return
        with suppress(RuntimeError):  # a second Ctrl-C has ended the loop; what is committed stays so
            self._loop.call_soon_threadsafe(self._free_places)

    def _free_places(self) -> None:
        """A result is recorded, and on disk, before its place is free again."""
        with self._outcomes_lock:
            outcomes, self._outcomes = self._outcomes, []
        for failure in outcomes:
            if failure is not None:
                self._fail(failure)
            self._places.release()

    def _fail(self, error: BaseException) -> None:
        """What is under way ends and is recorded; nothing new is taken."""
        self._failure = self._failure or error
        self._stop.set(FAILED)
