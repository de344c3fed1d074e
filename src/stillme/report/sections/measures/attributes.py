"""Apparent age and gender presentation, with the model's own measured error beside every figure. Optional."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from stillme.analysis.numbers import INTERVAL
from stillme.report.blocks import Block, Fold
from stillme.report.context import Context
from stillme.report.lookup import by_key
from stillme.report.sections.measures.columns import by_editor_and_group, editor_column, group_column, of
from stillme.report.sections.measures.told import asking, marked
from stillme.report.tables import Column, Table, change, mean, percentage, table, tally, value
from stillme.stats.measured import Measured, instruments

AGE, FEMININE = "age_shift", "feminine_shift"
_TITLES = {AGE: "Change in apparent age", FEMININE: "Change in gender presentation"}
_UNITS = {AGE: "years", FEMININE: "share read as feminine"}
_UNMEASURED = "the model’s error was not measured for this group"
_ERRS = (
    "The model errs, and not alike for every group: hold a shift against the error beside it, which was measured "
    "on labelled faces."
)


def folds(measured: Measured, context: Context) -> Iterator[Block]:
    if measured.attributes is None:
        return
    for figure, title in _TITLES.items():
        found = measured.attributes.filter(figure=figure)
        for dimension in context.protocol.groups.dimensions if found.height else ():
            made = _table(found, measured.errors, context, figure, dimension)
            yield Fold(f"{title} by perceived {dimension}", "with the model’s own error", (made,))


def _table(
    found: pl.DataFrame, errors: pl.DataFrame | None, context: Context, figure: str, dimension: str
) -> Table:
    frame = of(found, dimension)
    known = {} if errors is None else by_key(of(errors, dimension), "group")
    rows = [{**known.get((row["group"],), {}), **row} for row in by_editor_and_group(frame, context, dimension)]
    note = f"{_UNITS[figure]}: mean, {INTERVAL}, persons, edits"
    return table(
        f"{figure}-by-{dimension}".replace("_", "-"),
        marked(f"{_TITLES[figure]} by perceived {dimension}"),
        rows,
        [
            editor_column(context),
            group_column(context, dimension),
            mean("Shift", lambda row: row, note=note),
            *_errors(figure),
        ],
        frame if errors is None else frame.join(of(errors, dimension), on=["dimension", "group"], how="left"),
        notes=(_ERRS, *(asking(instruments(context.protocol).age.axis, context) if figure == AGE else ())),
        dense=True,
    )


def _errors(figure: str) -> list[Column]:
    """The model's error on labelled faces: what a shift of this size has to be held against."""
    tested = tally("Faces tested", "faces", _UNMEASURED)
    if figure == AGE:
        size = value("Model’s error", "age_mae", _UNMEASURED, digits=1, note="mean distance, years")
        return [
            tested,
            size,
            change("Model’s bias", "age_bias", _UNMEASURED, digits=1, note="read − labelled, years"),
        ]
    return [tested, percentage("Model’s error", "gender_error", _UNMEASURED)]
