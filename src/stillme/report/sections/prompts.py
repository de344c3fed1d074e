"""Prompt × group: shrunken rates as heat maps, marked where Benjamini and Hochberg's correction holds.

Exploratory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from stillme.analysis.numbers import known, of, percent, plural
from stillme.report.blocks import Block, Fold, Section, prose
from stillme.report.context import Context
from stillme.report.lookup import Tables
from stillme.report.tables import NOTHING_JUDGED, Cell, Column, Table, absent, samples, table, words

ABOVE, BELOW = "▲", "▼"


def build(tables: Tables, context: Context) -> Section:
    return Section(
        "prompts-by-group",
        f"Prompts by perceived {context.contrasted[0]}",
        "Prompts",
        tuple(_blocks(tables, context)),
    )


def _blocks(tables: Tables, context: Context) -> Iterator[Block]:
    dimension, _ = context.contrasted
    frame = tables[f"shrunken_by_{dimension}"]
    yield prose(_reading(), _marked(frame))
    main = context.main.outcome
    for outcome in dict.fromkeys([main, *context.tables.contrasts]):
        for party in context.editors:
            own = frame.filter(outcome=outcome, editor=party.id)
            if own.height:
                title = f"{context.outcomes[outcome].label}, {party.name}"
                made = (_map(own, outcome, party.id, dimension, context),)
                yield Fold(title, _hint(own), made)


def _reading() -> str:
    return (
        "To look at, not to claim: a cell has few persons and there are many cells. Each cell’s rate is drawn "
        "towards its prompt’s rate as far as its few persons cannot hold it (empirical Bayes). A cell is marked "
        "(▲ above, ▼ below the other groups on the same prompt) where Fisher’s exact test on persons holds "
        "after Benjamini and Hochberg’s correction over all cells of the outcome."
    )


def _marked(frame: pl.DataFrame) -> str:
    """How many cells are marked, over everything that was tested."""
    tested, marked = frame["p_bh"].drop_nulls().len(), frame["marked"].drop_nulls().len()
    return f"{plural(marked, 'cells')} of {tested:,} tested {'is' if marked == 1 else 'are'} marked."


def _hint(own: pl.DataFrame) -> str:
    marked = own["marked"].drop_nulls().len()
    return f"{plural(marked, 'cells')} marked" if marked else "no cell marked"


def _map(own: pl.DataFrame, outcome: str, editor: str, dimension: str, context: Context) -> Table:
    labels = context.protocol.groups.labels(dimension)
    cells = {(row["prompt"], row["group"]): row for row in own.to_dicts()}
    prompts = [p for p in context.protocol.prompts.prompts if any((p.id, g) in cells for g in labels)]
    rows = [{"prompt": f"{p.id} {p.label}", "id": p.id} for p in prompts]
    columns = [
        words("Prompt", "prompt"),
        *(_group(cells, outcome, editor, dimension, g, label) for g, label in labels.items()),
    ]
    lost, judged = int(own["missing"].sum()), int(own["judged"].sum())
    people = own.group_by("group").agg(pl.col("persons").max())["persons"].sum()
    notes = (
        f"Shrunken rate, and hits/judged as they are. n = {judged:,} judged edits of "
        f"{plural(int(people), 'persons')}, {lost:,} missing.",
    )
    id = f"prompts-{outcome}-{editor}".replace("_", "-")
    caption = (
        f"{context.outcomes[outcome].label} by prompt and perceived {dimension}: {context.editor(editor).name}"
    )
    return table(id, caption, rows, columns, own, notes=notes, dense=True)


def _group(
    cells: Mapping[tuple[str, str], Mapping[str, Any]],
    outcome: str,
    editor: str,
    dimension: str,
    group: str,
    label: str,
) -> Column:
    def read(row: Mapping[str, Any]) -> Cell:
        found = cells.get((row["id"], group))
        if found is None or not known(found["shrunken"]):
            return absent(NOTHING_JUDGED)
        mark = {"above": f" {ABOVE}", "below": f" {BELOW}"}.get(found["marked"], "")
        behind = samples(editor=editor, outcome=outcome, prompt=row["id"], **{dimension: group})
        return Cell(
            f"{percent(found['shrunken'])}{mark}",
            found["shrunken"],
            (of(found["hits"], found["judged"]),),
            samples=behind,
        )

    return Column(label, read)
