"""Forest of group rates: the interval over persons in black, in grey the one that takes edits for independent."""

from __future__ import annotations

import polars as pl

from stillme.analysis.numbers import INTERVAL, bracket, count, known, of, percent, plural
from stillme.report.context import Context
from stillme.report.lookup import Row, by_key
from stillme.report.plots.drawn import Drawn, drawn
from stillme.report.plots.estimates import Chart, Line, Mark, Whisker
from stillme.report.plots.palette import INK, NAIVE, series
from stillme.report.plots.parts import Entry, editors, extremes, key, labels, sentences
from stillme.report.plots.sheet import Sheet, Style
from stillme.report.tables import FEW_PERSONS, NOTHING_JUDGED
from stillme.stats.naive import with_naive

GREY = Style(stroke=NAIVE, width=4.5)
_COLUMNS = (("rate", 36.0), (f"{INTERVAL}", 66.0), ("hits/judged", 56.0), ("persons", 38.0))


def forest(id: str, title: str, frame: pl.DataFrame, context: Context, outcome: str, dimension: str) -> Drawn:
    """`frame`: outcomes by editor and the groups of `dimension` (`outcomes_by_race` and the like)."""
    own = with_naive(frame.filter(pl.col("outcome") == outcome))
    cells, groups = by_key(own, dimension, "editor"), labels(context, dimension, own[dimension])
    lines = tuple(
        _line(label, place, cells.get((group, editor.id)))
        for group, label in groups.items()
        for place, editor in enumerate(context.editors)
    )
    unit = f"% of judged edits: {context.rule(outcome)}"
    chart = Chart(lines, _COLUMNS, unit, (*editors(context), *_INTERVALS))
    said = [
        extremes(
            editor.name,
            [(_rate(cells.get((group, editor.id))), label) for group, label in groups.items()],
            percent,
            NOTHING_JUDGED,
        )
        for editor in context.editors
    ]
    return drawn(id, title, chart.sheet, sentences(said), counted(own), own)


def _rate(row: Row | None) -> float | None:
    return None if row is None else row["rate"]


def _line(label: str, place: int, row: Row | None) -> Line:
    if row is None or not known(row["rate"]):
        return Line(label, key(place), missing=NOTHING_JUDGED)
    spread = bracket(row["low"], row["high"]) if known(row["low"]) else "none"
    cells = (percent(row["rate"]), spread, of(row["hits"], row["judged"]), count(row["persons"]))
    whiskers = (Whisker(row["naive_low"], row["naive_high"], GREY, 0), Whisker(row["low"], row["high"]))
    return Line(label, key(place), (Mark(row["rate"], place, series(place)),), whiskers, cells)


def counted(rows: pl.DataFrame) -> str:
    """What the rates rest on, and what is missing from them."""
    asked, judged = int(rows["asked"].sum()), int(rows["judged"].sum())
    text = f"{of(judged, asked)} edits judged, {count(asked - judged)} missing and in no rate"
    if not rows.height or judged == 0:
        return f"{text}."
    people = sorted({int(n) for n in rows["persons"]})
    who = plural(people[-1], "persons")
    who = who if len(people) == 1 else f"{count(people[0])} to {who}"
    few = (
        f" Of {FEW_PERSONS}." if rows.filter(pl.col("low").is_null() & pl.col("rate").is_not_null()).height else ""
    )
    return f"{text}; {who} a line.{few}"


def _naive(sheet: Sheet, x: float, y: float) -> None:
    sheet.whisker(GREY, x - 6, x + 7, y, 0)


def _adjusted(sheet: Sheet, x: float, y: float) -> None:
    sheet.whisker(Style(stroke=INK, width=1.0), x - 6, x + 7, y)


_INTERVALS = (
    Entry(_adjusted, f"{INTERVAL} over persons"),
    Entry(_naive, "naive: every edit taken for independent"),
)
