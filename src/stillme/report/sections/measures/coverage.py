"""Coverage by group: how often each instrument could read, the warning where groups differ, and why not."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from stillme.analysis.numbers import capital, listed, percent, plural
from stillme.analysis.numbers import of as ratio
from stillme.core.records import Status
from stillme.report import sentences
from stillme.report.blocks import Block, Fold, Notice
from stillme.report.context import Context
from stillme.report.lookup import Row, by_key
from stillme.report.sections.measures.columns import Cells, group_column, group_rows, of
from stillme.report.sections.measures.told import heading, marked, name
from stillme.report.tables import Column, Table, counted, table, tally, words
from stillme.stats.measured import Measured, instruments

_UNMEASURED = "no edit of this group was measured"


def warning(measured: Measured, context: Context) -> Iterator[Block]:
    """Only where some group is read clearly less often than the best-read one."""
    warned = measured.coverage.filter(pl.col("warns"))
    keys = warned.select("measure", "dimension").unique(maintain_order=True).rows()
    alike: dict[str, list[str]] = {}  # measures that fail on the same faces share one sentence
    for measure, dimension in keys:
        said = _missed(of(measured.coverage, dimension).filter(measure=measure), context, dimension)
        alike.setdefault(said, []).append(name(measure))
    if alike:
        told = [f"{capital(listed(measures))} could be read {said}" for said, measures in alike.items()]
        yield Notice("Instruments miss some groups more often", (*told, _SO))


_SO = "What was read of such a group may not stand for what was not: compare its figures with care."


def _missed(coverage: pl.DataFrame, context: Context, dimension: str) -> str:
    labels = context.protocol.groups.labels(dimension)
    rows = coverage.sort("rate", maintain_order=True).to_dicts()
    missed = [_share(row, labels) for row in rows if row["warns"]]
    return f"of people perceived as {listed(missed)}; best read: {_share(rows[-1], labels)}."


def _share(row: Row, labels: dict[str, str]) -> str:
    return (
        f"{labels.get(row['group'], row['group'])} in {percent(row['rate'])} ({ratio(row['read'], row['asked'])})"
    )


def blocks(measured: Measured, context: Context) -> Iterator[Block]:
    if measured.coverage.height:
        yield _table(measured.coverage, context, context.main.by)


def _table(coverage: pl.DataFrame, context: Context, dimension: str) -> Table:
    frame = of(coverage, dimension)
    cells = by_key(frame, "measure", "group")
    kinds = frame["measure"].unique(maintain_order=True).to_list()
    points = f"{instruments(context.protocol).coverage.warn_points:g}"
    return table(
        f"coverage-by-{dimension}",
        marked(f"Edits that could be read, by perceived {dimension}"),
        group_rows(context, dimension),
        [group_column(context, dimension), *(_kind(kind, cells) for kind in kinds)],
        frame,
        notes=(
            f"Read/measured edits of real prompts. A group more than {points} percentage points below the "
            "best-read one raises a warning.",
        ),
    )


def _kind(kind: str, cells: Cells) -> Column:
    return counted(heading(kind), lambda row: cells.get((kind, row["group"])), "read", "asked", why=_UNMEASURED)


def folds(measured: Measured, context: Context) -> Iterator[Block]:
    for dimension in context.protocol.groups.dimensions:
        if dimension != context.main.by and of(measured.coverage, dimension).height:
            made = _table(measured.coverage, context, dimension)
            yield Fold(f"Edits that could be read, by perceived {dimension}", "coverage", (made,))
    if measured.statuses.height:
        yield _statuses(measured.statuses, context)


def _statuses(frame: pl.DataFrame, context: Context) -> Fold:
    """Why measurements ended without a figure, by group."""
    by = context.main.by
    labels = context.protocol.groups.labels(by)
    ended: dict[tuple[str, str], dict[str, int]] = {}
    for row in frame.drop_nulls("group").to_dicts():
        ended.setdefault((row["measure"], row["group"]), {})[row["status"]] = row["edits"]
    seen = [status.value for status in Status if status.value in set(frame["status"])]
    kinds = frame["measure"].unique(maintain_order=True).to_list()
    rows = [
        {"measure": kind, "group": group, "edits": sum(ended[kind, group].values()), **ended[kind, group]}
        for kind in kinds
        for group in labels
        if (kind, group) in ended
    ]
    columns = [
        words("Measure", "measure", {kind: name(kind) for kind in kinds}),
        words(f"Perceived {by}", "group", labels),
        tally("Edits", "edits"),
        *(_status(status) for status in seen),
    ]
    lost = frame.filter(pl.col("status") != Status.OK.value)["edits"].sum()
    made = table(
        "measure-statuses", marked(f"How measurements ended, by perceived {by}"), rows, columns, frame, dense=True
    )
    return Fold(
        f"How measurements ended, by perceived {by}",
        f"{plural(int(lost), 'measurements')} without a figure",
        (made,),
    )


def _status(status: str) -> Column:
    label = sentences.status_label(status)
    read = tally(label, status).read
    return Column(label.capitalize(), lambda row: read({status: row.get(status, 0)}))
