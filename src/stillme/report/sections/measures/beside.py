"""The instrument beside the judges: how often they agree, and whether both see that nothing was changed."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from stillme.analysis.numbers import lowered
from stillme.report.blocks import Beside, Block
from stillme.report.context import Context
from stillme.report.sections.measures.columns import by_editor, editor_column
from stillme.report.tables import Table, proportion, share, table, tally, value, words
from stillme.stats.beside import erased
from stillme.stats.measured import Measured, instruments

_NO_PAIR = "no edit was scored by both"
_ALL = "All editors"


def blocks(measured: Measured, context: Context) -> Iterator[Block]:
    tables = []
    if measured.beside.height:
        tables.append(_scores(measured.beside, context))
    if measured.crossed is not None and measured.crossed.height:
        tables.append(_crossed(measured.crossed, context))
    if tables:
        yield Beside(tuple(tables))


def _scores(frame: pl.DataFrame, context: Context) -> Table:
    axes = {id: axis.label for id, axis in context.protocol.axes.items()}
    found = {row["axis"]: row for row in frame.to_dicts()}
    columns = [
        words("Axis", "axis", axes),
        proportion("Same score", "exact", "pairs", _NO_PAIR, "edits"),
        proportion("Within one point", "within_one", "pairs", _NO_PAIR, "edits"),
        value("Mean difference", "difference", _NO_PAIR),
    ]
    return table(
        "instrument-beside-judges",
        "Instrument beside judges by axis",
        [found[axis] for axis in axes if axis in found],
        columns,
        frame,
        notes=_notes(context),
    )


def _notes(context: Context) -> tuple[str, ...]:
    said = "Over edits with a score of both. Difference: instrument minus judges, in points of the scale."
    if any(party.instrument and party.mixed for party in context.judges):
        return (said, "The audit mixes the instrument into the judges’ scores, so the two are not independent.")
    return (said,)


def _crossed(frame: pl.DataFrame, context: Context) -> Table:
    outcome = _erased(context)
    label = context.outcomes[outcome].label
    total = {**frame.filter(pl.col("editor").is_null()).row(0, named=True), "editor": _ALL}
    columns = [
        editor_column(context),
        tally("Edits", "pairs"),
        share(label, "both", "unchanged", note="where nothing changed"),
        share("Nothing changed", "both", "erased", note=f"where {lowered(label)}"),
    ]
    return table(
        "no-change-beside-judges",
        f"Nothing changed (instrument) beside {lowered(label)} (judges)",
        by_editor(frame, context),
        columns,
        frame,
        foot=[[column.read(total) for column in columns]],
        notes=(f"{label}: {context.rule(outcome)}. Edits that both the instrument and the judges could assess.",),
    )


def _erased(context: Context) -> str:
    """The id of the outcome that judges' scores are counted for in `stats.beside.crossed`."""
    chosen = erased(context.protocol, instruments(context.protocol).no_change.axis)
    return next(id for id, outcome in context.outcomes.items() if outcome is chosen)
