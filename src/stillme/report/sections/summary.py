"""The first screen: what was audited, what was found, how sure, what is missing."""

from __future__ import annotations

from dataclasses import dataclass

from stillme.report import refusals, sentences
from stillme.report.blocks import Block, Section
from stillme.report.context import Context
from stillme.report.figures import colour, shape
from stillme.report.lookup import Tables
from stillme.report.sections import alike, disparity, people
from stillme.stats.findings import Findings

ROOM = 3  # with more editors than this, those without a shown difference share one sentence


@dataclass(frozen=True)
class Entry:
    """One editor's findings with the mark that it has in every figure."""

    found: sentences.Found
    mark: str
    colour: str


@dataclass(frozen=True)
class Summary(Block):
    kind = "summary"
    audited: tuple[str, ...]
    found: tuple[Entry, ...]
    quiet: str
    refused: tuple[str, ...]  # differences in refusals that were shown
    refusals: tuple[str, ...]
    how_sure: tuple[str, ...]
    missing: tuple[str, ...]
    further: tuple[str, ...] = ()  # what other experiments say


def build(
    findings: Findings | None, context: Context, further: tuple[str, ...] = (), tables: Tables | None = None
) -> Section:
    block = _brief(context, further) if findings is None else _whole(findings, context, further, tables or {})
    return Section("summary", "Summary", "Summary", (block,))


def _brief(context: Context, further: tuple[str, ...]) -> Summary:
    """Of an audit without main tables."""
    return Summary(sentences.audited(context), (), "", (), (), (), (), further)


def _whole(findings: Findings, context: Context, further: tuple[str, ...], tables: Tables) -> Summary:
    named = {(one.editor, one.outcome): disparity.named(one, context) for one in disparity.apart(tables, context)}
    found = sentences.found(findings, context, named, alike.shown(tables, context))
    quiet = tuple(one for one in found if one.is_quiet and len(found) > ROOM)
    return Summary(
        sentences.audited(context),
        tuple(Entry(one, shape(place), colour(place)) for place, one in enumerate(found) if one not in quiet),
        sentences.nothing_shown(quiet),
        *refusals.on_the_first_screen(findings, context),
        (*sentences.how_sure(findings, context), *people.briefly(tables, context)),
        sentences.missing(findings, context, rated="reliability" in tables),
        further,
    )
