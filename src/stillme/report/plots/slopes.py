"""Before and after: each group's mean without the sentence and with it, on the same cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from stillme.analysis.numbers import count, decimal, known, signed
from stillme.report.context import Context
from stillme.report.lookup import Row
from stillme.report.plots.drawn import Drawn, drawn
from stillme.report.plots.palette import INK, LINE, MUTED
from stillme.report.plots.parts import POINTS, Scale, extremes, labels, most, panels, ranged, scale, sentences
from stillme.report.plots.sheet import SIZE, SMALL, Anchor, Sheet, Style, cut

_TALL, _ABOVE, _BELOW, _APART, _INSIDE = 118.0, 30.0, 12.0, 8.6, 4.0
_NO_PAIR = "no case has both arms"


def slopes(
    id: str,
    title: str,
    frame: pl.DataFrame,
    context: Context,
    dimension: str,
    arm: str,
    against: str,
    axes: Sequence[str] = (),
) -> Drawn:
    """`frame`: `mitigation_by_group`. A panel an axis, a line a group."""
    about = (pl.col("arm") == arm) & (pl.col("against") == against) & (pl.col("dimension") == dimension)
    own = frame.filter(about)
    wanted = [axis for axis in axes or context.protocol.axes if axis in set(own["axis"])]
    own = own.filter(pl.col("axis").is_in(wanted))
    groups = labels(context, dimension, own["group"])
    rows = {axis: {row["group"]: row for row in own.filter(pl.col("axis") == axis).to_dicts()} for axis in wanted}

    def layout(wide: float) -> Sheet:
        page, each = Sheet(wide), _ABOVE + _tall(groups) + _BELOW
        places = panels(len(wanted), 1 if page.is_narrow else 3, right=wide)
        for axis, (line, left, right) in zip(wanted, places, strict=True):
            label = context.protocol.axes[axis].label
            _panel(page, label, (against, arm), rows[axis], groups, left, right, line * each)
            page.height = (line + 1) * each
        return page

    said = [_said(axis, own, groups, context) for axis in wanted]
    return drawn(id, title, layout, sentences(said), _note(own), own)


def _tall(groups: Mapping[str, str]) -> float:
    """How tall a panel is: every group has room for its label."""
    return max(_TALL, len(groups) * _APART + 2 * _INSIDE)


def _panel(
    page: Sheet,
    label: str,
    arms: tuple[str, str],
    rows: dict[str, Row],
    groups: dict[str, str],
    left: float,
    right: float,
    top: float,
) -> None:
    known_ = {g: row for g, row in rows.items() if known(row["first_mean"]) and known(row["second_mean"])}
    ends = [value for row in known_.values() for value in (row["first_mean"], row["second_mean"])]
    first, last = left + 24, right - min(94.0, (right - left) * 0.55)
    page.words(cut(label, right - left), left, top + 6, SIZE, bold=True)
    _headings(page, arms, left, last, right, top + 20)
    start, end = top + _ABOVE, top + _ABOVE + _tall(groups)
    for x in (first, last):
        page.lines(Style(stroke=LINE), ((x, start - 4), (x, end)))
    if not ends:
        page.hatched(first, start, last, end)
        page.words(f"– {_NO_PAIR}", last + 6, start + 6, SMALL, colour=MUTED)
        return
    up = _upright(ends, start + _INSIDE, end - _INSIDE)
    order = [group for group in groups if group in known_]
    for group in order:
        row = known_[group]
        page.lines(
            Style(stroke=MUTED, width=1.0), ((first, up.at(row["first_mean"])), (last, up.at(row["second_mean"])))
        )
    for place, group in enumerate(order):
        row = known_[group]
        for x, value in ((first, row["first_mean"]), (last, row["second_mean"])):
            page.mark(Style(fill=INK, stroke=INK, width=0.5), place, x, up.at(value), 2.2)
    before = [(known_[g]["first_mean"], decimal(known_[g]["first_mean"], 2)) for g in order]
    after = [(known_[g]["second_mean"], f"{decimal(known_[g]['second_mean'], 2)} {groups[g]}") for g in order]
    room = right - last - 6
    _numbers(page, up, before, first - 6, "end")
    _numbers(page, up, [(value, cut(text, room, SMALL)) for value, text in after], last + 6, "start")
    if lost := [label for group, label in groups.items() if group not in known_]:
        page.words(
            cut(f"– {', '.join(lost)}: {_NO_PAIR}", right - left, SMALL),
            left,
            end + 6,
            SMALL,
            colour=MUTED,
        )


def _headings(page: Sheet, arms: tuple[str, str], left: float, last: float, right: float, middle: float) -> None:
    """The two arms over the panel; neither reaches into the other, or out of the panel."""
    for arm, start, end in ((arms[0], left, last - 6), (arms[1], last, right)):
        page.words(cut(arm, end - start, SMALL), start, middle, SMALL, colour=MUTED)


def _upright(values: Sequence[float], top: float, bottom: float) -> Scale:
    """High values at the top."""
    across = scale(values, bottom, top, POINTS, low=None, most=None)
    low, high = min(values), max(values)
    pad = max((high - low) * 0.05, 0.02)
    return Scale(low - pad, high + pad, across.step, bottom, top)


def _numbers(page: Sheet, up: Scale, told: Sequence[tuple[float, str]], x: float, anchor: Anchor) -> None:
    """Labels near their values, moved apart where they would cover each other."""
    once = list(dict.fromkeys(told))  # the same words at the same height are said once
    for (_, text), y in zip(once, _apart([up.at(value) for value, _ in once], up.right, up.left), strict=True):
        page.words(text, x, y, SMALL, anchor)


def _apart(heights: Sequence[float], top: float, bottom: float) -> list[float]:
    """The same order, none nearer to the next than `_APART`, as near to where they belong as that and the ends
    allow."""

    def first(cluster: Sequence[int]) -> float:
        tall = (len(cluster) - 1) * _APART
        middle = sum(heights[n] for n in cluster) / len(cluster)
        return max(top, min(middle - tall / 2, bottom - tall))

    clusters: list[list[int]] = []
    for n in sorted(range(len(heights)), key=lambda n: (heights[n], n)):
        clusters.append([n])
        while len(clusters) > 1 and first(clusters[-1]) < first(clusters[-2]) + len(clusters[-2]) * _APART:
            last = clusters.pop()
            clusters[-1] += last
    placed = {n: first(cluster) + place * _APART for cluster in clusters for place, n in enumerate(cluster)}
    return [placed[n] for n in range(len(heights))]


def _said(axis: str, rows: pl.DataFrame, groups: dict[str, str], context: Context) -> str:
    own = rows.filter(pl.col("axis") == axis).to_dicts()
    values = [(row["difference"], groups[row["group"]]) for row in own]
    return extremes(f"Change of {context.protocol.axes[axis].label.lower()}", values, signed, _NO_PAIR)


def _note(rows: pl.DataFrame) -> str:
    if not rows.height:
        return ""
    pairs, cases = most(rows["pairs"]), most(rows["cases"] - rows["pairs"])
    who = ranged(rows["persons"])
    return (
        f"{who} persons a group, up to {count(pairs)} cases with both arms, up to {count(cases)} lack one. "
        "Lines show means (where a scale has a score for no change, of the distance to it); intervals of the "
        "changes are in the data. A change follows its own baseline without any effect: compare arms, not slopes."
    )
