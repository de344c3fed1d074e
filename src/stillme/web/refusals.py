"""Refusals: a status and a sentence, as JSON to scripts and as a page to people."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from stillme.web.pages import environment

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


def refuse(request: Request, status: int, sentence: str) -> Response:
    if request.url.path.startswith(API):
        return JSONResponse({"refused": sentence}, status)
    title = TITLES.get(status, "Not done")
    template = environment("stillme.web").get_template("refusal.html")
    return HTMLResponse(template.render(title=title, sentence=sentence, status=status), status)
