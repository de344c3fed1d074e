"""Prompt × group: shrunken rates as a heat map, and a mark where a cell stands out after correction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from stillme.analysis.numbers import count, known, of, percent, plural
from stillme.report.context import Context
from stillme.report.lookup import Row, by_key
from stillme.report.plots.drawn import Drawn, drawn
from stillme.report.plots.palette import INK, amount, over
from stillme.report.plots.parts import (
    HEADING,
    Entry,
    extremes,
    heading,
    headings,
    labels,
    legend,
    most,
    panels,
    sentences,
)
from stillme.report.plots.sheet import SMALL, WHISKERS, Sheet, Style, cut, width
from stillme.report.tables import NOTHING_JUDGED
from stillme.stats.shrunken import BELOW

_LEFT, _NARROW_LEFT, _ROW = 138.0, 96.0, 12.0
_SHADES = 16  # as many as an eye may tell apart, and as few paths


def heatmap(id: str, title: str, frame: pl.DataFrame, context: Context, outcome: str, dimension: str) -> Drawn:
    """`frame`: `shrunken_by_race`. A panel an editor, a line a prompt, a column a group."""
    own = frame.filter(pl.col("outcome") == outcome)
    groups = labels(context, dimension, own["group"])
    prompts = _prompts(own, context)
    cells = by_key(own, "editor", "prompt", "group")
    highest = max([0.05, *own["shrunken"].drop_nulls()])

    def layout(wide: float) -> Sheet:
        page = Sheet(wide)
        top = legend(page, 0.0, _legend(highest)) + 2
        first = _NARROW_LEFT if page.is_narrow else _LEFT
        places = list(panels(len(context.editors), 1 if page.is_narrow else 3, first, wide, gap=10))
        named = headings(context, places[0][2] - places[0][1])
        head = 19 + HEADING * (max(map(len, named)) - 1)
        head += max((width(label, SMALL) for label in groups.values()), default=0) * 0.92
        each = head + len(prompts) * _ROW + 12
        for party, name, (line, left, right) in zip(context.editors, named, places, strict=True):
            start = top + line * each
            if left == first:
                _names(page, prompts, first - 6, start + head)
            heading(page, name, left, start)
            room = (right - left) / max(1, len(groups))
            for column, (group, label) in enumerate(groups.items()):
                page.upwards(label, left + (column + 0.5) * room, start + head - 3)
                for row, prompt in enumerate(prompts):
                    box = (left + column * room, start + head + row * _ROW)
                    _cell(page, cells.get((party.id, prompt, group)), highest, *box, room)
            page.height = start + each
        return page

    said = [
        _said(party.name, own.filter(pl.col("editor") == party.id), prompts, groups) for party in context.editors
    ]
    return drawn(id, title, layout, sentences(said), _note(own), own)


def _prompts(rows: pl.DataFrame, context: Context) -> dict[str, str]:
    """Id -> what is printed, in the protocol's order."""
    seen = set(rows["prompt"])
    ours = {one.id: f"{one.id} {one.label}" for one in context.protocol.prompts.prompts if one.id in seen}
    return ours | {str(prompt): str(prompt) for prompt in sorted(seen - set(ours))}


def _names(page: Sheet, prompts: Mapping[str, str], room: float, top: float) -> None:
    for row, name in enumerate(prompts.values()):
        page.words(cut(name, room, SMALL), 0, top + (row + 0.5) * _ROW, SMALL)


def _cell(page: Sheet, row: Row | None, highest: float, left: float, top: float, room: float) -> None:
    if row is None or not known(row["shrunken"]):
        page.hatched(left + 0.5, top + 0.5, left + room - 0.5, top + _ROW - 0.5)
        return
    fill = amount(round(row["shrunken"] / highest * _SHADES) / _SHADES)
    page.box(Style(fill=fill), left + 0.4, top + 0.4, left + room - 0.4, top + _ROW - 0.4)
    text = f"{row['shrunken'] * 100:.0f}"
    if row["marked"]:
        _triangle(page, row["marked"] == "above", left + room - 3.4, top + 3.4, over(fill))
        page.box(
            Style(stroke=INK, width=1.0), left + 0.6, top + 0.6, left + room - 0.6, top + _ROW - 0.6, WHISKERS
        )
    if width(text, SMALL) <= room - 1:
        page.words(
            text, left + room / 2, top + _ROW / 2, SMALL, "middle", bold=bool(row["marked"]), colour=over(fill)
        )


def _triangle(page: Sheet, up: bool, x: float, y: float, colour: str) -> None:
    page.mark(Style(fill=colour), 2 if up else 4, x, y, 1.7)


def _legend(highest: float) -> Sequence[Entry]:
    def shades(sheet: Sheet, x: float, y: float) -> None:
        for place in range(4):
            sheet.box(Style(fill=amount(place / 3)), x - 9 + place * 4.5, y - 3, x - 4.5 + place * 4.5, y + 3)

    def marked(sheet: Sheet, x: float, y: float) -> None:
        sheet.box(Style(stroke=INK, width=1.0), x - 6, y - 4, x + 8, y + 4)
        _triangle(sheet, True, x - 2.5, y, INK)
        _triangle(sheet, False, x + 3.5, y, INK)

    def missing(sheet: Sheet, x: float, y: float) -> None:
        sheet.hatched(x - 6, y - 4, x + 8, y + 4)

    return (
        Entry(shades, f"shrunken rate in percent, 0 to {percent(highest)}"),
        Entry(marked, f"above or below the prompt's other groups (false discovery rate {BELOW:.0%})"),
        Entry(missing, NOTHING_JUDGED),
    )


def _said(name: str, rows: pl.DataFrame, prompts: Mapping[str, str], groups: Mapping[str, str]) -> str:
    values = [
        (row["shrunken"], f"{prompts[row['prompt']]}, {groups[row['group']]}")
        for row in rows.to_dicts()
        if row["group"] in groups
    ]
    marked = rows.filter(pl.col("marked").is_not_null()).height
    return f"{extremes(name, values, percent, NOTHING_JUDGED)} {plural(marked, 'cells')} marked."


def _note(rows: pl.DataFrame) -> str:
    asked, judged = int(rows["asked"].sum()), int(rows["judged"].sum())
    empty = rows.filter(pl.col("judged") == 0).height
    people = most(rows["persons"])
    return (
        f"{of(judged, asked)} edits judged, {count(asked - judged)} missing, {plural(empty, 'cells')} without "
        f"any; up to {plural(people, 'persons')} a cell. Exploratory: cells name where to look and carry no claim."
    )
