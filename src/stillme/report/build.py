"""Builds report.html: sections in their order, one page template, everything inline.

Pure: the same findings and context give the same bytes. No clock, no network, no file besides the templates.
To add a section: a file in sections/ with `build`, and its place under a heading of the contents, in `sections`.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import stillme
from stillme.report import sentences
from stillme.report.blocks import Section
from stillme.report.context import Context, Example, Party
from stillme.report.illustrated import illustrate
from stillme.report.lookup import Tables
from stillme.report.sections import (
    alike,
    axes,
    bounds,
    components,
    contrasts,
    definitions,
    design,
    disparity,
    distributions,
    gallery,
    groups,
    judges,
    left_out,
    measures,
    methods,
    missing,
    outcomes,
    people,
    planted,
    prompts,
    provenance,
    published,
    refusals,
    rounding,
    sensitivity,
    summary,
)
from stillme.stats.findings import Findings

__all__ = ["Context", "Example", "Further", "Party", "build", "render", "sections"]

_STYLES = ("report.css", "plots.css")
Make = Callable[[Findings, Context], Section]
_BOUNDED = ("missing_by_group", "bounds", "bounds_of_contrasts", "outcomes_by_editor")
_FOUND: tuple[Make, ...] = (refusals.build, outcomes.build, groups.build)
_SEEN: tuple[Make, ...] = (gallery.build,)
_READ: tuple[Make, ...] = (measures.build, planted.build)
_JUDGED: tuple[Make, ...] = (judges.build,)
# Headings of the contents
FINDINGS, EXPERIMENTS, PICTURES, JUDGING = "Findings", "Experiments", "Pictures", "Scoring"
SURE, APPENDIX = "Certainty", "Appendix"


@dataclass(frozen=True)
class Analysed:
    """A section that is made of analysis tables. `needs`: their ids; {by} and {against} are dimensions."""

    title: str
    needs: tuple[str, ...]
    make: Callable[[Tables, Context], Section]

    def is_there(self, tables: Tables, context: Context) -> bool:
        names = {"by": context.main.by, "against": context.contrasted[0]}
        return all(need.format(**names) in tables for need in self.needs)


_APART = (
    Analysed("how far groups lie apart", ("disparity_by_{by}", "outcomes_by_editor"), disparity.build),
    Analysed("scores over their scales", ("distributions_by_{by}",), distributions.build),
    Analysed("prompts by groups", ("shrunken_by_{against}",), prompts.build),
)
_PEOPLE = (Analysed("what people said", ("reliability",), people.build),)
_SURE = (
    Analysed("what missing scores could change", _BOUNDED, bounds.build),
    Analysed("other thresholds and denominators", ("thresholds", "outcomes_by_editor"), sensitivity.build),
    Analysed("may rates be called alike", ("equivalence", "outcomes_by_editor"), alike.build),
    Analysed("where scores differ", ("components", "model_fits"), components.build),
)


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
    tables: Tables | None = None,
) -> list[Section]:
    """Every section of the report in its order. `findings`: None where no experiment of the audit has main tables.

    `tables`: the analysis tables, id -> frame; None or without some where they were not computed.
    """
    further, tables = further or Further(), tables or {}
    if findings is not None:
        _check_editors(findings, context)
    parts = {
        "": [summary.build(findings, context, further.said, tables), design.build(context)],
        FINDINGS: _found(findings, context, tables),
        EXPERIMENTS: further.experiments,
        PICTURES: _made(_SEEN, findings, context),
        JUDGING: _judging(findings, context, further, tables),
        SURE: _sure(findings, context, tables),
        APPENDIX: _appendix(findings, context, tables),
    }
    made = [replace(section, part=part) for part, some in parts.items() for section in some]
    return illustrate(made, findings, tables, context)


def _found(findings: Findings | None, context: Context, tables: Tables) -> Iterator[Section]:
    """Who was treated how: the claims first, then what may be looked at."""
    if findings is None:
        return
    yield from _made(_FOUND, findings, context)
    yield contrasts.build(findings, context, tables)
    yield from _analysed(_APART[:1], tables, context)
    yield from axes.build(findings, tables, context)
    yield from _analysed(_APART[1:], tables, context)


def _judging(findings: Findings | None, context: Context, further: Further, tables: Tables) -> Iterator[Section]:
    yield from _made(_READ, findings, context)
    yield from further.judging
    yield from _made(_JUDGED, findings, context)
    yield from _analysed(_PEOPLE, tables, context)


def _sure(findings: Findings | None, context: Context, tables: Tables) -> Iterator[Section]:
    if findings is not None:
        yield missing.build(findings, context, rated=_PEOPLE[0].is_there(tables, context))
    yield from _analysed(_SURE[:1], tables, context)
    yield from _made((rounding.build,), findings, context)
    yield from _analysed(_SURE[1:], tables, context)


def _appendix(findings: Findings | None, context: Context, tables: Tables) -> Iterator[Section]:
    if findings is not None:
        yield published.build(findings, tables, context)
        yield methods.build(findings, tables, context)
    yield definitions.build(findings, context)
    yield provenance.build(context)
    lost = [one.title for one in (*_APART, *_SURE) if not one.is_there(tables, context)]
    rated = _PEOPLE[0].is_there(tables, context)
    made = left_out.build(lost, bool(tables), rated) if findings is not None else None
    if made is not None:
        yield made


def _analysed(some: Iterable[Analysed], tables: Tables, context: Context) -> Iterator[Section]:
    return (one.make(tables, context) for one in some if one.is_there(tables, context))


def build(
    findings: Findings | None,
    context: Context,
    further: Further | None = None,
    tables: Tables | None = None,
) -> str:
    """The whole report as HTML text."""
    return render(sections(findings, context, further, tables), context)


def render(made: Sequence[Section], context: Context) -> str:
    """These sections as one page."""
    environment = _environment()
    style = Markup("\n").join(_inline(environment, name) for name in _STYLES)
    script = _inline(environment, "report.js")
    return environment.get_template("report.html").render(
        context=context,
        sections=made,
        contents=_contents(made),
        banner=sentences.simulated(context),
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        version=stillme.__version__,
    )


def _contents(made: Sequence[Section]) -> list[tuple[str, list[Section]]]:
    """Headings with their sections, in the page's order; a section under no heading stands by itself."""
    found: list[tuple[str, list[Section]]] = []
    for section in made:
        if not section.part or not found or found[-1][0] != section.part:
            found.append((section.part, []))
        found[-1][1].append(section)
    return found


def _made(makes: Iterable[Make], findings: Findings | None, context: Context) -> tuple[Section, ...]:
    if findings is None:
        return ()
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
    return Markup(source)  # noqa: S704 (a file of the package)


def _hash(text: str) -> str:
    """The page's security policy allows this one style and this one script, and nothing from anywhere else."""
    return "sha256-" + b64encode(hashlib.sha256(text.encode()).digest()).decode()
