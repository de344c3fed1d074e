"""The selection tool in a browser: parse, ask the desk, render. Pages work without a script, by plain forms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from uuid import UUID, uuid4, uuid5

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from stillme.sources.selection.choices import Verb
from stillme.sources.selection.config import Plan
from stillme.sources.selection.desk import Asked, Desk, Filter, RefusedError, UnknownError
from stillme.sources.selection.grid import Grid
from stillme.sources.selection.sheets import Screened, Sheet
from stillme.sources.selection.store import Store
from stillme.web import server
from stillme.web.app import make_tool_app
from stillme.web.bodies import check, read_json, refuse
from stillme.web.images import Pictures
from stillme.web.middleware import Hosts, Sessions, read_own_form, secret
from stillme.web.pages import environment

STATIC = Path(__file__).parent / "static"
TICKS = "ticks"  # a form's word for all boxes of a candidate at once


def make_app(
    plan: Plan,
    store: Store,
    reviewers: Sequence[str],
    secret: bytes,
    hosts: Hosts | None = None,
    findings: Iterable[str] = (),
    screened: Screened | None = None,
) -> Starlette:
    """`findings`: what the pre-screen found about groups, in sentences; `screened`: by default the store's."""
    desk = Desk(plan, store, reviewers, screened)
    sessions = Sessions(secret, reviewers)
    pictures = Pictures(store.path / "thumbnails", store.image, lambda: desk.images)
    routes = [*Pages(desk, sessions, tuple(findings)).routes(), *pictures.routes()]
    app = make_tool_app(routes, sessions, hosts or Hosts.of("127.0.0.1"), {"select": STATIC})
    app.add_exception_handler(UnknownError, _unknown)
    app.add_exception_handler(RefusedError, _refused)
    return app


def serve(
    plan: Plan,
    store: Store,
    reviewers: Sequence[str],
    host: str,
    port: int,
    public: str = "",
    findings: Iterable[str] = (),
    say: server.Say = print,
) -> None:
    """Answers until Ctrl-C. `public`: the address that a proxy with TLS gives the tool."""
    key = secret(store.path)
    app = make_app(plan, store, reviewers, key, Hosts.of(host, public), findings)
    with server.listen(host, port) as bound:
        base = public.rstrip("/") or server.address(host, bound.getsockname()[1])
        server.run(app, bound, host, _greeting(Sessions(key, reviewers), base), say)
    say("Stopped. Everything that a page called saved is saved; the same command goes on with it.")


def _greeting(sessions: Sessions, base: str) -> Iterator[str]:
    yield "Open in a browser (each link is a key: give it only to the reviewer whose name stands before it):"
    for name in sessions.names:
        yield f"  {name}  {base}/enter?key={sessions.key(name)}"
    yield "Every action is saved when the page says so. Stop with Ctrl-C."


async def _unknown(request: Request, error: Exception) -> Response:
    return refuse(request, 404, "There is no such page, or it is not yours.")


async def _refused(request: Request, error: Exception) -> Response:
    return refuse(request, 409, str(error))


