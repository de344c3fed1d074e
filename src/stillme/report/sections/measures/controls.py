"""Skin lightness under controls beside real prompts: what an editor does to skin when asked for nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import polars as pl

from stillme.analysis.numbers import INTERVAL, plural
from stillme.protocol.schema import Control
from stillme.report.blocks import Block, Fold
from stillme.report.context import Context
from stillme.report.lookup import by_key, editor_names
from stillme.report.sections.measures.columns import Cells, everybody, group_column, of
from stillme.report.sections.measures.told import marked
from stillme.report.tables import Cell, Column, Row, Table, absent, mean, mean_cell, table, words
from stillme.stats.measured import BY_STILLME, Measured, instruments

REAL = "Real prompts"
NO_EDITOR = "No editor"
_EACH = f"Mean ΔL* over persons, its {INTERVAL}, persons, edits read/made."
_WHY = "A control asks for no change: it shows what the editor, or the file format alone, does to skin anyway."
_NONE = "This audit has no controls: what an editor does when it is asked for nothing is not known."


def beside_real(shifts: pl.DataFrame, controls: pl.DataFrame, context: Context) -> Table:
    """One row a control, real prompts beneath; controls that stillme makes stand in a column of their own."""
    cells, real = by_key(everybody(controls), "control", "editor"), by_key(everybody(shifts), "editor")
    used = _used(controls, context)
    alone = [_alone(cells)] if any(control.by == BY_STILLME for control in used) else []
    foot = [Cell(REAL), *(absent("a real prompt needs an editor") for _ in alone)]
    foot += [_real(real.get((editor.id,))) for editor in context.editors]
    return table(
        "lightness-under-controls",
        marked("Skin lightness under controls beside real prompts"),
        [{"control": control.id, "by": control.by} for control in used],
        [_named(used), *alone, *_editors(context, cells)],
        pl.concat([everybody(controls), everybody(shifts)], how="diagonal"),
        foot=[foot],
        notes=(f"{_EACH} {_WHY if used else _NONE}",),
    )


def _used(controls: pl.DataFrame, context: Context) -> list[Control]:
    seen = set(controls["control"])
    return [control for control in instruments(context.protocol).controls if control.id in seen]


def _named(used: list[Control]) -> Column:
    return words("Control", "control", {control.id: control.label for control in used})


def _alone(cells: Cells) -> Column:
    """A control that stillme makes carries its own id in the place of an editor's."""

    def read(row: Row) -> Cell:
        found = cells.get((row["control"], row["control"]))
        return absent("this control needs an editor") if found is None else mean_cell(found)

    return Column(NO_EDITOR, read, note="the file alone")


def _editors(context: Context, cells: Cells) -> Iterator[Column]:
    for editor in context.editors:
        yield Column(editor.label, _reader(cells, editor.id), note="simulated" if editor.simulated else "")


def _reader(cells: Cells, editor: str) -> Callable[[Row], Cell]:
    def read(row: Row) -> Cell:
        if found := cells.get((row["control"], editor)):
            return mean_cell(found)
        return absent("made without an editor" if row["by"] == BY_STILLME else "this editor did not make it")

    return read


def _real(row: Row | None) -> Cell:
    return absent("no edit of this editor was measured") if row is None else mean_cell(row)


def folds(measured: Measured, context: Context) -> Iterator[Block]:
    if measured.controls is None or measured.controls.is_empty():
        return
    by, used = context.main.by, _used(measured.controls, context)
    frame = of(measured.controls, by)
    found = by_key(frame, "control", "editor", "group")
    makers = {**editor_names(context), **{control.id: NO_EDITOR for control in used}}
    groups = context.protocol.groups.ids(by)
    keys = [(control.id, maker, group) for control in used for maker in makers for group in groups]
    columns = [
        _named(used),
        words("Editor", "editor", makers),
        group_column(context, by),
        mean("ΔL*", lambda row: row, note=f"mean, {INTERVAL}, persons, edits read/made"),
    ]
    rows = [found[key] for key in keys if key in found]
    title = f"Skin lightness under controls by perceived {by}"
    made = table("controls-by-group", marked(title), rows, columns, frame, dense=True)
    yield Fold(title, plural(len(rows), "rows"), (made,))
