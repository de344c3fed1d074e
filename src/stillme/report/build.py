"""Builds report.html: sections in their order, one page template, everything inline.

Pure: the same findings and context give the same bytes. No clock, no network, no file besides the templates.
To add a section: a file in sections/ with `build`, and its place in _FIRST, _THEN or _LAST.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import polars as pl
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

__all__ = ["Context", "Example", "Further", "Party", "build", "render", "sections"]

Make = Callable[[Findings, Context], Section]
_FIRST: tuple[Make, ...] = (refusals.build, outcomes.build, groups.build, contrasts.build)
_THEN: tuple[Make, ...] = (gallery.build, measures.build, planted.build)
_LAST: tuple[Make, ...] = (judges.build, missing.build, rounding.build)


@dataclass(frozen=True)
class Further:
    """What an audit has besides its main tables: experiments of their own, what is known of its judges, and what
    they say on the first screen."""

    experiments: tuple[Section, ...] = ()
    judging: tuple[Section, ...] = ()
    said: tuple[str, ...] = ()


def sections(
    findings: Findings | None,
    context: Context,
    further: Further | None = None,
    tables: Mapping[str, pl.DataFrame] | None = None,
) -> list[Section]:
    """Every section of the report in its order. `findings`: None where no experiment of the audit has main tables.

    `tables`: the analysis tables, id -> frame; None or without some where they were not computed.
    """
    further = further or Further()
    first = () if findings is None else _made(_FIRST, findings, context)
    then, last = ((), ()) if findings is None else (_made(part, findings, context) for part in (_THEN, _LAST))
    return [
        summary.build(findings, context, further.said),
        *first,
        *further.experiments,
        *then,
        *further.judging,
        *last,
        definitions.build(findings, context),
        provenance.build(context),
    ]


def build(
    findings: Findings | None,
    context: Context,
    further: Further | None = None,
    tables: Mapping[str, pl.DataFrame] | None = None,
) -> str:
    """The whole report as HTML text."""
    return render(sections(findings, context, further, tables), context)


def render(made: Sequence[Section], context: Context) -> str:
    """These sections as one page."""
    environment = _environment()
    style, script = _inline(environment, "report.css"), _inline(environment, "report.js")
    return environment.get_template("report.html").render(
        context=context,
        sections=made,
        banner=sentences.simulated(context),
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        version=stillme.__version__,
    )


def _made(makes: Iterable[Make], findings: Findings, context: Context) -> tuple[Section, ...]:
    _check_editors(findings, context)
    without = {make for make, has in _needed(findings) if not has}
    return tuple(make(findings, context) for make in makes if make not in without)


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
