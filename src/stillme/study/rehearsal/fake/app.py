"""The fake Prolific's HTTP side: Prolific's API under /api/v1, its keys, and /fake/… for whoever rehearses."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from stillme.study.rehearsal.fake import signing
from stillme.study.rehearsal.fake.deliver import Courier
from stillme.study.rehearsal.fake.world import FEE, MOVES, Found, NoError, World
from stillme.web.pages import environment

API = "/api/v1"
COOKIE = "fake-prolific"
EVENTS = ("submission.status.change", "study.status.change")
Handler = Callable[[Request], Awaitable[Response]]


@dataclass
class Fault:
    """What goes wrong at addresses that hold `path`, and how often; `after`: the work is done all the same."""

    path: str
    status: int
    times: int = 1
    after: bool = False


@dataclass
class Options:
    """`turn_away`: every how many calls one is answered 429; `twice`: webhooks come twice."""

    turn_away: int = 0
    twice: bool = False
    faults: list[Fault] = field(default_factory=list)
    calls: int = 0
    log: list[tuple[str, str, Any]] | None = None  # of tests: method, address, body


class Fake:
    """The app's handlers over one world."""

    def __init__(self, world: World, options: Options) -> None:
        self.world, self.options = world, options
        if not world.key:
            world.key = signing.make_key()
            world.save()

    def app(self) -> Starlette:
        own = [Route(API + path, self._api(work), methods=[method]) for method, path, work in self._calls()]
        control = [
            Route("/", self.page),
            Route("/.well-known/study/jwks.json", self.keys),
            Route("/fake/arrive", self.arrive, methods=["POST"]),
            Route("/fake/enter", self.enter, methods=["POST"]),
            Route("/fake/launch/{id}", self.launch),
            Route("/fake/submissions/{id}/{what}", self.happen, methods=["POST"]),
            Route("/fake/faults", self.break_next, methods=["POST"]),
            Route("/fake/state", self.state),
            Route("/submissions/complete", self.complete),
        ]
        return Starlette(routes=[*own, *control], lifespan=self._life, exception_handlers={NoError: _said_no})

    @contextlib.asynccontextmanager
    async def _life(self, app: Starlette) -> AsyncIterator[None]:
        courier = asyncio.create_task(Courier(self.world, self.options.twice).run())
        yield
        courier.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await courier

    def _api(self, work: Callable[[Request, Found], Response]) -> Handler:
        """An API call: token, trouble that was asked for, work, saved before it is answered."""

        async def answer(request: Request) -> Response:
            body = await _body(request)
            if self.options.log is not None:
                self.options.log.append((request.method, str(request.url.path), body))
            if not self._is_known(request):
                return _no(401, "Invalid token", "Unauthorized")
            self.options.calls += 1
            if self.options.turn_away and self.options.calls % self.options.turn_away == 0:
                return JSONResponse(
                    {"message": "Too many requests", "detail": "Slow down"}, 429, {"Retry-After": "0"}
                )
            fault = self._fault(request.url.path)
            if fault and not fault.after:
                return _no(fault.status, "As asked for", "Fault")
            done = work(request, body)
            self.world.save()
            return _no(fault.status, "As asked for", "Fault") if fault else done

        return answer

    def _is_known(self, request: Request) -> bool:
        given = request.headers.get("authorization", "").encode()
        return hmac.compare_digest(given, f"Token {self.world.token}".encode())

    def _fault(self, path: str) -> Fault | None:
        found = next((one for one in self.options.faults if one.path in path), None)
        if found is not None:
            found.times -= 1
            self.options.faults = [one for one in self.options.faults if one.times > 0]
        return found

    def _calls(self) -> list[tuple[str, str, Callable[[Request, Found], Response]]]:
        world = self.world
        return [
            ("GET", "/users/me/", lambda r, b: JSONResponse(self._me())),
            ("GET", "/workspaces/", lambda r, b: _page(r, [{"id": world.workspace, "title": "Rehearsal"}])),
            ("GET", "/workspaces/{id}/balance/", lambda r, b: JSONResponse(self._me())),
            ("POST", "/study-cost-calculator/", lambda r, b: JSONResponse(_cost(b))),
            ("GET", "/studies/", lambda r, b: _page(r, [world.shown_study(o) for o in world.studies.values()])),
            ("POST", "/studies/", lambda r, b: JSONResponse(world.shown_study(world.create(b)), 201)),
            ("GET", "/studies/{id}/", lambda r, b: JSONResponse(world.shown_study(world.study(_id(r))))),
            ("PATCH", "/studies/{id}/", lambda r, b: JSONResponse(world.shown_study(world.change(_id(r), b)))),
            ("POST", "/studies/{id}/transition/", self._move_study),
            ("GET", "/studies/{id}/submissions/", self._submissions),
            ("POST", "/submissions/bulk-approve/", self._bulk),
            ("POST", "/submissions/bonus-payments/", self._prepare),
            ("GET", "/submissions/{id}/", lambda r, b: JSONResponse(world.single(world.submission(_id(r))))),
            ("POST", "/submissions/{id}/transition/", self._move),
            ("POST", "/submissions/{id}/request-return/", self._ask_return),
            ("POST", "/bulk-bonus-payments/{id}/pay/", self._pay),
            ("GET", "/hooks/event-types/", lambda r, b: _page(r, [{"event_type": name} for name in EVENTS])),
            ("GET", "/hooks/secrets/", lambda r, b: _page(r, self._secrets())),
            ("POST", "/hooks/secrets/", self._new_secret),
            (
                "GET",
                "/hooks/subscriptions/",
                lambda r, b: _page(r, [_shown(o) for o in world.subscriptions.values()]),
            ),
            ("POST", "/hooks/subscriptions/", self._subscribe),
            ("POST", "/hooks/subscriptions/{id}/", self._confirm),
        ]

    # Prolific's API

    def _me(self) -> Found:
        return {"id": self.world.workspace, "currency_code": "USD", "available_balance": 10_000_000}

    def _move_study(self, request: Request, body: Found) -> Response:
        found = self.world.move_study(_id(request), str(body.get("action")))
        return JSONResponse(self.world.shown_study(found))

    def _submissions(self, request: Request, body: Found) -> Response:
        study = self.world.study(_id(request))["id"]
        mine = [one for one in self.world.submissions.values() if one["study_id"] == study]
        return _page(request, [self.world.listed(one) for one in mine])

    def _bulk(self, request: Request, body: Found) -> Response:
        self.world.approve([str(one) for one in body.get("submission_ids", [])])
        return JSONResponse({"message": "The request has been made successfully."})

    def _prepare(self, request: Request, body: Found) -> Response:
        return JSONResponse(self.world.prepare(str(body.get("study_id")), str(body.get("csv_bonuses", ""))), 201)

    def _pay(self, request: Request, body: Found) -> Response:
        self.world.pay(_id(request))
        return Response(status_code=202, media_type="application/json")

    def _move(self, request: Request, body: Found) -> Response:
        action = str(body.pop("action", ""))
        if action == "TIMEOUT":
            raise NoError(400, {"action": ["is not a valid choice"]})
        return JSONResponse(self.world.single(self.world.move(_id(request), action, **body)))

    def _ask_return(self, request: Request, body: Found) -> Response:
        found = self.world.ask_return(_id(request), body.get("request_return_reasons") or [])
        return JSONResponse(self.world.single(found))

    def _secrets(self) -> list[Found]:
        known = {"id": "secret", "value": self.world.secret, "workspace_id": self.world.workspace}
        return [known] if self.world.secret else []

    def _new_secret(self, request: Request, body: Found) -> Response:
        import secrets

        self.world.secret = secrets.token_urlsafe(32)
        return JSONResponse(self._secrets()[0], 201)

    def _subscribe(self, request: Request, body: Found) -> Response:
        made = self.world.subscribe(str(body.get("event_type")), str(body.get("target_url")))
        return JSONResponse(_shown(made), 201, {"X-Hook-Secret": made["proof"]})

    def _confirm(self, request: Request, body: Found) -> Response:
        return JSONResponse(_shown(self.world.confirm(_id(request), str(body.get("secret")))))

    async def keys(self, request: Request) -> Response:
        return JSONResponse({"keys": [signing.public(self.world.key)]})

    # for whoever rehearses

    async def arrive(self, request: Request) -> Response:
        """Somebody new: who they are, their submission, and the link that they open."""
        body = await _body(request)
        study = str(body.get("study") or self._newest())
        options = {"surplus": bool(body.get("surplus")), "reserve": bool(body.get("reserve"))}
        found = self.world.arrive(study, str(body.get("pid", "")), **options)
        self.world.save()
        told = {"pid": found["participant"], "study": study, "submission": found["id"]}
        return JSONResponse({**told, "url": signing.launch_url(self.world, found)}, 201)

    def _newest(self) -> str:
        """The study that was published last."""
        found = [one["id"] for one in self.world.studies.values() if one["status"] == "ACTIVE"]
        if not found:
            raise NoError(409, "No study is published")
        return str(found[-1])

    async def enter(self, request: Request) -> Response:
        """The page's button: somebody new, who opens the study at once."""
        found = self.world.arrive(self._newest(), reserve=True)
        self.world.save()
        return RedirectResponse(f"/fake/launch/{found['id']}", 303)

    async def launch(self, request: Request) -> Response:
        """What a person clicks: they are remembered, so that handing in finds them."""
        found = self.world.submission(_id(request))
        if found["status"] == "RESERVED":
            self.world.move(found["id"], "START")
            self.world.save()
        answer = RedirectResponse(signing.launch_url(self.world, found), 303)
        answer.set_cookie(COOKIE, found["id"], httponly=True, samesite="lax")
        return answer

    async def complete(self, request: Request) -> Response:
        """Handing in with a code; who it is, a cookie or `submission` says."""
        who = request.query_params.get("submission") or request.cookies.get(COOKIE, "")
        found = self.world.complete(who, request.query_params.get("cc", ""))
        self.world.save()
        if "text/html" in request.headers.get("accept", ""):
            return RedirectResponse("/", 303)
        return JSONResponse(self.world.single(found))

    async def happen(self, request: Request) -> Response:
        """return, timeout or screen-out, by hand; from the page or from a script."""
        action = request.path_params["what"].upper().replace("-", "_")
        if action not in MOVES or action == "START":
            raise HTTPException(404)
        found = self.world.move(_id(request), action, message="-" * 100, rejection_category="OTHER")
        self.world.save()
        if "text/html" in request.headers.get("accept", ""):
            return RedirectResponse("/", 303)
        return JSONResponse(self.world.single(found))

    async def break_next(self, request: Request) -> Response:
        body = await _body(request)
        status, times = int(body.get("status", 503)), int(body.get("times", 1))
        fault = Fault(str(body.get("path", "/")), status, times, bool(body.get("after")))
        self.options.faults.append(fault)
        return JSONResponse({"faults": len(self.options.faults)})

    async def state(self, request: Request) -> Response:
        world = self.world
        return JSONResponse(
            {"studies": world.studies, "submissions": world.submissions, "payments": world.payments}
        )

    async def page(self, request: Request) -> Response:
        """Everybody, for people who rehearse."""
        template = environment("stillme.study.rehearsal.fake").get_template("rehearsal.html")
        studies = [self.world.shown_study(one) for one in self.world.studies.values()]
        people = list(reversed(self.world.submissions.values()))
        return HTMLResponse(template.render(studies=studies, people=people, waiting=len(self.world.events)))


