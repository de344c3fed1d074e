"""The one figure helper: our own inline SVG, readable without colour, with title, description and data link.

A forest plot: one line a group and series (dot and whisker), the numbers printed beside it, and, where a value
was planted, a ring at that value. Series differ by number, shape and colour, always in this order. What is plotted
is a `Quantity`: shares of edits, or changes around zero with a band in which nothing can be told from noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from textwrap import wrap

import polars as pl
from markupsafe import Markup, escape

from stillme.analysis.numbers import DASH, INTERVAL, bracket, known, of, percent, plural, signed, span
from stillme.report.blocks import Block, Data, data
from stillme.report.tables import NOTHING_JUDGED, Row

_PLANTED = "planted rate: the truth that the interval should cover"
DRAWN = ("hits", "judged", "rate", "low", "high")  # what a forest plot shows of a row of `stats.rates`
COLOURS = 8  # Okabe and Ito's palette; report.css spells it, class c0 to c7
_SHAPES = (  # relative to the mark's centre, so that one path draws all marks of a series
    "m-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0z",
    "m-4.5-4.5h9v9h-9z",
    "m0-5.5l5.5 10h-11z",
    "m0-6l6 6l-6 6l-6-6z",
    "m0 5.5l5.5-10h-11z",
    "m-2-6h4v4h4v4h-4v4h-4v-4h-4v-4h4z",
    "m-6-2.5l6-3.5l6 3.5l-2 7.5h-8z",
    "m-6 0l3-5h6l3 5l-3 5h-6z",
)
_LINE, _GAP, _TOP, _ENTRY = 17, 11, 12, 19


@dataclass(frozen=True)
class Room:
    """What a sheet has room for: how wide it is, where marks begin, and how far from the right edge they end; room
    for a group's name over its lines, and for the counts; letters of a line of the legend; parts of the axis."""

    width: int
    left: int
    right: int
    head: int
    counts: bool
    letters: int
    parts: int


WIDE = Room(760, 150, 225, 0, True, 104, 5)
NARROW = Room(340, 30, 152, _LINE, False, 46, 3)  # a phone's; groups' names stand over their lines


@dataclass(frozen=True)
class Quantity:
    """What the marks show: the column of the estimate, how numbers are written, and the axis.

    `ends`: where the axis starts and where it may end at most; None where the values decide. `places`: how far
    from the right edge the estimate and its interval end.
    """

    column: str
    unit: str
    write: Callable[[float | None], str]
    spread: Callable[[float | None, float | None], str]
    tick: Callable[[float], str]
    counts: Callable[[Row], str]
    nothing: str
    steps: tuple[float, ...]
    ends: tuple[float | None, float | None]
    places: tuple[int, int] = (155, 65)

    def of(self, row: Row | None) -> float | None:
        """The estimate, or none where there is none."""
        return row[self.column] if row is not None and known(row[self.column]) else None

    def step(self, width: float, parts: int) -> float:
        """The smallest step that cuts the axis into at most so many parts."""
        return next((step for step in self.steps if width / step <= parts), self.steps[-1])

    def ends_at(self, room: Room) -> tuple[int, int]:
        """How far from the right edge the estimate and its interval end."""
        return self.places if room.counts else (self.places[0] - self.places[1] + 4, 0)


SHARES = Quantity(
    "rate",
    f"% of judged edits, {INTERVAL}",
    percent,
    bracket,
    lambda tick: f"{tick * 100:.0f}",
    lambda row: of(row["hits"], row["judged"]),
    NOTHING_JUDGED,
    (0.01, 0.02, 0.05, 0.1, 0.2, 0.25),
    (0.0, 1.0),
)
LIGHTNESS = Quantity(
    "mean",
    f"ΔL*, {INTERVAL}: darker to the left, lighter to the right",
    signed,
    span,
    lambda tick: signed(tick, 1),
    lambda row: plural(row["persons"], "persons"),
    "no edit could be read",
    (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0),
    (None, None),
    (182, 73),
)


@dataclass(frozen=True)
class Band:
    """Values this far from zero, or nearer, mean nothing; `meaning` says so in the legend."""

    half: float
    meaning: str


@dataclass(frozen=True)
class Series:
    id: str
    name: str


@dataclass(frozen=True)
class Line:
    """One mark of a forest plot: a row with the estimate, low and high (or none), and the planted value if any."""

    group: str
    series: int
    row: Row | None
    planted: float | None = None


@dataclass(frozen=True)
class Figure(Block):
    kind = "figure"
    id: str
    title: str
    alternative: str
    svg: Markup
    phone: Markup  # the same for a narrow page, named by the other's words
    data: Data


def colour(place: int) -> str:
    """The class of the place-th series or group: the same place has the same colour in every figure."""
    return f"c{place % COLOURS}"


def shape(place: int) -> str:
    return _SHAPES[place % len(_SHAPES)]


