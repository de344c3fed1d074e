"""Variance components: how much of what differs between scores lies in persons, prompts, edits and chance."""

from __future__ import annotations

import polars as pl

from stillme.report.context import Context
from stillme.report.lookup import by_key
from stillme.report.numbers import capital, count, known, percent
from stillme.report.plots.drawn import Drawn, drawn
from stillme.report.plots.palette import AMOUNTS, INK, MUTED
from stillme.report.plots.parts import RULE, extremes, sentences
from stillme.report.plots.sheet import SIZE, SMALL, WIDE, Sheet, Style, cut, wrapped

_LEFT, _EACH, _TOP = 92.0, 20.0, 26.0
_NO_FIT = "no model could be fitted"
_NAMES = {"person:editor": "person under one editor", "residual": "one score to the next"}


def components(id: str, title: str, frame: pl.DataFrame, context: Context) -> Drawn:
    """`frame`: `components`. A line an axis, a column a factor; every cell has its bar on the same scale."""
    axes = [axis for axis in context.protocol.axes if axis in set(frame["axis"])]
    factors = frame["factor"].unique(maintain_order=True).to_list()
    cells = by_key(frame, "axis", "factor")
    page = Sheet(WIDE, _TOP + _EACH * max(1, len(axes)) + 16)
    room = (WIDE - _LEFT) / max(1, len(factors))
    for place, factor in enumerate(factors):
        _heading(page, _factor(factor), _LEFT + place * room, room)
    for line, axis in enumerate(axes):
        y = _TOP + (line + 0.5) * _EACH
        page.lines(RULE, ((0, y - _EACH / 2), (WIDE, y - _EACH / 2)))
        page.words(cut(context.protocol.axes[axis].label, _LEFT - 6), 0, y, SIZE, bold=True)
        for place, factor in enumerate(factors):
            row = cells.get((axis, factor))
            _cell(page, None if row is None else row["share"], _LEFT + place * room, room, y)
    page.words("share of the latent variance; a whole bar is 100 %", _LEFT, page.height - 7, SMALL, colour=MUTED)
    said = [
        extremes(
            context.protocol.axes[axis].label,
            [((cells.get((axis, factor)) or {}).get("share"), _factor(factor)) for factor in factors],
            percent,
            _NO_FIT,
        )
        for axis in axes
    ]
    return drawn(id, title, page, sentences(said), _note(frame), frame)


def _factor(factor: str) -> str:
    return _NAMES.get(factor, factor.replace(":", " × "))


def _heading(page: Sheet, text: str, left: float, room: float) -> None:
    lines = wrapped(capital(text), room - 6, SMALL)
    for place, line in enumerate(lines):
        page.words(line, left, _TOP - 6 - (len(lines) - 1 - place) * 8.5, SMALL, colour=MUTED)


def _cell(page: Sheet, share: float | None, left: float, room: float, y: float) -> None:
    wide = room - 34
    if share is None or not known(share):
        page.hatched(left, y - 4, left + wide, y + 4)
        page.words("–", left + wide + 30, y, SMALL, "end", colour=MUTED)
        return
    page.box(Style(fill=AMOUNTS[0]), left, y - 4, left + wide, y + 4)
    page.box(Style(fill=AMOUNTS[3], stroke=INK, width=0.4), left, y - 4, left + max(wide * share, 0.3), y + 4)
    page.words(percent(share), left + wide + 30, y, SMALL, "end")


def _note(frame: pl.DataFrame) -> str:
    levels = {
        str(f): n for f, n in frame.select("factor", "levels").unique("factor", maintain_order=True).iter_rows()
    }
    told = [f"{_factor(factor)} {count(int(n))}" for factor, n in levels.items() if n is not None]
    return f"Levels: {', '.join(told)}." if told else ""
