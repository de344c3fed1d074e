"""The review tool in a browser: parse, ask the desk, render. Pages work without a script, by plain forms."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote
from uuid import uuid4

import polars as pl
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from stillme.analysis.frames import ROUNDINGS
from stillme.core.errors import disk
from stillme.core.records import Trial
from stillme.ledger import Run
from stillme.ledger.run import shows
from stillme.report import publish
from stillme.report.build import build
from stillme.report.review import linked, target
from stillme.report.review.desk import PAGE, Decision, Desk, RefusedError, UnknownError, check_reviewer
from stillme.report.review.item import item
from stillme.report.review.query import Query
from stillme.report.review.samples import SORTS
from stillme.report.review.state import State
from stillme.report.review.words import Words
from stillme.web import server
from stillme.web.app import make_tool_app
from stillme.web.bodies import check, read_json, refuse
from stillme.web.images import Pictures
from stillme.web.middleware import MAX_SESSION_S, Hosts, Sessions, read_own_form, secret
from stillme.web.pages import environment

STATIC = Path(__file__).parent / "static"
FOLDER = "review"  # of a run: the tool's secret and thumbnails
SOMEBODY = "reviewer"  # the session's name where the page asks who decides
WHO = "stillme-reviewer"  # the cookie that remembers it
CANNOT_TELL = "cannot_tell"  # a form's word for no score
# The filters of the form, in their order; those of the second line take one value
SEVERAL = ("experiment", "editor", "arm", "category", "prompt")
MORE = ("standing", "why", "ended", "status", "stage")
OPEN = ("editor", "flag", "outcome")  # unfolded from the start


def serve(run: Path, reviewer: str, host: str, port: int, public: str = "", say: server.Say = print) -> None:
    """Answers until Ctrl-C. `reviewer`: who decides; empty: the page asks. `public`: its address elsewhere."""
    check_reviewer(reviewer)
    with Run.join(run) as joined:
        folder = run / FOLDER
        with disk(folder):
            folder.mkdir(exist_ok=True)
        key = secret(folder)
        app = make_app(Desk(joined), reviewer, key, Hosts.of(host, public))
        with server.listen(host, port) as bound:
            base = public.rstrip("/") or server.address(host, bound.getsockname()[1])
            server.run(app, bound, host, _greeting(Sessions(key, _names(reviewer)), base), say)
    say("Stopped. Everything that a page called saved is saved.")


def _names(reviewer: str) -> tuple[str]:
    return (reviewer or SOMEBODY,)


def _greeting(sessions: Sessions, base: str) -> Iterator[str]:
    yield "Open in a browser (the link is a key: whoever has it sees the portraits and can decide):"
    for name in sessions.names:
        yield f"  {name}  {base}/enter?key={sessions.key(name)}"
    yield "Every decision is saved when the page says so. Stop with Ctrl-C."


def make_app(desk: Desk, reviewer: str, key: bytes, hosts: Hosts | None = None) -> Starlette:
    sessions = Sessions(key, _names(reviewer))
    thumbnails = desk.run.path / FOLDER / "thumbnails"
    pictures = Pictures(thumbnails, desk.run.image, lambda: desk.state().images)
    routes = [*Pages(desk, reviewer, sessions).routes(), *pictures.routes()]
    app = make_tool_app(routes, sessions, hosts or Hosts.of("127.0.0.1"), {"review": STATIC})
    app.add_exception_handler(UnknownError, _unknown)
    app.add_exception_handler(RefusedError, _refused)
    return app


async def _unknown(request: Request, error: Exception) -> Response:
    return refuse(request, 404, str(error))


async def _refused(request: Request, error: Exception) -> Response:
    return refuse(request, 409, str(error))


@dataclass(frozen=True)
class Facet:
    """A filter of the form. `kind`: whether several values may be ticked or one is chosen."""

    name: str
    title: str
    values: list[tuple[str, str, int]]
    chosen: tuple[str, ...]
    kind: str
    is_open: bool


class Pages:
    """The pages and what their forms do."""

    def __init__(self, desk: Desk, reviewer: str, sessions: Sessions) -> None:
        self._desk = desk
        self._reviewer = reviewer
        self._sessions = sessions
        self._report: tuple[str, str] = ("", "")
        self._building = threading.Lock()

    def routes(self) -> Iterator[Route]:
        for path, page in (
            ("/", self.start),
            ("/samples", self.samples),
            ("/samples/{trial}", self.item),
            ("/go", self.go),
            ("/decisions", self.decisions),
            ("/report", self.report),
        ):
            yield Route(path, page, methods=["GET"])
        yield Route("/api/decide", self.decide_api, methods=["POST"])
        yield Route("/decide", self.decide_form, methods=["POST"])

    def _page(self, request: Request, name: str, state: State, **content: Any) -> Response:
        who = self._who(request)
        text = (
            environment("stillme.report.review")
            .get_template(name)
            .render(
                who=who,
                asks=not self._reviewer,
                token=self._sessions.token(request.state.who),
                run=state.design.config.audit.name,
                flags=state.flags,
                op=lambda: str(uuid4()),
                **content,
            )
        )
        return HTMLResponse(text)

    def _who(self, request: Request) -> str:
        """Who decides: as the command line has it, or as the page was told last."""
        return self._reviewer or unquote(request.cookies.get(WHO, ""))

    def _query(self, request: Request, state: State) -> Query:
        return Query.read(request.query_params.multi_items(), state.protocol.groups.dimensions)

    # Pages

    def start(self, request: Request) -> Response:
        return RedirectResponse(linked.SAMPLES, 303)

    def samples(self, request: Request) -> Response:
        state = self._desk.state()
        words, query = Words(state.design), self._query(request, state)
        page = self._desk.page(state, query)
        return self._page(
            request,
            "samples.html",
            state,
            query=query,
            page=page,
            cards=self._cards(state, words, query, page.rows.tolist()),
            facets=list(self._facets(state, words, query)),
            chips=list(_chips(words, query)),
            words=words,
            axes=words.ordered("axis", self._desk.counts(state, query)["axis"], query.all("axis")),
            roundings=[(mode, mode.replace("_", " "), mode == state.rounding) for mode in ROUNDINGS],
            sorts=[(sort, words.label("sort", sort)) for sort in SORTS],
            every=state.trials.height,
            size=PAGE,
        )

    def _facets(self, state: State, words: Words, query: Query) -> Iterator[Facet]:
        counts, groups = self._desk.counts(state, query), list(state.protocol.groups.dimensions)
        one = ("flag", "outcome", "happened")
        for name in (*one, *SEVERAL, *groups, *MORE):
            chosen = query.all(name)
            values = words.ordered(name, counts.get(name, {}), chosen)
            if len(values) > 1 or chosen or name in OPEN:
                kind = "radio" if name in one else "checkbox"
                opened = name in OPEN or bool(chosen) or name == "happened"
                if values:
                    yield Facet(name, words.title(name), values, chosen, kind, opened)

    def _cards(self, state: State, words: Words, query: Query, rows: list[int]) -> list[dict[str, Any]]:
        scores: dict[int, list[dict[str, Any]]] = {}
        axes = self._desk.samples(state, query).axes
        for one in axes.filter(pl.col("row").is_in(rows)).iter_rows(named=True):
            scores.setdefault(one["row"], []).append(one)
        return [self._card(state, words, query, row, scores.get(row, [])) for row in rows]

    def _card(
        self, state: State, words: Words, query: Query, row: int, scores: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        about = state.trials.row(row, named=True)
        trial = state.trial[about["trial"]]
        groups = [words.label(name, about[name]) for name in state.protocol.groups.dimensions if about[name]]
        return {
            "trial": trial,
            "href": address(trial.key, query),
            "sources": [image for image in (about["source_image"], trial.partner_image) if image],
            "image": about["image"],
            "prompt": words.label("prompt", trial.prompt),
            "editor": words.label("editor", trial.editor),
            "arm": "" if trial.arm == publish.main_experiment(state.design)[1] else words.label("arm", trial.arm),
            "groups": ", ".join(groups),
            "ended": words.label("status", about["status"]),
            "marks": list(_marks(scores)),
            "scores": list(_told(words, query, state, scores)),
        }

    def item(self, request: Request) -> Response:
        state = self._desk.state()
        words, query = Words(state.design), self._query(request, state)
        trial = self._desk.trial(state, request.path_params["trial"])
        place, total = self._desk.place(state, query, trial.key), len(self._desk.kept(state, query))
        return self._page(
            request,
            "item.html",
            state,
            item=item(state, words, trial),
            query=query,
            words=words,
            place=place,
            total=total,
            back=f"{linked.SAMPLES}?{query.text((place or 0) // PAGE + 1)}#{trial.key[:12]}",
            person=f"{linked.SAMPLES}?{Query().plus({'person': trial.portrait}).text()}",
            following=self._following(state, query, trial),
            saved="saved" in request.query_params,
        )

    def _following(self, state: State, query: Query, trial: Trial) -> list[str]:
        """Pictures of the next edit: the browser may fetch them early."""
        found = self._desk.neighbour(state, query, trial.key, 1)
        if found is None:
            return []
        row = state.trials.row(state.row[found], named=True)
        return [image for image in (row["source_image"], row["image"]) if image]

    def go(self, request: Request) -> Response:
        """To a neighbour, as things stand when it is asked for."""
        state = self._desk.state()
        query, here = self._query(request, state), request.query_params.get("from", "")
        if here:
            self._desk.trial(state, here)
        found = self._target(state, query, here, request.query_params.get("to", ""))
        if found is None:
            return RedirectResponse(f"{linked.SAMPLES}?{query.text()}", 303)
        return RedirectResponse(address(found, query), 303)

    def _target(self, state: State, query: Query, here: str, to: str) -> str | None:
        if to == "flagged":
            return self._desk.next_open(state, query, here)
        return self._desk.neighbour(state, query, here, -1 if to == "previous" else 1) if here else None

    def decisions(self, request: Request) -> Response:
        state = self._desk.state()
        words = Words(state.design)
        where = {(t.edit, t.prompt): t.key for t in reversed(state.design.trials)}
        return self._page(
            request,
            "decisions.html",
            state,
            words=words,
            lines=[(one, where.get((one.edit, one.prompt), "")) for one in reversed(state.adjudications)],
            axes={target.AXIS.id: target.AXIS, **state.protocol.axes},
        )

    def report(self, request: Request) -> Response:
        """The report of the run as it is now, with links; made anew where the file is of an earlier state."""
        state = self._desk.state()
        html = self._html(state)
        content = linked.link(html, publish.main_experiment(state.design))
        return HTMLResponse(content, headers={"Content-Security-Policy": linked.policy(html)})

    def _html(self, state: State) -> str:
        path, run = self._desk.run.path / "report.html", self._desk.run
        with self._building:
            if shows(path, run):
                with disk(path):
                    return path.read_text(encoding="utf-8")
            mark = self._desk.mark()
            if self._report[0] != mark:
                self._report = (mark, build(*publish.findings_and_context(run, state.design)))
            return self._report[1]

    # Decisions

    async def decide_api(self, request: Request) -> Response:
        """Answers when the decision is on disk."""
        said = await read_json(request, Decision)
        state = await run_in_threadpool(self._desk.decide, self._decider(request, said), said)
        return self._remembering(JSONResponse({"trial": said.trial, "open": state.flags[0]}), said.who)

    async def decide_form(self, request: Request) -> Response:
        sent = await read_own_form(request, self._sessions)
        form = {name: values[-1] for name, values in sent.items()}
        said = check(Decision, _decision(form))
        state = await run_in_threadpool(self._desk.decide, self._decider(request, said), said)
        query = Query.read(_pairs(form.get("query", "")), state.protocol.groups.dimensions)
        return self._remembering(RedirectResponse(address(said.trial, query, saved=True), 303), said.who)

    def _decider(self, request: Request, said: Decision) -> str:
        """Whoever the command line names; else whoever the page was told, now or before."""
        return self._reviewer or said.who or self._who(request)

    def _remembering(self, answer: Response, who: str) -> Response:
        if who and not self._reviewer:
            answer.set_cookie(WHO, quote(who), max_age=MAX_SESSION_S, httponly=True, samesite="strict")
        return answer


def address(trial: str, query: Query, saved: bool = False) -> str:
    asked = "&".join(part for part in (query.text(), "saved=1" if saved else "") if part)
    return f"{linked.SAMPLES}/{trial}{f'?{asked}' if asked else ''}"


def _chips(words: Words, query: Query) -> Iterator[tuple[str, str, str]]:
    """What is filtered by: its name, the value in words, and the address without it."""
    for name, value in query.chosen:
        if name != "sort":
            yield (
                words.title(name),
                words.label(name, value),
                f"{linked.SAMPLES}?{query.without(name, value).text()}",
            )


def _marks(scores: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """A shape and words for what a person should know of an edit before opening it."""
    counts = {name: sum(one[name] for one in scores) for name in ("open", "adjudicated", "contested")}
    for name, shape, said in (
        ("open", "◆", "open"),
        ("adjudicated", "◇", "decided"),
        ("contested", "≠", "contested"),
    ):
        if counts[name]:
            yield shape, f"{counts[name]} {said}"


def _told(
    words: Words, query: Query, state: State, scores: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, str]]:
    """The scores on the axis that is asked about: its name, and the score or why there is none."""
    outcome = state.protocol.rubrics.outcomes.get(query.one("outcome"))
    wanted = {query.one("axis"), outcome.axis if outcome else ""}
    for one in scores:
        if one["axis"] in wanted:
            missing = words.label("why", one["why"] or "")
            yield words.label("axis", one["axis"]), missing if one["score"] is None else str(one["score"])


def _decision(form: Mapping[str, str]) -> dict[str, Any]:
    """A form's fields as a decision; a field that was left empty is left out."""
    score = form.get("score", "")
    found: dict[str, Any] = {name: form[name] for name in ("op", "trial", "axis", "why", "who") if form.get(name)}
    found |= {"cannot_tell": score == CANNOT_TELL, "withdraw": form.get("withdraw") == "yes"}
    return found | ({"score": int(score)} if score.isdecimal() and len(score) < 4 else {})


def _pairs(text: str) -> list[tuple[str, str]]:
    return parse_qsl(text, max_num_fields=200)
