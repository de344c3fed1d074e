"""How far groups lie apart: what chance alone would give, the raw spread, the corrected one, its gated interval.

The raw max − min is above zero even where all groups are alike. Which groups stand out is said only where the rank
test of the editor and outcome survives correction over all of them, and the group's own simultaneous bounds leave
out zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from stillme.analysis.numbers import INTERVAL, bracket, known, listed, lowered, percent, plural, points
from stillme.report.blocks import Block, Fold, Heading, Section, bullets, prose
from stillme.report.context import Context
from stillme.report.lookup import Row, Tables, editor_names, outcome_labels
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
from stillme.stats.families import holm

_FEW = "too few persons in a group"
_KEYS = ("editor", "outcome")
ROOM = 3  # groups that the first screen names
# The contrasts are declared and have the usual 5 in 100 for themselves. Naming groups is a second way to claim a
# difference: with as much again, 8 of 100 audits without any would claim one (tests/report/test_claims.py).
NAMED_BELOW = 0.005


@dataclass(frozen=True)
class Apart:
    """Groups of one editor and outcome that lie beyond the mean of all groups, the farthest first."""

    editor: str
    outcome: str
    above: tuple[str, ...]
    below: tuple[str, ...]


def build(tables: Tables, context: Context) -> Section:
    return Section("disparity", "How far groups lie apart", "Disparity", tuple(_blocks(tables, context)))


def _blocks(tables: Tables, context: Context) -> Iterator[Block]:
    main = context.main.by
    yield prose(_reading(), _family(tables, context))
    yield bullets([_said(one, context) for one in apart(tables, context)] or [_none(context)])
    yield _table(tables, context, main, context.tables.contrasts)
    yield Heading("disparity-other", "Other outcomes and dimensions")
    rest = [name for name in context.outcomes if name not in context.tables.contrasts]
    yield Fold(
        f"Other outcomes by perceived {main}",
        plural(len(rest), "outcomes"),
        (_table(tables, context, main, rest),),
    )
    for dimension in context.protocol.groups.dimensions:
        if dimension != main and f"disparity_by_{dimension}" in tables:
            made = _table(tables, context, dimension, list(context.outcomes))
            yield Fold(f"Every outcome by perceived {dimension}", _passed(tables, dimension), (made,))
    if f"mean_by_{main}" in tables:
        made = _means(tables, context, main)
        yield Fold("Each group against the mean of all groups", "bounds for all groups at once", (made,))


def _reading() -> str:
    return (
        "Max − min of a handful of groups is above zero even where all are treated alike: “by chance” says what "
        "it would be on average if groups were dealt out at random among persons. The corrected figure has the "
        f"selection of extremes taken out by resampling persons; its {INTERVAL} starts at 0 unless the rank "
        "test over persons passes the gate (p ≤ 0.05)."
    )


def _family(tables: Tables, context: Context) -> str:
    tested = sum(p is not None for p in _corrected(tables, context).values())
    return (
        f"Groups are named below where the rank test holds after correction over {plural(tested, 'tests')} "
        f"(p < {NAMED_BELOW}, Holm over editors and the outcomes of the first table), and the group’s own bounds, "
        "simultaneous over groups, leave out the mean of all groups."
    )


def _none(context: Context) -> str:
    return f"No group of perceived {context.main.by} was shown to lie apart (that is not evidence of none)."


# Which groups


def apart(tables: Tables, context: Context) -> list[Apart]:
    """Editors and outcomes of which groups were shown to lie apart, in the report's order."""
    by = context.main.by
    if f"disparity_by_{by}" not in tables or f"mean_by_{by}" not in tables:
        return []
    shown = [key for key, p in _corrected(tables, context).items() if p is not None and p < NAMED_BELOW]
    return [one for key in shown if (one := _apart(tables[f"mean_by_{by}"], key)) is not None]


