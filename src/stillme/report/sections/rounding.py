"""Sensitivity to rounding: the headline rates under every way to round the mean of two judges."""

from __future__ import annotations

import polars as pl

from stillme.analysis.numbers import points
from stillme.report import sentences
from stillme.report.blocks import Section, prose
from stillme.report.context import Context
from stillme.report.lookup import Row, by_key, editor_names
from stillme.report.tables import Cell, Column, Table, absent, leads, rate, samples, table, tally, words
from stillme.stats.findings import Findings


def build(findings: Findings, context: Context) -> Section:
    text = (
        "Where two judges are one point apart their mean ends in .5, and the rounding decides which outcome it is."
    )
    said = sentences.rounding(findings, context)
    return Section(
        "rounding", "Sensitivity to rounding", "Rounding", (prose(text, said), _table(findings, context))
    )


def _table(findings: Findings, context: Context) -> Table:
    outcomes = context.tables.outcomes_by_editor
    modes = findings.rounding["rounding"].unique(maintain_order=True).to_list()
    cells = by_key(findings.rounding, "editor", "outcome", "rounding")
    rows = [
        {"editor": editor.id, "outcome": outcome, **{m: cells.get((editor.id, outcome, m)) for m in modes}}
        for editor in context.editors
        for outcome in outcomes
    ]
    columns = [
        words("Editor", "editor", editor_names(context)),
        words("Outcome", "outcome", {name: outcome.label for name, outcome in context.outcomes.items()}),
        *(_mode(mode, context) for mode in modes),
        Column("Moves by", lambda row: _move([row[mode] for mode in modes])),
        *(_tally(name, context.choices.rounding) for name in ("missing", "persons")),
    ]
    numbers = findings.rounding.filter(pl.col("outcome").is_in(list(outcomes)))
    return table("rounding-table", "Rates under each rounding", rows, columns, numbers, dense=not context.nominal)


def _mode(mode: str, context: Context) -> Column:
    note = "this report" if mode == context.choices.rounding else ""
    column = rate(mode.replace("_", " ").capitalize(), lambda row: row[mode], context.nominal, note)
    return leads(column, lambda row: samples(editor=row["editor"], outcome=row["outcome"], rounding=mode))


def _tally(name: str, mode: str) -> Column:
    """The same under every rounding."""
    read = tally(name.capitalize(), name).read
    return Column(name.capitalize(), lambda row: read(row.get(mode) or {}))


def _move(found: list[Row | None]) -> Cell:
    known = [row["rate"] for row in found if row is not None and row["rate"] is not None]
    if not known:
        return absent("no judged edit")
    move = max(known) - min(known)
    return Cell(f"{points(move)} points", move)
