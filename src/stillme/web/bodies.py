"""What browsers send, JSON of a declared shape or a form, up to a limit; and refusals, as JSON or as a page."""

from __future__ import annotations

from typing import Any, TypeVar
from urllib.parse import parse_qs

from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from stillme.core.yaml import dotted
from stillme.web.pages import environment

MAX_BODY_BYTES = 64 * 1024  # forms and actions are text; images are never uploaded here
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
API = "/api/"
TITLES = {
    401: "Please use your link",
    403: "Not allowed",
    404: "There is nothing here",
    405: "Not like this",
    409: "Not done",
    413: "Too large",
    415: "Not understood",
    421: "Not under this name",
    422: "Not understood",
    500: "A bug in stillme",
    503: "Not saved",
}

Model = TypeVar("Model", bound=BaseModel)


async def read_json(request: Request, model: type[Model]) -> Model:
    return check(model, await _body(request, JSON))


async def read_form(request: Request) -> dict[str, list[str]]:
    content = await _body(request, FORM)
    try:
        return parse_qs(content.decode(), keep_blank_values=True, max_num_fields=200)
    except ValueError:
        raise HTTPException(422, "The form cannot be read.") from None


def check(model: type[Model], content: bytes | dict[str, Any]) -> Model:
    """The content as a model, or a sentence that names every fault."""
    try:
        return model.model_validate_json(content) if isinstance(content, bytes) else model.model_validate(content)
    except ValidationError as error:
        faults = []
        for item in error.errors():
            field = dotted(item["loc"])
            problem = {"missing": "is missing", "extra_forbidden": "is not a known field"}.get(item["type"])
            faults.append(f"{field}: {problem or item['msg']}" if field else f"the request: {item['msg']}")
        raise HTTPException(422, "; ".join(faults) + ".") from None


async def _body(request: Request, content_type: str) -> bytes:
    """The whole body of this type; the declared length is not trusted."""
    if request.headers.get("content-type", "").split(";")[0].strip().casefold() != content_type:
        raise HTTPException(415, f"Only {content_type} is read here.")
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > MAX_BODY_BYTES:
            raise HTTPException(413, f"More than {MAX_BODY_BYTES:,} bytes are not taken.")
    return bytes(content)


def refuse(request: Request, status: int, sentence: str) -> Response:
    """A refusal: JSON to scripts, a page to people."""
    if request.url.path.startswith(API):
        return JSONResponse({"refused": sentence}, status)
    title = TITLES.get(status, "Not done")
    template = environment("stillme.web").get_template("refusal.html")
    return HTMLResponse(template.render(title=title, sentence=sentence, status=status), status)
