"""The app that every web tool starts from: entering by link, static files, errors as sentences, access checks."""

from __future__ import annotations

import gzip
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from stillme.core.errors import StillmeError
from stillme.web.bodies import refuse
from stillme.web.middleware import MAX_SESSION_S, AccessMiddleware, Hosts, Sessions, set_security_headers

WEB = Path(__file__).parent / "static"
FOREVER = "private, max-age=31536000, immutable"  # for what is named by its content
COMPRESSED = (".css", ".js")
# Media types by the first bytes of an image
TYPES = {b"\xff\xd8": "image/jpeg", b"\x89P": "image/png", b"RI": "image/webp", b"GI": "image/gif"}


def make_tool_app(
    routes: Sequence[BaseRoute], sessions: Sessions, hosts: Hosts, static: Mapping[str, Path] | None = None
) -> Starlette:
    """Build the app of a tool. `static`: name -> folder, served under /static/name/ without a session."""
    folders = {"web": WEB, **(static or {})}
    mounts = [Mount(f"/static/{name}", Files(directory=folder)) for name, folder in folders.items()]
    app = Starlette(
        routes=[Route("/enter", _enter), *routes, *mounts],
        middleware=[Middleware(AccessMiddleware, sessions=sessions, hosts=hosts)],
        exception_handlers={HTTPException: _refuse_http, StillmeError: _refuse_error, Exception: _refuse_crash},
    )
    app.state.sessions = sessions
    return app


class Files(StaticFiles):
    """Static files; scripts and styles are compressed for clients that accept it."""

    def file_response(
        self, full_path: Any, stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        takes_gzip = "gzip" in Headers(scope=scope).get("accept-encoding", "")
        if response.status_code == 200 and takes_gzip and str(full_path).endswith(COMPRESSED):
            headers = {name: value for name, value in response.headers.items() if name != "content-length"}
            # A weak tag: the bytes differ, the content does not.
            headers |= {"content-encoding": "gzip", "etag": f"W/{response.headers['etag']}"}
            response = Response(_gzipped(Path(full_path), stat_result.st_mtime_ns), headers=headers)
        response.headers["Cache-Control"] = "no-cache"
        response.headers["Vary"] = "Accept-Encoding"
        return response


@lru_cache(maxsize=64)
def _gzipped(path: Path, changed: int) -> bytes:
    """`changed`: when, so that a changed file is compressed again."""
    return gzip.compress(path.read_bytes(), mtime=0)


async def _enter(request: Request) -> Response:
    """Exchange the key in the address for a cookie, so that no history and no other site has it."""
    sessions: Sessions = request.app.state.sessions
    name = sessions.holder(request.query_params.get("key", ""))
    if name is None:
        raise HTTPException(401, "This link is not valid. Use the one that was printed when the tool was started.")
    response = RedirectResponse("/", 303)
    response.set_cookie(
        sessions.cookie_name,
        sessions.cookie(name),
        max_age=MAX_SESSION_S,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return response


async def _refuse_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    hides = error.status_code in (404, 405)  # the same sentence for what is not there and for what is another's
    sentence = "There is no such page, or it is not yours." if hides else error.detail
    return refuse(request, error.status_code, sentence)


async def _refuse_error(request: Request, error: Exception) -> Response:
    """What the machine lacks (a full disk) is not a bug: the sentence says what to do."""
    return refuse(request, 503, str(error))


async def _refuse_crash(request: Request, error: Exception) -> Response:
    """Answered outside the middleware, so it sets the headers itself."""
    sentence = "Something went wrong inside the tool. What was acknowledged is saved; the terminal says more."
    response = refuse(request, 500, sentence)
    set_security_headers(MutableHeaders(raw=response.raw_headers))
    return response
