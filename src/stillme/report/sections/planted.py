"""Planted truth beside estimate: does the audit find what was put in? Only in audits of planted editors."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from stillme.analysis.numbers import INTERVAL, count
from stillme.report import sentences
from stillme.report.blocks import Beside, Block, Fold, Section, prose
from stillme.report.context import Context
from stillme.report.figures import DRAWN, Figure, Line, Series, forest
from stillme.report.lookup import by_key, editor_names
from stillme.report.tables import Cell, Column, Row, Table, absent, percentage, rate, table, tally, words
from stillme.stats.findings import Findings
from stillme.stats.intervals import LEVEL


def build(findings: Findings, context: Context) -> Section:
    assert findings.planted is not None
    return Section(
        "planted",
        "Planted truth beside estimate",
        "Planted",
        (prose(_reading(), sentences.recovered(findings)), *_blocks(findings.planted, context)),
    )


def _reading() -> str:
    return (
        "The audited editors act on known rates. An instrument that works finds them: about "
        f"{LEVEL * 100:.0f} of 100 planted rates should lie inside their {INTERVAL}. "
        "Judges’ own errors move estimates away from what was planted."
    )


def _blocks(planted: pl.DataFrame, context: Context) -> Iterator[Block]:
    outcomes = [name for name in context.outcomes if name in set(planted["outcome"])]
    first = [name for name in outcomes if name in context.tables.contrasts]
    yield Beside(tuple(_figure(planted.filter(outcome=outcome), outcome, context) for outcome in first))
    yield Fold("Every planted rate", f"{count(planted.height)} rows", (_table(planted, context),))


def _figure(frame: pl.DataFrame, outcome: str, context: Context) -> Figure:
    by = context.main.by
    labels = context.protocol.groups.labels(by)
    cells = by_key(frame, by, "editor")
    return forest(
        f"planted-{outcome}".replace("_", "-"),
        f"{context.outcomes[outcome].label} by perceived {by}: planted rate and estimate",
        list(labels.values()),
        [Series(editor.id, editor.name) for editor in context.editors],
        [
            Line(label, place, row, row["planted"] if row else None)
            for group, label in labels.items()
            for place, editor in enumerate(context.editors)
            for row in [cells.get((group, editor.id))]
        ],
        frame.select("editor", by, "planted", *DRAWN),
    )


def _table(planted: pl.DataFrame, context: Context) -> Table:
    by = context.main.by
    found = by_key(planted, "editor", "outcome", by)
    keys = [
        (editor.id, outcome, group)
        for editor in context.editors
        for outcome in context.outcomes
        for group in context.protocol.groups.ids(by)
    ]
    rows = [found[key] for key in keys if key in found]
    return table("planted-table", "Planted rate beside estimate", rows, _columns(context), planted, dense=True)


def _columns(context: Context) -> list[Column]:
    by = context.main.by
    labels = {name: outcome.label for name, outcome in context.outcomes.items()}
    return [
        words("Editor", "editor", editor_names(context)),
        words("Outcome", "outcome", labels),
        words(f"Perceived {by}", by, context.protocol.groups.labels(by)),
        percentage("Planted", "planted", "no judged edit"),
        rate("Estimate", lambda row: row),
        Column("Recovered", _recovered, numeric=False),
        tally("Missing", "missing"),
        tally("Persons", "persons"),
    ]


def _recovered(row: Row) -> Cell:
    if row["recovered"] is None:
        return absent("no interval to compare with")
    return Cell("yes" if row["recovered"] else "no", "yes" if row["recovered"] else "no")
