"""What figures share: scales, axes, legends, and the names of editors and groups in their order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from stillme.analysis.numbers import count, known
from stillme.report.context import Context
from stillme.report.plots.palette import INK, LINE, MUTED, PAGE, series
from stillme.report.plots.sheet import SIZE, SMALL, WIDE, Sheet, Style, cut, width, wrapped

GRID, ZERO = Style(stroke=LINE, width=0.6), Style(stroke=MUTED, width=0.8)
RULE = Style(stroke=LINE, width=0.6)
AROUND, WITHIN = Style(stroke=PAGE, width=2.6), Style(stroke=INK, width=0.9)  # of a whisker over a bar
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.25)  # steps of an axis of shares
POINTS = (0.1, 0.2, 0.5, 1.0, 2.0)  # steps of an axis of scores
ROW = 11.0  # the height of a line
TICK = 24.0  # the room of a tick's number


@dataclass(frozen=True)
class Scale:
    """Values on a line from `left` to `right`, cut into whole steps."""

    low: float
    high: float
    step: float
    left: float
    right: float

    def at(self, value: float) -> float:
        inside = min(max(value, self.low), self.high)
        return self.left + (inside - self.low) / (self.high - self.low) * (self.right - self.left)

    def ticks(self) -> list[float]:
        return [self.low + place * self.step for place in range(round((self.high - self.low) / self.step) + 1)]


def scale(
    values: Iterable[float | None],
    left: float,
    right: float,
    steps: Sequence[float] = SHARES,
    low: float | None = 0.0,
    most: float | None = 1.0,
) -> Scale:
    """A scale that holds all values and zero, in the smallest steps whose ticks have room. `low`: where it starts;
    None: the values decide. `most`: its end at most."""
    found = [0.0, *(value for value in values if value is not None and known(value))]
    first, last = min(found) if low is None else low, max(found)
    scales = [_stepped(first, last, step, most, left, right) for step in steps]
    fit = min(5, (right - left) // TICK)
    return next((one for one in scales if len(one.ticks()) - 1 <= fit), scales[-1])


def _stepped(first: float, last: float, step: float, most: float | None, left: float, right: float) -> Scale:
    upper = step * max(1 if first == 0 else 0, math.ceil(round(last / step, 9)))
    lower = step * math.floor(round(first / step, 9))
    return Scale(lower, upper if most is None else min(most, upper), step, left, right)


def whole(share: float) -> str:
    """A tick of an axis of shares, in percent."""
    text = f"{abs(share) * 100:.0f}"
    return f"−{text}" if share < 0 and text != "0" else text


def axis(
    sheet: Sheet, across: Scale, top: float, bottom: float, unit: str = "", write: Callable[[float], str] = whole
) -> float:
    """Grid, ticks beneath it, and what they are ticks of. Gives the height beneath them."""
    ticks = across.ticks()
    sheet.lines(GRID, *(((across.at(t), top), (across.at(t), bottom + 2.5)) for t in ticks))
    zero = across.at(0.0)
    sheet.lines(ZERO, ((zero, top), (zero, bottom + 2.5)))
    for tick in ticks:
        sheet.words(write(tick), across.at(tick), bottom + 8, SMALL, "middle", colour=MUTED)
    lines = wrapped(unit, sheet.width, SMALL) if unit else []
    for place, line in enumerate(lines):
        centre, half = (across.left + across.right) / 2, width(line, SMALL) / 2
        x = max(half, min(centre, sheet.width - half))
        sheet.words(line, x, bottom + 18 + place * HEADING, SMALL, "middle", colour=MUTED)
    return bottom + AXIS + HEADING * max(0, len(lines) - 1)


AXIS = 24.0  # the height that ticks and unit take
HEADING = 9.5  # from one line of several to the next


@dataclass(frozen=True)
class Entry:
    """A line of a legend: what is drawn at a place, and what it means."""

    draw: Callable[[Sheet, float, float], None]
    text: str


def legend(sheet: Sheet, top: float, entries: Sequence[Entry], left: float = 0.0) -> float:
    """Entries from left to right, as many a line as there is room for. Gives the height beneath them."""
    x, y = left, top + ROW / 2
    for entry in entries:
        lines = wrapped(entry.text, sheet.width - left - 20, SMALL, 3)
        needs = 20 + max(width(line, SMALL) for line in lines) + 8
        if x > left and x + needs > sheet.width + 8:
            x, y = left, y + ROW
        entry.draw(sheet, x + 9, y)
        for place, line in enumerate(lines):
            sheet.words(line, x + 20, y + place * HEADING, SMALL)
        x, y = x + needs, y + HEADING * (len(lines) - 1)
    return y + ROW / 2 + 3 if entries else top


def interval(sheet: Sheet, across: Scale, low: float, high: float, y: float) -> None:
    """A whisker over a bar, the page's colour around it: bars keep their colour in both modes, ink does not."""
    for style in (AROUND, WITHIN):
        sheet.whisker(style, across.at(low), across.at(high), y, 1.6)


