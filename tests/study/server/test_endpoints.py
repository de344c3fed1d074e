"""Anything at every endpoint, on both databases: never a crash, and no answer is kept that was not offered.

Routes are read from the app, so that a new one is tried without being named here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select
from starlette.routing import Mount, Route

from stillme.study.bundle import COMMENT
from stillme.study.db import people, seats
from stillme.study.db.deal import allowed
from stillme.study.db.people import Launch
from stillme.study.db.seats import Sitting
from stillme.study.db.tables import answer, sitting
from stillme.study.server import coordinators, flow
from tests.study.office import NAME, Office, varied

KINDS = ("comment", "away", "other", "")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
NASTY = (
    "",
    "\0",
    "a\0b",
    "'; DROP TABLE answer; --",
    "../../etc/passwd",
    "%s%s%n",
    "{{7*7}}",
    "\u202e",
    "\U0001f600",
    "-1",
)
FORM, JSON = "application/x-www-form-urlencoded", "application/json"

words = st.one_of(st.sampled_from(NASTY), st.text(max_size=12), st.integers().map(str))
HUGE = b"x=" + b"9" * 70_000
mostly = st.sampled_from((True, True, True, True, False))


def often(right: st.SearchStrategy[Any], wrong: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Something right, but for one time in sixteen."""
    return st.sampled_from((True,) * 15 + (False,)).flatmap(lambda is_right: right if is_right else wrong)


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), words),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=6,
)


BEFORE = {"guide": 0, "consent": 1, "declined": 1, "tutorial": 2, "tasks": 3}  # how many steps are passed there
STAGES = (*BEFORE, "items", "debrief", "complete", "closed")
WHO = (*STAGES, "items", "items", "items", "coordinator", "coordinator", "nobody")


class Everywhere:
    """A study, and who asks: nobody, a coordinator, and raters at every step, each with a session of their own."""

    def __init__(self, folder: Path, database: str = "") -> None:
        self.office = Office(folder, database, items=2, tasks=1, seats=400, side=16)
        self.office.coordinator()
        self.browser = self.office.browser()
        self.browser.__enter__()  # one loop for all requests
        self.targets = sorted({target for route in self.office.app.routes for target in targets(route)})
        self._count = 0
        self.sessions = {stage: self.person(stage) for stage in STAGES}
        self.renew_coordinator()

    def close(self) -> None:
        self.browser.__exit__(None, None, None)
        self.office.close()

    def person(self, stage: str) -> str:
        """The token of somebody new who is at a step."""
        office = self.office
        self._count += 1
        launch = Launch(f"p{self._count}", "study", f"s{self._count}")
        token = office.do(lambda c: people.enter(c, office.keys, launch, f"a{self._count}", office.now))
        person = self._id(token)
        for step in ("guided", "consented", "tutored")[: BEFORE.get(stage, 3)]:
            self._pass(person, step)
        if stage == "declined":
            office.do(lambda c: people.decline(c, person, office.now))
        elif stage not in BEFORE:
            self._seat(person, stage)
        assert self.step(token) == stage
        return token

    def _pass(self, person: str, step: str) -> None:
        office = self.office
        if step == "consented":
            office.do(lambda c: people.consent(c, person, "c1", office.now))
        else:
            office.do(lambda c: people.note(c, person, step, office.now))

    def _seat(self, person: str, stage: str) -> None:
        office = self.office
        sat = office.do(lambda c: seats.take(c, office.bundle, person, "t00", office.now))
        if stage == "closed":
            office.do(lambda c: seats.free(c, sat, "returned", office.now))
        elif stage != "items":
            office.rate(sat, varied)
            office.finish(sat)
            if stage == "complete":
                office.do(lambda c: people.note(c, person, "debriefed", office.now))

    def _id(self, token: str) -> str:
        person = self.office.do(lambda c: people.who(c, self.office.keys, token, self.office.now))
        assert person is not None
        return person.id

    def step(self, token: str) -> str:
        office = self.office
        person = office.do(lambda c: people.who(c, office.keys, token, office.now))
        return "" if person is None else flow.step(person, office.bundle)

    def renew_coordinator(self) -> None:
        office = self.office
        made = office.do(lambda c: coordinators.log_in(c, office.keys, NAME, "", "", office.now))
        self.sessions["coordinator"] = made

    def settle(self, who: str) -> None:
        """Whoever has gone on by what was tried makes room for somebody new."""
        if who in STAGES and self.step(self.sessions[who]) != who:
            self.sessions[who] = self.person(who)
        if who == "coordinator":
            office, token = self.office, self.sessions[who]
            if office.do(lambda c: coordinators.who(c, office.keys, token, office.now)) is None:
                self.renew_coordinator()

    @property
    def sitting(self) -> Sitting:
        """Of the rater at work."""
        person = self._id(self.sessions["items"])
        own = select(sitting.c.id).where(sitting.c.participant == person)
        return self.office.do(lambda c: seats.sit(c, str(c.scalar(own))))

    def ask(
        self, who: str, method: str, address: str, body: bytes, kind: str, owned: bool, more: dict[str, str]
    ) -> int:
        """Sends it, with the session and, if `owned`, the token of whoever asks; what came of it."""
        token = self.sessions.get(who, "")
        cookie = "stillme-admin" if who == "coordinator" else "stillme-study"
        sent = [(name.encode(), value.encode("latin-1")) for name, value in more.items()]
        sent += [(b"content-type", kind.encode()), (b"cookie", f"{cookie}={token}".encode())]
        if owned:
            form = self.office.keys.form_token(token)
            sent.append((b"x-stillme-token", form.encode()))
            body = body + b"&" + urlencode({"token": form}).encode() if kind == FORM else body
        self.office.now += 1  # so that limits on how often somebody may ask hide nothing
        reply = self.browser.request(method, address, content=body, headers=sent)
        self.browser.cookies.clear()
        self.settle(who)
        return reply.status_code

    def misplaced(self) -> list[tuple[str, str, str]]:
        """Answers that their questions do not offer."""
        office = self.office
        found = []
        for row in office.do(lambda c: c.execute(select(answer)).all()):
            sat = office.do(lambda c, of=row.sitting: seats.sit(c, of))  # type: ignore[misc]
            screen = next((one for one in sat.deal.screens if one.item == row.item), None)
            offered = {} if screen is None else allowed(office.bundle, screen)
            if row.field != COMMENT and row.value not in offered.get(row.field, ()):
                found.append((row.item, row.field, row.value))
        return found