def forest(
    id: str,
    title: str,
    groups: Sequence[str],
    series: Sequence[Series],
    lines: Sequence[Line],
    numbers: pl.DataFrame,
    quantity: Quantity = SHARES,
    band: Band | None = None,
) -> Figure:
    """Lines in the order of `groups`, then of `series`. `groups` and series names are shown as given."""
    alternative = " ".join(_described(series, lines, quantity))
    named = {"role": "img", "aria_labelledby": f"{id}-title {id}-desc"}
    names = [_tag("title", title, id=f"{id}-title"), _tag("desc", alternative, id=f"{id}-desc")]
    wide, narrow = (
        _Plot(
            tuple(groups), tuple(series), tuple(lines), quantity, *_ends(lines, quantity, band, room), room, band
        )
        for room in (WIDE, NARROW)
    )
    svg = _tag("svg", Markup("").join([*names, *wide.parts()]), viewBox=wide.view, **named)
    phone = _tag("svg", Markup("").join(narrow.parts()), viewBox=narrow.view, class_="narrow", **named)
    return Figure(id, title, alternative, svg, phone, data(id, numbers))


def _described(series: Sequence[Series], lines: Sequence[Line], quantity: Quantity) -> Iterator[str]:
    """The text alternative: each series' lowest and highest group."""
    for place, one in enumerate(series):
        values = [(quantity.of(line.row), line.group) for line in lines if line.series == place]
        found = [(value, group) for value, group in values if value is not None]
        if not found:
            yield f"{one.name}: {quantity.nothing}."
            continue
        low, high = min(found, key=itemgetter(0)), max(found, key=itemgetter(0))
        yield f"{one.name}: from {quantity.write(low[0])} ({low[1]}) to {quantity.write(high[0])} ({high[1]})."


def _ends(lines: Sequence[Line], quantity: Quantity, band: Band | None, room: Room) -> tuple[float, float]:
    """The ends of the axis: all values shown, zero among them, rounded outwards to whole steps."""
    half = band.half if band else 0.0
    values = [-half, half, *(value for line in lines for value in _values(line, quantity))]
    first, last = quantity.ends
    low, high = min(values) if first is None else first, max(values)
    step = quantity.step(high - low, room.parts)
    upper = step * max(1, math.ceil(round(high / step, 9)))
    return step * math.floor(round(low / step, 9)), upper if last is None else min(last, upper)


def _values(line: Line, quantity: Quantity) -> Iterator[float]:
    row = line.row
    shown = (row[quantity.column], row["low"], row["high"], line.planted) if row is not None else (line.planted,)
    return (value for value in shown if value is not None and known(value))


