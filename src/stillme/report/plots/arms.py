"""Treatment arms: what each sentence before the prompt changes, case by case, with persons as the unit."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from stillme.analysis.numbers import INTERVAL, count, decimal, known, p_value, plural, signed, span
from stillme.report.context import Context
from stillme.report.plots.drawn import Drawn, drawn
from stillme.report.plots.estimates import Chart, Line, Mark, Whisker, put
from stillme.report.plots.palette import INK, PAGE
from stillme.report.plots.parts import POINTS, Entry, extremes, most, sentences
from stillme.report.tables import FEW_PERSONS, Row

_COLUMNS = (("means", 58.0), ("difference", 46.0), (INTERVAL, 66.0), ("p corrected", 50.0), ("pairs", 32.0))
_NO_PAIR = "no case has both"


def arms(id: str, title: str, frame: pl.DataFrame, context: Context, axes: Sequence[str] = ()) -> Drawn:
    """`frame`: `mitigation_effects`. `axes`: those that the frame has unless told, in the protocol's order."""
    wanted = [axis for axis in axes or context.protocol.axes if axis in set(frame["axis"])]
    own = frame.filter(pl.col("axis").is_in(wanted))
    rows = [row for axis in wanted for row in own.filter(pl.col("axis") == axis).to_dicts()]
    lines = tuple(_line(row, context) for row in rows)
    unit = "points of the scale: an arm minus what it is held against"
    chart = Chart(
        lines,
        _COLUMNS,
        unit,
        _LEGEND,
        POINTS,
        low=None,
        most=None,
        tick=lambda tick: signed(tick, 1),
        room=72.0,
        narrow=(1, 2),
    )
    said = [_said(axis, own, context) for axis in wanted]
    return drawn(id, title, chart.sheet, sentences(said), _note(own), own)


def _line(row: Row, context: Context) -> Line:
    label, key = context.protocol.axes[row["axis"]].label, f"{row['arm']} − {row['against']}"
    if not known(row["difference"]):
        return Line(label, key, missing=_NO_PAIR)
    shown = known(row["p_holm"]) and row["p_holm"] < 0.05
    spread = span(row["low"], row["high"]) if known(row["low"]) else "none"
    means = f"{decimal(row['first_mean'], 2)} → {decimal(row['second_mean'], 2)}"
    cells = (means, signed(row["difference"]), spread, p_value(row["p_holm"]), count(row["pairs"]))
    marks = (Mark(row["difference"], 0, INK if shown else PAGE),)
    return Line(label, key, marks, (Whisker(row["low"], row["high"]),), cells)


def _said(axis: str, rows: pl.DataFrame, context: Context) -> str:
    own = rows.filter(pl.col("axis") == axis).to_dicts()
    values = [(row["difference"], f"{row['arm']} − {row['against']}") for row in own]
    return extremes(context.protocol.axes[axis].label, values, signed, _NO_PAIR)


def _note(rows: pl.DataFrame) -> str:
    if not rows.height:
        return ""
    lost, people = most(rows["first_only"] + rows["second_only"]), most(rows["persons"])
    note = (
        f"{plural(people, 'persons')} at most; a case counts where both arms have a score, and up to "
        f"{count(lost)} cases of a line lack one. Where a scale has a score for no change, means are the distance "
        "to it."
    )
    few = rows.filter(pl.col("low").is_null() & pl.col("difference").is_not_null()).height
    return f"{note} Of {FEW_PERSONS}." if few else note


def _symbol(fill: str, text: str) -> Entry:
    return Entry(lambda sheet, x, y: put(sheet, 0, fill, x + 3, y), text)


_LEGEND = (
    _symbol(INK, "shown: corrected p below 0.05"),
    _symbol(PAGE, f"not shown; whiskers: {INTERVAL} over persons"),
)
