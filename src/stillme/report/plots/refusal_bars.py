"""Refusals by group: a bar is the share refused, cut by where on its way an edit was refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import polars as pl

from stillme.analysis.numbers import INTERVAL, bracket, count, known, of, percent, plural
from stillme.report.context import Context
from stillme.report.lookup import Row, by_key
from stillme.report.plots.drawn import Drawn, drawn
from stillme.report.plots.estimates import Bar, Chart, Line, Whisker
from stillme.report.plots.palette import AMOUNTS, INK, MUTED
from stillme.report.plots.parts import AROUND, WITHIN, Entry, extremes, key, labels, most, sentences
from stillme.report.plots.sheet import SMALL, Sheet, Style
from stillme.report.tables import FEW_PERSONS
from stillme.stats.refusals import STAGES

_NAMES = dict(zip(STAGES, ("on the way in", "on the way out", "in the editor's own words"), strict=True))
_FILLS = dict(zip(STAGES, (AMOUNTS[1], AMOUNTS[2], AMOUNTS[4]), strict=True))
_UNDECIDED = "no edit was answered or refused"
_COLUMNS = (("refused", 38.0), (INTERVAL, 66.0), ("of decided", 52.0), ("persons", 42.0))


def refusal_bars(id: str, title: str, frame: pl.DataFrame, context: Context, dimension: str) -> Drawn:
    """`frame`: refusals by editor and group (`Findings.refusals.by_group`)."""
    own = frame.filter(pl.col("dimension") == dimension)
    cells, groups = by_key(own, "group", "editor"), labels(context, dimension, own["group"])
    lines = tuple(
        _line(label, place, cells.get((group, editor.id)))
        for group, label in groups.items()
        for place, editor in enumerate(context.editors)
    )
    chart = Chart(lines, _COLUMNS, "% of decided edits refused", tuple(_legend(context)))
    said = [
        extremes(
            party.name,
            [(_rate(cells.get((group, party.id))), label) for group, label in groups.items()],
            percent,
            _UNDECIDED,
        )
        for party in context.editors
    ]
    return drawn(id, title, chart.sheet, sentences(said), _note(own), own)


def _legend(context: Context) -> Iterator[Entry]:
    yield from (_number(place, party.name) for place, party in enumerate(context.editors))
    yield from (Entry(_box(_FILLS[stage]), f"refused {name}") for stage, name in _NAMES.items())


def _number(place: int, name: str) -> Entry:
    return Entry(lambda sheet, x, y: sheet.words(key(place), x + 6, y, SMALL, "end", colour=MUTED), name)


def _box(fill: str) -> Callable[[Sheet, float, float], None]:
    return lambda sheet, x, y: sheet.box(Style(fill=fill, stroke=INK, width=0.4), x, y - 3, x + 7, y + 3)


def _rate(row: Row | None) -> float | None:
    return None if row is None else row["rate"]


def _line(label: str, place: int, row: Row | None) -> Line:
    if row is None or not known(row["rate"]):
        return Line(label, key(place), missing=_UNDECIDED)
    spread = bracket(row["low"], row["high"]) if known(row["low"]) else "none"
    cells = (percent(row["rate"]), spread, of(row["refused"], row["decided"]), count(row["persons"]))
    whiskers = tuple(Whisker(row["low"], row["high"], style, 1.6) for style in (AROUND, WITHIN))
    return Line(label, key(place), (), whiskers, cells, bars=tuple(_bars(row)))


def _bars(row: Row) -> Iterator[Bar]:
    done = 0
    for stage in STAGES:
        if row[stage]:
            start, end = (part / row["decided"] for part in (done, done + row[stage]))
            yield Bar(start, end, Style(fill=_FILLS[stage], stroke=INK, width=0.4))
            done += row[stage]


def _note(rows: pl.DataFrame) -> str:
    asked, decided = int(rows["asked"].sum()), int(rows["decided"].sum())
    failed, pending = int(rows["failed"].sum()), int(rows["pending"].sum())
    note = f"{of(decided, asked)} edits decided; {count(failed)} failed and {count(pending)} not made, in no rate"
    if not rows.height:
        return f"{note}."
    note = f"{note}; {plural(most(rows['persons']), 'persons')} a line at most."
    few = rows.filter(pl.col("low").is_null() & pl.col("rate").is_not_null()).height
    return f"{note} Of {FEW_PERSONS}." if few else note
