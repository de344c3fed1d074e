"""The app that every web tool starts from: entering by link, static files, refusals as sentences, the guard."""

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
from stillme.web.guard import Guard, Hosts, dress
from stillme.web.refusals import refuse
from stillme.web.sessions import LONGEST, Sessions

WEB = Path(__file__).parent / "static"
FOREVER = "private, max-age=31536000, immutable"  # for what is named by its content
COMPRESSED = (".css", ".js")
# What a picture is, by its first bytes
TYPES = {b"\xff\xd8": "image/jpeg", b"\x89P": "image/png", b"RI": "image/webp", b"GI": "image/gif"}


def make(
    routes: Sequence[BaseRoute], sessions: Sessions, hosts: Hosts, static: Mapping[str, Path] | None = None
) -> Starlette:
    """`static`: name -> folder, served under /static/name/ to anybody."""
    folders = {"web": WEB, **(static or {})}
    mounts = [Mount(f"/static/{name}", Files(directory=folder)) for name, folder in folders.items()]
    app = Starlette(
        routes=[Route("/enter", _enter), *routes, *mounts],
        middleware=[Middleware(Guard, sessions=sessions, hosts=hosts)],
        exception_handlers={HTTPException: _refused, StillmeError: _failed, Exception: _crashed},
    )
    app.state.sessions = sessions
    return app


class Files(StaticFiles):
    """Static files; scripts and styles are sent compressed to whoever takes them so."""

    def file_response(
        self, full_path: Any, stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        answer = super().file_response(full_path, stat_result, scope, status_code)
        if answer.status_code == 200 and _takes_gzip(scope) and str(full_path).endswith(COMPRESSED):
            answer = _compressed(answer, Path(full_path), stat_result)
        answer.headers["Cache-Control"] = "no-cache"
        answer.headers["Vary"] = "Accept-Encoding"
        return answer


def _takes_gzip(scope: Scope) -> bool:
    return "gzip" in Headers(scope=scope).get("accept-encoding", "")


def _compressed(answer: Response, path: Path, facts: os.stat_result) -> Response:
    """The same file, smaller; its tag says that the bytes differ and the content does not."""
    headers = {name: value for name, value in answer.headers.items() if name != "content-length"}
    headers |= {"content-encoding": "gzip", "etag": f"W/{answer.headers['etag']}"}
    return Response(_gzipped(path, facts.st_mtime_ns), headers=headers)


@lru_cache(maxsize=64)
def _gzipped(path: Path, changed: int) -> bytes:
    return gzip.compress(path.read_bytes(), mtime=0)


async def _enter(request: Request) -> Response:
    """Takes the key out of the address, so that it stays in no history and is sent to nobody."""
    sessions: Sessions = request.app.state.sessions
    name = sessions.holder(request.query_params.get("key", ""))
    if name is None:
        raise HTTPException(401, "This link is not valid. Use the one that was printed when the tool was started.")
    answer = RedirectResponse("/", 303)
    answer.set_cookie(
        sessions.cookie_name,
        sessions.cookie(name),
        max_age=LONGEST,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return answer


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    said = error.detail if error.status_code not in (404, 405) else "There is no such page, or it is not yours."
    return refuse(request, error.status_code, said)


async def _failed(request: Request, error: Exception) -> Response:
    """What the machine lacks (a full disk) is no bug: the sentence says what to do."""
    return refuse(request, 503, str(error))


async def _crashed(request: Request, error: Exception) -> Response:
    """Answered outside the guard, so it puts the headers on itself."""
    said = "Something went wrong inside the tool. What was acknowledged is saved; the terminal says more."
    answer = refuse(request, 500, said)
    dress(MutableHeaders(raw=answer.raw_headers))
    return answer
