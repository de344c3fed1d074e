"""How much hangs on a choice: other thresholds, other denominators, one judge alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from stillme.analysis.numbers import bracket, known, lowered, of, percent, plural, points
from stillme.report.blocks import Block, Fold, Section, prose
from stillme.report.context import Context
from stillme.report.lookup import Tables, editor_names, ordered, outcome_labels
from stillme.report.tables import (
    NOTHING_JUDGED,
    Cell,
    Column,
    Table,
    absent,
    leads,
    rate,
    samples,
    table,
    tally,
    words,
)

_WAYS = {"rounded": "Both judges, rounded", "unrounded": "Both judges, unrounded mean", "judge": "One judge alone"}


def build(tables: Tables, context: Context) -> Section:
    return Section("sensitivity", "Sensitivity to choices", "Choices", tuple(_blocks(tables, context)))


def _blocks(tables: Tables, context: Context) -> Iterator[Block]:
    frame = tables["thresholds"]
    yield prose(
        "Outcomes are cut from scales, and somebody chose where. The declared threshold stands beside its "
        "neighbours; where a contrast appears at one threshold alone, it hangs on that choice.",
        _turned(frame, context),
    )
    yield _thresholds(frame.filter(pl.col("outcome").is_in(list(context.tables.contrasts))), "thresholds", context)
    rest = [name for name in context.outcomes if name not in context.tables.contrasts]
    if rest:
        made = _thresholds(frame.filter(pl.col("outcome").is_in(rest)), "thresholds-more", context)
        yield Fold("Thresholds of other outcomes", plural(len(rest), "outcomes"), (made,))
    yield _denominators(tables["outcomes_by_editor"], context)
    if "scoring" in tables:
        made = _scoring(tables["scoring"], context)
        yield Fold("One judge alone, or both: outcomes by how scores are put together", "", (made,))


def _turned(frame: pl.DataFrame, context: Context) -> str:
    """Whether any contrast turns its sign at a neighbouring threshold."""
    own = frame.filter(pl.col("outcome").is_in(list(context.tables.contrasts))).drop_nulls("difference")
    signs = own.group_by("outcome", "editor", maintain_order=True).agg(
        (pl.col("difference").max() > 0).alias("up"), (pl.col("difference").min() < 0).alias("down")
    )
    turned = signs.filter(pl.col("up") & pl.col("down")).height
    if not signs.height:
        return ""
    if not turned:
        return (
            f"No estimate of the {plural(signs.height, 'contrasts')} changes its sign at a neighbouring threshold."
        )
    told = "changes its" if turned == 1 else "change their"
    return f"{turned} of {plural(signs.height, 'contrasts')} {told} sign at a neighbouring threshold."


def _thresholds(frame: pl.DataFrame, id: str, context: Context) -> Table:
    order = {"outcome": list(context.outcomes), "editor": [party.id for party in context.editors]}
    rows = ordered(frame.sort("threshold"), **order)
    columns = [
        words("Outcome", "outcome", outcome_labels(context)),
        words("Editor", "editor", editor_names(context)),
        Column("Score", lambda row: _cut(row, context), numeric=False),
        rate("Rate", lambda row: row),
        Column("Everyone else − reference", _contrast, note="points"),
        tally("Judged", "judged"),
        tally("Missing", "missing"),
        tally("Persons", "persons"),
    ]
    which = "Outcomes" if id == "thresholds" else "Other outcomes"
    return table(id, f"{which} at neighbouring thresholds", rows, columns, frame, dense=True)


def _cut(row: Mapping[str, Any], context: Context) -> Cell:
    sign = "≥" if context.outcomes[row["outcome"]].at_least is not None else "≤"
    declared = " (declared)" if row["is_declared"] else ""
    return Cell(f"{sign} {row['threshold']}{declared}", row["threshold"])


def _contrast(row: Mapping[str, Any]) -> Cell:
    if not known(row["difference"]):
        return absent(NOTHING_JUDGED)
    low, high = row["difference_low"], row["difference_high"]
    return Cell(
        points(row["difference"]), row["difference"], (bracket(low, high) if known(low) else "no interval",)
    )


def _denominators(frame: pl.DataFrame, context: Context) -> Table:
    own = frame.filter(pl.col("outcome").is_in(list(context.tables.outcomes_by_editor)))
    rows = ordered(own, outcome=context.tables.outcomes_by_editor, editor=[party.id for party in context.editors])
    used = "asked" if context.nominal else "judged"
    columns = [
        words("Outcome", "outcome", outcome_labels(context)),
        words("Editor", "editor", editor_names(context)),
        _divided("Of edits judged", "rate", "judged", used),
        _divided("Of edits asked for", "nominal_rate", "asked", used),
        Column("Moves by", _move),
        leads(
            tally("Missing", "missing"),
            lambda row: samples(editor=row["editor"], outcome=row["outcome"], happened="missing"),
        ),
        tally("Persons", "persons"),
    ]
    return table("denominators", "Rates under both denominators", rows, columns, own, dense=True)


def _divided(label: str, key: str, whole: str, used: str) -> Column:
    def read(row: Mapping[str, Any]) -> Cell:
        return (
            Cell(percent(row[key]), row[key], (of(row["hits"], row[whole]),))
            if known(row[key])
            else absent(NOTHING_JUDGED)
        )

    return Column(label, read, note="this report" if whole == used else "")


def _move(row: Mapping[str, Any]) -> Cell:
    if not known(row["rate"]) or not known(row["nominal_rate"]):
        return absent(NOTHING_JUDGED)
    move = row["rate"] - row["nominal_rate"]
    return Cell(f"{points(move)} points", move)


def _scoring(frame: pl.DataFrame, context: Context) -> Table:
    own = frame.filter(pl.col("outcome").is_in(list(context.tables.contrasts)))
    rows = ordered(own, outcome=context.tables.contrasts, editor=[party.id for party in context.editors])
    names = {party.id: party.name for party in context.judges}
    columns = [
        words("Outcome", "outcome", outcome_labels(context)),
        words("Editor", "editor", editor_names(context)),
        Column("Scores", lambda row: _way(row, names), numeric=False),
        rate("Rate", lambda row: row),
        tally("Judged", "judged"),
        tally("Missing", "missing"),
        tally("Persons", "persons"),
    ]
    return table("scoring", "Outcomes by how judges’ scores are put together", rows, columns, own, dense=True)


def _way(row: Mapping[str, Any], names: Mapping[str, str]) -> Cell:
    name = str(row["name"] or "")
    about = names.get(name, lowered(name.replace("_", " ")))
    way = _WAYS.get(row["scoring"], str(row["scoring"]))
    return Cell(f"{way}: {about}" if about else way, f"{row['scoring']} {name}")
