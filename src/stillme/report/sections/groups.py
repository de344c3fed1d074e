"""Change by group: the seed's table 13 with its figure, then every other outcome and dimension, folded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import polars as pl

from stillme.analysis.numbers import INTERVAL, lowered, points
from stillme.report.blocks import Beside, Block, Fold, Heading, Section, prose
from stillme.report.context import Context
from stillme.report.figures import DRAWN, Figure, Line, Series, forest
from stillme.report.lookup import Row, by_key, change_axes, counts, rows, spread
from stillme.report.tables import Cell, Column, Table, absent, leads, rate, samples, table, words
from stillme.stats.findings import Findings

RAW = "Max − min (raw; above zero even when groups are alike)"
NOT_ASKED = "no edit of this group was asked for"


def build(findings: Findings, context: Context) -> Section:
    main = context.main
    return Section(
        "groups",
        "Change by group",
        "Groups",
        (
            prose(_reading(context)),
            _pair(findings, context, main.outcome, main.by),
            *_others(findings, context),
        ),
    )


def _reading(context: Context) -> str:
    return (
        "Groups are perceptions: the labels say how annotators perceived the person in the source portrait, "
        f"not who the person is. Each cell is a rate with its {INTERVAL} and hits/judged. Comparing many groups "
        "by eye finds differences by chance; the contrasts below carry the claims."
    )


def _others(findings: Findings, context: Context) -> Iterator[Block]:
    """Outcomes of axes that have a section of their own stand there."""
    apart = {axis.id for axis in change_axes(context)}
    own = [name for name, outcome in context.outcomes.items() if outcome.axis not in apart]
    yield Heading("groups-other", "Other outcomes and dimensions")
    for dimension in context.protocol.groups.dimensions:
        for outcome in own:
            if (outcome, dimension) != (context.main.outcome, context.main.by):
                yield fold(findings, context, outcome, dimension)


def fold(findings: Findings, context: Context, outcome: str, dimension: str) -> Fold:
    found = {row["editor"]: row for row in rows(spread(findings, context, dimension), outcome=outcome)}
    widest = max((row["disparity"] for row in found.values()), default=None)
    hint = f"widest raw max − min {points(widest)} points"
    return Fold(_title(context, outcome, dimension), hint, (_pair(findings, context, outcome, dimension),))


def _title(context: Context, outcome: str, dimension: str) -> str:
    return f"{context.outcomes[outcome].label} by perceived {dimension}"


def _pair(findings: Findings, context: Context, outcome: str, dimension: str) -> Beside:
    """The table and the figure of one outcome over one dimension."""
    frame = findings.by_group[dimension].filter(outcome=outcome)
    cells = by_key(frame, dimension, "editor")
    return Beside(
        (
            _table(findings, context, outcome, dimension, frame, cells),
            _figure(context, outcome, dimension, frame, cells),
        )
    )


def _table(
    findings: Findings,
    context: Context,
    outcome: str,
    dimension: str,
    frame: pl.DataFrame,
    cells: dict[tuple[str, ...], Row],
) -> Table:
    labels = context.protocol.groups.labels(dimension)
    columns = [words(f"Perceived {dimension}", "group", labels), *_editors(context, cells, outcome, dimension)]
    return table(
        f"table-{outcome}-by-{dimension}".replace("_", "-"),
        f"{_title(context, outcome, dimension)}: {lowered(context.rule(outcome))}",
        [{"group": group} for group in labels],
        columns,
        frame,
        foot=[_spread_row(findings, context, outcome, dimension)],
        notes=[counts(frame.drop_nulls(dimension), context)],
    )


def _editors(
    context: Context, cells: dict[tuple[str, ...], Row], outcome: str, dimension: str
) -> Iterator[Column]:
    for editor in context.editors:
        note = "simulated" if editor.simulated else ""
        column = rate(editor.label, _picker(cells, editor.id), context.nominal, note, NOT_ASKED)
        yield leads(column, _behind(editor.id, outcome, dimension))


def _behind(editor: str, outcome: str, dimension: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda row: samples(editor=editor, outcome=outcome, **{dimension: row["group"]})


def _picker(cells: dict[tuple[str, ...], Row], editor: str) -> Callable[[Mapping[str, Any]], Row | None]:
    return lambda row: cells.get((row["group"], editor))


def _spread_row(findings: Findings, context: Context, outcome: str, dimension: str) -> list[Cell]:
    found = {row["editor"]: row for row in rows(spread(findings, context, dimension), outcome=outcome)}
    labels = context.protocol.groups.labels(dimension)
    return [Cell(RAW), *(_spread_cell(found.get(editor.id), labels) for editor in context.editors)]


def _spread_cell(row: Row | None, labels: dict[str, str]) -> Cell:
    if row is None:
        return absent("no judged edit in any group")
    ends: list[str] = [row["highest_group"], row["lowest_group"]]
    if ends[0] == ends[1]:
        return absent("only one group was judged")
    return Cell(f"{points(row['disparity'])} points", None, tuple(labels.get(end, end) for end in ends))


def _figure(
    context: Context, outcome: str, dimension: str, frame: pl.DataFrame, cells: dict[tuple[str, ...], Row]
) -> Figure:
    labels = context.protocol.groups.labels(dimension)
    lines = [
        Line(label, place, cells.get((group, editor.id)))
        for group, label in labels.items()
        for place, editor in enumerate(context.editors)
    ]
    return forest(
        f"figure-{outcome}-by-{dimension}".replace("_", "-"),
        _title(context, outcome, dimension),
        list(labels.values()),
        [Series(editor.id, editor.name) for editor in context.editors],
        lines,
        frame.select("editor", dimension, *DRAWN),
    )
