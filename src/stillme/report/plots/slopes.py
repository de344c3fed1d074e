"""Before and after: each group's mean without the sentence and with it, on the same cases."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from stillme.report.context import Context
from stillme.report.lookup import Row
from stillme.report.numbers import count, decimal, known, signed
from stillme.report.plots.drawn import Drawn, drawn
from stillme.report.plots.palette import INK, LINE, MUTED
from stillme.report.plots.parts import POINTS, Scale, extremes, labels, most, panels, scale, sentences
from stillme.report.plots.sheet import SIZE, SMALL, Sheet, Style, cut

_TALL, _ABOVE, _BELOW, _APART = 118.0, 30.0, 12.0, 8.6
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
        page, each = Sheet(wide), _ABOVE + _TALL + _BELOW
        places = panels(len(wanted), 1 if page.is_narrow else 3, right=wide)
        for axis, (line, left, right) in zip(wanted, places, strict=True):
            label = context.protocol.axes[axis].label
            _panel(page, label, (against, arm), rows[axis], groups, left, right, line * each)
            page.height = (line + 1) * each
        return page

    said = [_said(axis, own, groups, context) for axis in wanted]
    return drawn(id, title, layout, sentences(said), _note(own), own)


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
    for x, arm in ((first, arms[0]), (last, arms[1])):
        page.words(arm, x, top + 20, SMALL, "middle", colour=MUTED)
        page.lines(Style(stroke=LINE), ((x, top + _ABOVE - 4), (x, top + _ABOVE + _TALL)))
    if not ends:
        page.hatched(first, top + _ABOVE, last, top + _ABOVE + _TALL)
        page.words(f"– {_NO_PAIR}", last + 6, top + _ABOVE + 6, SMALL, colour=MUTED)
        return
    up = _upright(ends, top + _ABOVE + 4, top + _ABOVE + _TALL - 4)
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
    _numbers(
        page,
        [(up.at(known_[g]["first_mean"]), decimal(known_[g]["first_mean"], 2)) for g in order],
        first - 6,
        "end",
    )
    room = right - last - 6
    told = [
        (up.at(known_[g]["second_mean"]), f"{decimal(known_[g]['second_mean'], 2)} {groups[g]}") for g in order
    ]
    _numbers(page, [(y, cut(text, room, SMALL)) for y, text in told], last + 6, "start")
    if lost := [label for group, label in groups.items() if group not in known_]:
        page.words(
            cut(f"– {', '.join(lost)}: {_NO_PAIR}", right - left, SMALL),
            left,
            top + _ABOVE + _TALL + 6,
            SMALL,
            colour=MUTED,
        )


def _upright(values: Sequence[float], top: float, bottom: float) -> Scale:
    """High values at the top."""
    across = scale(values, bottom, top, POINTS, low=None, most=None)
    low, high = min(values), max(values)
    pad = max((high - low) * 0.05, 0.02)
    return Scale(low - pad, high + pad, across.step, bottom, top)


def _numbers(page: Sheet, told: list[tuple[float, str]], x: float, anchor: str) -> None:
    """Labels near their places, moved apart where they would cover each other."""
    once = list(dict.fromkeys(told))  # the same number at the same height is said once
    for (_, text), y in zip(once, _apart([y for y, _ in once]), strict=True):
        page.words(text, x, y, SMALL, anchor)  # type: ignore[arg-type]


def _apart(heights: Sequence[float]) -> list[float]:
    """The same order, none nearer to the next than `_APART`, as near to where they belong as that allows."""
    order = sorted(range(len(heights)), key=lambda n: (heights[n], n))
    clusters: list[list[int]] = []
    for n in order:
        clusters.append([n])
        while len(clusters) > 1 and _top(clusters[-1], heights) < _bottom(clusters[-2], heights) + _APART:
            last = clusters.pop()
            clusters[-1] += last
    placed = list(heights)
    for cluster in clusters:
        for place, n in enumerate(cluster):
            placed[n] = _top(cluster, heights) + place * _APART
    return placed


def _top(cluster: Sequence[int], heights: Sequence[float]) -> float:
    return sum(heights[n] for n in cluster) / len(cluster) - (len(cluster) - 1) / 2 * _APART


def _bottom(cluster: Sequence[int], heights: Sequence[float]) -> float:
    return _top(cluster, heights) + (len(cluster) - 1) * _APART


def _said(axis: str, rows: pl.DataFrame, groups: dict[str, str], context: Context) -> str:
    own = rows.filter(pl.col("axis") == axis).to_dicts()
    values = [(row["difference"], groups[row["group"]]) for row in own]
    return extremes(f"Change of {context.protocol.axes[axis].label.lower()}", values, signed, _NO_PAIR)


def _note(rows: pl.DataFrame) -> str:
    if not rows.height:
        return ""
    pairs, cases = most(rows["pairs"]), most(rows["cases"] - rows["pairs"])
    people = sorted({int(n) for n in rows["persons"]})
    who = count(people[0]) if len(people) == 1 else f"{count(people[0])} to {count(people[-1])}"
    return (
        f"{who} persons a group, up to {count(pairs)} cases with both arms, up to {count(cases)} lack one. "
        "Lines show means (where a scale has a score for no change, of the distance to it); intervals of the "
        "changes are in the data. A change follows its own baseline without any effect: compare arms, not slopes."
    )
