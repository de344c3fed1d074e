"""Scores over their whole scale, group by group, around the score that means no change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from stillme.analysis.numbers import count, of, percent, plural
from stillme.protocol.schema import Axis
from stillme.report.context import Context
from stillme.report.plots.drawn import Drawn, drawn
from stillme.report.plots.palette import AMOUNTS, DIRECTIONS, MUTED, PAGE, over
from stillme.report.plots.parts import (
    HEADING,
    RULE,
    ZERO,
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
from stillme.report.plots.sheet import SIZE, SMALL, WHISKERS, Sheet, Style, cut, width
from stillme.report.tables import NOTHING_JUDGED

_LEFT, _ROW, _HEAD, _FOOT = 92.0, 14.0, 15.0, 12.0
Shares = Mapping[int, float]


def distributions(id: str, title: str, frame: pl.DataFrame, context: Context, axis: str, dimension: str) -> Drawn:
    """`frame`: `distributions_by_race` and the like. A panel an editor, a bar a group."""
    own = frame.filter(pl.col("axis") == axis)
    scale, groups = context.protocol.axes[axis], labels(context, dimension, own[dimension])
    fills = _fills(scale)
    rows = {(str(e), str(group)): part for (e, group), part in own.group_by("editor", dimension)}

    def layout(wide: float) -> Sheet:
        page = Sheet(wide)
        top = legend(page, 0.0, [_entry(scale, score, fills[score]) for score in sorted(scale.scale)]) + 4
        places = list(panels(len(context.editors), 1 if page.is_narrow else 3, _LEFT, wide))
        named = headings(context, places[0][2] - places[0][1])
        head = _HEAD + HEADING * (max(map(len, named)) - 1)
        each = head + len(groups) * _ROW + _FOOT
        for party, name, (line, left, right) in zip(context.editors, named, places, strict=True):
            start = top + line * each
            if left == _LEFT:
                _names(page, list(groups.values()), start + head)
            heading(page, name, left, start)
            _panel(
                page, scale, [rows.get((party.id, group)) for group in groups], fills, left, right, start + head
            )
            page.height = start + each
        return page

    said = [_said(party.name, party.id, own, scale, groups, dimension) for party in context.editors]
    return drawn(id, title, layout, sentences(said), _note(own, dimension), own)


def _fills(axis: Axis) -> dict[int, str]:
    """Two directions around no change, or one amount."""
    is_around = axis.is_signed or axis.neutral is None
    scores, colours = sorted(axis.scale), DIRECTIONS if is_around else AMOUNTS
    places = [round(n * (len(colours) - 1) / max(1, len(scores) - 1)) for n in range(len(scores))]
    return {score: colours[place] for score, place in zip(scores, places, strict=True)}


def _entry(axis: Axis, score: int, fill: str) -> Entry:
    words = axis.scale[score].split(":")[0].split("(")[0].strip()
    style = Style(fill=fill, stroke=MUTED, width=0.4)
    return Entry(lambda sheet, x, y: sheet.box(style, x - 2, y - 3, x + 7, y + 3), f"{score} {words}")


def _names(page: Sheet, names: Sequence[str], top: float) -> None:
    for place, name in enumerate(names):
        page.words(cut(name, _LEFT - 6), 0, top + (place + 0.5) * _ROW, SIZE, bold=True)


def _split(axis: Axis, shares: Shares) -> tuple[float, float]:
    """What lies left and right of the line: no change stands on it, or, where it is an end, to its left."""
    scores = sorted(axis.scale)
    middle = axis.neutral if axis.neutral is not None else scores[len(scores) // 2]
    left = sum(share for score, share in shares.items() if score < middle)
    if axis.neutral is not None and not axis.is_signed:
        return left + shares.get(middle, 0.0), 1 - left - shares.get(middle, 0.0)
    half = shares.get(middle, 0.0) / 2
    return left + half, 1 - left - half


def _panel(
    page: Sheet,
    axis: Axis,
    rows: Sequence[pl.DataFrame | None],
    fills: Mapping[int, str],
    left: float,
    right: float,
    top: float,
) -> None:
    known = [_shares(row) for row in rows]
    splits = [_split(axis, shares) for shares in known if shares]
    before, after = max((a for a, _ in splits), default=0.5), max((b for _, b in splits), default=0.5)
    unit = (right - left) / (before + after)
    zero = left + before * unit
    for place, shares in enumerate(known):
        y = top + (place + 0.5) * _ROW
        if not shares:
            page.hatched(left, y - 5, right, y + 5)
            page.box(
                Style(fill=PAGE), left + 2, y - 4.5, left + 4 + width(NOTHING_JUDGED, SMALL), y + 4.5, WHISKERS
            )
            page.words(NOTHING_JUDGED, left + 3, y, SMALL, colour=MUTED)
            continue
        x = zero - _split(axis, shares)[0] * unit
        for score, share in shares.items():
            x = _part(page, fills[score], share, x, share * unit, y)
    bottom = top + len(rows) * _ROW
    page.lines(RULE, ((left, top), (right, top)), ((left, bottom), (right, bottom)))
    page.lines(ZERO, ((zero, top - 3), (zero, bottom + 3)))  # behind the bars: it must not cross their numbers


def _part(page: Sheet, fill: str, share: float, x: float, wide: float, y: float) -> float:
    if share > 0:
        page.box(Style(fill=fill, stroke=PAGE, width=0.5), x, y - 5, x + wide, y + 5)
        if wide >= 12:
            page.words(f"{share * 100:.0f}", x + wide / 2, y, SMALL, "middle", colour=over(fill))
    return x + wide


def _shares(rows: pl.DataFrame | None) -> dict[int, float]:
    if rows is None or rows["part"].null_count() == rows.height:
        return {}
    return dict(rows.sort("score").select("score", "part").iter_rows())


def _said(
    name: str, editor: str, rows: pl.DataFrame, axis: Axis, groups: Mapping[str, str], dimension: str
) -> str:
    own = rows.filter(pl.col("editor") == editor)
    return extremes(f"{name}, {_counted_as(axis)}", _beyond(own, axis, groups, dimension), percent, NOTHING_JUDGED)


def _counted_as(axis: Axis) -> str:
    middle = axis.neutral if axis.neutral is not None else sorted(axis.scale)[len(axis.scale) // 2]
    return f"scores above {middle}"


def _beyond(
    rows: pl.DataFrame, axis: Axis, groups: Mapping[str, str], dimension: str
) -> Iterator[tuple[float | None, str]]:
    middle = axis.neutral if axis.neutral is not None else sorted(axis.scale)[len(axis.scale) // 2]
    for group, label in groups.items():
        part = rows.filter((pl.col(dimension) == group) & (pl.col("score") > middle)).drop_nulls("part")
        yield (float(part["part"].sum()) if part.height else None), label


def _note(rows: pl.DataFrame, dimension: str) -> str:
    each = rows.unique(["editor", dimension], maintain_order=True)
    asked, judged = int(each["asked"].sum()), int(each["judged"].sum())
    people = most(each["persons"])
    return (
        f"{of(judged, asked)} edits judged, {count(asked - judged)} missing and in no bar; up to "
        f"{plural(people, 'persons')} a bar. Numbers are percent. Nothing is rounded: a mean between two scores "
        "counts in both, by how near it is."
    )
