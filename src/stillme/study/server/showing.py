"""Pages of the study: a template with what every page knows."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse

from stillme.study.server.desk import Study
from stillme.web.pages import environment

PACKAGE = "stillme.study.server"


def render(request: Request, name: str, status: int = 200, **content: Any) -> HTMLResponse:
    """`token` is what the page's forms have to carry; empty where nobody is logged in."""
    study: Study = request.app.state.study
    token = getattr(request.state, "token", "")
    page = environment(PACKAGE).get_template(name)
    known = {
        "bundle": study.bundle,
        "person": getattr(request.state, "person", None),
        "token": study.keys.form_token(token) if token else "",
        "public": study.serving.public,
    }
    return HTMLResponse(page.render(**known | content), status)
