"""The selection tool in a browser: parse, call the service, render. Pages work without scripts, by plain forms."""

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

from stillme.sources.selection.action_log import Verb
from stillme.sources.selection.cell_view import CellView
from stillme.sources.selection.config import Plan
from stillme.sources.selection.pools import Grid
from stillme.sources.selection.screen import Screened
from stillme.sources.selection.service import (
    Filter,
    RefusedError,
    SelectionRequest,
    SelectionService,
    UnknownError,
)
from stillme.sources.selection.store import Store
from stillme.web import server
from stillme.web.app import make_tool_app
from stillme.web.bodies import check, read_json, refuse
from stillme.web.images import Pictures
from stillme.web.middleware import Hosts, Sessions, read_own_form, secret
from stillme.web.pages import environment

STATIC = Path(__file__).parent / "static"
TICKS = "ticks"  # a form's verb for all boxes of a candidate at once


def make_app(
    plan: Plan,
    store: Store,
    reviewers: Sequence[str],
    secret: bytes,
    hosts: Hosts | None = None,
    findings: Iterable[str] = (),
    screened: Screened | None = None,
) -> Starlette:
    """`findings`: sentences on groups that pass the pre-screen less often; `screened`: by default the store's."""
    service = SelectionService(plan, store, reviewers, screened)
    sessions = Sessions(secret, reviewers)
    pictures = Pictures(store.path / "thumbnails", store.image, lambda: service.images)
    routes = [*Pages(service, sessions, tuple(findings)).routes(), *pictures.routes()]
    app = make_tool_app(routes, sessions, hosts or Hosts.of("127.0.0.1"), {"select": STATIC})
    app.add_exception_handler(UnknownError, _refuse_unknown)
    app.add_exception_handler(RefusedError, _refuse_impossible)
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
    """Serve until Ctrl-C. `public`: the address that a proxy with TLS gives the tool."""
    key = secret(store.path)
    app = make_app(plan, store, reviewers, key, Hosts.of(host, public), findings)
    with server.listen(host, port) as bound:
        base = public.rstrip("/") or server.address(host, bound.getsockname()[1])
        sessions = Sessions(key, reviewers)
        greeting = [
            "Open in a browser (each link is a key: give it only to the reviewer whose name stands before it):",
            *(f"  {name}  {base}/enter?key={sessions.key(name)}" for name in sessions.names),
            "Every action is saved when the page says so. Stop with Ctrl-C.",
        ]
        server.run(app, bound, host, greeting, say)
    say("Stopped. Everything that a page called saved is saved; the same command goes on with it.")


async def _refuse_unknown(request: Request, error: Exception) -> Response:
    return refuse(request, 404, "There is no such page, or it is not yours.")


async def _refuse_impossible(request: Request, error: Exception) -> Response:
    return refuse(request, 409, str(error))


