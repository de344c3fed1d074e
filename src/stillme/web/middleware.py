"""Middleware of the web tools: which hosts, origins and sessions get in, and the headers of every answer.

A link with a key opens a session, a signed cookie keeps it open. Both follow from one secret, so that links and
sessions outlive a restart. There are no passwords.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import secrets
import socket
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from itsdangerous import BadSignature, URLSafeTimedSerializer
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stillme.core.errors import disk
from stillme.web.bodies import read_form, refuse

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
OPEN = ("/enter", "/static/")  # paths that need no session
LOCAL = ("localhost", "127.0.0.1", "::1")
EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 (compared with, not bound to)
SECRET_FILE = "secret"  # noqa: S105 (a name, not a password)
MAX_SESSION_S = 30 * 24 * 3600  # then the link is needed again: shorter is safer, longer spares reviewers the link


# Hosts and origins


@dataclass(frozen=True)
class Hosts:
    """The host names of the tool; under any other, another site's page could read it (DNS rebinding)."""

    names: frozenset[str]
    any_address: bool = False  # listening everywhere: a bare address cannot be rebound

    @classmethod
    def of(cls, host: str, public: str = "") -> Hosts:
        """`host`: where the server listens; `public`: the address that a proxy gives it."""
        names = {*LOCAL, name_of(public)} if public else {*LOCAL}
        if host in EVERYWHERE:
            return cls(names=frozenset({*names, socket.gethostname().casefold()}), any_address=True)
        return cls(names=frozenset({*names, host.casefold()}))

    def allow(self, host: str) -> bool:
        name = name_of(f"//{host}")
        if name in self.names or not self.any_address:
            return name in self.names
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def name_of(address: str) -> str:
    """The host name in an address, without its port; empty where there is none."""
    try:
        return (urlsplit(address).hostname or "").casefold()
    except ValueError:
        return ""


def is_ours(request: Request) -> bool:
    """Whether a request that changes something comes from our own pages. Browsers always say; others must too."""
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    if site is not None:
        return site == "same-origin"
    try:
        return origin is not None and urlsplit(origin).netloc == request.headers.get("host")
    except ValueError:  # the origin is not an address
        return False


# Sessions


def secret(folder: Path) -> bytes:
    """The secret of a tool's folder, made when first needed; only its owner may read the file."""
    path = folder / SECRET_FILE
    with disk(path):
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            path.chmod(0o600)
        else:
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_hex(32).encode())
                file.flush()
                os.fsync(file.fileno())
        content = path.read_bytes()
    if len(content) < 32:  # a process was killed between making and filling it
        path.unlink()
        return secret(folder)
    return content


class Sessions:
    """The people who may enter, by name."""

    def __init__(self, secret: bytes, names: Iterable[str]) -> None:
        self._secret = secret
        self.names = tuple(names)
        self._signer = URLSafeTimedSerializer(secret, salt="session")
        # Cookies are shared between ports of a host: two tools must not overwrite each other's.
        self.cookie_name = f"stillme-{self._digest('cookie', '')[:8]}"

    def _digest(self, purpose: str, of: str) -> str:
        raw = hmac.new(self._secret, f"{purpose}\0{of}".encode(), hashlib.sha256).digest()
        return urlsafe_b64encode(raw[:24]).decode()

    def key(self, name: str) -> str:
        """The key in the link of this person."""
        return self._digest("key", name)

    def holder(self, key: str) -> str | None:
        """The person with this key. Every name is compared, in constant time."""
        names = [name for name in self.names if hmac.compare_digest(self.key(name).encode(), key.encode())]
        return names[0] if names else None

    def cookie(self, name: str) -> str:
        return self._signer.dumps(name)

    def read(self, cookie: str) -> str | None:
        """The name in a cookie, if the cookie is ours and recent, and the person may still enter."""
        try:
            name = self._signer.loads(cookie, max_age=MAX_SESSION_S)
        except BadSignature:
            return None
        return name if name in self.names else None

    def token(self, name: str) -> str:
        """The token that a form of this session carries."""
        return self._digest("form", name)

    def is_token(self, name: str, token: str) -> bool:
        return hmac.compare_digest(self.token(name).encode(), token.encode())


async def read_own_form(request: Request, sessions: Sessions) -> dict[str, list[str]]:
    """A form from a page of this session, without its token; any other is refused."""
    form = await read_form(request)
    if not sessions.is_token(request.state.who, form.pop("token", [""])[-1]):
        raise HTTPException(403, "This form is not from your session, so nothing was changed. Reload the page.")
    return form


# Access and headers


class AccessMiddleware:
    """Lets requests of a known host, origin and session through, and puts the security headers on every answer.

    The name of the session is in `request.state.who`.
    """

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
        refusal = self._refusal(request)
        app = self._app if refusal is None else refuse(request, *refusal)
        await app(scope, receive, _with_headers(send))

    def _refusal(self, request: Request) -> tuple[int, str] | None:
        """Status and sentence of a refusal; None for a request that may pass."""
        if not self._hosts.allow(request.headers.get("host", "")):
            return 421, "This tool does not answer under that host name. Use the link that it printed."
        if request.method not in SAFE and not is_ours(request):
            return 403, "This request did not come from a page of this tool, so nothing was changed."
        request.state.who = self._sessions.read(request.cookies.get(self._sessions.cookie_name, ""))
        if request.state.who is None and not request.url.path.startswith(self._open):
            return 401, "This page opens with the link that was printed when the tool was started."
        return None


class SecurityHeadersMiddleware:
    """Puts the security headers on every answer, for an app with its own access checks."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, _with_headers(send))


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            set_security_headers(MutableHeaders(scope=message))
        await send(message)

    return send_with_headers


def set_security_headers(headers: MutableHeaders) -> None:
    """Set the headers that every answer carries; what an answer says itself, about caching for one, stays."""
    for name, value in HEADERS.items():
        headers.setdefault(name, value)
