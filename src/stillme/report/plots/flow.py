"""Where skin goes on the Monk scale: from the source's nearest swatch to the edit's, as wide as edits are many."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from stillme.analysis.numbers import count, percent, plural
from stillme.report.context import Context
from stillme.report.plots.drawn import Drawn, drawn
from stillme.report.plots.palette import ABOVE, BELOW, MUTED, NAIVE, PAGE
from stillme.report.plots.parts import HEADING, Entry, heading, headings, legend, panels, sentences
from stillme.report.plots.sheet import MARKS, SMALL, Sheet, Step, Style, width

SWATCHES = (
    *("#f6ede4", "#f3e7db", "#f7ead0", "#eadaba", "#d7bd96"),
    *("#a07e56", "#825c43", "#604134", "#3a312a", "#292420"),
)
_TALL, _HEAD, _FOOT, _GAP, _NODE = 190.0, 28.0, 24.0, 3.0, 9.0
_UNREAD = "no picture's skin could be read"
_FILLS = {"lighter": ABOVE, "same": NAIVE, "darker": BELOW}
_ORDER = ("same", "darker", "lighter")  # painted one over the other
Flows = Mapping[tuple[int, int], int]


def flow(id: str, title: str, frame: pl.DataFrame, context: Context) -> Drawn:
    """`frame`: `Measured.tones`. A panel an editor."""
    found = [_found(frame.filter(pl.col("editor") == party.id)) for party in context.editors]

    def layout(wide: float) -> Sheet:
        page = Sheet(wide)
        top = legend(page, 0.0, [_entry(name) for name in _FILLS]) + 2
        places = list(panels(len(context.editors), 1 if page.is_narrow else 3, right=wide, gap=18))
        named = headings(context, places[0][2] - places[0][1])
        head = _HEAD + HEADING * (max(map(len, named)) - 1)
        each = head + _TALL + _FOOT
        for (flows, unread), name, (line, left, right) in zip(found, named, places, strict=True):
            start = top + line * each
            heading(page, name, left, start)
            _panel(page, flows, left + 18, right - 18, start + head)
            _shares(page, flows, unread, left, start + head + _TALL + 8)
            page.height = start + each
        return page

    said = [_said(party.name, flows) for party, (flows, _) in zip(context.editors, found, strict=True)]
    return drawn(id, title, layout, sentences(said), _note(frame), frame)


def _found(rows: pl.DataFrame) -> tuple[Flows, int]:
    """How many edits went which way, and how many could not be read."""
    read = rows.drop_nulls("before")
    flows = {(a, b): n for a, b, n in read.select("before", "after", "edits").iter_rows()}
    return flows, int(rows["edits"].sum()) - int(read["edits"].sum())


def _entry(name: str) -> Entry:
    text = {"lighter": "lighter swatch after the edit", "same": "same swatch", "darker": "darker swatch"}[name]
    style = Style(fill=_FILLS[name], opacity=0.55)
    return Entry(lambda sheet, x, y: sheet.box(style, x - 5, y - 3, x + 8, y + 3), text)


def _way(before: int, after: int) -> str:
    return "lighter" if after < before else "darker" if after > before else "same"


def _panel(page: Sheet, flows: Flows, left: float, right: float, top: float) -> None:
    for x, side in ((left, "source"), (right, "edit")):
        page.words(side, x, top - 9, SMALL, "middle", colour=MUTED)
    if not flows:
        page.hatched(left, top, right, top + _TALL)
        half = width(_UNREAD, SMALL) / 2 + 3
        centre, middle = (left + right) / 2, top + _TALL / 2
        page.box(Style(fill=PAGE), centre - half, middle - 7, centre + half, middle + 7, MARKS)
        page.words(_UNREAD, centre, middle, SMALL, "middle", colour=MUTED)
        return
    unit = (_TALL - 9 * _GAP) / sum(flows.values())
    sides = _stacked(flows, 0, top, unit), _stacked(flows, 1, top, unit)
    for pair, edits in sorted(flows.items(), key=lambda item: (_ORDER.index(_way(*item[0])), item[0])):
        start, end = (_taken(sides[side], flows, side, pair, unit) for side in (0, 1))
        style = Style(fill=_FILLS[_way(*pair)], opacity=0.55)
        page.path(style, _ribbon(left + 5, start, right - 5, end, edits * unit))
    for place, x in enumerate((left, right)):
        _nodes(page, flows, place, sides[place], x, unit)


def _total(flows: Flows, side: int, tone: int) -> int:
    return sum(n for pair, n in flows.items() if pair[side] == tone)


def _stacked(flows: Flows, side: int, top: float, unit: float) -> dict[int, float]:
    """Where each swatch starts: lightest at the top."""
    starts, y = {}, top
    for tone in range(1, 11):
        starts[tone] = y
        y += _total(flows, side, tone) * unit + _GAP
    return starts


def _taken(starts: Mapping[int, float], flows: Flows, side: int, pair: tuple[int, int], unit: float) -> float:
    """Where a ribbon meets its swatch: those that go to, or come from, lighter ones first."""
    ahead = [n for one, n in flows.items() if one[side] == pair[side] and one[1 - side] < pair[1 - side]]
    return starts[pair[side]] + sum(ahead) * unit


def _ribbon(left: float, start: float, right: float, end: float, thick: float) -> list[Step]:
    middle = (left + right) / 2
    return [
        ("M", left, start),
        *(("C", x, y) for x, y in ((middle, start), (middle, end), (right, end))),
        ("L", right, end + thick),
        *(("C", x, y) for x, y in ((middle, end + thick), (middle, start + thick), (left, start + thick))),
        ("Z", left, start),
    ]


def _nodes(page: Sheet, flows: Flows, side: int, starts: Mapping[int, float], x: float, unit: float) -> None:
    last = -99.0
    for tone, y in starts.items():
        total = _total(flows, side, tone)
        if not total:
            continue
        page.box(Style(fill=SWATCHES[tone - 1], stroke=MUTED, width=0.5), x - 5, y, x + 5, y + total * unit, MARKS)
        middle = max(y + total * unit / 2, last + 7.6)
        page.words(tone, x - 8 if side == 0 else x + 8, middle, SMALL, "end" if side == 0 else "start")
        last = middle


def _shares(page: Sheet, flows: Flows, unread: int, left: float, y: float) -> None:
    parts = _parts(flows)
    total = sum(parts.values())
    if total:
        told = ", ".join(f"{name} {percent(n / total)}" for name, n in parts.items())
        page.words(told, left, y, SMALL)
    page.words(f"{count(total)} read, {count(unread)} not", left, y + 9, SMALL, colour=MUTED)


def _parts(flows: Flows) -> dict[str, int]:
    return {way: sum(n for pair, n in flows.items() if _way(*pair) == way) for way in _FILLS}


def _said(name: str, flows: Flows) -> str:
    if not flows:
        return f"{name}: {_UNREAD}."
    parts, total = _parts(flows), sum(flows.values())
    told = ", ".join(f"{way} {percent(n / total)}" for way, n in parts.items())
    (before, after), most = max(flows.items(), key=lambda item: item[1])
    tones = sorted({pair[0] for pair in flows})
    ends = f"sources from swatch {tones[0]} (lightest) to {tones[-1]} (darkest)"
    return f"{name}: {told}; {ends}; most often {before} to {after} ({plural(most, 'edits')})."


def _note(frame: pl.DataFrame) -> str:
    read = frame.drop_nulls("before")
    unread = int(frame["edits"].sum()) - int(read["edits"].sum())
    return (
        f"{count(int(read['edits'].sum()))} edits read, {count(unread)} that could not be read are in no ribbon. "
        "The nearest of the Monk scale's ten swatches follows the light of a picture as much as the person: it "
        "describes, and decides nothing."
    )
