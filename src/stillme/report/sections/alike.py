"""May two rates be called alike? Two one-sided tests; the only place from which a likeness may be said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from stillme.analysis.numbers import bracket, known, listed, lowered, points
from stillme.report.blocks import Section, bullets, prose
from stillme.report.context import Context
from stillme.report.lookup import Tables, editor_names, ordered, outcome_labels
from stillme.report.sentences import SHOWN_BELOW
from stillme.report.tables import (
    JUDGED,
    Cell,
    Column,
    Table,
    absent,
    leads,
    probability,
    samples,
    table,
    tally,
    words,
)


def build(tables: Tables, context: Context) -> Section:
    frame = tables["equivalence"]
    blocks = (
        prose(_reading(context)),
        bullets(said(tables, context) or (_none(context),)),
        _table(frame, tables, context),
    )
    return Section("alike", "May rates be called alike?", "Alike", blocks)


def _reading(context: Context) -> str:
    margin = context.protocol.analysis.equivalence_points
    return (
        "That no difference was shown is not evidence of none. Two rates may be called alike only where their "
        f"difference is shown to lie within ± {margin:g} percentage points: two one-sided tests with persons as "
        "the unit, corrected over the table (Holm)."
    )


def _none(context: Context) -> str:
    _, reference = context.contrasted
    return f"Of no editor and outcome may the rates of {reference} and of everyone else be called alike."


def said(tables: Tables, context: Context) -> tuple[str, ...]:
    """What was shown to be alike; empty where nothing was."""
    told = shown(tables, context)
    return tuple(f"{party.name}: {lowered(told[party.id])}" for party in context.editors if party.id in told)


def shown(tables: Tables, context: Context) -> dict[str, str]:
    """Editor -> what was shown to be alike, for the first screen."""
    frame = tables.get("equivalence")
    if frame is None or not frame.height:
        return {}
    margin = context.protocol.analysis.equivalence_points
    held = frame.filter(pl.col("alike") & (pl.col("p_holm") < SHOWN_BELOW))
    told = {}
    for editor, outcomes in held.group_by("editor", maintain_order=True).agg("outcome").iter_rows():
        names = [lowered(outcome.label) for name, outcome in context.outcomes.items() if name in outcomes]
        told[editor] = f"Alike within ± {margin:g} points for {listed(names)}."
    return told


def _table(frame: pl.DataFrame, tables: Tables, context: Context) -> Table:
    counts = tables["outcomes_by_editor"].select("editor", "outcome", "judged", "missing")
    own = frame.join(counts, on=["editor", "outcome"], how="left", maintain_order="left")
    rows = ordered(own, outcome=list(context.outcomes), editor=[party.id for party in context.editors])

    def behind(row: Mapping[str, Any]) -> str:
        return samples(editor=row["editor"], outcome=row["outcome"], happened=JUDGED)

    columns = [
        words("Outcome", "outcome", outcome_labels(context)),
        words("Editor", "editor", editor_names(context)),
        leads(Column("Everyone else − reference", _difference, note="points, 90 % interval"), behind),
        Column("Margin", lambda row: Cell(f"± {points(row['margin'])}", row["margin"])),
        probability("p, corrected", "p_holm", "could not be tested"),
        Column("May be called alike", _alike, numeric=False),
        tally("Judged", "judged"),
        tally("Missing", "missing"),
        Column("Persons", _persons),
    ]
    return table("alike-table", "Equivalence of the reference group and everyone else", rows, columns, own)


def _difference(row: Mapping[str, Any]) -> Cell:
    if not known(row["difference"]):
        return absent(row["reason"] or "no judged edit")
    spread = bracket(row["low"], row["high"]) if known(row["low"]) else row["reason"] or "no interval"
    return Cell(points(row["difference"]), row["difference"], (spread,))


def _alike(row: Mapping[str, Any]) -> Cell:
    if row["alike"] is None:
        return absent(row["reason"] or "could not be tested")
    holds = row["alike"] and known(row["p_holm"]) and row["p_holm"] < SHOWN_BELOW
    return Cell("yes" if holds else "not shown", int(holds))


def _persons(row: Mapping[str, Any]) -> Cell:
    both = row["others_persons"] + row["reference_persons"]
    return Cell(f"{row['others_persons']} + {row['reference_persons']}", both)
