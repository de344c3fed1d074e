"""The study's door: which hosts and origins get in, who is asking, how often; and the headers on every answer.

Participants have sessions in the database; coordinators have others, which the pages under /admin look after.
"""

from __future__ import annotations

from sqlalchemy.exc import DBAPIError
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stillme.study.db import people
from stillme.study.server.desk import Study
from stillme.study.server.limits import Buckets
from stillme.web.bodies import refuse
from stillme.web.middleware import SAFE, Hosts, is_ours, set_security_headers

OPEN = ("/static/", "/healthz")  # to anybody, without a look at who is asking
HOOKS = "/webhooks/"  # signed, and from no browser
ADMIN = "/admin"
ENTRANCE = ("/p/start", "/welcome")
NOBODY = (
    "Please open the study with your link from Prolific. If you were here before, the same link brings you back."
)
OFTEN = "That were too many requests in a short time. Please wait a moment and try again."
NOT_SAVED = "The study's database did not answer, so this was not saved. Please try again in a moment."
YEAR = 365 * 24 * 3600


def cookie_name(study: Study) -> str:
    """Behind TLS a cookie that no other host can set; on a plain loopback address browsers would refuse it."""
    return "__Host-stillme-study" if study.serving.is_encrypted else "stillme-study"


def dressed(study: Study, headers: MutableHeaders) -> None:
    """What every answer carries."""
    set_security_headers(headers)
    if study.serving.is_encrypted:
        headers.setdefault("Strict-Transport-Security", f"max-age={YEAR}; includeSubDomains")


class Door:
    """Refuses whom it has to, and notes who is asking in `request.state.person` and `.token`."""

    def __init__(self, app: ASGIApp, study: Study, hosts: Hosts) -> None:
        self._app, self._study, self._hosts = app, study, hosts
        self._cookie = cookie_name(study)
        self._arrivals = Buckets(rate=2, burst=400)
        self._requests = Buckets(rate=50, burst=500)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                dressed(self._study, MutableHeaders(scope=message))
            await send(message)

        request = Request(scope)
        refused = await self._refused(request)
        await (refused or self._app)(scope, receive, send_with_headers)

    async def _refused(self, request: Request) -> Response | None:
        path: str = request.scope["path"]
        request.state.person, request.state.token = None, ""
        if not self._hosts.allow(request.headers.get("host", "")):
            return refuse(request, 421, "The study does not answer under that host name.")
        if path.startswith((*OPEN, HOOKS)):
            return None
        if request.method not in SAFE and not is_ours(request):
            return refuse(
                request, 403, "This request did not come from a page of the study, so nothing was changed."
            )
        if path.startswith(ADMIN):
            return None
        try:
            return await self._known(request, path)
        except DBAPIError:
            return refuse(request, 503, NOT_SAVED)

    async def _known(self, request: Request, path: str) -> Response | None:
        now = self._study.now()
        token = request.cookies.get(self._cookie, "")
        if token:
            person = await self._study.store.read(lambda c: people.who(c, self._study.keys, token, now))
            if person is not None:
                request.state.person, request.state.token = person, token
        address = request.client.host if request.client else ""
        known = request.state.token  # a session that was only invented counts for its address
        bucket, key = (self._arrivals, address) if path in ENTRANCE else (self._requests, known or address)
        if wait := bucket.take(key, now):
            return _later(request, wait)
        if request.state.person is None and path not in (*ENTRANCE, "/"):
            return refuse(request, 401, NOBODY)
        return None


def _later(request: Request, wait: float) -> Response:
    answer = refuse(request, 429, OFTEN)
    answer.headers["Retry-After"] = str(max(1, round(wait)))
    return answer
