"""Variance components: how much of what differs between scores lies in persons, prompts, edits and chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from stillme.analysis.numbers import capital, known, percent
from stillme.report.context import Context
from stillme.report.lookup import by_key
from stillme.report.plots.drawn import Drawn, drawn
from stillme.report.plots.palette import AMOUNTS, BAND, INK, MUTED
from stillme.report.plots.parts import HEADING, ROW, RULE, extremes, ranged, sentences
from stillme.report.plots.sheet import SIZE, SMALL, WIDE, Sheet, Style, cut, wrapped

_LEFT, _NARROW_LEFT, _EACH, _TOP = 92.0, 104.0, 20.0, 26.0
_UNIT = "share of the latent variance; a whole bar is 100 %"
Shares = Mapping[tuple[str, str], float | None]
_NO_FIT = "no model could be fitted"
_NAMES = {"person:editor": "person under one editor", "residual": "one score to the next"}


def components(id: str, title: str, frame: pl.DataFrame, context: Context) -> Drawn:
    """`frame`: `components`. A line an axis, a column a factor; every cell has its bar on the same scale."""
    axes = [axis for axis in context.protocol.axes if axis in set(frame["axis"])]
    factors = frame["factor"].unique(maintain_order=True).to_list()
    cells = by_key(frame, "axis", "factor")
    names = {axis: context.protocol.axes[axis].label for axis in axes}
    shares = {
        (axis, factor): (cells.get((axis, factor)) or {}).get("share") for axis in axes for factor in factors
    }

    def layout(wide: float) -> Sheet:
        return _beside(names, factors, shares) if wide == WIDE else _beneath(names, factors, shares, wide)

    said = [
        extremes(
            context.protocol.axes[axis].label,
            [(shares[axis, factor], _factor(factor)) for factor in factors],
            percent,
            _NO_FIT,
        )
        for axis in axes
    ]
    return drawn(id, title, layout, sentences(said), _note(frame), frame)


def _beside(names: Mapping[str, str], factors: Sequence[str], shares: Shares) -> Sheet:
    page = Sheet(WIDE, _TOP + _EACH * max(1, len(names)) + 16)
    room = (WIDE - _LEFT) / max(1, len(factors))
    for place, factor in enumerate(factors):
        _heading(page, _factor(factor), _LEFT + place * room, room)
    for line, (axis, label) in enumerate(names.items()):
        y = _TOP + (line + 0.5) * _EACH
        page.lines(RULE, ((0, y - _EACH / 2), (WIDE, y - _EACH / 2)))
        page.words(cut(label, _LEFT - 6), 0, y, SIZE, bold=True)
        for place, factor in enumerate(factors):
            _cell(page, shares[axis, factor], _LEFT + place * room, room, y)
    page.words(_UNIT, _LEFT, page.height - 7, SMALL, colour=MUTED)
    return page


def _beneath(names: Mapping[str, str], factors: Sequence[str], shares: Shares, wide: float) -> Sheet:
    """Axes under each other, and of each its factors."""
    each = HEADING + ROW * len(factors) + 10
    page = Sheet(wide, each * max(1, len(names)) + 16)
    for line, (axis, label) in enumerate(names.items()):
        top = line * each
        page.lines(RULE, ((0, top), (wide, top)))
        page.words(cut(label, wide), 0, top + 8, SIZE, bold=True)
        for place, factor in enumerate(factors):
            y = top + HEADING + 6 + (place + 0.5) * ROW
            page.words(cut(capital(_factor(factor)), _NARROW_LEFT - 4, SMALL), 0, y, SMALL, colour=MUTED)
            _cell(page, shares[axis, factor], _NARROW_LEFT, wide - _NARROW_LEFT, y)
    page.words(_UNIT, 0, page.height - 7, SMALL, colour=MUTED)
    return page


def _factor(factor: str) -> str:
    return _NAMES.get(factor, factor.replace(":", " × "))


def _heading(page: Sheet, text: str, left: float, room: float) -> None:
    lines = wrapped(capital(text), room - 6, SMALL)
    for place, line in enumerate(lines):
        page.words(line, left, _TOP - 6 - (len(lines) - 1 - place) * 8.5, SMALL, colour=MUTED)


def _cell(page: Sheet, share: float | None, left: float, room: float, y: float) -> None:
    wide, end = room - 38, room - 3  # “100.0 %” has room between the bar and the next one
    if share is None or not known(share):
        page.hatched(left, y - 4, left + wide, y + 4)
        page.words("–", left + end, y, SMALL, "end", colour=MUTED)
        return
    page.box(Style(fill=BAND), left, y - 4, left + wide, y + 4)
    page.box(Style(fill=AMOUNTS[3], stroke=INK, width=0.4), left, y - 4, left + max(wide * share, 0.3), y + 4)
    page.words(percent(share), left + end, y, SMALL, "end")


def _note(frame: pl.DataFrame) -> str:
    levels = frame.drop_nulls("levels").group_by("factor", maintain_order=True)
    told = [f"{_factor(str(factor))} {ranged(own['levels'])}" for (factor,), own in levels]
    return f"Levels: {', '.join(told)}." if told else ""
