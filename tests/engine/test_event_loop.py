from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager

import pytest

from stillme.engine.event_loop import ask_all
from stillme.engine.threads import INTERRUPTED, StopEvent

Ask = Callable[[int], Awaitable[int]]


class Service:
    """Answers each number with its double, and knows how many it was asked at a time."""

    def __init__(self, ask: Ask | None = None) -> None:
        self.asked: list[int] = []
        self.under_way = self.most = 0
        self.closed = False
        self._ask = ask

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Ask]:
        yield self.ask
        self.closed = True

    async def ask(self, number: int) -> int:
        self.asked.append(number)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0.01)
        self.under_way -= 1
        return await self._ask(number) if self._ask else number * 2


class Ledger:
    """Commits a little later, from a thread of its own, as the real one does."""

    def __init__(self, failing: int | None = None) -> None:
        self.rows: dict[int, int] = {}
        self.failing = failing

    def record(self, number: int, reply: int) -> Future[None]:
        answer: Future[None] = Future()
        threading.Timer(0.005, self._commit, (number, reply, answer)).start()
        return answer

    def _commit(self, number: int, reply: int, answer: Future[None]) -> None:
        if number == self.failing:
            answer.set_exception(OSError("disk full"))
            return
        self.rows[number] = reply
        answer.set_result(None)


def test_everything_is_asked_and_recorded_before_it_ends() -> None:
    service, ledger = Service(), Ledger()
    ask_all(range(200), service.opened, ledger.record, 16, StopEvent())
    assert ledger.rows == {number: number * 2 for number in range(200)}
    assert service.most == 16 and service.closed


def test_nothing_to_do() -> None:
    service = Service()
    ask_all([], service.opened, Ledger().record, 4, StopEvent())
    assert service.asked == [] and service.closed


def test_what_fails_ends_the_work_and_the_rest_under_way_is_recorded() -> None:
    async def ask(number: int) -> int:
        if number == 5:
            raise RuntimeError("a bug")
        return number

    service, ledger, stop = Service(ask), Ledger(), StopEvent()
    with pytest.raises(RuntimeError, match="a bug"):
        ask_all(range(1000), service.opened, ledger.record, 4, stop)
    assert stop and len(service.asked) < 1000
    assert set(ledger.rows) == set(service.asked) - {5}


def test_a_commit_that_fails_ends_the_work() -> None:
    service, ledger = Service(), Ledger(failing=5)
    with pytest.raises(OSError, match="disk full"):
        ask_all(range(1000), service.opened, ledger.record, 4, StopEvent())
    assert len(service.asked) < 1000
    assert set(ledger.rows) == set(service.asked) - {5}


def test_a_recorder_that_fails_ends_the_work() -> None:
    def record(number: int, reply: int) -> Future[None]:
        raise ValueError("no picture")

    service = Service()
    with pytest.raises(ValueError, match="no picture"):
        ask_all(range(1000), service.opened, record, 4, StopEvent())
    assert len(service.asked) < 1000


def test_after_ctrl_c_what_is_under_way_is_recorded_and_nothing_new_is_taken() -> None:
    async def ask(number: int) -> int:
        if number == 20:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(0.05)
        return number

    service, ledger, stop = Service(ask), Ledger(), StopEvent()
    ask_all(range(1000), service.opened, ledger.record, 4, stop)
    assert stop.reason == INTERRUPTED
    assert 20 in ledger.rows and len(service.asked) < 100
    assert set(ledger.rows) == set(service.asked), "what was asked may be paid for"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_ctrl_c_leaves_at_once() -> None:
    async def ask(number: int) -> int:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(0.05)
        await asyncio.sleep(60)
        return number

    with pytest.raises(KeyboardInterrupt):
        ask_all(range(1000), Service(ask).opened, Ledger().record, 1, StopEvent())