def _corrected(tables: Tables, context: Context) -> dict[tuple[str, str], float | None]:
    """(editor, outcome) -> p of the rank test, corrected over the outcomes of contrasts and all editors."""
    frame = tables[f"disparity_by_{context.main.by}"]
    found = {tuple(row[:2]): row[2] for row in frame.select(*_KEYS, "p_rank").iter_rows()}
    keys = [(party.id, outcome) for party in context.editors for outcome in context.tables.contrasts]
    return dict(zip(keys, holm([found.get(key) for key in keys]), strict=True))


def _apart(frame: pl.DataFrame, key: tuple[str, str]) -> Apart | None:
    own = frame.filter(editor=key[0], outcome=key[1]).drop_nulls(["low", "high"])
    above = own.filter(pl.col("low") > 0).sort("deviation", descending=True)["group"]
    below = own.filter(pl.col("high") < 0).sort("deviation")["group"]
    return Apart(*key, tuple(above), tuple(below)) if len(above) or len(below) else None


def _said(one: Apart, context: Context) -> str:
    label = lowered(context.outcomes[one.outcome].label)
    return f"{context.editor(one.editor).name}, {label}: {beyond(one, context)}."


def beyond(one: Apart, context: Context) -> str:
    """Which groups, in words that fit into a sentence."""
    labels = context.protocol.groups.labels(context.main.by)
    told = [
        f"{word} the mean of all groups for people perceived as {listed([labels.get(g, g) for g in groups])}"
        for word, groups in (("above", one.above), ("below", one.below))
        if groups
    ]
    return " and ".join(told)


def named(one: Apart, context: Context) -> str:
    """The same for the first screen, in few words, the groups first."""
    labels = context.protocol.groups.labels(context.main.by)
    above, below = ([labels.get(group, group) for group in groups] for groups in (one.above, one.below))
    words_ = ("above the groups’ mean", "below it" if above else "below the groups’ mean")
    told = [f"{word}: {_some(names)}" for word, names in zip(words_, (above, below), strict=True) if names]
    return f"{context.outcomes[one.outcome].label}, {'; '.join(told)}."


def _some(names: Sequence[str]) -> str:
    """As many as one screen has room for; the section names them all."""
    return listed(names if len(names) <= ROOM else [*names[:ROOM], f"{len(names) - ROOM} more"])


# Tables


def _passed(tables: Tables, dimension: str) -> str:
    frame = tables[f"disparity_by_{dimension}"]
    return f"gate passed in {int(frame['gated'].sum())} of {plural(frame.height, 'rows')}, uncorrected"


def _table(tables: Tables, context: Context, dimension: str, outcomes: Sequence[str]) -> Table:
    frame = tables[f"disparity_by_{dimension}"].filter(pl.col("outcome").is_in(list(outcomes)))
    missing = _missing(tables)
    order = {(e.id, o): n for n, (o, e) in enumerate((o, e) for o in outcomes for e in context.editors)}
    rows = [{**row, "missing": missing.get((row["editor"], row["outcome"]))} for row in frame.to_dicts()]
    rows.sort(key=lambda row: order.get((row["editor"], row["outcome"]), len(order)))
    is_main = tuple(outcomes) == tuple(context.tables.contrasts)
    id = f"disparity-{dimension}" + ("" if is_main else "-more")
    which = "" if is_main or dimension != context.main.by else ", other outcomes"
    caption = f"Spread over groups of perceived {dimension}{which}, in percentage points"
    return table(id, caption, rows, _columns(context, dimension), frame, notes=_NOTES)


_NOTES = (
    "Rows are not corrected for each other: a small p in one of many rows is to be expected. The gate: the rank "
    "test over persons, p ≤ 0.05.",
)


def _missing(tables: Tables) -> dict[tuple[str, str], int]:
    frame = tables.get("outcomes_by_editor")
    return {} if frame is None else {(e, o): n for e, o, n in frame.select(*_KEYS, "missing").iter_rows()}


