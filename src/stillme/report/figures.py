"""The one figure helper: our own inline SVG, readable without colour, with title, description and data link.

A forest plot: one line a group and series (dot and whisker), the numbers printed beside it, and, where a value
was planted, a ring at that value. Series differ by number, shape and colour, always in this order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter

import polars as pl
from markupsafe import Markup, escape

from stillme.report.blocks import Block, Data, data
from stillme.report.numbers import DASH, INTERVAL, bracket, known, of, percent
from stillme.report.tables import NOTHING_JUDGED, Row

DRAWN = ("hits", "judged", "rate", "low", "high")  # what a forest plot shows of a row of `analysis.rates`
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
_WIDTH, _LEFT, _RIGHT, _LINE, _GAP, _TOP = 760, 150, 225, 17, 11, 12
_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.25)


@dataclass(frozen=True)
class Series:
    id: str
    name: str


@dataclass(frozen=True)
class Line:
    """One mark of a forest plot: a row of `analysis.rates` (or none), and the planted value if there is one."""

    group: str
    series: int
    row: Row | None
    planted: float | None = None

    @property
    def rate(self) -> float | None:
        """The estimate, or none where nothing was judged."""
        return self.row["rate"] if self.row is not None and known(self.row["rate"]) else None


@dataclass(frozen=True)
class Figure(Block):
    kind = "figure"
    id: str
    title: str
    alternative: str
    svg: Markup
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
) -> Figure:
    """Lines in the order of `groups`, then of `series`. `groups` and series names are shown as given."""
    alternative = " ".join(_described(series, lines))
    plot = _Plot(tuple(groups), tuple(series), tuple(lines), _upper(lines))
    body = Markup("").join(plot.parts())
    names = [_tag("title", title, id=f"{id}-title"), _tag("desc", alternative, id=f"{id}-desc")]
    svg = _tag(
        "svg",
        Markup("").join([*names, body]),
        viewBox=f"0 0 {_WIDTH} {plot.height}",
        role="img",
        aria_labelledby=f"{id}-title {id}-desc",
    )
    return Figure(id, title, alternative, svg, data(id, numbers))


def _described(series: Sequence[Series], lines: Sequence[Line]) -> Iterator[str]:
    """The text alternative: each series' lowest and highest group."""
    for place, one in enumerate(series):
        found = [(line.rate, line.group) for line in lines if line.series == place and line.rate is not None]
        if not found:
            yield f"{one.name}: {NOTHING_JUDGED}."
            continue
        low, high = min(found, key=itemgetter(0)), max(found, key=itemgetter(0))
        yield f"{one.name}: from {percent(low[0])} ({low[1]}) to {percent(high[0])} ({high[1]})."


