"""Judges, raters, and judges corrected by raters, group by group: what people say of the judges' rates."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from stillme.analysis.numbers import INTERVAL, bracket, count, known, percent
from stillme.report.context import Context
from stillme.report.lookup import Row, by_key
from stillme.report.plots.drawn import Drawn, drawn
from stillme.report.plots.estimates import Chart, Line, Mark, Whisker, put
from stillme.report.plots.palette import INK, NAIVE, PAGE
from stillme.report.plots.parts import Entry, extremes, labels, sentences
from stillme.stats.rectified import CORRECTED, JUDGES, RATERS

METHODS = {JUDGES: "judges", RATERS: "raters", CORRECTED: "corrected"}
_SHAPES = {JUDGES: (1, NAIVE), RATERS: (3, PAGE), CORRECTED: (0, INK)}
_COLUMNS = (("rate", 36.0), (INTERVAL, 66.0), ("rated by people", 68.0), ("persons", 38.0))
_NO_RATINGS = "too few ratings"


def corrected(
    id: str, title: str, frame: pl.DataFrame, context: Context, outcome: str, dimension: str, editor: str
) -> Drawn:
    """`frame`: `corrected_rates`. One editor a figure, because three lines a group are enough for an eye."""
    own = frame.filter((pl.col("outcome") == outcome) & (pl.col("editor") == editor))
    own = own.filter(pl.col("method").is_in(list(METHODS)))
    cells, groups = by_key(own, "group", "method"), labels(context, dimension, own["group"])
    lines = tuple(
        _line(label, method, cells.get((group, method))) for group, label in groups.items() for method in METHODS
    )
    unit = f"% of edits by {context.editor(editor).name}: {context.rule(outcome)}"
    chart = Chart(lines, _COLUMNS, unit, tuple(_entry(method) for method in METHODS))
    said = [_said(method, cells, groups) for method in METHODS]
    return drawn(id, title, chart.sheet, sentences(said), _note(own), own)


def _line(label: str, method: str, row: Row | None) -> Line:
    if row is None or not known(row["estimate"]):
        return Line(label, METHODS[method], missing=(row or {}).get("reason") or _NO_RATINGS)
    place, colour = _SHAPES[method]
    spread = bracket(row["low"], row["high"]) if known(row["low"]) else "none"
    rated = "" if method == JUDGES else count(row["labelled"])  # judges alone rest on no rating
    persons = row["persons" if method == JUDGES else "labelled_persons"]
    cells = (percent(row["estimate"]), spread, rated, count(persons))
    marks = (Mark(row["estimate"], place, colour),)
    return Line(label, METHODS[method], marks, (Whisker(row["low"], row["high"]),), cells)


def _entry(method: str) -> Entry:
    place, colour = _SHAPES[method]
    text = {
        JUDGES: "judges alone",
        RATERS: "raters alone",
        CORRECTED: f"judges corrected by raters, {INTERVAL} over persons",
    }[method]
    return Entry(lambda sheet, x, y: put(sheet, place, colour, x + 3, y), text)


def _said(method: str, cells: Mapping[tuple[str, ...], Row], groups: Mapping[str, str]) -> str:
    rows = [(cells.get((group, method)), label) for group, label in groups.items()]
    values = [(None if row is None else row["estimate"], label) for row, label in rows]
    return extremes(METHODS[method].capitalize(), values, percent, _NO_RATINGS)


def _note(rows: pl.DataFrame) -> str:
    judged = rows.filter(pl.col("method") == JUDGES)
    labelled = int(rows.filter(pl.col("method") == CORRECTED)["labelled"].sum())
    if not judged.height:
        return ""
    note = f"{count(int(judged['outputs'].sum()))} edits judged, {count(labelled)} of them rated by people."
    without = rows.filter(pl.col("estimate").is_not_null() & pl.col("low").is_null()).height
    return f"{note} Without an interval: {count(without)}, of too few persons." if without else note
