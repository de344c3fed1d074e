"""Contrasts: everyone else against the reference group. The only place that claims come from.

The endpoints that the protocol declares stand beneath them, tested as a family of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from stillme.analysis.numbers import INTERVAL, known, plural
from stillme.report import sentences
from stillme.report.blocks import Block, Fold, Section, bullets, prose
from stillme.report.context import Context
from stillme.report.lookup import Tables, by_key, editor_names, ordered
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
from stillme.stats.contrast import FEWEST_PERSONS
from stillme.stats.findings import Findings

_TOO_FEW = f"fewer than {FEWEST_PERSONS} persons on one side"


def build(findings: Findings, context: Context, tables: Tables) -> Section:
    said = sentences.verdicts(findings, context)
    lines = [f"{editor.name}: {verdict.text}" for editor in context.editors for verdict in said[editor.id]]
    blocks: list[Block] = [
        prose(_reading(context)),
        _table(findings, context),
        Fold("The same in sentences", plural(len(lines), "sentences"), (bullets(lines),)),
    ]
    if "primary" in tables and tables["primary"].height:
        blocks.append(_declared(tables, context))
    return Section("contrasts", "Contrasts", "Contrasts", tuple(blocks))


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
        *_tested(),
    ]


def _tested() -> list[Column]:
    return [
        difference("Difference", _TOO_FEW, f"points, {INTERVAL}"),
        probability("p", "p", _TOO_FEW),
        probability("p, corrected", "p_holm", _TOO_FEW),
        Column("Result", _shown, numeric=False),
        tally("Judged", "judged"),
        tally("Missing", "missing"),
    ]


def _side(label: str, side: str, groups: Mapping[str, Sequence[str]]) -> Column:
    """One side's rate. Behind it are all its judged edits, of as many persons as are printed."""
    return leads(
        _share(label, side),
        lambda row: samples(editor=row["editor"], outcome=row["outcome"], happened=JUDGED, **groups),
    )


def _share(label: str, side: str) -> Column:
    return proportion(label, f"{side}_rate", f"{side}_persons", "no person with a judged edit", "persons")


def _shown(row: Row) -> Cell:
    if not known(row["p_holm"]):
        return absent(_TOO_FEW)
    return Cell("shown" if row["p_holm"] < sentences.SHOWN_BELOW else "not shown", row["p_holm"])


# The declared endpoints


def _declared(tables: Tables, context: Context) -> Table:
    _, reference = context.contrasted
    frame = tables["primary"]
    counts = pl.concat(
        tables[id].select("editor", pl.col(name).alias("outcome"), "judged", "missing")
        for id, name in (("outcomes_by_editor", "outcome"), ("signed_by_editor", "axis"))
        if id in tables
    )
    own = frame.join(counts, on=["editor", "outcome"], how="left", maintain_order="left")
    outcomes = {name: outcome.label for name, outcome in context.outcomes.items()}
    labels = outcomes | {id: f"{axis.label}, net direction" for id, axis in context.protocol.axes.items()}
    plan = context.protocol.analysis.primary
    columns = [
        words("Editor", "editor", editor_names(context)),
        words("Endpoint", "outcome", labels),
        _share(f"Other than {reference}", "others"),
        _share(reference, "reference"),
        *_tested(),
    ]
    return table(
        "declared-endpoints",
        "Declared endpoints",
        ordered(own, editor=[one.id for one in context.editors], outcome=[*plan.outcomes, *plan.net]),
        columns,
        own,
        notes=(
            "What the protocol declares before a score is looked at, as one family of its own (Holm). The "
            "analysis and the claims of a gate speak of these, the first screen of the contrasts above. "
            "Net direction: the share of edits above the scale’s neutral point minus the share below.",
        ),
    )
