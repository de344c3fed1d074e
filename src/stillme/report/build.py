"""Builds report.html: sections in their order, one page template, everything inline.

Pure: the same findings and context give the same bytes. No clock, no network, no file besides the templates.
To add a section: a file in sections/ with `build`, and its line in _SECTIONS.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Callable
from functools import lru_cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import stillme
from stillme.analysis.findings import Findings
from stillme.report import sentences
from stillme.report.blocks import Section
from stillme.report.context import Context, Example, Party
from stillme.report.sections import (
    contrasts,
    definitions,
    gallery,
    groups,
    judges,
    missing,
    outcomes,
    planted,
    provenance,
    rounding,
    summary,
)

__all__ = ["Context", "Example", "Party", "build"]

_SECTIONS: tuple[Callable[[Findings, Context], Section], ...] = (
    summary.build,
    outcomes.build,
    groups.build,
    contrasts.build,
    gallery.build,
    planted.build,
    judges.build,
    missing.build,
    rounding.build,
    definitions.build,
    provenance.build,
)


def build(findings: Findings, context: Context) -> str:
    """The whole report as HTML text."""
    _check_editors(findings, context)
    chosen = [make for make in _SECTIONS if make is not planted.build or findings.planted is not None]
    sections = [make(findings, context) for make in chosen]
    environment = _environment()
    style, script = _inline(environment, "report.css"), _inline(environment, "report.js")
    return environment.get_template("report.html").render(
        context=context,
        sections=sections,
        banner=sentences.simulated(context),
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        version=stillme.__version__,
    )


def _check_editors(findings: Findings, context: Context) -> None:
    named = {*findings.by_editor["editor"], *(example.editor for example in context.examples)}
    if unknown := named - {party.id for party in context.editors}:
        raise ValueError(f"the context does not describe these editors: {', '.join(sorted(unknown))}")


@lru_cache(maxsize=1)
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("stillme.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
    )


def _inline(environment: Environment, name: str) -> Markup:
    assert environment.loader is not None
    source, _, _ = environment.loader.get_source(environment, name)
    return Markup(source)


def _hash(text: str) -> str:
    """The page's security policy allows this one style and this one script, and nothing from anywhere else."""
    return "sha256-" + b64encode(hashlib.sha256(text.encode()).digest()).decode()
