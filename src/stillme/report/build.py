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
    measures,
    missing,
    outcomes,
    planted,
    provenance,
    refusals,
    rounding,
    summary,
)

__all__ = ["Context", "Example", "Party", "build"]

Make = Callable[[Findings, Context], Section]
_SECTIONS: tuple[Make, ...] = (
    summary.build,
    refusals.build,
    outcomes.build,
    groups.build,
    contrasts.build,
    gallery.build,
    measures.build,
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
    without = {make for make, has in _needed(findings) if not has}
    sections = [make(findings, context) for make in _SECTIONS if make not in without]
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


def _needed(findings: Findings) -> tuple[tuple[Make, bool], ...]:
    """Sections that not every audit has, with whether this one has what they show."""
    return (measures.build, findings.measured is not None), (planted.build, findings.planted is not None)


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