def _upper(lines: Sequence[Line]) -> float:
    """The end of the axis: the highest value shown, rounded up to a whole step."""
    highest = max((value for line in lines for value in _values(line)), default=0.0)
    step = _step(highest)
    return min(1.0, step * max(1, -(-highest // step)))


def _values(line: Line) -> Iterator[float]:
    shown = (line.row["rate"], line.row["high"], line.planted) if line.row is not None else (line.planted,)
    return (value for value in shown if value is not None and known(value))


def _step(highest: float) -> float:
    return next((step for step in _STEPS if highest / step <= 5), _STEPS[-1])


@dataclass(frozen=True)
class _Plot:
    """Geometry of one forest plot: legend on top, axis beneath, numbers at the right."""

    groups: tuple[str, ...]
    series: tuple[Series, ...]
    lines: tuple[Line, ...]
    upper: float

    @property
    def top(self) -> int:
        rows = len(self.series) + bool(self._planted)
        return _TOP + rows * 19 + 8

    @property
    def group_height(self) -> int:
        return len(self.series) * _LINE + _GAP

    @property
    def bottom(self) -> int:
        return self.top + len(self.groups) * self.group_height

    @property
    def height(self) -> int:
        return self.bottom + 40

    def x(self, value: float) -> float:
        return round(_LEFT + value / self.upper * (_WIDTH - _LEFT - _RIGHT), 1)

    def y(self, line: Line) -> float:
        return (
            self.top + self.groups.index(line.group) * self.group_height + (line.series + 0.5) * _LINE + _GAP / 2
        )

    def parts(self) -> Iterator[Markup]:
        yield from self.axis()
        yield from self.legend()
        yield _group("group", self.names())
        yield _group("key", (_text(line.series + 1, _LEFT - 12, self.y(line)) for line in self.lines))
        yield _group("number", (number for line in self.lines for number in _beside(line, self.y(line))))
        yield _path("planted", "".join(_ring(self.x(value), self.y(line)) for value, line in self._planted))
        yield _path("whisker", "".join(map(self.whisker, self.lines)))
        for place in range(len(self.series)):
            yield _path(f"mark {colour(place)}", "".join(self.marks(place)))

    @property
    def _planted(self) -> list[tuple[float, Line]]:
        return [(line.planted, line) for line in self.lines if line.planted is not None and known(line.planted)]

    def names(self) -> Iterator[Markup]:
        for place, group in enumerate(self.groups):
            yield _text(_short(group, 20), 0, self.top + (place + 0.5) * self.group_height)

    def legend(self) -> Iterator[Markup]:
        for place, one in enumerate(self.series):
            y = _TOP + place * 19
            yield _group("key", [_text(place + 1, 8, y)])
            yield _path(f"mark {colour(place)}", f"M22 {y}{shape(place)}")
            yield _text(_short(one.name, 90), 36, y)
        if self._planted:
            y = _TOP + len(self.series) * 19
            yield _path("planted", _ring(22, y))
            yield _text("planted rate: the truth that the interval should cover", 36, y)

    def axis(self) -> Iterator[Markup]:
        step = _step(self.upper)
        ticks = [place * step for place in range(round(self.upper / step) + 1)]
        rules = [self.top + place * self.group_height for place in range(len(self.groups) + 1)]
        yield _path("grid", "".join(f"M{self.x(tick)} {self.top}V{self.bottom + 4}" for tick in ticks))
        yield _path("rule", "".join(f"M0 {y}H{_WIDTH}" for y in rules))
        labels = [_text(f"{tick * 100:.0f}", self.x(tick), self.bottom + 14) for tick in ticks]
        unit = _text(f"% of judged edits, {INTERVAL}", (_LEFT + _WIDTH - _RIGHT) / 2, self.bottom + 31)
        yield _group("tick", [*labels, unit])

    def marks(self, place: int) -> Iterator[str]:
        for line in self.lines:
            if line.series == place and line.rate is not None:
                yield f"M{self.x(line.rate)} {self.y(line):g}{shape(place)}"

    def whisker(self, line: Line) -> str:
        if line.row is None or not known(line.row["low"]):
            return ""
        low, high, y = self.x(line.row["low"]), self.x(line.row["high"]), self.y(line)
        return f"M{low} {y:g}H{high}M{low} {y - 3:g}v6M{high} {y - 3:g}v6"


def _ring(x: float, y: float) -> str:
    return f"M{x} {y:g}m-8 0a8 8 0 1 0 16 0a8 8 0 1 0-16 0z"


def _beside(line: Line, y: float) -> Iterator[Markup]:
    """The numbers of one line, printed in the figure in three columns."""
    row = line.row
    if row is None or not known(row["rate"]):
        yield _text(f"{DASH} {NOTHING_JUDGED}", _WIDTH, y)
        return
    yield _text(percent(row["rate"]), _WIDTH - 155, y)
    yield _text(bracket(row["low"], row["high"]) if known(row["low"]) else "no interval", _WIDTH - 65, y)
    yield _text(of(row["hits"], row["judged"]), _WIDTH, y)


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
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(name), spelled, escape(content))


def _dashed(key: str) -> str:
    return key.replace("_", "-")
