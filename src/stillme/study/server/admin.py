"""The coordinators' pages: log in, see how the study goes, mark raters, free seats.

Raters are pseudonyms: nothing here knows who they are. Everything under /admin looks after its own sessions; the
door has checked where a request comes from.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

from sqlalchemy import Connection, select
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from stillme.study.db import seats
from stillme.study.db.keys import new_token
from stillme.study.db.tables import sitting
from stillme.study.server import coordinators, overview, quality
from stillme.study.server.asking import own_form
from stillme.study.server.coordinators import LONGEST_REASON, SESSION_SECONDS, Coordinator
from stillme.study.server.desk import Study
from stillme.study.server.limits import Buckets
from stillme.study.server.quality import Quality
from stillme.study.server.showing import render

T = TypeVar("T")
Handler = Callable[[Request], Awaitable[Response]]
HOME, LOGIN = "/admin", "/admin/login"
WRONG = "The name or the password is not right."
OFTEN = "That were too many attempts. Please wait {seconds} seconds and try again."
PER_ADDRESS, PER_NAME = 10, 30  # attempts at once; then one in half a minute
SLOWLY = 1 / 30


def routes(study: Study) -> list[Route]:
    desk = _Logins(study)
    return [
        Route(HOME, _as_coordinator(_dashboard), methods=["GET"]),
        Route(LOGIN, desk.ask, methods=["GET"]),
        Route(LOGIN, desk.log_in, methods=["POST"]),
        Route("/admin/logout", _as_coordinator(_log_out), methods=["POST"]),
        Route("/admin/pause", _as_coordinator(_pause), methods=["POST"]),
        Route("/admin/comments", _as_coordinator(_comments), methods=["GET"]),
        Route("/admin/log", _as_coordinator(_log), methods=["GET"]),
        Route("/admin/raters/{rater}", _as_coordinator(_rater), methods=["GET"]),
        Route("/admin/raters/{rater}/{action}", _as_coordinator(_act), methods=["POST"]),
    ]


def cookie_name(study: Study) -> str:
    return "__Host-stillme-admin" if study.serving.is_encrypted else "stillme-admin"


def _study(request: Request) -> Study:
    study: Study = request.app.state.study
    return study


async def _look(study: Study, work: Callable[[Connection], T]) -> T:
    """A long look at many rows, on a thread and a connection of its own: raters' pages do not wait for it."""

    def read() -> T:
        with study.store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            return work(connection)

    return await asyncio.to_thread(read)


def _as_coordinator(handler: Handler) -> Handler:
    """Lets only coordinators in; others are sent to the login, whether or not there is such a page."""

    async def guarded(request: Request) -> Response:
        study = _study(request)
        token = request.cookies.get(cookie_name(study), "")
        found = await study.store.read(lambda c: coordinators.who(c, study.keys, token, study.now()))
        if found is None and request.method == "POST":
            raise HTTPException(403, "Nothing was changed: you are not logged in any more. Please log in again.")
        if found is None:
            return RedirectResponse(LOGIN, 303)
        request.state.coordinator, request.state.token = found, found.token
        return await handler(request)

    return guarded


def _me(request: Request) -> Coordinator:
    found: Coordinator = request.state.coordinator
    return found


class _Logins:
    """The login page. Attempts are counted by address and by name; one password is checked at a time, because
    each check takes a lot of memory."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self._addresses = Buckets(SLOWLY, PER_ADDRESS)
        self._names = Buckets(SLOWLY, PER_NAME)
        self._one_at_a_time = asyncio.Lock()

    async def ask(self, request: Request) -> Response:
        return self._page(request, "", 200)

    async def log_in(self, request: Request) -> Response:
        request.state.token = request.cookies.get(cookie_name(self._study), "")
        form = await own_form(request)
        name, password = form.get("name", [""])[-1], form.get("password", [""])[-1]
        address = request.client.host if request.client else ""
        if wait := self._wait(address, name):
            answer = self._page(request, OFTEN.format(seconds=wait), 429)
            answer.headers["Retry-After"] = str(wait)
            return answer
        about = f"from {self._study.keys.address(address)[:8]}"
        token = await self._checked(name, password, about)
        if not token:
            return self._page(request, WRONG, 401)
        self._addresses.forget(address)
        self._names.forget(name)
        return _with_cookie(RedirectResponse(HOME, 303), self._study, token)

    def _wait(self, address: str, name: str) -> int:
        """Whole seconds until another attempt is taken; 0: now."""
        now = self._study.now()
        wait = self._addresses.take(address, now) or self._names.take(name.casefold()[:64], now)
        return 0 if not wait else max(1, round(wait))

    async def _checked(self, name: str, password: str, about: str) -> str:
        """The token of a new session, or nothing; known and unknown names go the same way."""
        study = self._study
        known = await study.store.read(lambda c: coordinators.known_hash(c, name))
        async with self._one_at_a_time:
            is_right, fresh = await asyncio.to_thread(coordinators.check, known, password)
        now = study.now()
        if not is_right:
            await study.store.write(lambda c: coordinators.failed(c, name, about, now))
            return ""
        return await study.store.write(lambda c: coordinators.log_in(c, study.keys, name, fresh, about, now))

    def _page(self, request: Request, sentence: str, status: int) -> HTMLResponse:
        """The form carries a token of a session that is nobody's yet; logging in gives another."""
        token = request.cookies.get(cookie_name(self._study), "") or new_token()
        request.state.token = token
        answer = render(request, "admin_login.html", status, sentence=sentence)
        return _with_cookie(answer, self._study, token)


