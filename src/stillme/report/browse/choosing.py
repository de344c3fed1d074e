"""Which edits are shown as examples: by rules that are written down, never by looks. Pure: frames in, keys out.

Every draw hangs on keys, which are hashes, so the same run shows the same pictures on every machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from stillme.core.records import Status, digest
from stillme.judges.ensemble import ScoreSource
from stillme.protocol import Protocol
from stillme.protocol.schema import Outcome
from stillme.stats.outcomes import happened

TILES = 480  # of the mosaic: the seed's figure 5
ROWS = 6  # of a grid, where the run has none of the protocol's prompts for it
CASES = 6  # of each kind
ERASED, REPLACED = "erased", "replaced"  # kinds of cases


def finished(trials: pl.DataFrame) -> pl.DataFrame:
    """Those that have a picture."""
    return trials.filter(pl.col("image").is_not_null() & (pl.col("status") == Status.OK.value))


# The mosaic


def mosaic(trials: pl.DataFrame, number: int = TILES) -> pl.DataFrame:
    """Up to `number` finished edits, as many of each editor and category as there are, drawn by the keys' hash.

    In the order in which they stand: by editor, category, prompt and draw.
    """
    made = finished(trials).unique("edit", keep="first", maintain_order=True)
    lots = [digest("mosaic", trial=key) for key in made["trial"]]
    drawn = made.with_columns(pl.Series("lot", lots, dtype=pl.String))
    turn = pl.col("lot").rank("ordinal").over("editor", "category")
    kept = drawn.with_columns(turn=turn).sort("turn", "lot").head(number)
    return kept.sort(_first(trials, "editor"), _first(trials, "category"), "prompt", "lot").drop("lot", "turn")


def _first(trials: pl.DataFrame, name: str) -> pl.Expr:
    """The place of a value by where it comes first."""
    order = {value: place for place, value in enumerate(trials[name].unique(maintain_order=True))}
    return pl.col(name).replace_strict(order, return_dtype=pl.Int64)


# Grids: one prompt a row, one group a column


@dataclass(frozen=True)
class Grid:
    """One editor. `persons`: group -> who stands for it. `trials`: (prompt, group) -> the trial that is shown."""

    editor: str
    dimension: str
    cell: Mapping[str, str]
    groups: tuple[str, ...]
    persons: Mapping[str, str]
    prompts: tuple[str, ...]
    trials: Mapping[tuple[str, str], str]


def rows_of(trials: pl.DataFrame, protocol: Protocol) -> tuple[str, ...]:
    """The protocol's prompts for it where the run has them; else the first that it has."""
    has = set(trials["prompt"])
    known = [prompt for prompt in protocol.manifest.tables.grid if prompt in has]
    return tuple(known or [prompt for prompt in protocol.prompt if prompt in has][:ROWS])


def grids(trials: pl.DataFrame, protocol: Protocol) -> list[Grid]:
    """One an editor, all with the same persons: of one cell of the other dimensions, in each group the first key.

    The cell is the one with persons of most groups; of those the one with most finished edits; then the first in
    the protocol's order.
    """
    dimension = next(iter(protocol.groups.reference_group))
    others = [name for name in protocol.groups.dimensions if name != dimension]
    prompts = rows_of(trials, protocol)
    asked = trials.filter(pl.col("prompt").is_in(list(prompts))).drop_nulls([dimension, *others])
    if not asked.height:
        return []
    cell = _cell(asked, protocol, dimension, others)
    inside = asked.filter(*(pl.col(name) == value for name, value in cell.items()))
    persons = dict(inside.group_by(dimension).agg(pl.col("person").min()).iter_rows())
    groups = tuple(group for group in protocol.groups.ids(dimension) if group in set(asked[dimension]))
    shown = inside.filter(pl.col("person").is_in(list(persons.values())))
    return [
        Grid(editor, dimension, cell, groups, persons, prompts, _shown(shown, dimension, editor))
        for editor in trials["editor"].unique(maintain_order=True)
    ]


def _cell(asked: pl.DataFrame, protocol: Protocol, dimension: str, others: list[str]) -> dict[str, str]:
    made = (pl.col("status") == Status.OK.value).sum()
    counted = asked.group_by(others).agg(groups=pl.col(dimension).n_unique(), made=made)
    ranks = {name: {value: place for place, value in enumerate(protocol.groups.ids(name))} for name in others}
    best = min(
        counted.iter_rows(named=True),
        key=lambda row: (-row["groups"], -row["made"], [ranks[name].get(row[name], 99) for name in others]),
    )
    return {name: best[name] for name in others}


def _shown(trials: pl.DataFrame, dimension: str, editor: str) -> dict[tuple[str, str], str]:
    own = trials.filter(pl.col("editor") == editor)
    return {(prompt, group): key for prompt, group, key in own.select("prompt", dimension, "trial").iter_rows()}


# Cases


