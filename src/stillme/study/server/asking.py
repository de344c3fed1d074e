"""What a rater's browser sends: forms and JSON of their own session, or a sentence."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import Request

from stillme.study.server.desk import Study
from stillme.web.bodies import read_form, read_json

Model = TypeVar("Model", bound=BaseModel)
HEADER = "x-stillme-token"
STRANGE = "This form is not from your session, so nothing was changed. Please reload the page and try again."


async def own_form(request: Request) -> dict[str, list[str]]:
    """A form from a page of this session, without its token; any other changes nothing."""
    form = await read_form(request)
    _check(request, form.pop("token", [""])[-1])
    return form


async def own_json(request: Request, model: type[Model]) -> Model:
    """JSON from a page of this session, of a declared shape."""
    _check(request, request.headers.get(HEADER, ""))
    return await read_json(request, model)


def _check(request: Request, given: str) -> None:
    study: Study = request.app.state.study
    if not request.state.token or not study.keys.is_form_token(request.state.token, given):
        raise HTTPException(403, STRANGE)
