"""A study with a real database beside a fake Prolific that really listens; people who do what they are told."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import uvicorn
from sqlalchemy import Connection, select
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from stillme.engine.http import ClientConfig
from stillme.study.bundle import Bundle
from stillme.study.db import people, seats
from stillme.study.db.deal import Screen, allowed
from stillme.study.db.keys import Keys
from stillme.study.db.people import Launch
from stillme.study.db.store import Store, write_now
from stillme.study.db.tables import bonus, payment, seat, sitting
from stillme.study.prolific.client import Prolific
from stillme.study.prolific.publish import Options as Publishing
from stillme.study.prolific.publish import publish
from stillme.study.rehearsal.fake.app import API, Fake, Options
from stillme.study.rehearsal.fake.signing import make_key
from stillme.study.rehearsal.fake.world import World
from stillme.study.server import answers
from stillme.web.server import listen
from tests.study import bundles
from tests.study.db.test_core import op

KEYS = Keys(b"k" * 32)
TOKEN = "a-token-of-a-rehearsal"
LIMITS = ClientConfig(timeout_s=60, deadline_s=120, attempts=4, backoff_s=0.01, concurrency=4)
PUBLIC = "https://study.example.org"
T = TypeVar("T")
one_key = lru_cache(make_key)  # a key takes a while to make


def small(**changes: Any) -> Bundle:
    """The bundle of most tests; the same every time."""
    return bundles.make(layout="pair", tutorial=0, side=16, **{"items": 2, **changes})[0]


@contextmanager
def listening(app: ASGIApp, lifespan: Any = "on") -> Iterator[str]:
    """An app that listens, from a thread; its address."""
    bound = listen("127.0.0.1", 0)
    config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan=lifespan)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        bound.close()


class Switch:
    """A server that is started once; every test puts its own fake behind it. Webhooks are not delivered by it."""

    def __init__(self) -> None:
        self.app: Starlette | None = None
        self.base = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self.app is not None
        await self.app(scope, receive, send)

    def show(self, world: World, options: Options) -> str:
        world.key = world.key or one_key()
        self.app = Fake(world, options).app()
        return self.base


@dataclass(frozen=True)
class Rater:
    """Somebody who came: at Prolific, and here."""

    pid: str
    submission: str
    person: str
    sitting: str


@dataclass
class Stage:
    bundle: Bundle
    store: Store
    world: World
    options: Options
    base: str
    folder: Path
    said: list[str] = field(default_factory=list)

    def clock(self) -> float:
        return time.time()

    def run(self, work: Callable[[Prolific], Awaitable[T]]) -> T:
        """Something that asks Prolific."""

        async def inner() -> T:
            client = Prolific(TOKEN, self.base + API, LIMITS)
            try:
                return await work(client)
            finally:
                await client.close()

        return asyncio.run(inner())

    def do(self, work: Callable[[Connection], T]) -> T:
        return write_now(self.store.engine, work)

    def say(self, line: str) -> None:
        self.said.append(line)

    def publish(self, **changes: Any) -> str:
        """A published study; its id."""
        options = Publishing(public=PUBLIC, **{"go": True, **changes})
        return self.run(lambda client: publish(self.store, client, self.bundle, options, self.say)).id

    @property
    def study(self) -> str:
        return next(reversed(self.world.studies))

    def arrive(self) -> Rater:
        """Somebody comes from Prolific and enters."""
        came = self.world.arrive(self.study)
        launch = Launch(came["participant"], came["study_id"], came["id"])
        token = self.do(lambda c: people.enter(c, KEYS, launch, "127.0.0.1", self.clock()))
        person = self.do(lambda c: people.who(c, KEYS, token, self.clock()))
        assert person is not None
        return Rater(launch.pid, launch.submission, person.id, "")

    def seated(self, task: str = "t00") -> Rater:
        came = self.arrive()
        sat = self.do(lambda c: seats.take(c, self.bundle, came.person, task, self.clock()))
        return Rater(came.pid, came.submission, came.person, sat)

    def finished(self, task: str = "t00", attentive: bool = True, code: str = "COMPLETED") -> Rater:
        """Somebody does the whole task, and hands in with a code unless that is empty."""
        rater = self.seated(task)
        self.do(lambda c: self._rate(c, rater.sitting, attentive))
        if code:
            self.world.complete(rater.submission, self.do(lambda c: seats.code(c, code)))
        return rater

    def _rate(self, connection: Connection, sat: str, attentive: bool) -> None:
        sitting_ = seats.sit(connection, sat)
        for screen in sitting_.deal.screens:
            wanted = [
                op("open", screen.item),
                *(
                    op("answer", screen.item, name, self._value(screen, name, values, attentive))
                    for name, values in allowed(self.bundle, screen).items()
                ),
                op("done", screen.item),
            ]
            results = answers.apply(connection, self.bundle, sitting_, wanted, self.clock())
            assert not any(one.refused for one in results), results
        answers.finish(connection, self.bundle, sitting_, self.clock())

    def _value(self, screen: Screen, name: str, values: frozenset[str], attentive: bool) -> str:
        if name != "check" or screen.check is None:
            return min(values)
        options = self.bundle.question[screen.check.of].options
        return options[(screen.check.option - (1 if attentive else 2)) % len(options)].value

    # what a coordinator would look at

    def state(self, rater: Rater) -> str:
        return str(self.do(lambda c: c.scalar(select(sitting.c.state).where(sitting.c.id == rater.sitting))))

    def free_seats(self) -> int:
        return len(self.do(lambda c: c.execute(select(seat).where(seat.c.sitting.is_(None))).all()))

    def payments(self) -> list[str]:
        return list(self.do(lambda c: c.scalars(select(payment.c.state)).all()))

    def bonuses(self) -> int:
        return len(self.do(lambda c: c.execute(select(bonus)).all()))

    def paid(self) -> dict[str, list[int]]:
        """Submission -> the bonuses that Prolific has paid."""
        return {one["id"]: one["bonuses"] for one in self.world.submissions.values()}
