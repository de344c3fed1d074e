"""The door: which hosts, which origins and which people get in, and the headers that go out on everything."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stillme.web.refusals import refuse
from stillme.web.sessions import Sessions

POLICY = "; ".join(
    (
        "default-src 'none'",
        "img-src 'self'",
        "style-src 'self'",
        "script-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
SAFE = ("GET", "HEAD", "OPTIONS")
OPEN = ("/enter", "/static/")  # all that can be seen without a session
LOCAL = ("localhost", "127.0.0.1", "::1")
EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 (compared with, not bound to)


@dataclass(frozen=True)
class Hosts:
    """The names under which the tool may be asked; any other would be somebody else's page (DNS rebinding)."""

    names: frozenset[str]
    any_address: bool = False  # listening everywhere: a bare address cannot be rebound

    @classmethod
    def of(cls, host: str, public: str = "") -> Hosts:
        """`host`: where the server listens; `public`: the address that a proxy gives it."""
        more = {name_of(public)} if public else set()
        if host in EVERYWHERE:
            return cls(frozenset({*LOCAL, socket.gethostname().casefold(), *more}), any_address=True)
        return cls(frozenset({*LOCAL, host.casefold(), *more}))

    def allow(self, host: str) -> bool:
        name = name_of(f"//{host}")
        return name in self.names or (self.any_address and _is_address(name))


def name_of(address: str) -> str:
    """The host name in an address, without its port; empty where there is none."""
    try:
        return (urlsplit(address).hostname or "").casefold()
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_ours(request: Request) -> bool:
    """Whether a request that changes something comes from our own pages. Browsers always say; others must too."""
    fetched = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    if fetched is not None:
        return fetched == "same-origin"
    try:
        return origin is not None and urlsplit(origin).netloc == request.headers.get("host")
    except ValueError:  # an origin that is no address
        return False


class Guard:
    """Refuses whom it has to, notes who is asking in `request.state.who`, and puts the headers on every answer."""

    def __init__(self, app: ASGIApp, sessions: Sessions, hosts: Hosts, open_paths: Iterable[str] = OPEN) -> None:
        self._app = app
        self._sessions = sessions
        self._hosts = hosts
        self._open = tuple(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        refused = self._refused(request)
        if refused is None:
            await self._app(scope, receive, dressing(send))
        else:
            await refuse(request, *refused)(scope, receive, dressing(send))

    def _refused(self, request: Request) -> tuple[int, str] | None:
        if not self._hosts.allow(request.headers.get("host", "")):
            return 421, "This tool does not answer under that host name. Use the link that it printed."
        if request.method not in SAFE and not is_ours(request):
            return 403, "This request did not come from a page of this tool, so nothing was changed."
        request.state.who = self._sessions.read(request.cookies.get(self._sessions.cookie_name, ""))
        if request.state.who is None and not request.url.path.startswith(self._open):
            return 401, "This page opens with the link that was printed when the tool was started."
        return None


class Dressed:
    """The headers alone, for an app that has a door of its own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, dressing(send))


def dressing(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            dress(MutableHeaders(scope=message))
        await send(message)

    return send_with_headers


def dress(headers: MutableHeaders) -> None:
    """Every answer carries these; one that said something else about caching keeps it."""
    for name, value in HEADERS.items():
        headers.setdefault(name, value)
