"""Skin lightness by group with the noise floor, and what was planted on the skin beside what was read."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from stillme.analysis.numbers import INTERVAL, decimal
from stillme.report.blocks import Block, Fold
from stillme.report.context import Context
from stillme.report.figures import LIGHTNESS, Band, Figure, Line, Series, forest
from stillme.report.lookup import by_key
from stillme.report.sections.measures.columns import (
    by_editor,
    by_editor_and_group,
    editor_column,
    group_column,
    of,
)
from stillme.report.sections.measures.told import UNIT, asking, marked
from stillme.report.tables import NOTHING_READ, Row, change, mean, share, table, tally, value, words
from stillme.stats.measured import Measured, instruments

_DRAWN = ("asked", "read", "persons", "mean", "low", "high")
_QUANTILES = {"median": "Median", "p95": "95th percentile", "most": "Largest"}


def figure(measured: Measured, shifts: pl.DataFrame, context: Context) -> Figure:
    """The forest of ΔL* over the groups of the main dimension."""
    by = context.main.by
    frame = of(shifts, by)
    cells, labels = by_key(frame, "group", "editor"), context.protocol.groups.labels(by)
    return forest(
        "figure-lightness",
        marked(f"Change in skin lightness by perceived {by}"),
        list(labels.values()),
        [Series(editor.id, editor.name) for editor in context.editors],
        [
            Line(label, place, cells.get((group, editor.id)))
            for group, label in labels.items()
            for place, editor in enumerate(context.editors)
        ],
        frame.select("editor", "group", *_DRAWN),
        LIGHTNESS,
        _band(measured),
    )


def _band(measured: Measured) -> Band | None:
    """The noise floor over everybody's source images, where it was measured."""
    found = {} if measured.noise is None else by_key(_named(measured.noise), "control", "group")
    if not (floor := found.get(("", ""))):
        return None
    return Band(
        floor["p95"], f"noise: re-encoding alone moves 95 of 100 sources by ≤ {decimal(floor['p95'], 2)} {UNIT}"
    )


def planted(measured: Measured, context: Context) -> Iterator[Block]:
    """Only for planted editors: the instrument's own check."""
    frame = measured.planted
    if frame is None or frame.is_empty():
        return
    columns = [
        editor_column(context),
        tally("Edits read", "edits"),
        change("Planted ΔL*", "planted", NOTHING_READ, note="mean"),
        change("Read ΔL*", "read", NOTHING_READ, note="mean"),
        value("Slope", "slope", "everything planted is alike"),
        change("Read − planted", "error", NOTHING_READ, note="mean"),
        value("Read − planted", "error_sd", "needs two edits", note="sd of edits"),
    ]
    yield table(
        "lightness-planted",
        marked("Planted change in skin lightness beside what was read"),
        by_editor(frame, context),
        columns,
        frame,
        notes=("Slope: what is read for each unit planted; 1 where nothing is lost or added.",),
    )


def folds(measured: Measured, context: Context) -> Iterator[Block]:
    if measured.shifts is None or measured.noise is None:
        return
    for dimension in context.protocol.groups.dimensions:
        yield _by(measured.shifts, context, dimension)
    if measured.noise.height:
        yield _noise(_named(measured.noise), context)


def _by(shifts: pl.DataFrame, context: Context, dimension: str) -> Fold:
    """Every count of the shifts by one dimension: controlled and raw."""
    frame = of(shifts, dimension)
    columns = [
        editor_column(context),
        group_column(context, dimension),
        mean("ΔL*", lambda row: row, note=f"mean, {INTERVAL}, persons, edits read/made"),
        change("Raw ΔL*", "raw_mean", NOTHING_READ, note="mean"),
        value("SD", "sd", "needs two persons", note="of persons"),
        share("Controlled", "controlled", "read"),
    ]
    title = f"Change in skin lightness by perceived {dimension}, controlled and raw"
    rows, notes = (
        by_editor_and_group(frame, context, dimension),
        asking(instruments(context.protocol).skin_tone.axis, context),
    )
    made = table(f"lightness-by-{dimension}", marked(title), rows, columns, frame, notes=notes, dense=True)
    return Fold(title, _widest(frame), (made,))


def _widest(frame: pl.DataFrame) -> str:
    ends = frame.drop_nulls("mean").group_by("editor").agg(pl.col("mean").max() - pl.col("mean").min())
    return f"widest max − min {decimal(max(ends['mean']), 1)} {UNIT}" if ends.height else NOTHING_READ


def _named(noise: pl.DataFrame) -> pl.DataFrame:
    """With an empty name for the sources themselves, and for everybody."""
    return noise.with_columns(pl.col("control", "group").fill_null(""))


def _noise(noise: pl.DataFrame, context: Context) -> Fold:
    by = context.main.by
    controls = {control.id: control.label for control in instruments(context.protocol).controls}
    names = {"": "Sources (noise floor)", **controls}
    labels = {"": "Everybody", **context.protocol.groups.labels(by)}
    found = by_key(noise, "control", "group")
    columns = [
        words("Nothing was asked", "control", names),
        words(f"Perceived {by}", "group", labels),
        tally("Pictures", "images"),
        *(value(f"{label} |ΔL*|", key, NOTHING_READ) for key, label in _QUANTILES.items()),
    ]
    rows: list[Row] = [found[c, g] for c in names for g in labels if (c, g) in found]
    title = "What reads as a change in skin lightness where nobody made one"
    made = table("lightness-noise", marked(title), rows, columns, noise, dense=True)
    return Fold(title, f"noise floor by perceived {by}", (made,))