def _id(request: Request) -> str:
    return str(request.path_params["id"])


async def _body(request: Request) -> Found:
    raw = await request.body()
    if request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        return dict(parse_qsl(raw.decode("utf-8", "replace")))
    try:
        found = json.loads(raw) if raw else {}
    except ValueError:
        raise NoError(400, "The body is not JSON") from None
    if not isinstance(found, dict):
        raise NoError(400, "The body is not an object")
    return found


def _page(request: Request, results: list[Found]) -> Response:
    try:
        limit, offset = (
            int(request.query_params.get(name, given)) for name, given in (("limit", 20), ("offset", 0))
        )
    except ValueError:
        raise NoError(400, "limit and offset are numbers") from None
    return JSONResponse({"results": results[offset : offset + limit], "meta": {"count": len(results)}})


def _cost(body: Found) -> Found:
    rewards = body["reward"] * body["total_available_places"]
    fees = round(rewards * FEE)
    return {"total_cost": rewards + fees, "base_cost": rewards + fees, "rewards": rewards, "fees": fees, "vat": 0}


def _shown(subscription: Found) -> Found:
    return {name: value for name, value in subscription.items() if name != "proof"}


def _no(status: int, detail: Any, title: str) -> Response:
    shape = {"status": status, "title": title, "error_code": 140000 + status, "detail": detail}
    return JSONResponse({"error": {**shape, "additional_information": ""}}, status)


async def _said_no(request: Request, error: Exception) -> Response:
    assert isinstance(error, NoError)
    return _no(error.status, error.detail, error.title)
