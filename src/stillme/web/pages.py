"""Pages: templates of a tool over the layout that all tools share. Everything is escaped. Needs no Starlette."""

from __future__ import annotations

import hashlib
from functools import lru_cache, partial
from importlib import resources

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined


@lru_cache(maxsize=8)
def environment(package: str) -> Environment:
    """The templates of a package, with those of stillme.web behind them."""
    loaders = [PackageLoader(name) for name in dict.fromkeys((package, "stillme.web"))]
    pages = Environment(
        loader=ChoiceLoader(loaders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    pages.globals["static"] = partial(static, package)
    return pages


@lru_cache(maxsize=32)
def static(package: str, tool: str, name: str) -> str:
    """The address of a static file of the tool's package, or of what all tools share (`web`). It changes with the
    content, so that no browser shows an old file."""
    folder = resources.files("stillme.web" if tool == "web" else package).joinpath("static")
    content = folder.joinpath(name).read_bytes()
    return f"/static/{tool}/{name}?v={hashlib.sha256(content).hexdigest()[:12]}"