# Editors and groups


def marked(place: int) -> Style:
    """The style of the place-th editor's marks and bars."""
    return Style(fill=series(place), stroke=INK, width=0.6)


def key(place: int) -> str:
    """The number of the place-th editor, which stands beside each of its lines."""
    return str(place + 1)


def editors(context: Context, boxes: bool = False) -> list[Entry]:
    """The legend of all editors: number, shape or box, name."""
    return [Entry(_symbol(place, boxes), party.name) for place, party in enumerate(context.editors)]


def _symbol(place: int, boxes: bool) -> Callable[[Sheet, float, float], None]:
    def draw(sheet: Sheet, x: float, y: float) -> None:
        sheet.words(key(place), x - 3, y, SMALL, "end", colour=MUTED)
        if boxes:
            sheet.box(marked(place), x, y - 3, x + 7, y + 3)
        else:
            sheet.mark(marked(place), place, x + 3, y)

    return draw


def labels(context: Context, dimension: str, seen: Iterable[str | None]) -> dict[str, str]:
    """Groups of a dimension, id -> label: those that the frame names, in the protocol's order, and then others."""
    known_, found = context.protocol.groups.labels(dimension), set(seen) - {None}
    ours = {group: label for group, label in known_.items() if group in found}
    return ours | {str(group): str(group) for group in sorted(map(str, found - set(known_)))}


def names(sheet: Sheet, label: str, top: float, bottom: float, room: float) -> None:
    """A group's name in the middle of its lines; in several where it is long and they are."""
    lines = wrapped(label, room, SIZE, max(1, int((bottom - top) // 9)))
    first = (top + bottom) / 2 - (len(lines) - 1) * 4.75
    for place, line in enumerate(lines):
        sheet.words(line, 0, first + place * 9.5, SIZE, bold=True)


def heading(sheet: Sheet, lines: Sequence[str], left: float, top: float) -> None:
    """An editor's name over its panel."""
    for place, line in enumerate(lines):
        sheet.words(line, left, top + 6 + place * HEADING, SIZE, bold=True)


def titled(sheet: Sheet, title: str, left: float, right: float, middle: float) -> None:
    """What a panel shows, over it; where the sheet is narrow, from its very edge."""
    start = 0.0 if sheet.is_narrow else left
    sheet.words(cut(title, right - start, SIZE * 1.06), start, middle, SIZE, bold=True)  # bold is wider


def headings(context: Context, room: float) -> list[list[str]]:
    """Editors' numbers and names in one line or two; a name that is cut can still be told by its number."""
    return [
        wrapped(f"{key(place)} {party.name}", room, SIZE * 1.06, 2) for place, party in enumerate(context.editors)
    ]


# In words


def most(counts: pl.Series) -> int:
    """The highest of some counts; 0 where there are none."""
    return max((int(n) for n in counts if n is not None), default=0)


def ranged(counts: pl.Series) -> str:
    """The lowest and the highest of some counts, or the one that they all are."""
    low, high = count(int(min(counts))), count(int(max(counts)))
    return low if low == high else f"{low} to {high}"


def extremes(
    name: str, values: Iterable[tuple[float | None, str]], write: Callable[[float | None], str], nothing: str
) -> str:
    """The lowest and the highest of some values, with what they belong to."""
    found = [(value, about) for value, about in values if value is not None and known(value)]
    if not found:
        return f"{name}: {nothing}."
    low, high = min(found, key=_value), max(found, key=_value)
    if low[0] == high[0]:
        return f"{name}: {write(low[0])} ({low[1] if len(found) == 1 else f'all {len(found)} alike'})."
    return f"{name}: from {write(low[0])} ({low[1]}) to {write(high[0])} ({high[1]})."


def _value(found: tuple[float, str]) -> float:
    return found[0]


def sentences(parts: Iterable[str]) -> str:
    return " ".join(part for part in parts if part)


def panels(
    count: int, most: int, left: float = 0.0, right: float = WIDE, gap: float = 14.0
) -> Iterator[tuple[int, float, float]]:
    """Places of panels that stand side by side, at most `most` in a line: the line, left and right of each."""
    columns = min(count, most)
    each = (right - left - gap * (columns - 1)) / max(1, columns)
    for place in range(count):
        start = left + (place % columns) * (each + gap)
        yield place // columns, start, start + each
