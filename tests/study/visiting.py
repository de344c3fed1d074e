"""People who visit a study over HTTP with nothing but HTML: links, forms, cookies. No script runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, select
from starlette.testclient import TestClient

from stillme.study import bundle as bundles
from stillme.study.bundle import Bundle
from stillme.study.db import people, seats
from stillme.study.db.keys import Keys
from stillme.study.db.people import Launch
from stillme.study.db.store import open_store, write_now
from stillme.study.db.tables import meta
from stillme.study.prolific.client import Prolific
from stillme.study.prolific.launch import Door
from stillme.study.rehearsal.browsing import Form, Page, read
from stillme.study.server.app import make_app
from stillme.study.server.desk import Serving, Study
from stillme.study.server.door import cookie_name
from stillme.web.middleware import Hosts
from tests.study import bundles as made

KEYS = Keys(b"k" * 32)
PUBLIC = "https://study.example"


class Clock:
    """The study's time, which tests move."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class House:
    """A study that is served in this process, and who comes to it."""

    def __init__(self, folder: Path, bundle: Bundle, images: dict[str, bytes], entry: Any = "plain") -> None:
        bundles.write(bundle, images, folder / "bundle")
        self.clock = Clock()
        serving = Serving(entry, PUBLIC if entry != "plain" else "", clock=self.clock)
        store = open_store(f"sqlite:///{folder / 'study.db'}")
        recruits = Door(entry, PUBLIC, store, Prolific("nobody's")) if entry != "plain" else None  # never asked
        self.study = Study(bundle, folder / "bundle", folder, store, KEYS, serving, recruits)
        self.do(lambda c: seats.attach(c, bundle, self.clock()))
        self.app = make_app(self.study, Hosts.of("127.0.0.1", serving.public))
        self.base = serving.public or "http://127.0.0.1"

    @classmethod
    def of(cls, folder: Path, entry: Any = "plain", **changes: Any) -> House:
        return cls(folder, *made.make(**changes), entry)

    def do(self, work: Callable[[Connection], Any]) -> Any:
        return write_now(self.study.store.engine, work)

    def codes(self) -> dict[str, str]:
        """Outcome -> its completion code."""
        rows = self.do(lambda c: c.execute(select(meta).where(meta.c.key.startswith("code:"))).all())
        return {row.key.removeprefix("code:"): row.value for row in rows}

    def visitor(self, name: str) -> Visitor:
        """Somebody who has come in by their link."""
        visitor = Visitor(self, name)
        if self.study.serving.entry == "plain":
            visitor.open(f"/p/start?PROLIFIC_PID={name}")
            return visitor
        launch = Launch(name, "study", f"s-{name}")
        token = self.do(lambda c: people.enter(c, KEYS, launch, "127.0.0.1", self.clock()))
        visitor.client.cookies.set(cookie_name(self.study), token)
        visitor.open("/")
        return visitor

    def close(self) -> None:
        self.study.store.close()


class Visitor:
    """One person's browser, without scripts. Every page that was ever seen is kept in `seen`."""

    def __init__(self, house: House, name: str) -> None:
        self.house, self.name = house, name
        self.client = TestClient(house.app, house.base, headers={"Origin": house.base})
        self.page: Page = read(0, "", "")
        self.seen: list[str] = []

    @property
    def path(self) -> str:
        return self.page.path

    def open(self, path: str) -> Page:
        return self._took(self.client.get(path))

    def post(self, path: str, fields: Sequence[tuple[str, str]]) -> Page:
        """A form, by hand."""
        return self._took(self.client.post(path, data=_body(fields)))

    def _took(self, answer: Any) -> Page:
        assert answer.status_code < 500, answer.text
        self.page = read(answer.status_code, str(answer.url), answer.text)
        self.seen.append(answer.text)
        return self.page

    def form(self, action: str = "") -> Form:
        """The first form of the page that is sent to an address that begins so."""
        found = self.page.posts(action or self.path)
        assert found, f"{self.path} has no form to {action or self.path}"
        return found[0]

    def send(self, action: str = "", *more: tuple[str, str]) -> Page:
        """Sends a form of the page as it stands, with what is added."""
        form = self.form(action)
        return self.post(form.action, [*form.filled(), *more])

    @property
    def token(self) -> str:
        return next(one.value for form in self.page.forms for one in form.fields if one.name == "token")

    def text(self) -> str:
        """What the page says, in words."""
        body = re.sub(r"<(script|style)\b.*?</\1>", "", self.page.text, flags=re.DOTALL)
        return " ".join(re.sub(r"<[^>]*>", " ", body).split())

    # The steps

    def read_guide(self) -> None:
        self.send("/guide")

    def agree(self) -> None:
        ticks = [(one.name, one.value) for one in self.form("/consent").fields if one.kind == "checkbox"]
        self.send("/consent", *ticks)

    def learn(self) -> None:
        """All examples, answered as expected."""
        for example in self.house.study.bundle.tutorial:
            self.send("/tutorial", ("value", example.expected[0]))
            self.send("/tutorial")

    def arrive(self) -> Visitor:
        """To the tasks."""
        self.read_guide()
        self.agree()
        self.learn()
        return self

    def choose(self, task: str = "t00") -> None:
        self.post("/tasks", [("token", self.token), ("task", task)])

    def rate(self) -> None:
        """Every item of the task by the page's plain form."""
        bundle = self.house.study.bundle
        while not self._is_done():
            form = self.form("/items")
            given = [(name, options[0].value) for name, options in form.choices().items()]
            kept = [pair for pair in form.filled() if pair[0] not in dict(given)]
            self.house.clock.now += bundle.minimum_seconds + 1
            self.post(form.action, [*kept, *given, ("go", "next")])
            assert self.page.status == 200, self.text()

    def _is_done(self) -> bool:
        return len(self.page.data.get("done", "").split()) == int(self.page.data.get("of", "0"))

    def finish(self) -> None:
        self.send("/finish")


def _body(fields: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in fields:
        found.setdefault(name, []).append(value)
    return found
