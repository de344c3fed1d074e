"""Work that waits for a network: many calls at once on one event loop, their results recorded by a few threads.

A call is taken only while its result can still be recorded: at most IN_FLIGHT results wait for their commit, which
is what a crash can cost besides the calls that were under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

from stillme.engine.local import IN_FLIGHT, Stop

Item = TypeVar("Item")
Reply = TypeVar("Reply")
Ask = Callable[[Item], Awaitable[Reply]]
Record = Callable[[Item, Reply], "Future[None]"]
RECORDERS = 4  # threads that check, store and record


def wait(
    items: Iterable[Item],
    opened: Callable[[], AbstractAsyncContextManager[Ask[Item, Reply]]],
    record: Record[Item, Reply],
    concurrency: int,
    stop: Stop,
) -> None:
    """Asks for every item, `concurrency` at a time, until all are recorded or `stop` is set; raises what failed.

    `opened` gives the function to ask with, on the loop that it will be used on; `record` may block.
    """
    asyncio.run(_Crew(iter(items), record, stop).run(opened, concurrency))


class _Crew(Generic[Item, Reply]):
    """What the callers of one piece of work share."""

    def __init__(self, items: Iterator[Item], record: Record[Item, Reply], stop: Stop) -> None:
        self._items = items
        self._record = record
        self._stop = stop
        self._pool = ThreadPoolExecutor(RECORDERS, thread_name_prefix="recorder")
        self._failure: BaseException | None = None

    async def run(
        self, opened: Callable[[], AbstractAsyncContextManager[Ask[Item, Reply]]], concurrency: int
    ) -> None:
        self._places = asyncio.Semaphore(IN_FLIGHT)
        try:
            async with opened() as ask, asyncio.TaskGroup() as group:
                for _ in range(concurrency):
                    group.create_task(self._call(ask, group))
        finally:
            self._pool.shutdown()
        if self._failure is not None:
            raise self._failure

    async def _call(self, ask: Ask[Item, Reply], group: asyncio.TaskGroup) -> None:
        async for item in self._taken():
            try:
                reply = await ask(item)
            except Exception as error:
                self._fail(error)
                return
            await self._places.acquire()
            group.create_task(self._keep(item, reply))

    async def _taken(self) -> AsyncIterator[Item]:
        while not self._stop:
            item = next(self._items, None)
            if item is None:
                return
            yield item

    async def _keep(self, item: Item, reply: Reply) -> None:
        """Recorded, and on disk, before its place is free again."""
        try:
            loop = asyncio.get_running_loop()
            await asyncio.wrap_future(await loop.run_in_executor(self._pool, self._record, item, reply))
        except Exception as error:
            self._fail(error)
        finally:
            self._places.release()

    def _fail(self, error: BaseException) -> None:
        """What is under way ends and is recorded; nothing new is taken."""
        self._failure = self._failure or error
        self._stop.set("something failed")
