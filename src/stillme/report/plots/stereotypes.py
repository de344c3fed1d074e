"""Adherence beside the balanced gap: how often the stereotyped gender is given as published, what is left of it
once every cue points both ways equally often, and what is followed instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from stillme.analysis.numbers import INTERVAL, bracket, count, known, p_value, percent, plural, points
from stillme.report.context import Context
from stillme.report.lookup import Row, by_key
from stillme.report.plots.drawn import Drawn, drawn
from stillme.report.plots.estimates import THIN, Chart, Line, Mark, Whisker, put
from stillme.report.plots.palette import INK, MUTED, PAGE, series
from stillme.report.plots.parts import (
    ROW,
    RULE,
    SHARES,
    Entry,
    Scale,
    axis,
    editors,
    extremes,
    key,
    legend,
    most,
    names,
    panels,
    scale,
    sentences,
    titled,
)
from stillme.report.plots.sheet import SMALL, Sheet, Style
from stillme.stats.stereotype import ALL, FIRST_PORTRAIT, NAMED, POSITION, PRONOUN

_LEFT, _NUMBER, _NAME = 104.0, 38.0, 84.0
_HALF = 0.5  # what adherence is where neither gender is given more often
_EVEN = Style(stroke=MUTED, width=0.9, dashed=True)
_NO_CLEAR, _UNBALANCED = "no clear verdict", "not every combination has a verdict"


@dataclass(frozen=True)
class Panel:
    """A quantity with its interval. `even`: its value where no gender is given more often than the other."""

    title: str
    unit: str
    column: str
    low: str
    high: str
    even: float
    nothing: str
    write: Callable[[float | None], str]

    def across(self, rows: pl.DataFrame, left: float, right: float) -> Scale:
        if self.even:
            return scale([1.0], left, right)
        values = [*rows[self.column], *rows[self.low], *rows[self.high]]
        return scale(values, left, right, (*SHARES, 0.5), low=None)


ADHERENCE = Panel(
    "Adherence as published", "% of clear verdicts", "rate", "rate_low", "rate_high", _HALF, _NO_CLEAR, percent
)
GAP = Panel(
    "Gap with every cue balanced",
    "points: stereotyped − other gender",
    "gap",
    "low",
    "high",
    0.0,
    _UNBALANCED,
    points,
)


def stereotypes(
    id: str, title: str, frame: pl.DataFrame, context: Context, groups: Mapping[str, str], balanced: bool
) -> Drawn:
    """`frame`: editor × group with both quantities, see `beside`. `groups`: id -> label, in their order."""
    shown = (ADHERENCE, GAP) if balanced else (ADHERENCE,)
    cells = by_key(frame, "group", "editor")

    def layout(wide: float) -> Sheet:
        page = Sheet(wide)
        page.height = legend(page, 0.0, editors(context)) - 2
        for some in [[panel] for panel in shown] if page.is_narrow else [shown]:
            _panels(page, some, frame, cells, context, groups)
        return page

    said = [_said(panel, party.name, party.id, cells, groups) for panel in shown for party in context.editors]
    return drawn(id, title, layout, sentences(said), _note(frame, balanced), frame)


def beside(adherence: pl.DataFrame, gaps: pl.DataFrame | None, by: str) -> pl.DataFrame:
    """One row an editor and group with adherence (`rate`, `rate_low`, `rate_high`) and the gap (`gap`, `low`,
    `high`)."""
    first = adherence.select(
        "editor", pl.col(by).alias("group"), "asked", "clear", "rate", rate_low="low", rate_high="high"
    )
    if gaps is None:
        missing = pl.lit(None, pl.Float64)
        return first.with_columns(prompts=pl.lit(None, pl.Int64), gap=missing, low=missing, high=missing)
    second = gaps.select("editor", pl.col(by).alias("group"), "prompts", "gap", "low", "high")
    return first.join(second, on=["editor", "group"], how="left", maintain_order="left")


def _panels(
    page: Sheet,
    shown: Sequence[Panel],
    frame: pl.DataFrame,
    cells: Mapping[tuple[str, ...], Row],
    context: Context,
    groups: Mapping[str, str],
) -> None:
    """Quantities side by side, beneath what is there already; groups are named once, at the left."""
    top, each = page.height + 16, len(context.editors) * ROW + 5
    bottom = top + each * len(groups)
    page.lines(RULE, *(((0, top + each * n), (page.width, top + each * n)) for n in range(len(groups) + 1)))
    places = list(_lines(context, groups, top, each))
    for place, label in enumerate(groups.values()):
        names(page, label, top + place * each, top + (place + 1) * each, _NAME)
    for _, _, n, y in places:
        page.words(key(n), _LEFT - 6, y, SMALL, "end", colour=MUTED)
    for panel, (_, left, right) in zip(shown, panels(len(shown), 2, _LEFT, page.width, gap=16), strict=True):
        across = panel.across(frame, left, right - _NUMBER)
        titled(page, panel.title, left, right, top - 7)
        page.height = axis(page, across, top, bottom, panel.unit)
        even = across.at(panel.even)
        page.lines(_EVEN, ((even, top), (even, bottom + 2.5)))
        for group, editor, n, y in places:
            _mark(page, panel, across, cells.get((group, editor)), n, y)


def _lines(
    context: Context, groups: Mapping[str, str], top: float, each: float
) -> Iterator[tuple[str, str, int, float]]:
    """Group, editor, the editor's place, and the height of their line."""
    for place, group in enumerate(groups):
        for n, editor in enumerate(context.editors):
            yield group, editor.id, n, top + place * each + 2.5 + (n + 0.5) * ROW


