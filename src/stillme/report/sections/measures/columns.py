"""Rows and columns that the tables of measurements share: one row a group, one column an editor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import polars as pl

from stillme.report.context import Context, Party
from stillme.report.lookup import by_key, editor_names
from stillme.report.tables import Column, Row, words

Cells = Mapping[tuple[str, ...], Row]
Pick = Callable[[Row], Row | None]


def everybody(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows that are about all groups together."""
    return frame.filter(pl.col("dimension").is_null())


def of(frame: pl.DataFrame, dimension: str) -> pl.DataFrame:
    return frame.filter(pl.col("dimension") == dimension)


def pick_from(cells: Cells, *keys: str) -> Pick:
    return lambda row: cells.get(tuple(row[key] for key in keys))


def group_column(context: Context, dimension: str) -> Column:
    return words(f"Perceived {dimension}", "group", context.protocol.groups.labels(dimension))


def group_rows(context: Context, dimension: str) -> list[Row]:
    return [{"group": group} for group in context.protocol.groups.ids(dimension)]


def editor_column(context: Context) -> Column:
    return words("Editor", "editor", editor_names(context))


def editors(context: Context, cells: Cells, make: Callable[[Party, str, Pick], Column]) -> Iterator[Column]:
    """A column for each editor; `cells` is keyed by group and editor."""
    for editor in context.editors:
        yield make(editor, "simulated" if editor.simulated else "", _of_editor(cells, editor.id))


def _of_editor(cells: Cells, editor: str) -> Pick:
    return lambda row: cells.get((row["group"], editor))


def by_editor(frame: pl.DataFrame, context: Context) -> list[Row]:
    """One row an editor, in their order."""
    found = by_key(frame, "editor")
    return [found[editor.id,] for editor in context.editors if (editor.id,) in found]


def by_editor_and_group(frame: pl.DataFrame, context: Context, dimension: str) -> list[Row]:
    """One row an editor and group, both in their order."""
    found = by_key(frame, "editor", "group")
    keys = [(editor.id, group) for editor in context.editors for group in context.protocol.groups.ids(dimension)]
    return [found[key] for key in keys if key in found]