Answer = TypeVar("Answer", bound=Response)


def _with_cookie(answer: Answer, study: Study, token: str) -> Answer:
    answer.set_cookie(
        cookie_name(study),
        token,
        max_age=SESSION_SECONDS,
        path="/",
        httponly=True,
        samesite="strict",
        secure=study.serving.is_encrypted,
    )
    return answer


def _show(request: Request, name: str, **content: Any) -> Response:
    return render(request, name, coordinator=_me(request).name, at=_at, **content)


def _at(seconds: float) -> str:
    """A time as people read it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


async def _dashboard(request: Request) -> Response:
    study = _study(request)
    seen = await _look(study, lambda c: overview.overview(c, study.bundle, study.keys, study.now()))
    return _show(request, "admin.html", seen=seen, places=overview.PLACES, states=overview.STATES)


async def _log_out(request: Request) -> Response:
    study = _study(request)
    await own_form(request)
    await study.store.write(lambda c: coordinators.log_out(c, study.keys, _me(request), study.now()))
    answer = RedirectResponse(LOGIN, 303)
    answer.delete_cookie(
        cookie_name(study), path="/", httponly=True, samesite="strict", secure=study.serving.is_encrypted
    )
    return answer


async def _pause(request: Request) -> Response:
    study = _study(request)
    wanted = (await own_form(request)).get("entry", [""])[-1]
    if wanted not in ("paused", "open"):
        raise HTTPException(422, "Entry is either paused or open.")
    now = study.now()
    await study.store.write(lambda c: coordinators.pause(c, wanted == "paused", _me(request).name, now))
    return RedirectResponse(HOME, 303)


async def _comments(request: Request) -> Response:
    study, me = _study(request), _me(request)
    await study.store.write(lambda c: coordinators.note(c, me.name, "view comments", "", "", study.now()))
    found = await _look(study, lambda c: overview.comments(c, study.keys))
    return _show(request, "admin_comments.html", comments=found)


async def _log(request: Request) -> Response:
    found = await _look(_study(request), coordinators.logged)
    return _show(request, "admin_log.html", rows=found)


async def _rater(request: Request) -> Response:
    study, me, rater = _study(request), _me(request), request.path_params["rater"]
    one = await _look(study, lambda c: _find(c, study, rater))
    await study.store.write(lambda c: coordinators.note(c, me.name, "view rater", one.rater, "", study.now()))
    said = await _look(study, lambda c: overview.comments(c, study.keys, one.rater))
    return _show(request, "admin_rater.html", one=one, comments=said, states=overview.STATES)


def _find(connection: Connection, study: Study, rater: str) -> Quality:
    """The rater of a pseudonym; there is no such page for anybody who took no seat."""
    found = [one for one in quality.raters(connection, study.bundle, study.keys) if one.rater == rater]
    if not found:
        raise HTTPException(404)
    return found[0]


async def _act(request: Request) -> Response:
    """Exclude, include or release a rater, each with a reason."""
    study, me = _study(request), _me(request)
    rater, action = request.path_params["rater"], request.path_params["action"]
    if action not in ("exclude", "include", "release"):
        raise HTTPException(404)
    reason = _reason(await own_form(request))
    now = study.now()

    def work(connection: Connection) -> None:
        row = _seated(connection, study, rater)
        if action == "release":
            _release(connection, row, rater, reason, me.name, now)
        else:
            mark = coordinators.exclude if action == "exclude" else coordinators.include
            mark(connection, study.keys, row.participant, reason, me.name, now)

    await study.store.write(work)
    return RedirectResponse(f"/admin/raters/{rater}", 303)


def _seated(connection: Connection, study: Study, rater: str) -> Any:
    """The sitting of a pseudonym."""
    rows = connection.execute(select(sitting.c.id, sitting.c.participant, sitting.c.task, sitting.c.state))
    found = [row for row in rows if study.keys.pseudonym(row.participant) == rater]
    if not found:
        raise HTTPException(404)
    return found[0]


def _release(connection: Connection, row: Any, rater: str, reason: str, who: str, now: float) -> None:
    """Frees the seat of somebody who is at work; one that is complete stays, whatever is thought of it."""
    if row.state != "active" or not seats.free(connection, row.id, "released", now):
        raise HTTPException(409, "This rater holds no seat that could be freed, so nothing was changed.")
    coordinators.note(connection, who, "release seat", rater, f"{row.task}: {reason}", now)


def _reason(form: dict[str, list[str]]) -> str:
    given = " ".join(form.get("reason", [""])[-1].replace("\0", " ").split())
    if not given or len(given) > LONGEST_REASON:
        raise HTTPException(
            422, f"Please give a reason, of at most {LONGEST_REASON} characters. Nothing was changed."
        )
    return given