def _mark(page: Sheet, panel: Panel, across: Scale, row: Row | None, place: int, y: float) -> None:
    value = None if row is None else row[panel.column]
    if row is None or value is None or not known(value):
        page.hatched(across.left, y - 3, across.right, y + 3)
        page.words("–", across.right + _NUMBER, y, SMALL, "end", colour=MUTED)
        return
    if row[panel.low] is not None and known(row[panel.low]):
        page.whisker(THIN, across.at(row[panel.low]), across.at(row[panel.high]), y)
    put(page, place, series(place), across.at(value), y)
    page.words(panel.write(value), across.right + _NUMBER, y, SMALL, "end")


def _said(
    panel: Panel, name: str, editor: str, cells: Mapping[tuple[str, ...], Row], groups: Mapping[str, str]
) -> str:
    values = [((cells.get((group, editor)) or {}).get(panel.column), label) for group, label in groups.items()]
    return extremes(f"{panel.title}, {name}", values, panel.write, panel.nothing)


def _note(rows: pl.DataFrame, balanced: bool) -> str:
    whole = rows.filter(pl.col("group") == ALL) if ALL in rows["group"] else rows  # its parts are in it
    asked, clear = int(whole["asked"].sum()), int(whole["clear"].sum())
    note = (
        f"{count(clear)} clear verdicts of {count(asked)} edits asked for as published; whiskers: exact {INTERVAL}"
    )
    note += f", of the gap {INTERVAL} over prompts" if balanced else ""
    note += ". Dashed: where neither gender is given more often. "
    note += "Following words or places alone gives an adherence of 100 % and a gap of 0."
    alone = rows.filter(pl.col("gap").is_not_null() & pl.col("low").is_null()).height
    return f"{note} Gaps of one prompt have no interval." if alone else note


# What an editor follows

_COLUMNS = (("points", 40.0), (INTERVAL, 72.0), ("p corrected", 50.0), ("prompts", 42.0))
_SHOWN = 0.05
_STEREOTYPE = "stereotype"
_CUES = {
    _STEREOTYPE: "the stereotype (the gap)",
    PRONOUN: "the pronoun",
    NAMED: "who is named first",
    POSITION: "named first, shown first",
}
_PORTRAITS = {True: "which portrait is first", False: "the portrait's gender"}


def followed(effects: pl.DataFrame, gaps: pl.DataFrame) -> pl.DataFrame:
    """What moves the share of the stereotyped gender: the stereotype itself, then every cue."""
    columns = ("editor", "effect", "prompts", "difference", "low", "high", "p_holm")
    own = gaps.filter(pl.col("sentences") == ALL)
    own = own.with_columns(effect=pl.lit(_STEREOTYPE), difference=pl.col("gap"))
    return pl.concat([own.select(columns), effects.select(columns)])


def cues(id: str, title: str, frame: pl.DataFrame, context: Context, joint: bool) -> Drawn:
    """`frame`: editor × effect: how much more often the target has the stereotyped gender where a cue points to it
    (`difference`, in shares), see `followed`. `joint`: whether portraits come in pairs."""
    found, labels = by_key(frame, "editor", "effect"), {**_CUES, FIRST_PORTRAIT: _PORTRAITS[joint]}
    lines = tuple(
        _cue(f"{key(place)} {party.name}", label, found.get((party.id, effect)))
        for place, party in enumerate(context.editors)
        for effect, label in labels.items()
    )
    unit = "points by which the stereotyped gender is given more often where this points to it"
    chart = Chart(lines, _COLUMNS, unit, _LEGEND, (*SHARES, 0.5), low=None)
    said = [
        extremes(
            party.name,
            [((found.get((party.id, effect)) or {}).get("difference"), label) for effect, label in labels.items()],
            points,
            _UNBALANCED,
        )
        for party in context.editors
    ]
    note = f"{plural(most(frame['prompts']), 'prompts')} at most a line; every other cue is balanced."
    return drawn(id, title, chart.sheet, sentences(said), note, frame)


def _cue(editor: str, label: str, row: Row | None) -> Line:
    if row is None or not known(row["difference"]):
        return Line(editor, label, missing=_UNBALANCED)
    shown = known(row["p_holm"]) and row["p_holm"] < _SHOWN
    spread = bracket(row["low"], row["high"]) if known(row["low"]) else "none"
    cells = (points(row["difference"]), spread, p_value(row["p_holm"]), count(row["prompts"]))
    marks = (Mark(row["difference"], 0, INK if shown else PAGE),)
    return Line(editor, label, marks, (Whisker(row["low"], row["high"]),), cells)


def _symbol(fill: str, text: str) -> Entry:
    return Entry(lambda sheet, x, y: put(sheet, 0, fill, x + 3, y), text)


_LEGEND = (
    _symbol(INK, f"shown: corrected p below {_SHOWN}"),
    _symbol(PAGE, f"not shown; whiskers: {INTERVAL} over prompts"),
)
