"""One section for every axis of change besides that of the main table: skin tone, gender, age.

A signed axis has two directions. They are counted apart, with the net of both and the amount |score − neutral|
beside; a mean of a signed score is never called an amount of change. An axis that one prompt alone is judged on
(how well a requested age was met) stands apart, in the section of the same attribute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import polars as pl

from stillme.analysis.numbers import (
    INTERVAL,
    bracket,
    count,
    known,
    listed,
    lowered,
    of,
    percent,
    plural,
    signed,
)
from stillme.protocol.schema import Axis
from stillme.report.blocks import Block, Fold, Heading, Section, prose
from stillme.report.context import Context
from stillme.report.lookup import Row, Tables, change_axes, editor_names, ordered
from stillme.report.sections import groups
from stillme.report.tables import (
    FEW_PERSONS,
    JUDGED,
    NO_SCORE,
    NOTHING_JUDGED,
    Cell,
    Column,
    Table,
    absent,
    leads,
    samples,
    table,
    tally,
    words,
)
from stillme.stats.findings import Findings
from stillme.stats.intervals import FEWEST_FOR_INTERVAL

OLD = 60  # years from which a source is reported apart where an age is asked for: the target is capped


def build(findings: Findings, tables: Tables, context: Context) -> list[Section]:
    return [_section(axis, findings, tables, context) for axis in change_axes(context)]


def outcomes(axis: Axis, context: Context) -> list[str]:
    return [name for name, outcome in context.outcomes.items() if outcome.axis == axis.id]


def id_of(axis: Axis) -> str:
    return axis.id.replace("_", "-")


def _section(axis: Axis, findings: Findings, tables: Tables, context: Context) -> Section:
    title = f"{axis.label}: direction and size" if axis.is_signed else axis.label
    return Section(id_of(axis), title, axis.label, tuple(_blocks(axis, findings, tables, context)))


def _blocks(axis: Axis, findings: Findings, tables: Tables, context: Context) -> Iterator[Block]:
    by = context.main.by
    yield prose(_reading(axis, context))
    if axis.is_signed and "signed_by_editor" in tables:
        yield _directions(axis, tables["signed_by_editor"], context)
        yield from _by_groups(axis, tables, context)
    yield Heading(f"{id_of(axis)}-groups", "Outcomes by groups")
    for dimension in context.protocol.groups.dimensions:
        for outcome in outcomes(axis, context):
            made = groups.fold(findings, context, outcome, dimension)
            yield from made.blocks if dimension == by and not axis.is_signed else (made,)
    yield from _requested(axis, tables, context)


def _reading(axis: Axis, context: Context) -> str:
    left = [p.id for p in context.protocol.prompts.prompts if not context.protocol.unrequested(p.id, axis.id)]
    without = f" Prompts that ask for such a change are left out ({', '.join(left)})." if left else ""
    rules = listed(
        [f"{lowered(context.outcomes[o].label)}: {lowered(context.rule(o))}" for o in outcomes(axis, context)]
    )
    if not axis.is_signed:
        return f"Counted as {rules}.{without}"
    return (
        f"The scale has two directions around {axis.neutral} (“{lowered(axis.scale[axis.neutral or 0])}”). "
        "Edits above and below it are counted apart, from judges’ unrounded mean; net is above − below, and the "
        f"size is the mean of |score − {axis.neutral}| in points of the scale. A mean of the score itself would "
        f"let both directions cancel. With the thresholds of the outcomes: {rules}.{without}"
    )


# Directions


def _directions(axis: Axis, frame: pl.DataFrame, context: Context) -> Table:
    own = frame.filter(axis=axis.id)
    rows = ordered(own, editor=[party.id for party in context.editors])
    columns = [words("Editor", "editor", editor_names(context)), *_signed(axis, context)]
    return table(f"signed-{id_of(axis)}", f"{axis.label}: which way, and how far", rows, columns, own)


def _by_groups(axis: Axis, tables: Tables, context: Context) -> Iterator[Block]:
    for dimension in context.protocol.groups.dimensions:
        if f"signed_by_{dimension}" in tables:
            made = _of_groups(axis, tables[f"signed_by_{dimension}"], dimension, context)
            title = f"Which way, and how far, by perceived {dimension}"
            yield made if dimension == context.main.by else Fold(title, plural(len(made.rows), "rows"), (made,))


def _of_groups(axis: Axis, frame: pl.DataFrame, dimension: str, context: Context) -> Table:
    own, labels = frame.filter(axis=axis.id), context.protocol.groups.labels(dimension)
    rows = ordered(own, editor=[party.id for party in context.editors], **{dimension: list(labels)})
    columns = [
        words("Editor", "editor", editor_names(context)),
        words(f"Perceived {dimension}", dimension, labels),
        *_signed(axis, context, dimension),
    ]
    caption = f"{axis.label} by perceived {dimension}: which way, and how far"
    return table(f"signed-{id_of(axis)}-by-{dimension}", caption, rows, columns, own, dense=True)


def _signed(axis: Axis, context: Context, dimension: str = "") -> list[Column]:
    above, below = sides(axis, context)

    def behind(**about: str) -> Callable[[Mapping[str, Any]], str]:
        return lambda row: samples(
            editor=row["editor"], axis=axis.id, **about, **({dimension: row[dimension]} if dimension else {})
        )

    neutral = f"{axis.neutral}"
    return [
        _side(f"Above {neutral}", "above", lowered(above)),
        _side(f"Below {neutral}", "below", lowered(below)),
        _net(),
        _size(axis),
        _side("At an end", "large", f"{min(axis.scale)} or {max(axis.scale)}"),
        leads(tally("Judged", "judged"), behind(happened=JUDGED)),
        leads(tally("Missing", "missing"), behind(happened=NO_SCORE)),
        tally("Persons", "persons"),
    ]


def sides(axis: Axis, context: Context) -> tuple[str, str]:
    """What lies above and below neutral, in the words of the outcomes; of the scale where there is none."""
    found = {"above": axis.scale[max(axis.scale)], "below": axis.scale[min(axis.scale)]}
    for name in outcomes(axis, context):
        outcome = context.outcomes[name]
        found["above" if outcome.at_least is not None else "below"] = outcome.label
    return found["above"], found["below"]


def _side(label: str, key: str, note: str) -> Column:
    def read(row: Mapping[str, Any]) -> Cell:
        if not known(row[key]):
            return absent(NOTHING_JUDGED)
        return Cell(percent(row[key]), row[key], (of(row[f"n_{key}"], row["judged"]),))

    return Column(label, read, note=note)


def _net() -> Column:
    def read(row: Mapping[str, Any]) -> Cell:
        if not known(row["net"]):
            return absent(NOTHING_JUDGED)
        spread = bracket(row["net_low"], row["net_high"]) if known(row["net_low"]) else _without(row)
        return Cell(signed(100 * row["net"], 1), row["net"], (spread,))

    return Column("Net", read, note=f"points, {INTERVAL}")


def _size(axis: Axis) -> Column:
    def read(row: Mapping[str, Any]) -> Cell:
        if not known(row["magnitude"]):
            return absent(NOTHING_JUDGED)
        low, high = row["magnitude_low"], row["magnitude_high"]
        spread = f"[{low:.2f}, {high:.2f}]" if known(low) else _without(row)
        return Cell(f"{row['magnitude']:.2f}", row["magnitude"], (spread,))

    return Column(f"Size |s − {axis.neutral}|", read, note=INTERVAL)


def _without(row: Mapping[str, Any]) -> str:
    """Why there is no interval."""
    return "no interval: all persons alike" if row["persons"] >= FEWEST_FOR_INTERVAL else FEW_PERSONS


# What one prompt asks for


def _requested(axis: Axis, tables: Tables, context: Context) -> Iterator[Block]:
    """The axis that one prompt alone is judged on, where it is about the same of a person."""
    ages = context.protocol.groups.dimensions.get("age")
    for other in context.protocol.rubrics.axes:
        frame = tables.get("distributions_by_age")
        if other.only_prompts is None or not ages or frame is None or axis.attribute != "age":
            continue
        own = frame.filter(axis=other.id)
        if not own.height:
            continue
        asked = listed([f"{id} ({lowered(context.protocol.prompt[id].label)})" for id in other.only_prompts])
        yield Heading(f"{id_of(other)}", f"{other.label}: {asked}, apart", opens=False)
        yield prose(
            f"{asked} asks for a change of age, so it has an axis of its own and is in no figure above. Sources "
            f"perceived as {OLD} or older stand apart: the target age is capped, so that the same score asks less "
            "of an edit."
        )
        yield _accuracy(other, own, context)


def _accuracy(axis: Axis, frame: pl.DataFrame, context: Context) -> Table:
    years = {group.id: group.years for group in context.protocol.groups.dimensions["age"]}
    old = [id for id, span_ in years.items() if span_ and span_[0] is not None and span_[0] >= OLD]
    told = frame.with_columns(
        sources=pl.when(pl.col("age").is_in(old)).then(pl.lit("old")).otherwise(pl.lit("young"))
    )
    keys = ["editor", "sources"]
    counts = pl.col("asked", "judged", "missing", "persons").sum()
    once = told.unique(["editor", "age"], maintain_order=True)
    people = once.group_by(keys, maintain_order=True).agg(counts)
    scores = told.group_by(*keys, "score", maintain_order=True).agg(pl.col("edits").sum())
    wide = scores.pivot("score", index=keys, values="edits", sort_columns=True)
    own = people.join(wide, on=keys, how="left", maintain_order="left")
    labels = {"young": f"Under {OLD}", "old": f"{OLD} or older"}
    rows = ordered(own, editor=[party.id for party in context.editors], sources=list(labels))
    columns = [
        words("Editor", "editor", editor_names(context)),
        words("Source perceived as", "sources", labels),
        *(_score(score, text) for score, text in sorted(axis.scale.items())),
        *(tally(name.capitalize(), name) for name in ("asked", "judged", "missing", "persons")),
    ]
    notes = ("An edit whose judges differ counts in part at both of their scores, so that nothing is rounded.",)
    return table(f"{id_of(axis)}-table", f"{axis.label}: shares of judged edits", rows, columns, own, notes=notes)


def _score(score: int, text: str) -> Column:
    def read(row: Row | Mapping[str, Any]) -> Cell:
        edits = row.get(str(score))
        if not row["judged"] or edits is None:
            return absent(NOTHING_JUDGED)
        return Cell(percent(edits / row["judged"]), edits / row["judged"], (f"{edits:g}/{count(row['judged'])}",))

    return Column(str(score), read, note=text.split(" (")[0])