def _columns(context: Context, dimension: str) -> list[Column]:
    labels = context.protocol.groups.labels(dimension)
    outcomes = outcome_labels(context)
    return [
        words("Outcome", "outcome", outcomes),
        words("Editor", "editor", editor_names(context)),
        _points("By chance", "expected"),
        leads(_raw(labels), lambda row: samples(editor=row["editor"], outcome=row["outcome"], happened=JUDGED)),
        _between("Corrected", "corrected"),
        probability("p", "p_rank", _FEW),
        Column("Gate", lambda row: _gate(row), numeric=False),
        _end("Worst group", labels),
        tally("Judged", "judged"),
        tally("Missing", "missing", "not counted"),
        tally("Persons", "persons"),
    ]


def _points(label: str, key: str) -> Column:
    return Column(label, lambda row: Cell(points(row[key]), row[key]) if known(row[key]) else absent(_FEW))


def _raw(labels: Mapping[str, str]) -> Column:
    def read(row: Mapping[str, object]) -> Cell:
        found: Row = dict(row)
        if not known(found["disparity"]):
            return absent("fewer than two groups")
        ends = f"{labels.get(found['highest_group'], found['highest_group'])} {percent(found['highest'])}"
        low = f"{labels.get(found['lowest_group'], found['lowest_group'])} {percent(found['lowest'])}"
        return Cell(points(found["disparity"]), found["disparity"], (ends, low))

    return Column("Max − min, raw", read)


def _between(label: str, key: str) -> Column:
    def read(row: Mapping[str, object]) -> Cell:
        found: Row = dict(row)
        if not known(found[key]):
            return absent(found["reason"] or _FEW)
        spread = bracket(found["low"], found["high"]) if known(found["low"]) else found["reason"] or "no interval"
        return Cell(points(found[key]), found[key], (spread,))

    return Column(label, read, note=INTERVAL)


def _gate(row: Mapping[str, object]) -> Cell:
    if row["gated"] is None:
        return absent(_FEW)
    return Cell("passed" if row["gated"] else "not passed", int(bool(row["gated"])))


def _end(label: str, labels: Mapping[str, str]) -> Column:
    def read(row: Mapping[str, object]) -> Cell:
        found: Row = dict(row)
        if found["worst_group"] is None:
            return absent(_FEW)
        spread = (bracket(found["worst_low"], found["worst_high"]),) if known(found["worst_low"]) else ()
        name = labels.get(found["worst_group"], found["worst_group"])
        return Cell(f"{name} {percent(found['worst'])}", found["worst"], spread)

    return Column(label, read, numeric=False)


def _means(tables: Tables, context: Context, dimension: str) -> Table:
    frame = tables[f"mean_by_{dimension}"].filter(pl.col("outcome").is_in(list(context.tables.contrasts)))
    outcomes = outcome_labels(context)
    columns = [
        words("Outcome", "outcome", outcomes),
        words("Editor", "editor", editor_names(context)),
        words(f"Perceived {dimension}", "group", context.protocol.groups.labels(dimension)),
        leads(
            Column("Mean of persons’ rates", lambda row: _share(row["rate"])),
            lambda row: samples(editor=row["editor"], outcome=row["outcome"], **{dimension: row["group"]}),
        ),
        Column("Against the mean of groups", lambda row: _deviation(row), note="points, simultaneous bounds"),
        tally("Persons", "persons"),
    ]
    caption = f"Each group of perceived {dimension} against the mean of all groups"
    return table(f"mean-{dimension}", caption, frame.to_dicts(), columns, frame, dense=True)


def _share(found: float | None) -> Cell:
    return Cell(percent(found), found) if known(found) else absent("no judged edit")


def _deviation(row: Mapping[str, object]) -> Cell:
    found: Row = dict(row)
    if not known(found["deviation"]):
        return absent("no judged edit")
    spread = bracket(found["low"], found["high"]) if known(found["low"]) else "no bounds"
    return Cell(points(found["deviation"]), found["deviation"], (spread,))
