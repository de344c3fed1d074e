"""A study served inside a test: a clock to move, people put where they are needed, any number of browsers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection
from starlette.testclient import TestClient

from stillme.study import bundle as reading
from stillme.study.bundle import CHECK, Bundle
from stillme.study.db import people, seats
from stillme.study.db.deal import Screen, allowed
from stillme.study.db.keys import Keys
from stillme.study.db.people import Launch
from stillme.study.db.store import open_store, write_now
from stillme.study.server import answers, coordinators
from stillme.study.server.answers import Operation
from stillme.study.server.app import make_app
from stillme.study.server.desk import Serving, Study
from tests.study import bundles
from tests.study.db.test_core import op

T = TypeVar("T")
START = 1_800_000_000.0
NAME, PASSWORD = "anna", "three random words"
RULES = {
    "flag_response_below_seconds": 2,
    "median_response_below_seconds": 3,
    "straight_lining_share_above": 0.8,
    "attention_pass_share_below": 0.8,
    "skipped_share_above": 0.1,
}


class Office:
    """`database`: SQLite in the folder unless another is given; `public`: the address that browsers know."""

    def __init__(self, folder: Path, database: str = "", public: str = "", **changes: Any) -> None:
        self.bundle: Bundle = bundles.write(folder / "bundle", **{"exclude": RULES, **changes})
        self.bundle = reading.read(folder / "bundle")
        self.keys = Keys(b"k" * 32)
        self.now = START
        store = open_store(database or f"sqlite:///{folder / 'study.db'}")
        serving = Serving(public=public, clock=lambda: self.now)
        self.study = Study(self.bundle, folder / "bundle", folder, store, self.keys, serving)
        self.do(lambda c: seats.attach(c, self.bundle, self.now))
        self.app = make_app(self.study)
        self.base = public or "http://127.0.0.1"

    def close(self) -> None:
        self.study.store.close()

    def do(self, work: Callable[[Connection], T]) -> T:
        return write_now(self.study.store.engine, work)

    # Browsers

    def browser(self, address: str = "203.0.113.7") -> TestClient:
        """A browser of its own, at an address of its own, that follows no redirects."""
        return TestClient(
            self.app,
            self.base,
            raise_server_exceptions=False,
            follow_redirects=False,
            client=(address, 50_000),
            headers={"origin": self.base, "sec-fetch-site": "same-origin"},
        )

    def coordinator(self) -> TestClient:
        """A browser in which somebody has logged in, with an account made for it."""
        if NAME not in self.do(coordinators.names):
            coordinators.add(self.study.store.engine, NAME, PASSWORD, self.now)
        browser = self.browser()
        assert log_in(browser).status_code == 303
        return browser

    # People

    def enter(self, pid: str, address: str = "") -> str:
        """Somebody who has come and passed everything before the tasks: the participant's id."""
        launch = Launch(pid, "study", f"s-{pid}")

        def work(connection: Connection) -> str:
            token = people.enter(connection, self.keys, launch, address or pid, self.now)
            person = people.who(connection, self.keys, token, self.now)
            assert person is not None
            people.note(connection, person.id, "guided", self.now)
            people.consent(connection, person.id, "c1", self.now)
            people.note(connection, person.id, "tutored", self.now)
            return person.id

        return self.do(work)

    def seat(self, pid: str, task: str = "t00", address: str = "") -> str:
        person = self.enter(pid, address)
        return self.do(lambda c: seats.take(c, self.bundle, person, task, self.now))

    def send(self, sitting: str, operations: Sequence[Operation]) -> None:
        def work(connection: Connection) -> None:
            sat = seats.sit(connection, sitting)
            found = answers.apply(connection, self.bundle, sat, operations, self.now)
            assert [one.refused for one in found if one.refused] == []

        self.do(work)

    def rate(
        self,
        sitting: str,
        value: Callable[[Screen, str], str],
        ms: int = 5_000,
        items: int | None = None,
        attentive: bool = True,
    ) -> None:
        """Answers the items of a sitting, or its first few."""
        sat = self.do(lambda c: seats.sit(c, sitting))
        for screen in sat.deal.screens[:items]:
            given = [op("open", screen.item)]
            for field in allowed(self.bundle, screen):
                chosen = self.right(screen, attentive) if field == CHECK else value(screen, field)
                given.append(op("answer", screen.item, field, chosen, ms=ms))
            self.now += 20
            self.send(sitting, [*given, op("done", screen.item)])

    def right(self, screen: Screen, is_right: bool) -> str:
        """What an attention check asks for, or something else."""
        assert screen.check is not None
        options = self.bundle.question[screen.check.of].options
        return options[(screen.check.option - 1 + (not is_right)) % len(options)].value

    def finish(self, sitting: str) -> None:
        self.do(lambda c: answers.finish(c, self.bundle, seats.sit(c, sitting), self.now))

    def rater(self, sitting: str) -> str:
        """The pseudonym of somebody at a task."""
        return self.keys.pseudonym(self.do(lambda c: seats.sit(c, sitting)).participant)


def token_of(page: str) -> str:
    """What the forms of a page carry."""
    found = re.search(r'name="token" value="([^"]+)"', page)
    assert found, "the page has no form of its session"
    return found[1]


def log_in(browser: TestClient, name: str = NAME, password: str = PASSWORD) -> Any:
    token = token_of(browser.get("/admin/login").text)
    return browser.post("/admin/login", data={"token": token, "name": name, "password": password})


def varied(screen: Screen, field: str) -> str:
    """Answers that differ from item to item, the same for everybody."""
    return str(1 + (sum(map(ord, screen.item + field)) % 5))


__all__ = ["NAME", "PASSWORD", "START", "Office", "log_in", "op", "token_of", "varied"]
