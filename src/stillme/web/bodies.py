"""What a browser sends: JSON of a declared shape or a form, never more than a limit. Else a sentence."""

from __future__ import annotations

from typing import Any, TypeVar
from urllib.parse import parse_qs

from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request

from stillme.core.yaml import dotted
from stillme.web.sessions import Sessions

LARGEST = 64 * 1024
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"

Model = TypeVar("Model", bound=BaseModel)


async def read_json(request: Request, model: type[Model]) -> Model:
    _expect(request, JSON)
    return check(model, await _body(request))


async def read_form(request: Request) -> dict[str, list[str]]:
    _expect(request, FORM)
    try:
        return parse_qs((await _body(request)).decode(), keep_blank_values=True, max_num_fields=200)
    except ValueError:
        raise HTTPException(422, "The form cannot be read.") from None


async def read_own_form(request: Request, sessions: Sessions) -> dict[str, list[str]]:
    """A form that was sent from a page of this session, without its token; any other changes nothing."""
    form = await read_form(request)
    if not sessions.is_token(request.state.who, form.pop("token", [""])[-1]):
        raise HTTPException(403, "This form is not from your session, so nothing was changed. Reload the page.")
    return form


def check(model: type[Model], found: bytes | dict[str, Any]) -> Model:
    """The data as a model, or a sentence that names every fault."""
    try:
        return model.model_validate_json(found) if isinstance(found, bytes) else model.model_validate(found)
    except ValidationError as error:
        raise HTTPException(422, "; ".join(_said(dict(item)) for item in error.errors()) + ".") from None


def _said(item: dict[str, Any]) -> str:
    where = dotted(item["loc"])
    what = {"missing": "is missing", "extra_forbidden": "is not a known field"}.get(item["type"])
    return f"{where}: {what or item['msg']}" if where else f"the request: {item['msg']}"


def _expect(request: Request, kind: str) -> None:
    given = request.headers.get("content-type", "").split(";")[0].strip().casefold()
    if given != kind:
        raise HTTPException(415, f"Only {kind} is read here.")


async def _body(request: Request) -> bytes:
    """The whole body; the declared length is not trusted."""
    found = bytearray()
    async for part in request.stream():
        found += part
        if len(found) > LARGEST:
            raise HTTPException(413, f"More than {LARGEST:,} bytes are not taken.")
    return bytes(found)
