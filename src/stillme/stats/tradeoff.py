"""Preservation against edit success: an arm that keeps the person by not making the edit has won nothing.

Every arm of every editor is a point: how much drifts, and how well the edit is made. By the points an arm
dominates another where no more drifts and the edit is made no worse, which some arm nearly always does by chance.
It surely does only where the intervals of both paired differences exclude zero, over the cases of both arms.
Persons are the unit. How much success a kept face is worth is not decided here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import polars as pl

from stillme.protocol import Protocol
from stillme.stats.drift import CASE, changes, drifted, refuse_twice
from stillme.stats.means import Mean, mean_of_persons
from stillme.stats.selection import is_plain

ANY = "any"  # the share of edits with any drift; other measures are axes, in points
_SIDES = ("drift", "success")


@dataclass(frozen=True)
class Tradeoff:
    """`success`: the axis that success is read off. Rows over all editors have `editor` null.

    `points`: editor × measure × arm: drift and success with intervals over persons; `dominated_by` and
    `surely_dominated_by` name arms. `differences`: editor × measure × two arms: arm − against over shared cases;
    `dominates` and `surely` name the arm that does, null where neither does.
    """

    success: str | None
    points: pl.DataFrame
    differences: pl.DataFrame


def tradeoff(scores: pl.DataFrame, protocol: Protocol) -> Tradeoff:
    """Drift by every measure (an axis, or any drift) against edit success, by editor and arm.

    An edit counts where both its drift and its success are known.
    """
    refuse_twice(scores)
    axis = _success(protocol)
    arms = _arms(protocol, set(scores["arm"]))
    edits = _both(scores, protocol, axis)
    parts = list(_parts(edits))
    printed = [arm.id for arm in protocol.manifest.arms]
    points = [
        {**about, **_point(some, arm)} for about, some in parts for arm in printed if arm in set(some["arm"])
    ]
    pairs = [{**about, **_pair(some, *two)} for about, some in parts for two in combinations(arms, 2)]
    differences = pl.DataFrame(pairs, schema=_DIFFERENCES).filter(pl.col("cases") > 0)
    return Tradeoff(axis, _dominated(pl.DataFrame(points, schema=_POINTS), differences), differences)


def _success(protocol: Protocol) -> str | None:
    """The axis on which an arm must not lose: a declared one, else the first that is not about change."""
    declared = list(protocol.analysis.noninferiority)
    return next(iter([*declared, *(axis.id for axis in protocol.rubrics.axes if axis.neutral is None)]), None)


def _arms(protocol: Protocol, there: Collection[str]) -> list[str]:
    """The treated arm first and the prompt alone last: a difference is what was added − what it was added to."""
    present = [arm for arm in protocol.manifest.arms if arm.id in there]
    return [arm.id for arm in sorted(present, key=lambda arm: (arm.lead != "features", is_plain(arm)))]


def _both(scores: pl.DataFrame, protocol: Protocol, success: str | None) -> pl.DataFrame:
    """One row a measure, case and arm: `drift` and `success`, both known."""
    valued = changes(scores, protocol).drop_nulls("value")
    keys = ["arm", *CASE]
    made = valued.filter(axis=success).select(*keys, success=pl.col("value").cast(pl.Float64))
    axes = [axis.id for axis in protocol.rubrics.axes if axis.attribute is not None]
    each = valued.filter(pl.col("axis").is_in(axes)).select(
        *keys, measure="axis", drift=pl.col("value").cast(pl.Float64)
    )
    seen = drifted(scores, protocol).drop_nulls("drifted")
    any_ = seen.select(*keys, measure=pl.lit(ANY), drift=pl.col("drifted").cast(pl.Float64))
    return pl.concat([any_, each]).join(made, on=keys, how="inner", maintain_order="left")


def _parts(edits: pl.DataFrame) -> Iterator[tuple[dict[str, Any], pl.DataFrame]]:
    """All editors together, then each; by measure."""
    for (measure,), some in edits.group_by("measure", maintain_order=True):
        yield {"editor": None, "measure": measure}, some
    for (editor, measure), some in edits.group_by("editor", "measure", maintain_order=True):
        yield {"editor": editor, "measure": measure}, some


_FIGURES = [f"{side}{end}" for side in _SIDES for end in ("", "_low", "_high")]
_COUNTS = dict.fromkeys(("cases", "persons"), pl.Int64)
_ABOUT = dict.fromkeys(("editor", "measure"), pl.String)
_POINTS: dict[str, Any] = {**_ABOUT, "arm": pl.String, **_COUNTS, **dict.fromkeys(_FIGURES, pl.Float64)}
_DIFFERENCES: dict[str, Any] = {
    **_ABOUT,
    **dict.fromkeys(("arm", "against"), pl.String),
    **_COUNTS,
    **dict.fromkeys(_FIGURES, pl.Float64),
    **dict.fromkeys(("dominates", "surely"), pl.String),
}


def _figures(cases: pl.DataFrame) -> dict[str, Any]:
    """The mean over persons of both sides."""
    people = cases.group_by("person", maintain_order=True).agg(pl.col(*_SIDES).mean())
    found: dict[str, Any] = {"cases": cases.height, "persons": people.height}
    for side in _SIDES:
        one: Mean = mean_of_persons(people[side])
        found |= {side: one.mean, f"{side}_low": one.low, f"{side}_high": one.high}
    return found


def _point(edits: pl.DataFrame, arm: str) -> dict[str, Any]:
    return {"arm": arm, **_figures(edits.filter(arm=arm))}


def _pair(edits: pl.DataFrame, arm: str, against: str) -> dict[str, Any]:
    own, other = (edits.filter(arm=one).select(*CASE, *_SIDES) for one in (arm, against))
    both = own.join(other, on=list(CASE), how="inner", suffix="_other", maintain_order="left")
    cases = both.with_columns(*(pl.col(side) - pl.col(f"{side}_other") for side in _SIDES))
    found = _figures(cases)
    return {"arm": arm, "against": against, **found, **_better(found, arm, against)}


def _better(found: dict[str, Any], arm: str, against: str) -> dict[str, str | None]:
    """Which of two arms drifts less and is made no worse: by the means, and by both intervals."""
    drift, success = found["drift"], found["success"]
    if drift is None or success is None:
        return {"dominates": None, "surely": None}
    by_points = arm if drift <= 0 <= success else against if success <= 0 <= drift else None
    if drift == 0 == success or found["drift_low"] is None:
        return {"dominates": by_points if drift or success else None, "surely": None}
    less, more = found["drift_high"] < 0, found["drift_low"] > 0
    made, missed = found["success_low"] > 0, found["success_high"] < 0
    return {"dominates": by_points, "surely": arm if less and made else against if more and missed else None}


def _dominated(points: pl.DataFrame, differences: pl.DataFrame) -> pl.DataFrame:
    """The arms that dominate each point, as text; null where none does."""
    named = points
    for column, name in (("dominates", "dominated_by"), ("surely", "surely_dominated_by")):
        named = named.join(
            _losers(differences, column, name),
            on=[*_ABOUT, "arm"],
            how="left",
            nulls_equal=True,
            maintain_order="left",
        )
    return named


def _losers(differences: pl.DataFrame, column: str, name: str) -> pl.DataFrame:
    won = differences.drop_nulls(column)
    loser = pl.when(pl.col(column) == pl.col("arm")).then("against").otherwise("arm")
    return won.group_by(*_ABOUT, loser.alias("arm"), maintain_order=True).agg(
        pl.col(column).str.join(", ").alias(name)
    )