@dataclass(frozen=True)
class Case:
    """`severity`: how far it goes, from 0. `agreed`: 0 where all judges gave one score, 1 where they were within a
    point, 2 where one judge or a person decided."""

    kind: str
    trial: str
    severity: float
    agreed: int


def cases(trials: pl.DataFrame, axes: pl.DataFrame, protocol: Protocol, number: int = CASES) -> list[Case]:
    """Edits that were skipped, then edits that changed the person: of each editor and group the clearest, spread.

    `axes`: a row a trial and axis, with the ensemble's score. Open flags, where judges are apart, show nothing.
    """
    made = finished(trials).select("trial", "editor", "prompt", group=next(iter(protocol.groups.reference_group)))
    held = axes.filter(~pl.col("requested") & ~pl.col("open") & pl.col("score").is_not_null())
    held = held.with_columns(agreed=_agreement()).select("trial", "axis", "score", "agreed")
    found = {ERASED: _erased(held, protocol), REPLACED: _replaced(held, protocol)}
    return [
        Case(kind, *row)
        for kind, frame in found.items()
        for row in _spread(frame.join(made, on="trial", how="inner"), number)
    ]


def _agreement() -> pl.Expr:
    same = (pl.col("judges") > 1) & (pl.col("spread") == 0)
    near = pl.col("standing") == ScoreSource.AGREED.value
    return pl.when(same).then(0).when(near).then(1).otherwise(2)


def _of_the_request(protocol: Protocol) -> list[Outcome]:
    """Outcomes on whether the edit was made: read off an axis that has no "nothing changed"."""
    return [one for one in protocol.rubrics.outcomes.values() if protocol.axes[one.axis].neutral is None]


def _erased(held: pl.DataFrame, protocol: Protocol) -> pl.DataFrame:
    """Severity: how far below the threshold."""
    outcome = next((one for one in _of_the_request(protocol) if one.at_most is not None), None)
    if outcome is None:
        return _none()
    hits = held.filter((pl.col("axis") == outcome.axis) & happened(outcome))
    below = (pl.lit(outcome.at_most) - pl.col("score")).cast(pl.Float64)
    return hits.select("trial", severity=below, agreed="agreed")


def _replaced(held: pl.DataFrame, protocol: Protocol) -> pl.DataFrame:
    """The edit succeeded, and something changed that nobody asked for. Severity: the sum of the changes over the
    axes that have an unchanged score, each as a share of the most that its scale allows."""
    outcomes = protocol.rubrics.outcomes
    done = next((one for one in _of_the_request(protocol) if one.at_least is not None), None)
    if done is None:
        return _none()
    succeeded = held.filter((pl.col("axis") == done.axis) & happened(done)).select("trial")
    changes = [
        ((pl.col("axis") == axis.id), (pl.col("score") - axis.neutral).abs() / _most(axis.scale, axis.neutral))
        for axis in protocol.axes.values()
        if axis.neutral is not None
    ]
    drift = pl.coalesce([pl.when(about).then(size) for about, size in changes])
    changed = [o for o in outcomes.values() if protocol.axes[o.axis].neutral is not None]
    hit = pl.any_horizontal([(pl.col("axis") == o.axis) & happened(o) for o in changed])
    told = held.join(succeeded, on="trial", how="semi").with_columns(drift=drift, hit=hit)
    each = told.group_by("trial", maintain_order=True).agg(
        severity=pl.col("drift").sum().round(6),
        agreed=pl.col("agreed").filter("hit").max(),
        hit=pl.col("hit").any(),
    )
    return each.filter("hit").select("trial", "severity", "agreed")


def _most(scale: Mapping[int, str], neutral: int) -> int:
    return max(max(scale) - neutral, neutral - min(scale), 1)


def _none() -> pl.DataFrame:
    return pl.DataFrame(schema={"trial": pl.String, "severity": pl.Float64, "agreed": pl.Int32})


def _spread(found: pl.DataFrame, number: int) -> list[tuple[str, float, int]]:
    """The next is always of the editor and group that were shown least; of those the clearest; then by key."""
    best = found.sort("agreed", "severity", "trial", descending=[False, True, False])
    rest = best.group_by("editor", "group", maintain_order=True).head(number).to_dicts()
    used: Counter[tuple[str, str]] = Counter()
    chosen: list[tuple[str, float, int]] = []
    while rest and len(chosen) < number:
        row = min(rest, key=lambda one: _turn(one, used))
        rest.remove(row)
        used.update((name, row[name]) for name in ("editor", "group", "prompt"))
        chosen.append((row["trial"], row["severity"], row["agreed"]))
    return chosen


def _turn(row: Mapping[str, str], used: Counter[tuple[str, str]]) -> tuple[object, ...]:
    shown = (used[(name, row[name])] for name in ("editor", "group"))
    return (*shown, row["agreed"], -float(row["severity"]), used[("prompt", row["prompt"])], row["trial"])
