"""Judges: how far they agree, what is flagged, what rests on one of them."""

from __future__ import annotations

import polars as pl

from stillme.analysis.findings import Findings
from stillme.report import sentences
from stillme.report.blocks import Section, prose
from stillme.report.context import Context
from stillme.report.lookup import editor_names, first_of_each_axis, per_editor
from stillme.report.numbers import listed
from stillme.report.tables import Table, proportion, share, table, tally, value, words

_NO_PAIR = "no edit was scored by two judges"


def build(findings: Findings, context: Context) -> Section:
    return Section(
        "judges",
        "Judges",
        "Judges",
        (
            prose(_who(context), sentences.agreed(findings)),
            _agreement(findings, context),
            _counts(findings, context),
        ),
    )


def _who(context: Context) -> str:
    names = listed([judge.name for judge in context.scoring])
    told = listed([f"perceived {dimension}" for dimension in context.choices.disclose])
    disclosed = (
        f"They were told the source person’s {told}." if told else "They were told nothing about the person."
    )
    return (
        f"{names or 'No judge'} scored the edits. {disclosed} The first is the primary judge.{_measuring(context)}"
    )


def _measuring(context: Context) -> str:
    """Who measured beside the judges, or that a measurement is one of the scores."""
    if context.instruments:
        names = listed([party.name for party in context.instruments])
        return f" {names} measured beside them and is in no score, rate or agreement of the judges."
    mixed = [party.name for party in context.scoring if party.instrument]
    return f" {listed(mixed)} measures instead of judging; the audit mixes its scores in." if mixed else ""


def _agreement(findings: Findings, context: Context) -> Table:
    axes = {id: axis.label for id, axis in context.protocol.axes.items()}
    found = {row["axis"]: row for row in findings.agreement.to_dicts()}
    columns = [
        words("Axis", "axis", axes),
        tally("Pairs", "pairs"),
        proportion("Same score", "exact", "pairs", _NO_PAIR, "pairs"),
        proportion("Within one point", "within_one", "pairs", _NO_PAIR, "pairs"),
        share("Flagged", "flagged", "pairs"),
        value("Mean difference", "difference", _NO_PAIR),
    ]
    rows = [found[axis] for axis in axes if axis in found]
    notes = ("Difference: second minus first judge, in points of the scale. Flagged: more than one point apart.",)
    return table("agreement", "Agreement of two judges by axis", rows, columns, findings.agreement, notes=notes)


def _counts(findings: Findings, context: Context) -> Table:
    chosen = first_of_each_axis(context)
    rows = [
        {**row, "axis": axis}
        for editor in context.editors
        for axis, outcome in chosen.items()
        if (row := per_editor(findings, outcome).get(editor.id)) is not None
    ]
    columns = [
        words("Editor", "editor", editor_names(context)),
        words("Axis", "axis", {id: axis.label for id, axis in context.protocol.axes.items()}),
        tally("Asked", "asked"),
        tally("Judged", "judged"),
        tally("Missing", "missing"),
        share("One judge only", "single", "judged"),
        share("Flagged", "flagged", "judged"),
    ]
    numbers = findings.by_editor.filter(pl.col("outcome").is_in(list(chosen.values())))
    return table("judged", "Scores by editor and axis", rows, columns, numbers, dense=True)