@dataclass(frozen=True)
class _Plot:
    """Geometry of one forest plot: legend on top, axis beneath, numbers at the right."""

    groups: tuple[str, ...]
    series: tuple[Series, ...]
    lines: tuple[Line, ...]
    quantity: Quantity
    lower: float
    upper: float
    room: Room
    band: Band | None = None

    @property
    def view(self) -> str:
        return f"0 0 {self.room.width} {self.height}"

    @property
    def top(self) -> int:
        return _TOP + sum(len(lines) for lines in self.entries) * _ENTRY + 8

    @property
    def group_height(self) -> int:
        return self.room.head + len(self.series) * _LINE + _GAP

    @property
    def bottom(self) -> int:
        return self.top + len(self.groups) * self.group_height

    @property
    def unit(self) -> list[str]:
        return wrap(self.quantity.unit, self.room.letters)

    @property
    def height(self) -> int:
        return self.bottom + 24 + 16 * len(self.unit)

    def x(self, value: float) -> float:
        share, room = (value - self.lower) / (self.upper - self.lower), self.room
        return round(room.left + share * (room.width - room.left - room.right), 1)

    def y(self, line: Line) -> float:
        start = self.top + self.groups.index(line.group) * self.group_height + self.room.head
        return start + (line.series + 0.5) * _LINE + _GAP / 2

    def parts(self) -> Iterator[Markup]:
        yield from self.shade()
        yield from self.axis()
        yield from self.legend()
        yield _group("group", self.names())
        yield _group("key", (_text(line.series + 1, self.room.left - 12, self.y(line)) for line in self.lines))
        yield _group("number", (number for line in self.lines for number in self.beside(line)))
        yield _path("planted", "".join(_ring(self.x(value), self.y(line)) for value, line in self._planted))
        yield _path("whisker", "".join(map(self.whisker, self.lines)))
        for place in range(len(self.series)):
            yield _path(f"mark {colour(place)}", "".join(self.marks(place)))

    @property
    def _planted(self) -> list[tuple[float, Line]]:
        return [(line.planted, line) for line in self.lines if line.planted is not None and known(line.planted)]

    def names(self) -> Iterator[Markup]:
        for place, group in enumerate(self.groups):
            start = self.top + place * self.group_height
            middle = start + (self.room.head or self.group_height) / 2
            yield _text(_short(group, 20 if not self.room.head else self.room.letters), 0, middle)

    @property
    def entries(self) -> list[list[str]]:
        """Lines of the legend: series, then what is planted, then the band."""
        texts = [one.name for one in self.series] + [_PLANTED] * bool(self._planted)
        return [wrap(text, self.room.letters) for text in (*texts, *((self.band.meaning,) if self.band else ()))]

    def entry(self, place: int) -> int:
        """The height of an entry's first line."""
        return _TOP + sum(len(lines) for lines in self.entries[:place]) * _ENTRY

    def legend(self) -> Iterator[Markup]:
        for place, lines in enumerate(self.entries):
            y = self.entry(place)
            yield from (_text(line, 36, y + n * _ENTRY) for n, line in enumerate(lines))
            if place < len(self.series):
                yield _group("key", [_text(place + 1, 8, y)])
                yield _path(f"mark {colour(place)}", f"M22 {y}{shape(place)}")
            elif self._planted and place == len(self.series):
                yield _path("planted", _ring(22, y))

    def shade(self) -> Iterator[Markup]:
        """The band, behind everything else, and its box in the legend."""
        if self.band is None:
            return
        y, half = self.entry(len(self.entries) - 1), self.band.half
        yield _path("band", _box(self.x(-half), self.top, self.x(half), self.bottom) + _box(14, y - 6, 30, y + 6))

    def axis(self) -> Iterator[Markup]:
        step = self.quantity.step(self.upper - self.lower, self.room.parts)
        ticks = [self.lower + place * step for place in range(round((self.upper - self.lower) / step) + 1)]
        rules = [self.top + place * self.group_height for place in range(len(self.groups) + 1)]
        yield _path("grid", "".join(f"M{self.x(tick)} {self.top}V{self.bottom + 4}" for tick in ticks))
        yield _path("rule", "".join(f"M0 {y}H{self.room.width}" for y in rules))
        if self.lower < 0:
            yield _path("zero", f"M{self.x(0)} {self.top}V{self.bottom + 4}")
        labels = [_text(self.quantity.tick(tick), self.x(tick), self.bottom + 14) for tick in ticks]
        middle = self.x((self.lower + self.upper) / 2) if self.room.counts else self.room.width / 2
        units = [_text(line, middle, self.bottom + 31 + 16 * place) for place, line in enumerate(self.unit)]
        yield _group("tick", [*labels, *units])

    def marks(self, place: int) -> Iterator[str]:
        for line in self.lines:
            value = self.quantity.of(line.row)
            if line.series == place and value is not None:
                yield f"M{self.x(value)} {self.y(line):g}{shape(place)}"

    def whisker(self, line: Line) -> str:
        if line.row is None or not known(line.row["low"]):
            return ""
        low, high, y = self.x(line.row["low"]), self.x(line.row["high"]), self.y(line)
        return f"M{low} {y:g}H{high}M{low} {y - 3:g}v6M{high} {y - 3:g}v6"

    def beside(self, line: Line) -> Iterator[Markup]:
        """The numbers of one line, printed in columns."""
        row, y, right = line.row, self.y(line), self.room.width
        value = self.quantity.of(row)
        if row is None or value is None:
            yield _text(f"{DASH} {self.quantity.nothing}", right, y)
            return
        spread = self.quantity.spread(row["low"], row["high"]) if known(row["low"]) else "no interval"
        estimate, interval = self.quantity.ends_at(self.room)
        yield _text(self.quantity.write(value), right - estimate, y)
        yield _text(spread, right - interval, y)
        if self.room.counts:
            yield _text(self.quantity.counts(row), right, y)


def _ring(x: float, y: float) -> str:
    return f"M{x} {y:g}m-8 0a8 8 0 1 0 16 0a8 8 0 1 0-16 0z"


def _box(left: float, top: float, right: float, bottom: float) -> str:
    return f"M{left:g} {top:g}H{right:g}V{bottom:g}H{left:g}z"


def _text(content: object, x: float, y: float) -> Markup:
    return _tag("text", str(content), x=f"{x:g}", y=f"{y + 4.5:g}")


def _path(class_: str, d: str) -> Markup:
    return _tag("path", "", class_=class_, d=d) if d else Markup("")


def _group(class_: str, parts: Iterable[Markup]) -> Markup:
    return _tag("g", Markup("").join(parts), class_=class_)


def _short(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _tag(name: str, content: str | Markup, **attributes: object) -> Markup:
    """One SVG element, escaped; a trailing underscore escapes Python's keywords."""
    pairs = ((key.rstrip("_"), value) for key, value in attributes.items())
    spelled = Markup("").join(Markup(' {}="{}"').format(_dashed(k), v) for k, v in pairs)
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(name), spelled, escape(content))  # noqa: S704 (the names of elements are ours)


def _dashed(key: str) -> str:
    return key.replace("_", "-")
