"""Refusals by group: who is refused an edit, where on its way, and whether that falls evenly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import polars as pl

from stillme.analysis.numbers import INTERVAL, bracket, capital, known, of, p_value, plural, points
from stillme.core.records import Status
from stillme.report import refusals, sentences
from stillme.report.blocks import Block, Fold, Heading, Section, bullets, prose
from stillme.report.context import Context
from stillme.report.figures import SHARES, Figure, Line, Series, forest
from stillme.report.lookup import by_key, editor_names
from stillme.report.tables import (
    Cell,
    Column,
    Row,
    Table,
    absent,
    counted,
    leads,
    proportion,
    samples,
    table,
    tally,
    words,
)
from stillme.stats.findings import Findings
from stillme.stats.refusals import REFUSED, STAGES

_UNDECIDED = "no edit was answered or refused"
_UNCOMPARED = "too few persons, or nobody alike to compare with"
_SHARES = replace(
    SHARES,
    unit=f"% of decided edits refused, {INTERVAL}",
    counts=lambda row: of(row["refused"], row["decided"]),
    nothing=_UNDECIDED,
)
_DRAWN = ("refused", "decided", "rate", "low", "high")


def build(findings: Findings, context: Context) -> Section:
    return Section("refusals", "Refusals by group", "Refusals", tuple(_blocks(findings, context)))


def _blocks(findings: Findings, context: Context) -> Iterator[Block]:
    yield prose(refusals.overall(findings))
    if findings.refusals.refused:
        yield prose(_reading(findings))
        yield _claims(findings, context)
        yield _figure(findings, context)
        yield _table(findings, context, context.main.by)
    yield from _folds(findings, context)


def _reading(findings: Findings) -> str:
    return (
        "An edit is decided when the editor answered with a picture or refused; the rate is refused ÷ decided, "
        f"with the {INTERVAL} over persons. What failed is no refusal: it stands beside and is in no rate. Each "
        "group is set against everyone else by drawing its persons anew among persons alike in everything else; "
        f"{plural(findings.refusals.tested, 'comparisons')} were corrected together (Holm), and a difference "
        f"counts as shown when the corrected p is below {sentences.SHOWN_BELOW}."
    )


def _claims(findings: Findings, context: Context) -> Block:
    told = [claim.text for claim in refusals.claims(findings, context)]
    return bullets(told) if told else prose(f"{capital(sentences.NOT_SHOWN)}.")


def _folds(findings: Findings, context: Context) -> Iterator[Block]:
    found = findings.refusals
    others = [d for d in context.protocol.groups.dimensions if d != context.main.by or not found.refused]
    counts = "Other dimensions, kinds of prompts, and what editors said" if found.refused else "The counts"
    yield Heading("refusals-other", counts)
    for dimension in others:
        yield Fold(_title(dimension), _hint(findings, dimension), (_table(findings, context, dimension),))
    if found.by_category["category"].n_unique() > 1:
        kinds = plural(found.by_category["category"].n_unique(), "kinds")
        yield Fold("Refusals by kind of prompt", kinds, (_categories(findings, context),))
    if found.codes.height:
        yield Fold(
            "What editors said, verbatim", plural(found.codes.height, "codes"), (_codes(findings, context),)
        )


def _hint(findings: Findings, dimension: str) -> str:
    p = findings.refusals.by_group.filter(dimension=dimension)["p_holm"]
    shown = int((p < sentences.SHOWN_BELOW).sum())
    return f"shown for {plural(shown, 'groups')}" if shown else "no difference shown"


def _title(dimension: str) -> str:
    return f"Refusals by perceived {dimension}"


def _figure(findings: Findings, context: Context) -> Figure:
    by = context.main.by
    frame = findings.refusals.by_group.filter(dimension=by)
    cells = by_key(frame, "group", "editor")
    labels = context.protocol.groups.labels(by)
    lines = [
        Line(label, place, cells.get((group, editor.id)))
        for group, label in labels.items()
        for place, editor in enumerate(context.editors)
    ]
    series = [Series(editor.id, editor.name) for editor in context.editors]
    numbers = frame.select("editor", "group", *_DRAWN)
    return forest("figure-refusals", _title(by), list(labels.values()), series, lines, numbers, _SHARES)


def _table(findings: Findings, context: Context, dimension: str) -> Table:
    frame = findings.refusals.by_group.filter(dimension=dimension)
    names = editor_names(context)
    return by_group(f"refusals-by-{dimension}", _title(dimension), frame, dimension, ("editor", names), context)


def by_group(
    id: str, title: str, frame: pl.DataFrame, dimension: str, who: tuple[str, Mapping[str, str]], context: Context
) -> Table:
    """Rates of one dimension's groups. `who`: the column that says who refused, and its names in order."""
    column, names = who
    labels = context.protocol.groups.labels(dimension)
    found = by_key(frame, column, "group")
    counts = [_RATE, *_counts(frame)]
    if column == "editor":
        counts = [_behind(one, dimension, "group") for one in counts]
    columns = [
        words(capital(column), column, names),
        words(f"Perceived {dimension}", "group", labels),
        counts[0],
        Column("Against everyone else", _against, note=f"points, {INTERVAL}"),
        Column("p, corrected", _shown),
        *counts[1:],
        tally("Persons", "persons"),
    ]
    shown = [found[name, group] for name in names for group in labels if (name, group) in found]
    return table(id, title, shown, columns, frame, dense=True)


