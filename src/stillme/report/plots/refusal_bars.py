"""Refusals by group: a bar is the share refused, cut by where on its way an edit was refused."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from stillme.analysis.refusals import STAGES
from stillme.report.context import Context
from stillme.report.lookup import Row, by_key
from stillme.report.numbers import INTERVAL, bracket, count, known, of, percent, plural
from stillme.report.plots.drawn import Drawn, drawn
from stillme.report.plots.palette import AMOUNTS, INK, MUTED
from stillme.report.plots.parts import (
    AXIS,
    ROW,
    RULE,
    Entry,
    Scale,
    axis,
    extremes,
    interval,
    key,
    labels,
    legend,
    most,
    names,
    scale,
    sentences,
)
from stillme.report.plots.sheet import SMALL, WIDE, Sheet, Style
from stillme.report.tables import FEW_PERSONS

_NAMES = dict(zip(STAGES, ("on the way in", "on the way out", "in the editor's own words"), strict=True))
_FILLS = dict(zip(STAGES, (AMOUNTS[1], AMOUNTS[2], AMOUNTS[4]), strict=True))
_UNDECIDED = "no edit was answered or refused"
_LEFT, _RIGHT = 104.0, 306.0
_PLACES = (344.0, 410.0, 462.0, WIDE)


def refusal_bars(id: str, title: str, frame: pl.DataFrame, context: Context, dimension: str) -> Drawn:
    """`frame`: refusals by editor and group (`Findings.refusals.by_group`)."""
    own = frame.filter(pl.col("dimension") == dimension)
    cells, groups = by_key(own, "group", "editor"), labels(context, dimension, own["group"])
    page = Sheet(WIDE)
    top = _legend(page, context) + 12
    across = scale([*own["rate"], *own["high"]], _LEFT, _RIGHT)
    each = len(context.editors) * ROW + 5
    bottom = top + each * len(groups)
    page.lines(RULE, *(((0, top + each * n), (WIDE, top + each * n)) for n in range(len(groups) + 1)))
    axis(page, across, top, bottom, "% of decided edits refused")
    for heading, x in zip(("refused", INTERVAL, "of decided", "persons"), _PLACES, strict=True):
        page.words(heading, x, top - 6, SMALL, "end", colour=MUTED)
    for place, (group, label) in enumerate(groups.items()):
        start = top + place * each
        names(page, label, start, start + each, 84)
        for n, editor in enumerate(context.editors):
            y = start + 2.5 + (n + 0.5) * ROW
            page.words(key(n), _LEFT - 6, y, SMALL, "end", colour=MUTED)
            _bar(page, cells.get((group, editor.id)), across, y)
    page.height = bottom + AXIS
    said = [
        extremes(
            party.name,
            [(_rate(cells.get((group, party.id))), label) for group, label in groups.items()],
            percent,
            _UNDECIDED,
        )
        for party in context.editors
    ]
    return drawn(id, title, page, sentences(said), _note(own), own)


def _legend(page: Sheet, context: Context) -> float:
    numbers = [_number(place, party.name) for place, party in enumerate(context.editors)]
    boxes = [Entry(_box(_FILLS[stage]), f"refused {name}") for stage, name in _NAMES.items()]
    return legend(page, legend(page, 0.0, numbers), boxes)


def _number(place: int, name: str) -> Entry:
    return Entry(lambda sheet, x, y: sheet.words(key(place), x + 6, y, SMALL, "end", colour=MUTED), name)


def _box(fill: str) -> Callable[[Sheet, float, float], None]:
    return lambda sheet, x, y: sheet.box(Style(fill=fill, stroke=INK, width=0.4), x, y - 3, x + 7, y + 3)


def _rate(row: Row | None) -> float | None:
    return None if row is None else row["rate"]


def _bar(page: Sheet, row: Row | None, across: Scale, y: float) -> None:
    if row is None or not known(row["rate"]):
        page.hatched(_LEFT, y - 3, _RIGHT, y + 3)
        page.words(f"– {_UNDECIDED}", WIDE, y, SMALL, "end", colour=MUTED)
        return
    done = 0
    for stage in STAGES:
        if row[stage]:
            ends = [across.at(part / row["decided"]) for part in (done, done + row[stage])]
            page.box(Style(fill=_FILLS[stage], stroke=INK, width=0.4), ends[0], y - 3.2, ends[1], y + 3.2)
            done += row[stage]
    if known(row["low"]):
        interval(page, across, row["low"], row["high"], y)
    spread = bracket(row["low"], row["high"]) if known(row["low"]) else "none"
    texts = (percent(row["rate"]), spread, of(row["refused"], row["decided"]), count(row["persons"]))
    for text, x in zip(texts, _PLACES, strict=True):
        page.words(text, x, y, SMALL, "end")


def _note(rows: pl.DataFrame) -> str:
    asked, decided = int(rows["asked"].sum()), int(rows["decided"].sum())
    failed, pending = int(rows["failed"].sum()), int(rows["pending"].sum())
    note = f"{of(decided, asked)} edits decided; {count(failed)} failed and {count(pending)} not made, in no rate"
    if not rows.height:
        return f"{note}."
    note = f"{note}; {plural(most(rows['persons']), 'persons')} a line at most."
    few = rows.filter(pl.col("low").is_null() & pl.col("rate").is_not_null()).height
    return f"{note} Of {FEW_PERSONS}." if few else note
