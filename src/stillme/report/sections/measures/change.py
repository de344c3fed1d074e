"""Edits where nothing changed, with the rule that says so for each editor, and how large changes are."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from stillme.analysis.numbers import INTERVAL, count
from stillme.report.blocks import Block, Fold
from stillme.report.context import Context, Party
from stillme.report.lookup import by_key
from stillme.report.sections.measures.columns import (
    Pick,
    editor_column,
    editors,
    everybody,
    group_column,
    group_rows,
    of,
)
from stillme.report.sections.measures.told import marked
from stillme.report.tables import Cell, Column, Row, Table, absent, counted, percentage, table, value
from stillme.stats.measured import Measured

_UNKNOWN = "no edit could be compared"
_NO_RULE = "no threshold was given for this editor"
_TOO_LOUD = "cannot be told: when asked for nothing, this editor changes more than the rule may allow"


def blocks(measured: Measured, context: Context) -> Iterator[Block]:
    if measured.no_change is not None and measured.thresholds is not None:
        yield _table(everybody(measured.no_change), measured.thresholds, context)


def _table(frame: pl.DataFrame, thresholds: pl.DataFrame, context: Context) -> Table:
    rules = {row["editor"]: row for row in thresholds.to_dicts()}
    found = by_key(frame, "editor")
    rows = [
        {**_EMPTY, **rules.get(e.id, {}), "editor": e.id, "found": found.get((e.id,))} for e in context.editors
    ]
    columns = [
        editor_column(context),
        Column("Nothing changed", _unchanged, note=f"of edits compared, {INTERVAL}"),
        value("LPIPS below", "lpips", _NO_RULE, digits=3),
        percentage("Changed pixels below", "changed_share", _NO_RULE),
        Column("Thresholds from", _origin, numeric=False),
    ]
    return table(
        "no-change",
        marked("Edits where nothing changed"),
        rows,
        columns,
        frame.join(thresholds, on="editor", how="left", maintain_order="left"),
        notes=(
            "Nothing changed: perceptual distance (LPIPS) and the share of visibly changed pixels (ΔE > 5) are "
            "both below the editor’s thresholds, which its own trials without a request may raise.",
        ),
    )


_EMPTY = dict.fromkeys(("trials", "lpips", "changed_share", "calibrated", "usable"))


def _unchanged(row: Row) -> Cell:
    if row["usable"] is False:
        return absent(_TOO_LOUD)
    return counted("", lambda row: row["found"], "hits", "read", why=_UNKNOWN).read(row)


def _origin(row: Row) -> Cell:
    if row["calibrated"] is None:
        return absent(_NO_RULE)
    trials = f"{count(row['trials'] or 0)} trials without a request"
    if row["usable"] is False:
        return Cell("too much change of its own", "too much", (trials,))
    return Cell("the editor’s own" if row["calibrated"] else "the protocol", str(row["calibrated"]), (trials,))


def folds(measured: Measured, context: Context) -> Iterator[Block]:
    if measured.no_change is None:
        return
    for dimension in context.protocol.groups.dimensions:
        yield _by(measured.no_change, context, dimension)


def _by(no_change: pl.DataFrame, context: Context, dimension: str) -> Fold:
    frame = of(no_change, dimension)
    columns = [group_column(context, dimension), *editors(context, by_key(frame, "group", "editor"), _column)]
    title = f"Edits where nothing changed by perceived {dimension}"
    made = table(f"no-change-by-{dimension}", marked(title), group_rows(context, dimension), columns, frame)
    return Fold(title, f"{count(int(frame['hits'].sum()))} of {count(int(frame['read'].sum()))} edits", (made,))


def _column(party: Party, note: str, pick: Pick) -> Column:
    return counted(party.label, pick, "hits", "read", note, _UNKNOWN)