_RATE = counted("Refused", lambda row: row, "refused", "decided", why=_UNDECIDED)
_BRIEF = dict(zip(STAGES, ("way in", "way out", "own words"), strict=True))


def _counts(frame: pl.DataFrame) -> Iterator[Column]:
    """Asked = answered + refused + failed, and what was not made yet where there is any."""
    yield tally("Asked", "asked")
    yield tally("Answered", "answered")
    yield tally("Failed", "failed")
    if frame["pending"].sum():
        yield tally("Not made", "pending")
    for stage in STAGES:
        if frame[stage].sum():
            yield replace(tally(capital(_BRIEF[stage]), stage), note="refused")


def _behind(column: Column, name: str, key: str) -> Column:
    """The column with the edits behind its counts; `name`: the filter that a row's `key` belongs to."""
    ended = {"Refused": REFUSED, "Answered": "answered", "Failed": "failed", "Not made": "pending"}
    stages = {capital(word): stage for stage, word in _BRIEF.items()}
    label = column.label
    return leads(
        column,
        lambda row: samples(
            editor=row["editor"], ended=ended.get(label, ""), stage=stages.get(label, ""), **{name: row[key]}
        ),
    )


def _against(row: Row) -> Cell:
    if not known(row["difference"]):
        return absent(_UNCOMPARED)
    low, high = row["difference_low"], row["difference_high"]
    small = (bracket(low, high),) if low != high else ()
    return Cell(points(row["difference"]), row["difference"], small)


def _shown(row: Row) -> Cell:
    if not known(row["p_holm"]):
        return absent(_UNCOMPARED)
    shown = ("shown",) if row["p_holm"] < sentences.SHOWN_BELOW else ()
    return Cell(p_value(row["p_holm"]), row["p_holm"], shown)


def _categories(findings: Findings, context: Context) -> Table:
    """Everyone else against the reference group, within each kind of prompt."""
    frame = findings.refusals.by_category
    _, reference = context.contrasted
    found = by_key(frame, "editor", "category")
    kinds = {kind: capital(refusals.named(kind)) for kind in frame["category"].unique(maintain_order=True)}
    keys = [(editor.id, kind) for editor in context.editors for kind in kinds]
    columns = [
        words("Editor", "editor", editor_names(context)),
        words("Kind of prompt", "category", kinds),
        _behind(_RATE, "category", "category"),
        _side(f"Other than {reference}", "others"),
        _side(reference, "reference"),
        Column("Difference", _against, note=f"points, {INTERVAL}"),
        Column("p, corrected", _shown),
        *(_behind(one, "category", "category") for one in _counts(frame)),
    ]
    shown = [found[key] for key in keys if key in found]
    return table("refusals-by-category", "Refusals by kind of prompt", shown, columns, frame, dense=True)


def _side(label: str, side: str) -> Column:
    return proportion(label, f"{side}_rate", f"{side}_persons", _UNDECIDED, "persons")


def _codes(findings: Findings, context: Context) -> Table:
    frame = findings.refusals.codes
    order = {editor.id: place for place, editor in enumerate(context.editors)}
    columns = [
        words("Editor", "editor", editor_names(context)),
        Column("Counts as", _ended, numeric=False),
        Column("Code", _code, numeric=False),
        tally("Edits", "edits"),
    ]
    shown = sorted(frame.to_dicts(), key=lambda row: order[row["editor"]])
    notes = ("Codes are the editors’ own words; what each counts as is stillme’s reading of them.",)
    return table("refusal-codes", "What editors said, verbatim", shown, columns, frame, notes=notes, dense=True)


def _ended(row: Row) -> Cell:
    stage = row["stage"]
    text = f"refused {refusals.WAYS[stage]}" if stage else f"failed: {Status(row['status']).label}"
    return Cell(text, text)


def _code(row: Row) -> Cell:
    return Cell(row["code"], row["code"]) if row["code"] else absent("it gave no code")
