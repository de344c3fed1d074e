"""A sheet of paper: paths and words at places in points (1/72 inch), from the top left. What a figure is before it
is drawn; knows no matplotlib, and nothing of statistics.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from stillme.report.plots.palette import INK, LINE, NAIVE, SHAPES

WIDE, NARROW = 504.0, 228.0  # two columns of a paper (7 in), and a phone's page
SIZE, SMALL = 8.0, 7.0  # of words; nothing is smaller in print
Anchor = Literal["start", "middle", "end"]
Step = tuple[str, float, float]  # M and L with a place; C with handles is three of them
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Style:
    """How a path looks. `fill`, `stroke`: a colour, or none."""

    fill: str = ""
    stroke: str = ""
    width: float = 0.8
    dashed: bool = False
    opacity: float = 1.0


@dataclass
class Shape:
    """Paths of one style. A step is a letter (M, L, C, Z) and a place."""

    style: Style
    steps: list[Step] = field(default_factory=list)


@dataclass(frozen=True)
class Words:
    text: str
    x: float
    y: float  # of the baseline
    size: float = SIZE
    anchor: Anchor = "start"
    bold: bool = False
    colour: str = INK
    turned: bool = False  # reads upwards

    @property
    def look(self) -> tuple[object, ...]:
        return self.size, self.anchor, self.bold, self.colour, self.turned


UNDER, AREAS, WHISKERS, MARKS = range(4)  # layers of paths; words lie over all of them


@dataclass
class Sheet:
    """Paths lie in layers; within a layer those of one style become one, in the order of each style's first."""

    width: float = WIDE
    height: float = 0.0
    shapes: dict[tuple[int, Style], Shape] = field(default_factory=dict)
    texts: list[Words] = field(default_factory=list)

    @property
    def is_narrow(self) -> bool:
        """Too narrow for names, marks and all numbers side by side."""
        return self.width < WIDE

    def things(self) -> Iterator[Shape | Words]:
        """In the order in which they are painted; words that look alike follow each other."""
        yield from (self.shapes[key] for key in sorted(self.shapes, key=lambda key: key[0]))
        looks = {words.look: None for words in self.texts}
        for look in looks:
            yield from (words for words in self.texts if words.look == look)

    def words(
        self,
        text: object,
        x: float,
        middle: float,
        size: float = SIZE,
        anchor: Anchor = "start",
        bold: bool = False,
        colour: str = INK,
    ) -> None:
        """One line whose letters stand around the height `middle`."""
        if str(text):
            self.texts.append(Words(str(text), x, middle + 0.36 * size, size, anchor, bold, colour))

    def upwards(self, text: str, middle: float, y: float, size: float = SMALL, colour: str = INK) -> None:
        """One line that reads upwards from `y`, its letters around `middle`."""
        self.texts.append(Words(text, middle + 0.36 * size, y, size, "start", False, colour, turned=True))

    def path(self, style: Style, steps: Iterable[Step], layer: int = AREAS) -> None:
        self.shapes.setdefault((layer, style), Shape(style)).steps += steps

    def lines(self, style: Style, *lines: Points, layer: int = UNDER) -> None:
        for points in lines:
            self.path(style, _polyline(points), layer)

    def polygon(self, style: Style, points: Points, layer: int = AREAS) -> None:
        """Always turned the same way: two that overlap in one path are their union, without a hole."""
        turned = list(points)[:: 1 if _area(points) > 0 else -1]
        self.path(style, [*_polyline(turned), ("Z", *turned[0])], layer)

    def box(self, style: Style, left: float, top: float, right: float, bottom: float, layer: int = AREAS) -> None:
        self.polygon(style, [(left, top), (right, top), (right, bottom), (left, bottom)], layer)

    def mark(self, style: Style, place: int, x: float, y: float, radius: float = 2.7) -> None:
        """The shape of the place-th series."""
        corners = SHAPES[place % len(SHAPES)]
        if corners is None:
            self.path(style, _circle(x, y, radius), MARKS)
        else:
            self.polygon(style, [(x + radius * dx, y + radius * dy) for dx, dy in corners], MARKS)

    def whisker(self, style: Style, low: float, high: float, y: float, cap: float = 2.0) -> None:
        ends = [((at, y - cap), (at, y + cap)) for at in (low, high)] if cap else []
        self.lines(style, ((low, y), (high, y)), *ends, layer=WHISKERS)

    def hatched(self, left: float, top: float, right: float, bottom: float, gap: float = 4.0) -> None:
        """An area without a value: slanted lines, so that it is never taken for 0."""
        style = Style(stroke=NAIVE, width=0.5)
        at = left - (bottom - top) + gap
        while at < right:
            low, high = max(at, left), min(at + bottom - top, right)
            self.lines(style, ((low, bottom - (low - at)), (high, bottom - (high - at))), layer=AREAS)
            at += gap
        self.box(Style(stroke=LINE, width=0.5), left, top, right, bottom)


def _area(points: Points) -> float:
    """Twice the area, with the sign of the way round."""
    following = [*points[1:], points[0]]
    return sum(x * v - u * y for (x, y), (u, v) in zip(points, following, strict=True))


def _polyline(points: Points) -> list[Step]:
    return [("L" if place else "M", x, y) for place, (x, y) in enumerate(points)]


def _circle(x: float, y: float, r: float) -> list[Step]:
    k = 0.5522847498 * r  # how far handles reach for a quarter of a circle
    quarters = [
        ((r, k), (k, r), (0, r)),
        ((-k, r), (-r, k), (-r, 0)),
        ((-r, -k), (-k, -r), (0, -r)),
        ((k, -r), (r, -k), (r, 0)),
    ]
    steps: list[Step] = [("M", x + r, y)]
    steps += [("C", x + dx, y + dy) for quarter in quarters for dx, dy in quarter]
    return [*steps, ("Z", x + r, y)]


# How wide words are, nearly: by DejaVu Sans, which is wider than what pages use
_NARROW, _WIDEST = "iljtfI.,:;'|!()[]/ \N{NO-BREAK SPACE}", "mwMW%@—"


def width(text: str, size: float = SIZE) -> float:
    """How wide a line is, in points; a little too much rather than too little."""
    units = sum(0.4 if c in _NARROW else 0.95 if c in _WIDEST else 0.7 if c.isupper() else 0.63 for c in text)
    return units * size


def cut(text: str, room: float, size: float = SIZE) -> str:
    """The text, or what of it has room, with an ellipsis."""
    if width(text, size) <= room:
        return text
    kept = text
    while kept and width(kept + "…", size) > room:
        kept = kept[:-1]
    return kept.rstrip() + "…"


def wrapped(text: str, room: float, size: float = SIZE, most: int = 2) -> list[str]:
    """The text in at most `most` lines; the last one is cut where it has no room."""
    lines = [""]
    for part in re.findall(r"[^ /-]*(?:[/-]+| |$)", text):  # what may stand at the end of a line
        if lines[-1] and len(lines) < most and width((lines[-1] + part).rstrip(), size) > room:
            lines.append("")
        lines[-1] += part
    return [cut(line.rstrip(), room, size) for line in lines]
