"""Finds rows in the findings' frames, in the order in which the report shows them."""

from __future__ import annotations

from typing import Any

import polars as pl

from stillme.analysis.disparity import max_minus_min
from stillme.analysis.findings import Findings
from stillme.report.context import Context

Row = dict[str, Any]


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


def editor_names(context: Context) -> dict[str, str]:
    return {party.id: party.name for party in context.editors}