class Pages:
    """The pages and what their forms do."""

    def __init__(self, service: SelectionService, sessions: Sessions, findings: tuple[str, ...]) -> None:
        self._service = service
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
        reviewer = request.state.who
        template = environment("stillme.sources.selection").get_template(name)
        text = template.render(
            service=self._service,
            reviewer=reviewer,
            token=self._sessions.token(reviewer),
            progress=self._service.progress(reviewer),
            op=lambda: str(uuid4()),
            Filter=Filter,
            **content,
        )
        return HTMLResponse(text)

    # Pages

    def overview(self, request: Request) -> Response:
        reviewer, show = request.state.who, self._filter(request)
        sheets = self._service.sheets(reviewer)
        return self._page(
            request,
            "overview.html",
            show=show,
            counts={option: len(self._service.keep(sheets, option)) for option in self._service.filters},
            rows=grid_rows(self._service.plan.grid, sheets),
            listed=self._service.keep(sheets, show),
            pools=self._service.by_pool(reviewer),
            effort=describe_effort(*self._service.effort(reviewer)),
            findings=self._findings,
        )

    def cell(self, request: Request) -> Response:
        reviewer, show = request.state.who, self._filter(request)
        service, id = self._service, request.path_params["cell"]
        sheet = service.sheet(reviewer, id)
        cells = [cell.id for cell in service.plan.grid.cells]
        others = [name for name in service.reviewers if name != reviewer] if service.compared else []
        next_cell = service.neighbour(reviewer, id, show, 1)
        return self._page(
            request,
            "cell.html",
            show=show,
            sheet=sheet,
            position=cells.index(id) + 1,
            n_cells=len(cells),
            others={name: service.sheet(name, id).status for name in others},
            undoable=service.undoable(reviewer),
            # Images of the next cell, which the browser may fetch early.
            following=[card.image for card in service.sheet(reviewer, next_cell).cards] if next_cell else [],
            saved="saved" in request.query_params,
        )

    def go(self, request: Request) -> Response:
        """To a neighbour, chosen when it is asked for: decisions since the page was made count."""
        query, show = request.query_params, self._filter(request)
        step = -1 if query.get("to") == "previous" else 1
        among = Filter.UNDECIDED if query.get("to") == "undecided" else show
        cell = self._service.neighbour(request.state.who, query.get("from", ""), among, step)
        return RedirectResponse(cell_address(cell, show) if cell else f"/?show={show}", 303)

    def all(self, request: Request) -> Response:
        return self._page(request, "all.html", sheets=self._service.sheets(request.state.who))

    def log(self, request: Request) -> Response:
        effort = describe_effort(*self._service.effort(request.state.who))
        return self._page(request, "log.html", lines=self._service.log(request.state.who), effort=effort)

    def comparison(self, request: Request) -> Response:
        comparison = self._service.comparison() if self._service.compared else None
        return self._page(request, "compare.html", comparison=comparison)

    def export(self, request: Request) -> Response:
        return self._page(request, "export.html", file=self._service.plan.path.name)

    # Actions

    async def act_api(self, request: Request) -> Response:
        """Answers when the action is on disk, with the cell as it is then, for the script on its page."""
        reviewer, service = request.state.who, self._service
        cell = await run_in_threadpool(service.act, reviewer, await read_json(request, SelectionRequest))
        sheet = service.sheet(reviewer, cell)
        state = {
            "cell": cell,
            "chosen": [card.key for card in sheet.chosen],
            "standing": sheet.status,
            "decided": sheet.decided,
            "flagged": sheet.flagged,
            "note": sheet.note,
            "marks": [list(mark) for mark in sheet.marks],
            "cards": {
                card.key: {
                    "summary": card.summary,
                    "checks": {check.id: {"met": check.met, "note": check.note} for check in card.checks},
                }
                for card in sheet.cards
            },
            "progress": service.progress(reviewer).words,
            "undoable": service.undoable(reviewer),
        }
        return JSONResponse(state)

    async def act_form(self, request: Request) -> Response:
        form = {name: values[-1] for name, values in (await read_own_form(request, self._sessions)).items()}
        show = Filter(form["show"]) if form.get("show") in list(Filter) else Filter.ALL
        cell = form.get("cell", "")
        for action in self._form_requests(form):
            cell = await run_in_threadpool(self._service.act, request.state.who, action)
        return RedirectResponse(cell_address(cell, show, saved=1), 303)

    def _form_requests(self, form: dict[str, str]) -> Iterator[SelectionRequest]:
        """One request for each thing that a form changes; a form of boxes may change several."""
        fields: dict[str, Any] = {name: form[name] for name in ("op", "verb", "cell", "candidate") if name in form}
        if form.get("verb") != TICKS:
            value: Any = form.get("value")
            if form.get("verb") != Verb.NOTE:
                value = {"yes": True, "no": False}.get(str(value))
            elif value:
                value = value.replace("\r\n", "\n")  # as forms send line ends
            yield check(SelectionRequest, {**fields, "value": value})
            return
        for criterion in self._service.criteria:
            is_ticked = f"box-{criterion.id}" in form
            if is_ticked != (form.get(f"was-{criterion.id}") == "yes"):
                fields |= {
                    "op": str(uuid5(_parse_uuid(form.get("op", "")), criterion.id)),
                    "verb": Verb.TICK.value,
                }
                yield check(SelectionRequest, {**fields, "criterion": criterion.id, "value": is_ticked})

    async def compare(self, request: Request) -> Response:
        form = await read_own_form(request, self._sessions)
        op = _parse_uuid(form.get("op", [""])[-1])
        await run_in_threadpool(self._service.compare, request.state.who, str(op))
        return RedirectResponse("/compare", 303)

    def _filter(self, request: Request) -> Filter:
        """An unknown one, or one that may not be asked for yet, is no filter."""
        name = request.query_params.get("show", Filter.ALL.value)
        return Filter(name) if name in self._service.filters else Filter.ALL


def _parse_uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise HTTPException(422, "op: is not a UUID.") from None


def cell_address(cell: str, show: Filter, **more: object) -> str:
    query = urlencode({"show": show.value, **more})
    return f"/cell/{cell}?{query}"


def grid_rows(grid: Grid, sheets: Sequence[CellView]) -> list[tuple[str, Sequence[CellView]]]:
    """The grid as a table: the last axis across, every combination of the others down."""
    axes = list(grid.axes.values())
    n_columns = len(axes[-1])
    labels = [" · ".join(labels) for labels in product(*(axis.values() for axis in axes[:-1]))] or [""]
    return [(label, sheets[n * n_columns : (n + 1) * n_columns]) for n, label in enumerate(labels)]


def describe_effort(actions: int, seconds: float) -> str:
    """'102 actions in 2.0 h'."""
    count = "1 action" if actions == 1 else f"{actions:,} actions"
    unit, length = next(((u, n) for u, n in (("h", 3600), ("min", 60)) if seconds >= n), ("s", 1))
    return f"{count} in {seconds / length:.{1 if unit == 'h' else 0}f} {unit}"
