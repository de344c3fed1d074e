"""Description only: skin tone classes and sizes of change, as medians. Nothing is decided by them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from stillme.analysis.numbers import decimal, known, plural
from stillme.report.blocks import Block, Fold
from stillme.report.context import Context
from stillme.report.lookup import by_key, editor_names
from stillme.report.sections.measures.controls import NO_EDITOR, REAL
from stillme.report.sections.measures.told import marked
from stillme.report.tables import NOTHING_READ, Cell, Column, Row, absent, table, words
from stillme.stats.measured import Measured, instruments

Figures = Mapping[str, tuple[str, int]]  # figure -> its label and decimals
_TONE: Figures = {
    "ita_before": ("ITA before, degrees", 0),
    "ita_after": ("ITA after, degrees", 0),
    "monk_before": ("Monk class before", 1),
    "monk_after": ("Monk class after", 1),
    "hue_shift": ("Hue shift, degrees", 1),
    "delta_e": ("ΔE2000 of the skin", 1),
}
_SIZE: Figures = {
    "lpips": ("LPIPS", 3),
    "ssim": ("SSIM", 3),
    "changed_share": ("Share of pixels changed", 3),
    "phash_distance": ("pHash distance, of 64", 0),
}
_TONES = (
    "Medians over pictures. ITA and the Monk class of a photograph follow its light as much as the person: they "
    "describe, and are never thresholded."
)
_SIZES = "Medians over edits. They do not see skin tone: skin can be lightened while all of them hardly move."


def folds(measured: Measured, context: Context) -> Iterator[Block]:
    frame = measured.described.filter(pl.col("read") > 0)
    yield from _fold(
        frame, context, "skin-described", "Skin tone before and after, description only", _TONE, _TONES
    )
    yield from _fold(frame, context, "change-described", "How large changes are, description only", _SIZE, _SIZES)


def _fold(
    frame: pl.DataFrame, context: Context, id: str, title: str, figures: Figures, note: str
) -> Iterator[Fold]:
    chosen = frame.filter(pl.col("figure").is_in(list(figures)))
    if chosen.is_empty():
        return
    cells = by_key(chosen.with_columns(pl.col("control").fill_null("")), "control", "editor", "figure")
    controls = {control.id: control.label for control in instruments(context.protocol).controls}
    makers = {**editor_names(context), **dict.fromkeys(controls, NO_EDITOR)}
    names = {"": REAL, **controls}
    seen = {key[:2] for key in cells}
    rows = [{"control": c, "editor": e} for c in names for e in makers if (c, e) in seen]
    columns = [
        words("Asked", "control", names),
        words("Editor", "editor", makers),
        *(_median(cells, figure, *how) for figure, how in figures.items() if figure in set(chosen["figure"])),
    ]
    made = table(id, marked(title), rows, columns, chosen, notes=(note,), dense=True)
    yield Fold(title, "medians", (made,))


def _median(cells: Mapping[tuple[str, ...], Row], figure: str, label: str, digits: int) -> Column:
    def read(row: Row) -> Cell:
        found = cells.get((row["control"], row["editor"], figure))
        if found is None or not known(found["median"]):
            return absent(NOTHING_READ)
        return Cell(decimal(found["median"], digits), found["median"], (plural(found["read"], "pictures"),))

    return Column(label, read)