def targets(route: Any) -> Iterator[tuple[str, str]]:
    """(path, method) of whatever a route answers."""
    if isinstance(route, Mount):
        yield f"{route.path}/{{path}}", "GET"
    elif isinstance(route, Route):
        yield from ((route.path, method) for method in route.methods or () if method != "HEAD")


def operations(everywhere: Everywhere) -> st.SearchStrategy[Any]:
    """Almost right operations: right ids, fields and values among anything else."""
    known = list(everywhere.office.bundle.item)
    screen = everywhere.sitting.deal.screens[0]
    fields = [*allowed(everywhere.office.bundle, screen), "check", "comment", "nothing"]
    offered = st.sampled_from(("1", "2", "3", "5", "6", "cannot_determine", "left"))
    one = st.fixed_dictionaries(
        {
            "id": often(st.uuids().map(str), words),
            "kind": often(st.sampled_from(("open", "answer", "answer", "answer", "done")), st.sampled_from(KINDS)),
            "item": often(st.sampled_from(known), words),
            "field": often(st.sampled_from(fields), words),
            "value": st.one_of(offered, words),
        },
        optional={
            "rev": often(st.integers(0, 2**53 - 1), values),
            "ms": often(st.integers(0, 10**6), values),
            "age": often(st.integers(0, 10**6), values),
        },
    )
    several = st.lists(one, min_size=1, max_size=4).map(lambda found: {"operations": found})
    return often(
        several, st.one_of(values, st.lists(st.one_of(one, values)).map(lambda found: {"operations": found}))
    )


def forms(everywhere: Everywhere) -> st.SearchStrategy[dict[str, str]]:
    screen = everywhere.sitting.deal.screens[0]
    names = (
        *allowed(everywhere.office.bundle, screen),
        "go",
        "issued",
        "comment",
        "task",
        "value",
        "tries",
        "sure",
    )
    more = ("statement", "version", "return", "name", "password", "reason", "entry", "rev", "token")
    right = st.sampled_from(("1", "2", "cannot_determine", "next", "leave", "yes", "t00", "c1", "paused", "open"))
    return st.dictionaries(st.one_of(st.sampled_from(names + more), words), st.one_of(right, words), max_size=6)


@st.composite
def addresses(draw: st.DrawFn, everywhere: Everywhere, path: str) -> str:
    """A path with something in its holes, often something that is there; now and then with a query."""
    office = everywhere.office
    rater = office.rater(everywhere.sitting.id)
    right = {"sha256": next(iter(office.bundle.pictures)), "rater": rater, "path": "base.css"}

    def fill(hole: re.Match[str]) -> str:
        if not draw(mostly):
            return quote(draw(words), safe="")
        actions = st.sampled_from(("exclude", "include", "release"))
        number = st.sampled_from(("1", "2", "3"))
        return right.get(hole[1]) or draw(actions if hole[1] == "action" else number)

    asked = {} if draw(mostly) and path != "/p/start" else draw(st.one_of(launches, st.dictionaries(words, words)))
    return re.sub(r"\{(\w+)[^}]*\}", fill, path) + (f"?{urlencode(asked)}" if asked else "")


