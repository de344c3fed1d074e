"""Estimates under each other: marks, bars and whiskers on one axis, their numbers in columns at the right.

What forests, ladders and arms are made of. Knows no statistics: it is told what to mark and what to print.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from stillme.analysis.numbers import DASH, known
from stillme.report.plots.palette import BAND, INK, MUTED, PAGE
from stillme.report.plots.parts import ROW, RULE, SHARES, Entry, Scale, axis, legend, names, scale, whole
from stillme.report.plots.sheet import SIZE, SMALL, UNDER, WHISKERS, WIDE, Sheet, Style, cut, width

TICK = -1
RING = ""  # the colour of a mark that hides nothing
THIN = Style(stroke=INK, width=1.0)
_LONG = 50.0  # a key that is wider stands over its line where the sheet is narrow


@dataclass(frozen=True)
class Mark:
    """A value on the axis. `place`: of its shape, TICK for an upright line; `colour`: the page's where hollow,
    RING where what is beneath it shows."""

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
class Bar:
    start: float
    end: float
    style: Style


@dataclass(frozen=True)
class Line:
    """One line of the chart. `missing`: why nothing can be marked; said in the place of the numbers."""

    group: str
    key: str
    marks: tuple[Mark, ...] = ()
    whiskers: tuple[Whisker, ...] = ()
    cells: tuple[str, ...] = ()
    missing: str = ""
    bars: tuple[Bar, ...] = ()

    def values(self) -> Iterator[float | None]:
        yield from (mark.value for mark in self.marks)
        yield from (bar.end for bar in self.bars)
        for whisker in self.whiskers:
            yield from (whisker.low, whisker.high)


@dataclass(frozen=True)
class Chart:
    """`columns`: headings of the numbers with the room that each takes; `narrow`: which of them a narrow sheet has
    room for. `low`, `most`: see `parts.scale`."""

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
    narrow: tuple[int, ...] = (0, 1)

    def sheet(self, wide: float = WIDE) -> Sheet:
        """Legend on top, then the lines group by group, then the axis."""
        return _drawn(_Laid(self, wide))


@dataclass(frozen=True)
class _Laid:
    """Where the things of a chart stand. Where it is narrow, names stand over their lines."""

    chart: Chart
    width: float

    @property
    def is_narrow(self) -> bool:
        return self.width < WIDE

    @cached_property
    def keys(self) -> float:
        return min(max((width(line.key, SMALL) for line in self.chart.lines), default=0.0), 130.0)

    @property
    def is_stacked(self) -> bool:
        return self.is_narrow and self.keys > _LONG

    @property
    def head(self) -> float:
        return ROW if self.is_narrow else 0.0

    @property
    def line(self) -> float:
        return ROW * 2 if self.is_stacked else ROW

    @property
    def left(self) -> float:
        if self.is_stacked:
            return 12.0
        return self.keys + 10 + (0.0 if self.is_narrow else self.chart.room)

    @property
    def right(self) -> float:
        return self.width - sum(room for _, _, room in self.columns) - 8

    @cached_property
    def columns(self) -> list[tuple[int, str, float]]:
        """Which column it is, its heading, its room."""
        every = [(place, heading, room) for place, (heading, room) in enumerate(self.chart.columns)]
        return [one for one in every if one[0] in self.chart.narrow] if self.is_narrow else every

    @cached_property
    def places(self) -> list[float]:
        """Where each column of numbers ends."""
        rooms = [room for _, _, room in self.columns]
        return [self.width - sum(rooms[place + 1 :]) for place in range(len(rooms))]

    @cached_property
    def across(self) -> Scale:
        chart = self.chart
        values = [value for line in chart.lines for value in line.values()]
        shaded = [end for band in chart.bands for end in band]
        return scale([*values, *shaded], self.left, self.right, chart.steps, chart.low, chart.most)


def _drawn(laid: _Laid) -> Sheet:
    page, chart = Sheet(laid.width), laid.chart
    top = legend(page, 0.0, chart.legend) + 12
    ends = [top]
    groups = [(group, list(lines)) for group, lines in groupby(chart.lines, key=lambda line: line.group)]
    for _, lines in groups:
        ends.append(ends[-1] + laid.head + len(lines) * laid.line + 5)
    for low, high in chart.bands:
        page.box(Style(fill=BAND), laid.across.at(low), top, laid.across.at(high), ends[-1], UNDER)
    page.lines(RULE, *(((0, y), (laid.width, y)) for y in ends))
    page.height = axis(page, laid.across, top, ends[-1], chart.unit, chart.tick)
    for (_, heading, _), x in zip(laid.columns, laid.places, strict=True):
        page.words(heading, x, top - 6, SMALL, "end", colour=MUTED)
    for (group, lines), start, end in zip(groups, ends, ends[1:], strict=False):
        _named(page, laid, group, start, end)
        for place, line in enumerate(lines):
            _line(page, laid, line, start + laid.head + 2.5 + (place + 1) * laid.line - ROW / 2)
    return page


def _named(page: Sheet, laid: _Laid, group: str, start: float, end: float) -> None:
    if laid.is_narrow:
        text, middle = cut(group, laid.width, SIZE * 1.06), start + 2.5 + ROW / 2
        _cleared(page, width(text, SIZE * 1.06), middle)
        page.words(text, 0, middle, SIZE, bold=True)
    else:
        names(page, group, start, end, laid.chart.room - 4)


def _line(page: Sheet, laid: _Laid, line: Line, y: float) -> None:
    _key(page, laid, line.key, y)
    if line.missing:
        _missing(page, laid, line.missing, y)
        return
    at = laid.across.at
    for bar in line.bars:
        page.box(bar.style, at(bar.start), y - 3.2, at(bar.end), y + 3.2)
    for whisker in line.whiskers:
        if whisker.low is not None and whisker.high is not None and known(whisker.low):
            page.whisker(whisker.style, at(whisker.low), at(whisker.high), y, whisker.cap)
    for mark in line.marks:
        if mark.value is not None and known(mark.value):
            put(page, mark.place, mark.colour, at(mark.value), y)
    for (place, _, _), x in zip(laid.columns, laid.places, strict=True):
        page.words(line.cells[place], x, y, SMALL, "end")


def _key(page: Sheet, laid: _Laid, key: str, y: float) -> None:
    if laid.is_stacked:
        text, middle = cut(key, laid.width, SMALL), y - ROW + 1
        _cleared(page, width(text, SMALL), middle)
        page.words(text, 0, middle, SMALL, colour=MUTED)
    else:
        page.words(cut(key, 130, SMALL), laid.left - 6, y, SMALL, "end", colour=MUTED)


def _cleared(page: Sheet, wide: float, middle: float) -> None:
    """No line of the axis runs through words that begin at the edge."""
    page.box(Style(fill=PAGE), 0, middle - 4, wide, middle + 4, UNDER)


def _missing(page: Sheet, laid: _Laid, why: str, y: float) -> None:
    text = cut(f"{DASH} {why}", laid.width - laid.left - 30, SMALL)
    page.hatched(laid.left, y - 3, min(laid.right, laid.width - width(text, SMALL) - 6), y + 3)
    page.words(text, laid.width, y, SMALL, "end", colour=MUTED)


def put(page: Sheet, place: int, colour: str, x: float, y: float) -> None:
    """A mark at its place; in legends too."""
    if place == TICK:
        page.lines(Style(stroke=colour, width=2.2), ((x, y - 4.6), (x, y + 4.6)), layer=WHISKERS)
    else:
        page.mark(Style(fill=colour, stroke=INK, width=0.8 if colour in (PAGE, RING) else 0.6), place, x, y)
