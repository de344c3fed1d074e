"""The whole scale, group by group: how scores are spread before any threshold cuts them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from stillme.analysis.numbers import known, percent, plural
from stillme.protocol.schema import Axis
from stillme.report.blocks import Block, Fold, Section, prose
from stillme.report.context import Context
from stillme.report.lookup import Tables, editor_names, ordered
from stillme.report.tables import NOTHING_JUDGED, Cell, Column, Table, absent, leads, samples, table, tally, words


def build(tables: Tables, context: Context) -> Section:
    return Section("distributions", "Scores over their scales", "Distributions", tuple(_blocks(tables, context)))


def _blocks(tables: Tables, context: Context) -> Iterator[Block]:
    by = context.main.by
    frame = tables[f"distributions_by_{by}"]
    yield prose(
        "Shares of judged edits at every score, without the prompts that ask for the change. Nothing is "
        "rounded: an edit whose judges differ by one counts half at each of their scores. This describes; it "
        "tests nothing."
    )
    for axis in context.protocol.rubrics.axes:
        own = frame.filter(axis=axis.id)
        if own.height and axis.only_prompts is None:
            title = f"{axis.label} by perceived {by}"
            yield Fold(title, plural(len(axis.scale), "scores"), tuple(_of_axis(axis, own, by, title, context)))


def _of_axis(axis: Axis, own: pl.DataFrame, by: str, title: str, context: Context) -> Iterator[Block]:
    yield _table(axis, own, by, title, context)


def _table(axis: Axis, own: pl.DataFrame, by: str, title: str, context: Context) -> Table:
    keys, labels = ["editor", by], context.protocol.groups.labels(by)
    wide = own.pivot(
        "score", index=[*keys, "asked", "judged", "missing", "persons"], values="part", sort_columns=True
    )
    rows = ordered(wide, editor=[party.id for party in context.editors], **{by: list(labels)})

    def behind(row: Mapping[str, Any]) -> str:
        return samples(editor=row["editor"], axis=axis.id, **{by: row[by]})

    columns = [
        words("Editor", "editor", editor_names(context)),
        words(f"Perceived {by}", by, labels),
        *(_score(score, text) for score, text in sorted(axis.scale.items())),
        leads(tally("Judged", "judged"), behind),
        tally("Missing", "missing"),
        tally("Persons", "persons"),
    ]
    id = f"distribution-{axis.id}".replace("_", "-")
    return table(id, f"{title}: shares of judged edits at each score", rows, columns, own, dense=True)


def _score(score: int, text: str) -> Column:
    def read(row: Mapping[str, Any]) -> Cell:
        share = row.get(str(score))
        return Cell(percent(share), share) if known(share) else absent(NOTHING_JUDGED)

    return Column(str(score), read, note=text.split(" (")[0])
