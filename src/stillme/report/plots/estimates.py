"""Estimates under each other: marks and whiskers on one axis, their numbers in columns at the right.

What forests, ladders and arms are made of. Knows no statistics: it is told what to mark and what to print.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from stillme.report.numbers import DASH, known
from stillme.report.plots.palette import BAND, INK, MUTED, PAGE
from stillme.report.plots.parts import AXIS, ROW, RULE, SHARES, Entry, Scale, axis, legend, names, scale, whole
from stillme.report.plots.sheet import SMALL, UNDER, WHISKERS, WIDE, Sheet, Style, cut, width

TICK = -1
THIN = Style(stroke=INK, width=1.0)


@dataclass(frozen=True)
class Mark:
    """A value on the axis. `place`: of its shape, TICK for an upright line; `colour`: the page's where hollow."""

    value: float | None
    place: int = 0
    colour: str = INK


@dataclass(frozen=True)
class Whisker:
    low: float | None
    high: float | None
    style: Style = THIN
    cap: float = 2.0


@dataclass(frozen=True)
class Line:
    """One line of the chart. `missing`: why nothing can be marked; said in the place of the numbers."""

    group: str
    key: str
    marks: tuple[Mark, ...] = ()
    whiskers: tuple[Whisker, ...] = ()
    cells: tuple[str, ...] = ()
    missing: str = ""

    def values(self) -> Iterator[float | None]:
        yield from (mark.value for mark in self.marks)
        for whisker in self.whiskers:
            yield from (whisker.low, whisker.high)


@dataclass(frozen=True)
class Chart:
    """`columns`: headings of the numbers with the room that each takes. `low`, `most`: see `parts.scale`."""

    lines: tuple[Line, ...]
    columns: tuple[tuple[str, float], ...]
    unit: str
    legend: tuple[Entry, ...] = ()
    steps: Sequence[float] = SHARES
    low: float | None = 0.0
    most: float | None = 1.0
    tick: Callable[[float], str] = whole
    room: float = 88.0  # of the groups' names
    bands: tuple[tuple[float, float], ...] = ()  # shaded behind everything

    @property
    def left(self) -> float:
        keys = [width(line.key, SMALL) for line in self.lines]
        return self.room + min(max(keys, default=0.0), 130.0) + 10

    @property
    def right(self) -> float:
        return WIDE - sum(room for _, room in self.columns) - 8


def sheet(chart: Chart) -> Sheet:
    """Legend on top, then the lines group by group, then the axis."""
    page = Sheet(WIDE)
    top = legend(page, 0.0, chart.legend) + 12
    across = _across(chart)
    ends = [top]
    groups = [(group, list(lines)) for group, lines in groupby(chart.lines, key=lambda line: line.group)]
    for _, lines in groups:
        ends.append(ends[-1] + len(lines) * ROW + 5)
    for low, high in chart.bands:
        page.box(Style(fill=BAND), across.at(low), top, across.at(high), ends[-1], UNDER)
    page.lines(RULE, *(((0, y), (WIDE, y)) for y in ends))
    axis(page, across, top, ends[-1], chart.unit, chart.tick)
    _headings(page, chart, top)
    for (group, lines), start, end in zip(groups, ends, ends[1:], strict=False):
        names(page, group, start, end, chart.room - 4)
        for place, line in enumerate(lines):
            _line(page, chart, across, line, start + 2.5 + (place + 0.5) * ROW)
    page.height = ends[-1] + AXIS
    return page


def _across(chart: Chart) -> Scale:
    values = [value for line in chart.lines for value in line.values()]
    shaded = [end for band in chart.bands for end in band]
    return scale([*values, *shaded], chart.left, chart.right, chart.steps, chart.low, chart.most)


def _places(chart: Chart) -> list[float]:
    """Where each column of numbers ends."""
    rooms = [room for _, room in chart.columns]
    return [WIDE - sum(rooms[place + 1 :]) for place in range(len(rooms))]


def _headings(page: Sheet, chart: Chart, top: float) -> None:
    for (heading, _), x in zip(chart.columns, _places(chart), strict=True):
        page.words(heading, x, top - 6, SMALL, "end", colour=MUTED)


def _line(page: Sheet, chart: Chart, across: Scale, line: Line, y: float) -> None:
    page.words(cut(line.key, 130, SMALL), chart.left - 6, y, SMALL, "end", colour=MUTED)
    if line.missing:
        page.hatched(across.left, y - 3, across.right, y + 3)
        page.words(f"{DASH} {line.missing}", WIDE, y, SMALL, "end", colour=MUTED)
        return
    for whisker in line.whiskers:
        if whisker.low is not None and whisker.high is not None and known(whisker.low):
            page.whisker(whisker.style, across.at(whisker.low), across.at(whisker.high), y, whisker.cap)
    for mark in line.marks:
        if mark.value is not None and known(mark.value):
            put(page, mark.place, mark.colour, across.at(mark.value), y)
    for text, x in zip(line.cells, _places(chart), strict=True):
        page.words(text, x, y, SMALL, "end")


def put(page: Sheet, place: int, colour: str, x: float, y: float) -> None:
    """A mark at its place; in legends too."""
    if place == TICK:
        page.lines(Style(stroke=colour, width=2.2), ((x, y - 4.6), (x, y + 4.6)), layer=WHISKERS)
    else:
        page.mark(Style(fill=colour, stroke=INK, width=0.8 if colour == PAGE else 0.6), place, x, y)
