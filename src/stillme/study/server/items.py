"""The evaluation page: one item at a time, as plain forms or by its script, which sends every answer at once.

Shows and takes; what counts as answered, done or too quick is decided by `answers`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import uuid4

from markupsafe import Markup, escape
from sqlalchemy import Connection, bindparam, func, select
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from stillme.study.bundle import COMMENT
from stillme.study.db.deal import Screen
from stillme.study.db.often import Often
from stillme.study.db.people import Person
from stillme.study.db.seats import Sitting
from stillme.study.db.tables import answer, opening
from stillme.study.server import answers
from stillme.study.server.answers import Operation, Operations, Result
from stillme.study.server.asking import own_form, own_json
from stillme.study.server.desk import Study
from stillme.study.server.flow import ITEMS, TASKS, ElsewhereError, need
from stillme.study.server.sheet import Sheet, strip
from stillme.web.bodies import check

try:
    from orjson import dumps
except ImportError:

    def dumps(found: Any, /) -> bytes:  # type: ignore[misc]
        return json.dumps(found).encode()


NEXT, LEAVE = "next", "leave"
UNSCRIPTED = "<noscript>Press Next after each item: that saves your answers.</noscript>"
_OPENINGS = Often(
    select(opening.c.item, opening.c.opened, opening.c.done).where(opening.c.sitting == bindparam("of_sitting"))
)


def routes(study: Study) -> list[BaseRoute]:
    pages = Items(study)
    return [
        Route("/items", pages.resume, methods=["GET"]),
        Route("/items/{n:int}", pages.show, methods=["GET"]),
        Route("/items/{n:int}", pages.submit, methods=["POST"]),
        Route("/finish", pages.finish, methods=["POST"]),
        Route("/api/operations", pages.operations, methods=["POST"]),
        Route("/api/progress", pages.progress, methods=["GET"]),
    ]


@dataclass(frozen=True)
class Standing:
    """How far a sitting is: when items were opened and done, by their ids."""

    sat: Sitting
    opened: Mapping[str, float]
    done: Mapping[str, float]

    @cached_property
    def numbers(self) -> frozenset[int]:
        """Of the items that are done."""
        return frozenset(self.sat.deal.number[item] for item in self.done)

    @property
    def of(self) -> int:
        return len(self.sat.deal.screens)

    def following(self, number: int) -> int:
        """The next item to do after one, from the start again after the last; itself if all are done."""
        after = [*range(number + 1, self.of + 1), *range(1, number + 1)]
        return next((n for n in after if n not in self.numbers), number)

    def left(self, item: str, least: float, now: float) -> float | None:
        """The seconds that an item still has to be looked at; nothing where it was not opened yet."""
        if item in self.done:
            return 0.0
        if item not in self.opened:
            return None
        began = max(self.opened[item], *self.done.values(), 0.0)
        return max(0.0, least - (now - began))


def _standing(connection: Connection, sat: Sitting) -> Standing:
    rows = _OPENINGS.rows(connection, of_sitting=sat.id)
    done = {item: at for item, _, at in rows if at is not None}
    return Standing(sat, {item: at for item, at, _ in rows}, done)


def _left(seconds: float | None) -> str:
    """An attribute that is there once the item was opened."""
    return "" if seconds is None else f' data-left="{seconds:.3f}"'


def _screen(sat: Sitting, number: int) -> Screen:
    """What was dealt at a place; there is none beyond the last."""
    if not 1 <= number <= len(sat.deal.screens):
        raise HTTPException(404)
    return sat.deal.screens[number - 1]


class Items:
    """The handlers, with the questions drawn once."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self._sheet = Sheet(study.bundle)

    def _sitting(self, connection: Connection, person: Person) -> Sitting:
        assert person.sitting is not None, "whoever is at this step has a sitting"
        return self._study.dealt(connection, person.sitting)

    async def resume(self, request: Request) -> Response:
        """To the first item that is not done."""
        person = need(request, ITEMS)
        found = await self._study.store.read(lambda c: _standing(c, self._sitting(c, person)))
        return RedirectResponse(f"/items/{found.following(0) or found.of}", 303)

    async def show(self, request: Request) -> Response:
        return await self._page(request, need(request, ITEMS))

    async def _page(self, request: Request, person: Person, said: str = "", status: int = 200) -> Response:
        number: int = request.path_params["n"]

        def look(connection: Connection) -> tuple[Standing, dict[str, str]]:
            sat = self._sitting(connection, person)
            screen = _screen(sat, number)
            return _standing(connection, sat), answers.given(connection, sat.id, screen.item)

        found, given = await self._study.store.read(look)
        return self._draw(request, found, number, given, said, status)

    def _draw(
        self, request: Request, found: Standing, number: int, given: Mapping[str, str], said: str, status: int
    ) -> Response:
        study, screen = self._study, found.sat.deal.screens[number - 1]
        done = found.numbers
        values = self._sheet.item(screen, given, asking=bool(said)) | {
            "number": str(number),
            "of": str(found.of),
            "count": str(len(done)),
            "share": f"{100 * len(done) / found.of:.0f}",
            "done": " ".join(map(str, sorted(done))),
            "strip": strip(found.of, number, done),
            "previous": str(number - 1 or found.of),
            "task": escape(study.bundle.task[found.sat.task].title),
            "left": _left(found.left(screen.item, study.bundle.minimum_seconds, study.now())),
            "issued": str(round(study.now() * 1000)),
            "queue": study.keys.queue(found.sat.id),
            "token": study.keys.form_token(request.state.token),
            "comment": "\n" + escape(given.get(COMMENT, "")),  # a parser drops the first new line
            "state": UNSCRIPTED if len(done) < found.of else "Every item is done.",
            "finishing": "" if len(done) == found.of else " hidden",
            "said": Markup('<p class="notice">{}</p>').format(said) if said else "",
        }
        return HTMLResponse(self._sheet.page(values), status)

    async def submit(self, request: Request) -> Response:
        """A page's form: keeps what was answered, and goes on if the item is done."""
        person = need(request, ITEMS)
        number: int = request.path_params["n"]
        form = {name: values[-1] for name, values in (await own_form(request)).items()}
        go, issued = form.pop("go", NEXT), form.pop("issued", "")

        def work(connection: Connection) -> tuple[list[Result], Standing]:
            sat = self._sitting(connection, person)
            screen = _screen(sat, number)
            asked = _asked(connection, sat, screen, form, self._age(issued))
            results = self._apply(connection, sat, asked) if asked else []
            lacking = answers.unanswered(
                self._study.bundle, screen, answers.given(connection, sat.id, screen.item)
            )
            if go == NEXT or not lacking:
                results += self._apply(connection, sat, [_operation("done", screen.item)])
            return results, _standing(connection, sat)

        results, found = await self._study.store.write(work)
        onward = _onward(go, number, found)
        if refused := _refusal(results, go):
            return await self._page(request, person, *refused)
        return RedirectResponse(onward, 303)

    def _apply(self, connection: Connection, sat: Sitting, asked: Sequence[Operation]) -> list[Result]:
        study = self._study
        return answers.apply(connection, study.bundle, sat, asked, study.now(), study.serving.lease)

    def _age(self, issued: str) -> int:
        """How long ago the page was made, as it says itself; `answers` believes it only so far."""
        if not issued.isdecimal() or len(issued) > 15:
            return 0
        return max(0, round(self._study.now() * 1000) - int(issued))

    async def finish(self, request: Request) -> Response:
        """The end of the task, if every item is done by the server's own count."""
        person = need(request, ITEMS)
        await own_form(request)
        study = self._study
        await study.store.write(lambda c: answers.finish(c, study.bundle, self._sitting(c, person), study.now()))
        return RedirectResponse("/debrief", 303)

    async def operations(self, request: Request) -> Response:
        """What the page's script sends; answered when it is on the disk. Who timed out goes on if they can."""
        person = need(request, ITEMS, TASKS)
        if person.sitting is None:
            raise ElsewhereError(f"/{TASKS}")
        asked = (await own_json(request, Operations)).operations

        def work(connection: Connection) -> dict[str, Any]:
            sat = self._sitting(connection, person)
            results = self._apply(connection, sat, asked)
            done = answers.progress(connection, sat)
            return {"results": [one.plain() for one in results], "done": len(done.done), "of": done.of}

        return _json(await self._study.store.write(work))

    async def progress(self, request: Request) -> Response:
        """What a page needs to send what still waits in this browser, and how far the task is."""
        person = need(request, ITEMS)
        found = await self._study.store.read(lambda c: _standing(c, self._sitting(c, person)))
        keys = self._study.keys
        return _json(
            {
                "queue": keys.queue(found.sat.id),
                "token": keys.form_token(request.state.token),
                "done": sorted(found.numbers),
                "of": found.of,
            }
        )


