"""What the steps that ask backends share: every missing item is paid for, asked, checked and recorded in one way.

A step (edit, measure, judge, features) says which items are missing, and fills in a `Step`: from whose budget an
item is paid, what is asked, how a backend is called, and which rows its reply becomes. Where the work runs, on an
event loop, in threads or in other processes, is decided in `Step.run` and `Step.start_pool`, and nowhere else.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, closing, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, Generic, TypeVar

from stillme.core.errors import StillmeError
from stillme.core.records import Status
from stillme.engine.backends import ExecutionMode, PreparedSystem
from stillme.engine.event_loop import RECORDERS, Ask, ask_all
from stillme.engine.processes import ProcessPool
from stillme.engine.ray import ActorPool, NotStartedError
from stillme.engine.threads import StopEvent, run_in_threads
from stillme.ledger import Run
from stillme.ledger.objects import Objects
from stillme.ledger.run import now
from stillme.steps.budget import Budget, BudgetKey

Item = TypeVar("Item")
Reply = TypeVar("Reply")
Prepared = TypeVar("Prepared", bound=PreparedSystem[Any])


@dataclass(frozen=True)
class Group(Generic[Item]):
    """Items that are asked in one way: by quick backends that share threads, by one model, or by one service.

    `make`: backend -> what makes it ready in this process. `factories`: the backends that belong into processes of
    their own, where that pays off. `concurrency`: calls at a time, of a service.
    """

    mode: ExecutionMode
    items: Sequence[Item]
    make: Mapping[str, Callable[[], Any]]
    factories: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    concurrency: int = 1


def group_by_backend(
    items: Sequence[Item], name_of: Callable[[Item], str], prepared: Callable[[str], Prepared]
) -> list[tuple[ExecutionMode, dict[str, Prepared], list[Item]]]:
    """Quick backends share their threads; every model and every service works alongside them by itself."""
    groups: dict[tuple[ExecutionMode, str], tuple[dict[str, Prepared], list[Item]]] = {}
    for item in items:
        name = name_of(item)
        backend = prepared(name)
        shared = "" if backend.mode is ExecutionMode.THREADS else name
        backends, members = groups.setdefault((backend.mode, shared), ({}, []))
        backends[name] = backend
        members.append(item)
    return [(mode, backends, members) for (mode, _), (backends, members) in groups.items()]


@dataclass(frozen=True, slots=True)
class TimedReply(Generic[Reply]):
    """A reply with when it was asked for, and for how many seconds."""

    reply: Reply
    started: str
    seconds: float


class Step(ABC, Generic[Item, Reply]):
    """Asks for items, group by group. Each step of the flow that asks backends is a subclass."""

    recorders = RECORDERS  # threads that record what services answer; 0: the loop does, where it is quick
    min_items_for_processes = 0  # below, a process takes longer to start than it saves
    shares_backends = True  # whether several threads may ask one backend at the same time

    def __init__(self, run: Run, threads: int, stop: StopEvent, budget: Budget | None = None) -> None:
        self.ledger = run
        self.threads = threads
        self.stop = stop
        self.budget = budget
        self.source = lru_cache(maxsize=64)(run.image)  # one portrait is asked about many times in a row

    # What each step fills in

    @abstractmethod
    def name_of(self, item: Item) -> str:
        """The backend that is asked for an item."""

    def budget_key(self, item: Item) -> BudgetKey | None:
        """What is charged for an item; None where asking costs nothing."""
        return None

    def remaining(self, group: Group[Any]) -> Sequence[Item]:
        """What has to be asked for a group's items."""
        return group.items

    @abstractmethod
    def request(self, item: Item) -> Any:
        """What the backend is sent."""

    @abstractmethod
    def call(self, backend: Any, request: Any) -> Any:
        """Ask a backend: its reply, or something to await that gives the reply."""

    @abstractmethod
    def crash_reply(self, item: Item, detail: str) -> Reply:
        """The reply in place of one that a bug in a backend prevented."""

    @abstractmethod
    def record(self, item: Item, timed: TimedReply[Reply]) -> Future[None]:
        """Check a reply, count it, and write the rows that it becomes."""

    def proxy(self, pool: ProcessPool | ActorPool, name: str) -> Any:
        """A backend that lives in the processes of a pool."""
        raise NotImplementedError

    def together(self, item: Item) -> object:
        """Neighbours that are equal in this go to the same process, which then knows their portrait already."""
        return None

    # What they share

    def run(self, *groups: Group[Any]) -> None:
        """Ask for all items of these groups, one group after the other."""
        for group in groups:
            items = self.remaining(group)
            if not items:
                continue
            if group.mode is ExecutionMode.REMOTE:
                opened = partial(self._opened, group)
                ask_all(items, opened, self.record_if_asked, group.concurrency, self.stop, self.recorders)
                continue
            pool, threads = self.start_pool(group)
            with closing(pool) if pool else nullcontext():
                backends = {
                    name: self.proxy(pool, name) if pool and name in pool.makes else make()
                    for name, make in group.make.items()
                }
                ask = partial(self.ask_here, backends)
                run_in_threads(items, ask, threads, self.stop, self.together if pool else None)

    def start_pool(self, group: Group[Any]) -> tuple[ProcessPool | ActorPool | None, int]:
        """Processes for a group, where they pay off, and on how many threads they, or we, are asked."""
        is_model = group.mode is ExecutionMode.MODEL
        threads = 1 if is_model else self.threads
        if group.factories and (is_model or (threads > 1 and len(group.items) >= self.min_items_for_processes)):
            return ProcessPool(group.factories), threads
        return None, threads if self.shares_backends else 1

    def ask_here(self, backends: Mapping[str, Any], item: Item) -> Future[None]:
        """In a thread: reserve, ask, record. An item that may not be asked for stays missing."""
        key = self.budget_key(item)
        if key is not None and self.budget is not None and not self.budget.wait(key, self.stop):
            return nothing_to_record()
        request = self.request(item)
        started, clock = now(), time.perf_counter()
        try:
            reply = self.call(backends[self.name_of(item)], request)
        except NotStartedError:
            return nothing_to_record()
        except StillmeError:
            raise  # what the machine lacks would fail every item: the run ends with that sentence
        except Exception as error:  # a bug in a backend costs one attempt, not the run
            reply = self.crash_reply(item, f"{type(error).__name__}: {error}")
        return self.record(item, TimedReply(reply, started, time.perf_counter() - clock))

    async def ask_remote(self, backend: Any, item: Item) -> TimedReply[Reply] | None:
        """The same on an event loop, where it is recorded later: see `run`."""
        key = self.budget_key(item)
        if key is not None and self.budget is not None and not await self.budget.wait_on_loop(key, self.stop):
            return None
        # Images are read here where they are on this disk, and waited for elsewhere, so that other calls go on.
        is_local = isinstance(self.ledger.objects, Objects)
        # The request is not kept in a variable: its images would be held a second time while an answer is awaited.
        asking = self.call(
            backend, self.request(item) if is_local else await asyncio.to_thread(self.request, item)
        )
        started, clock = now(), time.perf_counter()
        try:
            reply = await asking
        except StillmeError:
            raise
        except Exception as error:
            reply = self.crash_reply(item, f"{type(error).__name__}: {error}")
        return TimedReply(reply, started, time.perf_counter() - clock)

    def settle(self, item: Item, status: Status, cost_usd: float) -> None:
        """Charge what a call cost in the end. An account that is used up is not asked again."""
        key = self.budget_key(item)
        if key is not None and self.budget is not None:
            self.budget.settle(key, cost_usd, status is Status.OK)
            if status is Status.QUOTA:
                self.budget.exhaust(key)

    @asynccontextmanager
    async def _opened(self, group: Group[Any]) -> AsyncIterator[Ask[Item, TimedReply[Reply] | None]]:
        (make,) = group.make.values()
        backend = make()
        try:
            yield partial(self.ask_remote, backend)
        finally:
            await backend.close()

    def record_if_asked(self, item: Item, timed: TimedReply[Reply] | None) -> Future[None]:
        return nothing_to_record() if timed is None else self.record(item, timed)


def nothing_to_record() -> Future[None]:
    """What there is to wait for after a call that was not made: nothing."""
    done: Future[None] = Future()
    done.set_result(None)
    return done
