"""The paper's two panels: how often skin is lightened and how often race changes, by group and editor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from stillme.analysis.numbers import INTERVAL, known, percent, points
from stillme.report.context import Context
from stillme.report.lookup import Row, by_key
from stillme.report.plots.drawn import Drawn, drawn
from stillme.report.plots.forest import counted
from stillme.report.plots.palette import MUTED
from stillme.report.plots.parts import (
    ROW,
    RULE,
    Scale,
    axis,
    editors,
    extremes,
    interval,
    key,
    labels,
    legend,
    marked,
    names,
    panels,
    scale,
    sentences,
    titled,
)
from stillme.report.plots.sheet import SMALL, Sheet
from stillme.report.tables import NOTHING_JUDGED

_LEFT = 104.0
_NUMBER = 24.0  # room for the number at the end of a bar


def bars(
    id: str, title: str, frame: pl.DataFrame, context: Context, dimension: str, outcomes: Sequence[str]
) -> Drawn:
    """`frame`: outcomes by editor and the groups of `dimension`. A panel an outcome, one or two."""
    own = frame.filter(pl.col("outcome").is_in(list(outcomes)))
    groups = labels(context, dimension, own[dimension])

    def layout(wide: float) -> Sheet:
        page = Sheet(wide)
        page.height = legend(page, 0.0, editors(context, boxes=True)) - 2
        for some in [[name] for name in outcomes] if page.is_narrow else [outcomes]:
            _panels(page, own, context, groups, dimension, some)
        return page

    return drawn(id, title, layout, _said(own, context, dimension, outcomes), _note(own, context, outcomes), own)


def _panels(
    page: Sheet,
    rows: pl.DataFrame,
    context: Context,
    groups: Mapping[str, str],
    dimension: str,
    outcomes: Sequence[str],
) -> None:
    """Outcomes side by side, beneath what is there already; groups are named once, at the left."""
    top, each = page.height + 16, len(context.editors) * ROW + 5
    bottom = top + each * len(groups)
    page.lines(RULE, *(((0, top + each * n), (page.width, top + each * n)) for n in range(len(groups) + 1)))
    for place, label in enumerate(groups.values()):
        names(page, label, top + place * each, top + (place + 1) * each, 84)
        for n in range(len(context.editors)):
            page.words(key(n), _LEFT - 6, _middle(top, each, place, n), SMALL, "end", colour=MUTED)
    for outcome, (_, left, right) in zip(
        outcomes, panels(len(outcomes), 2, _LEFT, page.width, gap=16), strict=True
    ):
        own = rows.filter(pl.col("outcome") == outcome)
        across = scale([*own["rate"], *own["high"]], left, right - _NUMBER)
        titled(page, context.outcomes[outcome].label, left, right, top - 7)
        page.height = axis(page, across, top, bottom, f"% of judged edits: {context.rule(outcome)}")
        cells = by_key(own, dimension, "editor")
        for place, group in enumerate(groups):
            for n, editor in enumerate(context.editors):
                _bar(page, across, cells.get((group, editor.id)), n, _middle(top, each, place, n))


def _middle(top: float, each: float, group: int, line: int) -> float:
    return top + group * each + 2.5 + (line + 0.5) * ROW


def _bar(page: Sheet, across: Scale, row: Row | None, place: int, y: float) -> None:
    if row is None or not known(row["rate"]):
        page.hatched(across.left, y - 3, across.right, y + 3)
        page.words("–", across.right + _NUMBER, y, SMALL, "end", colour=MUTED)
        return
    page.box(marked(place), across.left, y - 3.4, max(across.at(row["rate"]), across.left + 0.3), y + 3.4)
    if known(row["low"]):
        interval(page, across, row["low"], row["high"], y)
    page.words(points(row["rate"]), across.right + _NUMBER, y, SMALL, "end")


def _said(rows: pl.DataFrame, context: Context, dimension: str, outcomes: Sequence[str]) -> str:
    groups = labels(context, dimension, rows[dimension])
    found = by_key(rows, "outcome", dimension, "editor")
    return sentences(
        extremes(
            f"{context.outcomes[outcome].label}, {editor.name}",
            [
                ((found.get((outcome, group, editor.id)) or {}).get("rate"), label)
                for group, label in groups.items()
            ],
            percent,
            NOTHING_JUDGED,
        )
        for outcome in outcomes
        for editor in context.editors
    )


def _note(rows: pl.DataFrame, context: Context, outcomes: Sequence[str]) -> str:
    counts = [
        f"{context.outcomes[outcome].label}: {counted(rows.filter(pl.col('outcome') == outcome))}"
        for outcome in outcomes
    ]
    return f"Whiskers: {INTERVAL} over persons. {sentences(counts)}"