class Pages:
    """The pages and what their forms do."""

    def __init__(self, desk: Desk, sessions: Sessions, findings: tuple[str, ...]) -> None:
        self._desk = desk
        self._sessions = sessions
        self._findings = findings

    def routes(self) -> Iterator[Route]:
        for path, page in (
            ("/", self.overview),
            ("/cell/{cell}", self.cell),
            ("/go", self.go),
            ("/all", self.all),
            ("/log", self.log),
            ("/compare", self.comparison),
            ("/export", self.export),
        ):
            yield Route(path, page, methods=["GET"])
        yield Route("/api/act", self.act_api, methods=["POST"])
        yield Route("/act", self.act_form, methods=["POST"])
        yield Route("/compare", self.compare, methods=["POST"])

    def _page(self, request: Request, name: str, **content: Any) -> Response:
        who = request.state.who
        template = environment("stillme.sources.selection").get_template(name)
        text = template.render(
            desk=self._desk,
            who=who,
            token=self._sessions.token(who),
            progress=self._desk.progress(who),
            op=lambda: str(uuid4()),
            Filter=Filter,
            **content,
        )
        return HTMLResponse(text)

    # Pages

    def overview(self, request: Request) -> Response:
        who, show = request.state.who, self._filter(request)
        sheets = self._desk.sheets(who)
        counts = {one: len(self._desk.keep(sheets, one)) for one in self._desk.filters}
        actions, seconds = self._desk.effort(who)
        return self._page(
            request,
            "overview.html",
            show=show,
            counts=counts,
            rows=rows(self._desk.plan.grid, sheets),
            listed=self._desk.keep(sheets, show),
            pools=self._desk.by_pool(who),
            effort=effort(actions, seconds),
            findings=self._findings,
        )

    def cell(self, request: Request) -> Response:
        who, show = request.state.who, self._filter(request)
        sheet = self._desk.sheet(who, request.path_params["cell"])
        return self._page(
            request,
            "cell.html",
            show=show,
            sheet=sheet,
            about=self._about(who, sheet),
            following=self._following(who, sheet.cell.id, show),
            saved="saved" in request.query_params,
        )

    def _about(self, who: str, sheet: Sheet) -> dict[str, Any]:
        order = [cell.id for cell in self._desk.plan.grid.cells]
        other = [name for name in self._desk.reviewers if name != who]
        theirs = self._desk.sheet(other[0], sheet.cell.id) if other and self._desk.compared else None
        return {
            "position": order.index(sheet.cell.id) + 1,
            "cells": len(order),
            "other": other[0] if theirs else "",
            "theirs": theirs.standing if theirs else "",
            "undoable": self._desk.undoable(who),
        }

    def _following(self, who: str, cell: str, show: Filter) -> list[str]:
        """Pictures of the next cell: the browser may fetch them early."""
        found = self._desk.neighbour(who, cell, show, 1)
        return [card.image for card in self._desk.sheet(who, found).cards] if found else []

    def go(self, request: Request) -> Response:
        """To a neighbour, as things stand when it is asked for."""
        asked, show = request.query_params, self._filter(request)
        step = -1 if asked.get("to") == "previous" else 1
        among = Filter.UNDECIDED if asked.get("to") == "undecided" else show
        found = self._desk.neighbour(request.state.who, asked.get("from", ""), among, step)
        return RedirectResponse(address(found, show) if found else f"/?show={show}", 303)

    def all(self, request: Request) -> Response:
        return self._page(request, "all.html", sheets=self._desk.sheets(request.state.who))

    def log(self, request: Request) -> Response:
        actions, seconds = self._desk.effort(request.state.who)
        lines = self._desk.log(request.state.who)
        return self._page(request, "log.html", lines=lines, effort=effort(actions, seconds))

    def comparison(self, request: Request) -> Response:
        found = self._desk.comparison() if self._desk.compared else None
        return self._page(request, "compare.html", found=found)

    def export(self, request: Request) -> Response:
        return self._page(request, "export.html", file=self._desk.plan.path.name)

    # Actions

    async def act_api(self, request: Request) -> Response:
        """Answers when the action is on disk, with the cell as it now stands."""
        asked = await read_json(request, Asked)
        cell = await run_in_threadpool(self._desk.act, request.state.who, asked)
        return JSONResponse(standing(self._desk, request.state.who, cell))

    async def act_form(self, request: Request) -> Response:
        form = {name: values[-1] for name, values in (await read_own_form(request, self._sessions)).items()}
        show = Filter(form["show"]) if form.get("show") in list(Filter) else Filter.ALL
        cell = form.get("cell", "")
        for asked in self._asked(form):
            cell = await run_in_threadpool(self._desk.act, request.state.who, asked)
        return RedirectResponse(address(cell, show, saved=1), 303)

    def _asked(self, form: dict[str, str]) -> Iterator[Asked]:
        """One request for each thing that a form changes; a form of boxes may change several."""
        known: dict[str, Any] = {name: form[name] for name in ("op", "verb", "cell", "candidate") if name in form}
        if form.get("verb") != TICKS:
            value: Any = form.get("value")
            if form.get("verb") != Verb.NOTE:
                value = {"yes": True, "no": False}.get(str(value))
            elif value:
                value = value.replace("\r\n", "\n")  # as forms send line ends
            yield check(Asked, {**known, "value": value})
            return
        for one in self._desk.criteria:
            if (now := f"box-{one.id}" in form) != (form.get(f"was-{one.id}") == "yes"):
                op = uuid5(_uuid(form.get("op", "")), one.id)
                yield check(
                    Asked, {**known, "op": str(op), "verb": Verb.TICK.value, "criterion": one.id, "value": now}
                )

    async def compare(self, request: Request) -> Response:
        form = await read_own_form(request, self._sessions)
        op = _uuid(form.get("op", [""])[-1])
        await run_in_threadpool(self._desk.compare, request.state.who, str(op))
        return RedirectResponse("/compare", 303)

    def _filter(self, request: Request) -> Filter:
        """An unknown one, or one that may not be asked for yet, is no filter."""
        asked = request.query_params.get("show", Filter.ALL.value)
        return Filter(asked) if asked in self._desk.filters else Filter.ALL


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise HTTPException(422, "op: is not a UUID.") from None


def address(cell: str, show: Filter, **more: object) -> str:
    asked = urlencode({"show": show.value, **more})
    return f"/cell/{cell}?{asked}"


def rows(grid: Grid, sheets: Sequence[Sheet]) -> list[tuple[str, Sequence[Sheet]]]:
    """The grid as a table: the last axis across, every combination of the others down."""
    axes = list(grid.axes.values())
    across = len(axes[-1])
    labels = [" · ".join(labels) for labels in product(*(axis.values() for axis in axes[:-1]))] or [""]
    return [(label, sheets[n * across : (n + 1) * across]) for n, label in enumerate(labels)]


def effort(actions: int, seconds: float) -> str:
    """'102 actions in 2.0 h'."""
    count = "1 action" if actions == 1 else f"{actions:,} actions"
    unit, length = next(((u, n) for u, n in (("h", 3600), ("min", 60)) if seconds >= n), ("s", 1))
    return f"{count} in {seconds / length:.{1 if unit == 'h' else 0}f} {unit}"


def standing(desk: Desk, who: str, cell: str) -> dict[str, Any]:
    """A cell as it stands, for the script on its page."""
    sheet, progress = desk.sheet(who, cell), desk.progress(who)
    return {
        "cell": cell,
        "chosen": [card.key for card in sheet.chosen],
        "standing": sheet.standing,
        "decided": sheet.decided,
        "flagged": sheet.flagged,
        "note": sheet.note,
        "marks": [list(mark) for mark in sheet.marks],
        "cards": {
            card.key: {
                "summary": card.summary,
                "checks": {one.id: {"met": one.met, "note": one.note} for one in card.checks},
            }
            for card in sheet.cards
        },
        "progress": progress.words,
        "undoable": desk.undoable(who),
    }
