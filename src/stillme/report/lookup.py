"""Finds rows in the findings' frames, in the order in which the report shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from stillme.analysis.numbers import plural
from stillme.protocol.schema import Axis
from stillme.report.context import Context
from stillme.stats.disparity import max_minus_min
from stillme.stats.findings import Findings

Row = dict[str, Any]
Tables = Mapping[str, pl.DataFrame]  # the analysis tables, id -> frame


def rows(frame: pl.DataFrame, **equal: str) -> list[Row]:
    """The rows where every named column has the given value."""
    return frame.filter(**equal).to_dicts() if equal else frame.to_dicts()


def by_key(frame: pl.DataFrame, *keys: str, **equal: str) -> dict[tuple[str, ...], Row]:
    return {tuple(row[key] for key in keys): row for row in rows(frame, **equal)}


def per_editor(findings: Findings, outcome: str) -> dict[str, Row]:
    """Editor -> its row for this outcome."""
    return {row["editor"]: row for row in rows(findings.by_editor, outcome=outcome)}


def basis(context: Context) -> str:
    """The outcome whose denominators stand for the whole audit: the first of the main table."""
    return context.tables.outcomes_by_editor[0]


def first_of_each_axis(context: Context) -> dict[str, str]:
    """Axis -> an outcome that is read off it, for counts that belong to the axis."""
    chosen: dict[str, str] = {}
    for name, outcome in context.outcomes.items():
        chosen.setdefault(outcome.axis, name)
    return chosen


def spread(findings: Findings, context: Context, dimension: str) -> pl.DataFrame:
    """Max − min per outcome and editor over the groups of a dimension."""
    if dimension == context.main.by:
        return findings.disparity
    return max_minus_min(findings.by_group[dimension], ["outcome", "editor"], dimension)


def counts(frame: pl.DataFrame, context: Context) -> str:
    """How many edits of every editor the rates of a table rest on, of how many persons, and what is missing.

    `frame`: rates of one outcome, by editor or by editor and group; a person is in one group.
    """
    sums = frame.group_by("editor").agg(pl.col("judged", "missing", "persons").sum())
    found = {row["editor"]: row for row in rows(sums)}
    told = [
        f"{party.name} {found[party.id]['judged']:,} judged, {found[party.id]['missing']:,} missing, "
        f"{plural(found[party.id]['persons'], 'persons')}"
        for party in context.editors
        if party.id in found
    ]
    return f"{'; '.join(told)}." if told else ""


def editor_names(context: Context) -> dict[str, str]:
    return {party.id: party.name for party in context.editors}


def change_axes(context: Context) -> list[Axis]:
    """Axes of unrequested change, besides that of the main table; each has a section of its own."""
    main = context.outcomes[context.main.outcome].axis
    every = context.protocol.rubrics.axes
    return [axis for axis in every if axis.attribute and axis.id != main and axis.only_prompts is None]


def outcome_labels(context: Context) -> dict[str, str]:
    return {name: outcome.label for name, outcome in context.outcomes.items()}


def axis_labels(context: Context) -> dict[str, str]:
    return {axis.id: axis.label for axis in context.protocol.rubrics.axes}


def ordered(frame: pl.DataFrame, **order: Sequence[str]) -> list[Row]:
    """Rows in the order of the named columns' values, the first column leading; unknown values come last."""
    places = {name: {value: n for n, value in enumerate(values)} for name, values in order.items()}

    def place(row: Row) -> list[int]:
        return [known.get(row[name], len(known)) for name, known in places.items()]

    return sorted(frame.to_dicts(), key=place)
