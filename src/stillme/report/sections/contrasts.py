"""Contrasts: everyone else against the reference group. The only place that claims come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stillme.analysis.contrast import FEWEST_PERSONS
from stillme.analysis.findings import Findings
from stillme.report import sentences
from stillme.report.blocks import Fold, Section, bullets, prose
from stillme.report.context import Context
from stillme.report.lookup import by_key, editor_names
from stillme.report.numbers import INTERVAL, known, plural
from stillme.report.tables import (
    JUDGED,
    Cell,
    Column,
    Row,
    Table,
    absent,
    difference,
    leads,
    probability,
    proportion,
    samples,
    table,
    tally,
    words,
)

_TOO_FEW = f"fewer than {FEWEST_PERSONS} persons on one side"


def build(findings: Findings, context: Context) -> Section:
    said = sentences.verdicts(findings, context)
    lines = [f"{editor.name}: {verdict.text}" for editor in context.editors for verdict in said[editor.id]]
    return Section(
        "contrasts",
        "Contrasts",
        "Contrasts",
        (
            prose(_reading(context)),
            _table(findings, context),
            Fold("The same in sentences", plural(len(lines), "sentences"), (bullets(lines),)),
        ),
    )


def _reading(context: Context) -> str:
    dimension, reference = context.contrasted
    return (
        f"People perceived as other than {reference} minus people perceived as {reference} "
        f"(perceived {dimension}). Each side’s rate is the mean of its persons’ own rates; the difference has "
        "Welch’s interval over persons. p comes from drawing the reference persons anew among persons alike in "
        f"{_others(context)}, and is corrected over all contrasts of the table (Holm); a difference counts as "
        f"shown when the corrected p is below {sentences.SHOWN_BELOW}."
    )


def _others(context: Context) -> str:
    dimension, _ = context.contrasted
    return " and ".join(name for name in context.protocol.groups.dimensions if name != dimension)


def _table(findings: Findings, context: Context) -> Table:
    found = by_key(findings.contrasts, "editor", "outcome")
    keys = [(editor.id, outcome) for editor in context.editors for outcome in context.tables.contrasts]
    counted = by_key(findings.by_editor.select("editor", "outcome", "judged", "missing"), "editor", "outcome")
    rows = [
        {**_EMPTY, **counted.get(key, {}), **found.get(key, {}), "editor": key[0], "outcome": key[1]}
        for key in keys
    ]
    return table(
        "contrasts-table", "Contrasts with the reference group", rows, _columns(context), findings.contrasts
    )


_EMPTY: dict[str, Any] = dict.fromkeys(
    ("others_rate", "reference_rate", "difference", "low", "high", "p", "p_holm")
) | {
    "others_persons": 0,
    "reference_persons": 0,
}


def _columns(context: Context) -> list[Column]:
    dimension, reference = context.contrasted
    groups = context.protocol.groups
    apart = groups.reference_group[dimension]
    others = [group for group in groups.ids(dimension) if group != apart]
    labels = {name: outcome.label for name, outcome in context.outcomes.items()}
    return [
        words("Editor", "editor", editor_names(context)),
        words("Outcome", "outcome", labels),
        _side(f"Other than {reference}", "others", {dimension: others}),
        _side(reference, "reference", {dimension: [apart]}),
        difference("Difference", _TOO_FEW, f"points, {INTERVAL}"),
        probability("p", "p", _TOO_FEW),
        probability("p, corrected", "p_holm", _TOO_FEW),
        Column("Result", _shown, numeric=False),
        tally("Judged", "judged"),
        tally("Missing", "missing"),
    ]


def _side(label: str, side: str, groups: Mapping[str, Sequence[str]]) -> Column:
    """One side's rate. Behind it are all its judged edits, of as many persons as are printed."""
    column = proportion(label, f"{side}_rate", f"{side}_persons", "no person with a judged edit", "persons")
    return leads(
        column, lambda row: samples(editor=row["editor"], outcome=row["outcome"], happened=JUDGED, **groups)
    )


def _shown(row: Row) -> Cell:
    if not known(row["p_holm"]):
        return absent(_TOO_FEW)
    return Cell("shown" if row["p_holm"] < sentences.SHOWN_BELOW else "not shown", row["p_holm"])
