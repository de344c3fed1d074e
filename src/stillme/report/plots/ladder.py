"""The disparity ladder: max − min as it is, as chance alone makes it, and what is left of it with its interval."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import polars as pl

from stillme.analysis.numbers import INTERVAL, bracket, count, known, listed, p_value, plural, points
from stillme.report.context import Context
from stillme.report.lookup import Row, by_key
from stillme.report.plots.drawn import Drawn, drawn
from stillme.report.plots.estimates import RING, TICK, Chart, Line, Mark, Whisker, put
from stillme.report.plots.palette import INK, NAIVE, series
from stillme.report.plots.parts import Entry, editors, extremes, key, sentences
from stillme.report.plots.sheet import Sheet, Style

_ONE_GROUP = "nothing to compare"
_RAW = 0  # a circle
_COLUMNS = (
    ("by chance", 46.0),
    ("max − min", 48.0),
    ("corrected", 46.0),
    (INTERVAL, 60.0),
    ("p", 40.0),
)


def ladder(id: str, title: str, frame: pl.DataFrame, context: Context, outcomes: Sequence[str] = ()) -> Drawn:
    """`frame`: how far groups lie apart (`disparity_by_race`). `outcomes`: the declared ones unless told."""
    wanted = [name for name in outcomes or context.tables.contrasts if name in context.outcomes]
    own = frame.filter(pl.col("outcome").is_in(wanted))
    found = by_key(own, "outcome", "editor")
    lines = tuple(
        _line(context.outcomes[name].label, place, found.get((name, editor.id)))
        for name in wanted
        for place, editor in enumerate(context.editors)
    )
    unit = "percentage points between the highest and the lowest group"
    chart = Chart(lines, _COLUMNS, unit, (*editors(context), *_LEGEND), narrow=(2, 3))
    said = [_said(editor.name, editor.id, wanted, found, context) for editor in context.editors]
    return drawn(id, title, chart.sheet, sentences(said), _note(own), own)


def _line(label: str, place: int, row: Row | None) -> Line:
    if row is None or not known(row["disparity"]):
        return Line(label, key(place), missing=_ONE_GROUP)
    spread = bracket(row["low"], row["high"]) if known(row["low"]) else "none"
    marks = (
        Mark(row["expected"], TICK, NAIVE),
        Mark(row["disparity"], _RAW, RING),
        Mark(row["corrected"], place, series(place)),
    )
    cells = (points(row["expected"]), points(row["disparity"]), points(row["corrected"]), spread)
    return Line(label, key(place), marks, (Whisker(row["low"], row["high"]),), (*cells, p_value(row["p_rank"])))


def _said(
    name: str, editor: str, wanted: Sequence[str], found: dict[tuple[str, ...], Row], context: Context
) -> str:
    rows = [(found.get((outcome, editor)), context.outcomes[outcome].label) for outcome in wanted]
    corrected = [(None if row is None else row["corrected"], label) for row, label in rows]
    return extremes(f"{name}, corrected points", corrected, points, _ONE_GROUP)


def _note(rows: pl.DataFrame) -> str:
    if not rows.height:
        return ""
    people = sorted({int(n) for n in rows["persons"]})
    edits = sorted({int(n) for n in rows["judged"]})
    text = f"{listed([count(n) for n in people[-1:]])} persons at most a line, {count(edits[0])} to "
    text += f"{plural(edits[-1], 'edits')} judged; the interval starts at 0 unless p is at most 0.05."
    lacking = Counter(rows.drop_nulls("disparity")["reason"].drop_nulls())
    why = [f"{plural(number, 'lines')} ({reason})" for reason, number in lacking.items()]
    return f"{text} Without an interval: {listed(why)}." if why else text


def _corrected(sheet: Sheet, x: float, y: float) -> None:
    sheet.whisker(Style(stroke=INK, width=1.0), x - 6, x + 7, y)
    put(sheet, 0, INK, x + 2, y)


_LEGEND = (
    Entry(lambda sheet, x, y: put(sheet, TICK, NAIVE, x + 3, y), "expected by chance where groups are alike"),
    Entry(lambda sheet, x, y: put(sheet, _RAW, RING, x + 3, y), "max − min as it is"),
    Entry(_corrected, f"corrected, in the editor's colour and shape, {INTERVAL}"),
)
