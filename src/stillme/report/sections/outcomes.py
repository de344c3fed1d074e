"""Outcomes by editor: the seed's table 12 with denominators and intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import polars as pl

from stillme.analysis.numbers import INTERVAL, lowered
from stillme.report.blocks import Fold, Section, prose
from stillme.report.context import Context
from stillme.report.lookup import Row, basis, editor_names, per_editor
from stillme.report.tables import (
    ANY,
    JUDGED,
    NO_SCORE,
    Column,
    Table,
    leads,
    rate,
    samples,
    table,
    tally,
    value,
    words,
)
from stillme.stats.findings import Findings

LOOK = (
    "In the report that “stillme report RUN” writes, and in “stillme review RUN”, every number of the tables is a "
    "link to the edits behind it."
)


def build(findings: Findings, context: Context) -> Section:
    return Section(
        "outcomes",
        "Outcomes by editor",
        "Outcomes",
        (
            prose(_reading(context), LOOK),
            _by_editor(findings, context),
            Fold("Every outcome with every count", "long form", (_long(findings, context),)),
        ),
    )


def _reading(context: Context) -> str:
    if context.nominal:
        return (
            "Rates are hits ÷ edits asked for (nominal), as the preset wants; beneath each stands the rate of "
            f"judged edits with its {INTERVAL} and hits/judged. The interval belongs to the judged rate."
        )
    return f"Rates are hits ÷ judged edits, with the {INTERVAL} and hits/judged beneath."


def _by_editor(findings: Findings, context: Context) -> Table:
    outcomes = context.tables.outcomes_by_editor
    cells = {outcome: per_editor(findings, outcome) for outcome in outcomes}
    shared = cells[basis(context)]
    rows = [{**shared.get(editor.id, {}), "editor": editor.id} for editor in context.editors]
    axis = lowered(context.protocol.axes[context.outcomes[basis(context)].axis].label)
    return table(
        "outcomes-by-editor",
        "Outcomes by editor",
        rows,
        [*_counts(context), *(_outcome(outcome, cells[outcome], context) for outcome in outcomes)],
        findings.by_editor.filter(pl.col("outcome").is_in(list(outcomes))),
        notes=(
            f"Asked, judged, missing and persons count the scores for {axis}. Where a prompt itself asks for a "
            "change, that change is not an outcome and the edit is left out, so each rate prints its own counts.",
        ),
    )


def _counts(context: Context) -> list[Column]:
    return [
        words("Editor", "editor", editor_names(context)),
        *tallies(basis(context), "nothing was asked of this editor"),
        tally("Persons", "persons", "nothing was asked of this editor"),
    ]


def tallies(outcome: str, why: str = "not counted") -> list[Column]:
    """How many edits an outcome was asked of, how many have a score for it, and how many have none.

    `outcome`: the one that is counted; empty where each row names its own.
    """
    counted = {"Asked": ("asked", ANY), "Judged": ("judged", JUDGED), "Missing": ("missing", NO_SCORE)}
    return [
        leads(tally(label, key, why), _behind(outcome, happened)) for label, (key, happened) in counted.items()
    ]


def _behind(outcome: str, happened: str = "", **more: str) -> Callable[[Mapping[str, Any]], str]:
    """The edits of a row's editor that an outcome was read off."""
    return lambda row: samples(editor=row["editor"], outcome=outcome or row["outcome"], happened=happened, **more)


def _outcome(outcome: str, cells: dict[str, Row], context: Context) -> Column:
    column = rate(
        context.outcomes[outcome].label,
        lambda row: cells.get(row["editor"]),
        context.nominal,
        note=context.rule(outcome),
    )
    return leads(column, _behind(outcome))


def _long(findings: Findings, context: Context) -> Table:
    labels = {name: outcome.label for name, outcome in context.outcomes.items()}
    columns = [
        words("Editor", "editor", editor_names(context)),
        words("Outcome", "outcome", labels),
        *tallies(""),
        leads(tally("One judge", "single"), _behind("", JUDGED, single="yes")),
        leads(tally("Flagged", "flagged"), _behind("", ANY, flag="flagged")),
        tally("Persons", "persons"),
        leads(rate("Rate", lambda row: row, context.nominal), _behind("")),
        value("Design effect", "deff", "needs two persons", digits=1),
    ]
    rows = [
        found
        for editor in context.editors
        for outcome in context.outcomes
        if (found := per_editor(findings, outcome).get(editor.id)) is not None
    ]
    return table(
        "outcomes-long", "Every outcome and editor", rows, columns, findings.by_editor, dense=not context.nominal
    )