def _asked(
    connection: Connection, sat: Sitting, screen: Screen, form: Mapping[str, str], age: int
) -> list[Operation]:
    """A form as operations: what it says otherwise than what is kept, with the newest word."""
    given = answers.given(connection, sat.id, screen.item)
    newest = connection.scalar(
        select(func.max(answer.c.rev)).where(answer.c.sitting == sat.id, answer.c.item == screen.item)
    )
    rev = max((newest or 0) + 1, round(time.time() * 1000))
    made = [_operation("open", screen.item, age=age)]
    for field, value in form.items():
        value = value.replace("\r\n", "\n")  # as forms write a new line
        if given.get(field, "" if field == COMMENT else None) != value:
            kind = "comment" if field == COMMENT else "answer"
            made.append(_operation(kind, screen.item, field=field, value=value, rev=rev))
    return made


def _operation(kind: str, item: str, **about: Any) -> Operation:
    return check(Operation, {"id": str(uuid4()), "kind": kind, "item": item, **about})


def _refusal(results: Sequence[Result], go: str) -> tuple[str, int] | None:
    """What has to be said before somebody goes on, and its status."""
    refused = [one for one in results if one.refused and (go == NEXT or one.wait is None)]
    if not refused:
        return None
    wrong = any(one.wait is None for one in refused)
    return " ".join(dict.fromkeys(one.refused for one in refused)), 422 if wrong else 409


def _onward(go: str, number: int, found: Standing) -> str:
    """Where a form's button leads."""
    if go == NEXT:
        return f"/items/{found.following(number)}"
    if go == LEAVE:
        return "/leave"
    if go.isdecimal() and len(go) < 9 and 1 <= int(go) <= found.of:
        return f"/items/{int(go)}"
    raise HTTPException(422, "The form names a place that this task does not have.")


def _json(found: Any) -> Response:
    return Response(dumps(found), media_type="application/json")


__all__ = ["Items", "Standing", "routes"]