names = st.one_of(words, st.uuids().map(lambda one: one.hex[:20]))
launches = st.fixed_dictionaries(
    {"PROLIFIC_PID": names}, optional=dict.fromkeys(("STUDY_ID", "SESSION_ID", "prolific_token"), names)
)


def plain(content: Any) -> bytes:
    return json.dumps(content).encode("utf-8", "surrogatepass")


@st.composite
def attempts(draw: st.DrawFn, everywhere: Everywhere) -> tuple[Any, ...]:
    """(who, method, address, body, its kind, with the token or not, more headers): mostly something that fits,
    of somebody who may, with one thing or another that does not."""
    path, method = draw(st.sampled_from(everywhere.targets))
    method = method if draw(mostly) else draw(st.sampled_from(METHODS))
    who = fitting(path) if draw(mostly) else draw(st.sampled_from(WHO))
    kind = JSON if path.startswith("/api") else FORM
    kind = kind if draw(mostly) else draw(st.sampled_from((JSON, FORM, "text/plain", "multipart/form-data", "")))
    if not draw(mostly):
        body = draw(st.one_of(st.binary(max_size=60), st.just(HUGE)))
    elif kind == JSON:
        body = plain(draw(operations(everywhere)))
    else:
        body = urlencode(draw(forms(everywhere))).encode()
    header = st.sampled_from(("accept", "range", "if-none-match", "x-forwarded-for", "referer"))
    more = st.dictionaries(header, printable, max_size=2)
    return who, method, draw(addresses(everywhere, path)), body, kind, draw(mostly), draw(more)


printable = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=20)


def fitting(path: str) -> str:
    """Who is meant to ask there."""
    first = path.split("/")[1]
    if first in STAGES:
        return first
    return {"admin": "coordinator", "decline": "consent", "p": "nobody", "welcome": "nobody"}.get(first, "items")


@pytest.fixture(scope="module")
def everywhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Everywhere]:
    made = Everywhere(tmp_path_factory.mktemp("everywhere"))
    yield made
    made.close()


def test_every_route_answers_every_method_of_everybody(everywhere: Everywhere) -> None:
    paths = sorted({path for path, _ in everywhere.targets})
    assert {"/api/operations", "/items/{n:int}", "/admin/raters/{rater}/{action}"} <= set(paths)
    for path in paths:
        for method in ("GET", "POST", "DELETE"):
            for who in ("items", "coordinator", "nobody"):
                for value in ("1", "a\0b"):
                    address = re.sub(r"\{[^}]*\}", quote(value), path)
                    if address != path or value == "1":
                        status = everywhere.ask(who, method, address, b"x=1", FORM, True, {})
                        assert status < 500, (who, method, address)
    assert everywhere.misplaced() == []


def try_everything(everywhere: Everywhere, examples: int) -> None:
    @settings(
        max_examples=examples,
        deadline=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(attempts(everywhere))
    def never_crashes(one: tuple[Any, ...]) -> None:
        assert everywhere.ask(*one) < 500, one

    never_crashes()
    assert everywhere.misplaced() == []


@pytest.mark.parametrize("examples", [80, pytest.param(300, marks=pytest.mark.slow)])
def test_anything_may_be_sent_anywhere(everywhere: Everywhere, examples: int) -> None:
    try_everything(everywhere, examples)


@pytest.mark.parametrize("examples", [30, pytest.param(100, marks=pytest.mark.slow)])
def test_anything_may_be_sent_anywhere_on_postgresql(tmp_path: Path, postgres: str, examples: int) -> None:
    made = Everywhere(tmp_path, postgres)
    try:
        try_everything(made, examples)
    finally:
        made.close()


def test_operations_keep_only_what_was_offered(everywhere: Everywhere) -> None:
    """Almost right operations, of somebody who may send them: what is kept is right, whatever else was there."""

    @settings(max_examples=120, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(operations(everywhere))
    def sent(content: Any) -> None:
        assert everywhere.ask("items", "POST", "/api/operations", plain(content), JSON, True, {}) in (
            200,
            409,
            413,
            422,
        )

    sent()
    assert everywhere.misplaced() == []
    kept = everywhere.office.do(lambda c: c.scalar(select(func.count()).select_from(answer)))
    assert kept, "some of them were right, so something was kept"
