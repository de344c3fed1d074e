"""The study as a web app: its pages, what their scripts ask, pictures by hash, refusals as sentences."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route

from stillme.core.errors import StillmeError
from stillme.study.bundle import IMAGES
from stillme.study.db.people import RefusedError
from stillme.study.prolific import hooks
from stillme.study.server import admin, items, pages
from stillme.study.server.desk import Study
from stillme.study.server.door import NOT_SAVED, Door, dressed
from stillme.study.server.flow import ElsewhereError
from stillme.study.server.showing import render
from stillme.web.app import FOREVER, TYPES, WEB, Files
from stillme.web.bodies import API, refuse
from stillme.web.middleware import Hosts

STATIC = Path(__file__).parent / "static"
Lifespan = Callable[[Starlette], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def _nothing(app: Starlette) -> AsyncIterator[None]:
    yield


def make_app(study: Study, hosts: Hosts | None = None, lifespan: Lifespan = _nothing) -> Starlette:
    """`lifespan`: what happens beside the pages while they are served."""
    app = Starlette(
        routes=[
            Route("/healthz", _health, methods=["GET"]),
            Route("/images/{sha256}", _picture, methods=["GET"]),
            *items.routes(study),  # first: nearly everything is asked of them
            *pages.routes(study),
            *admin.routes(study),
            *_hooks(study),
            Mount("/static/web", Files(directory=WEB)),
            Mount("/static/study", Files(directory=STATIC)),
        ],
        middleware=[Middleware(Door, study=study, hosts=hosts or Hosts.of("127.0.0.1", study.serving.public))],
        exception_handlers={
            HTTPException: _refused,
            ElsewhereError: _elsewhere,
            RefusedError: _kindly,
            DBAPIError: _unsaved,
            StillmeError: _failed,
            ClientDisconnect: _nobody,
            Exception: _crashed,
        },
        lifespan=lifespan,
    )
    app.state.study = study
    return app


def _hooks(study: Study) -> list[Route]:
    """Prolific's door, where it recruits. Its times are held against the machine's clock, as by the commands: the
    study's own may show another time."""
    door = study.launches
    if door is None or door.client is None:
        return []
    return hooks.routes(study.store, door.client, lambda: hooks.secret(study.data), door.clock)


async def _health(request: Request) -> Response:
    """Whether the database answers, for whoever watches over the service."""
    await request.app.state.study.store.read(lambda c: c.execute(text("SELECT 1")).scalar())
    return PlainTextResponse("ok\n")


def _picture(request: Request) -> Response:
    """Only pictures of the bundle, to people who are in the study; a name is never a path."""
    study: Study = request.app.state.study
    sha256: str = request.path_params["sha256"]
    if sha256 not in study.bundle.pictures:
        raise HTTPException(404)
    content = (study.folder / IMAGES / sha256).read_bytes()
    kind = TYPES.get(content[:2], "application/octet-stream")
    return Response(content, media_type=kind, headers={"Cache-Control": FOREVER})


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    said = error.detail if error.status_code not in (404, 405) else "There is no such page, or it is not yours."
    answer = refuse(request, error.status_code, said)
    for name, value in (error.headers or {}).items():
        answer.headers[name] = value
    return answer


async def _elsewhere(request: Request, error: Exception) -> Response:
    assert isinstance(error, ElsewhereError)
    if request.url.path.startswith(API):
        return JSONResponse({"refused": "You are at another step of the study.", "page": error.path}, 409)
    return RedirectResponse(error.path, 303)


async def _kindly(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)
    if request.url.path.startswith(API):
        return JSONResponse({"refused": error.sentence, "page": error.page, "wait": error.wait}, 409)
    if error.wait is None:
        return render(request, "closed.html", status=409, sentence=error.sentence, page=error.page)
    answer = render(request, "closed.html", status=503, sentence=error.sentence, page=error.page, is_passing=True)
    answer.headers["Retry-After"] = str(math.ceil(error.wait))
    return answer


async def _unsaved(request: Request, error: Exception) -> Response:
    """A database that went away is no bug: nothing was saved, and the sender is told so."""
    return refuse(request, 503, NOT_SAVED)


async def _failed(request: Request, error: Exception) -> Response:
    return refuse(request, 503, str(error))


async def _nobody(request: Request, error: Exception) -> Response:
    """A browser that left before its request was whole: nothing was done, and nobody reads this."""
    return Response(status_code=400)


async def _crashed(request: Request, error: Exception) -> Response:
    """Answered outside the door, so it puts the headers on itself."""
    answer = refuse(request, 500, "Something went wrong inside the study. What was called saved is saved.")
    dressed(request.app.state.study, MutableHeaders(raw=answer.raw_headers))
    return answer
