"""Identity: how alike source and edit are, centred on what re-encoding alone leaves. Never thresholded."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from stillme.analysis.numbers import INTERVAL, MINUS, SPACE, decimal, known, plural, signed, span
from stillme.analysis.numbers import of as ratio
from stillme.report.blocks import Block, Fold
from stillme.report.context import Context, Party
from stillme.report.lookup import by_key
from stillme.report.sections.measures.columns import Pick, editors, group_column, group_rows, of
from stillme.report.sections.measures.told import marked
from stillme.report.tables import FEW_PERSONS, NOTHING_READ, Cell, Column, Row, Table, absent, table
from stillme.stats.measured import Measured

DIGITS = 3
_NOTE = (
    "Centred similarity: the mean cosine of source and edit over persons, minus the group’s mean after "
    f"re-encoding alone; its {INTERVAL}, both means, persons, edits read/made. Below zero: less alike than "
    "re-encoding leaves a face. All prompts are in it, those that ask for ageing too. No threshold says who is "
    "still the same person: what a similarity means differs between groups."
)


def blocks(measured: Measured, context: Context) -> Iterator[Block]:
    if measured.identity is not None:
        yield _table(measured.identity, context, context.main.by)


def folds(measured: Measured, context: Context) -> Iterator[Block]:
    if measured.identity is None:
        return
    for dimension in context.protocol.groups.dimensions:
        if dimension != context.main.by:
            made = _table(measured.identity, context, dimension)
            yield Fold(_title(dimension), "centred similarity", (made,))


def _title(dimension: str) -> str:
    return f"Likeness of source and edit by perceived {dimension}"


def _table(identity: pl.DataFrame, context: Context, dimension: str) -> Table:
    frame = of(identity, dimension)
    columns = [group_column(context, dimension), *editors(context, by_key(frame, "group", "editor"), _column)]
    return table(
        f"identity-by-{dimension}",
        marked(_title(dimension)),
        group_rows(context, dimension),
        columns,
        frame,
        notes=(_NOTE,),
    )


def _column(party: Party, note: str, pick: Pick) -> Column:
    def read(row: Row) -> Cell:
        found = pick(row)
        return absent(NOTHING_READ) if found is None else _cell(found)

    return Column(party.label, read, note=note)


def _cell(row: Row) -> Cell:
    if not known(row["centred"]):
        return absent(NOTHING_READ)
    low, high = row["centred_low"], row["centred_high"]
    both = f"{decimal(row['mean'], DIGITS)}{SPACE}{MINUS}{SPACE}{decimal(row['reencoded'], DIGITS)}"
    spread = span(low, high, DIGITS) if known(low) else FEW_PERSONS
    counts = f"{plural(row['persons'], 'persons')}, {ratio(row['read'], row['asked'])}"
    return Cell(signed(row["centred"], DIGITS), row["centred"], (spread, both, counts))
