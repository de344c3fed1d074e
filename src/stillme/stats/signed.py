"""Signed axes: which way edits move a person, on balance, and how far; never the mean of a signed score.

Above neutral, below it, and neither are counted apart; net = P(above) − P(below). Direction and size come from
judges' own scores or from their unrounded mean: a rounded one leans to where halves are rounded to, so that judges
who are even by themselves would show a change. Intervals are Student's with the person as the unit. What a
side means (lighter, younger) is the protocol's to say.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from scipy import special

from stillme.protocol import Protocol
from stillme.stats.intervals import FEWEST_FOR_INTERVAL, LEVEL, squares
from stillme.stats.outcomes import unrounded

_NOTHING = 1e-18  # a variance below this is one that rounding left over
_SIDES = ("above", "same", "below")
_ENDS = {"net": (-1.0, 1.0), "magnitude": (0.0, None)}


def signed(scores: pl.DataFrame, protocol: Protocol, by: Sequence[str], level: float = LEVEL) -> pl.DataFrame:
    """One row per signed axis and group in `by`, without the cells where the prompt asks for the change.

    `above`, `same`, `below`: shares of the judged edits, with their counts as n_above, n_same, n_below. `net`:
    above − below. `magnitude`: the mean of |score − neutral| in points of the scale. `large`: the share that lies
    at an end of the scale. Net and magnitude have an interval, r ± t(G − 1) · √(G ÷ (G − 1) · Σ(yᵢ − r · nᵢ)²) ÷ n
    over the G persons' sums yᵢ of nᵢ edits, which is Student's on persons' own means where all have as many edits.
    No interval of fewer than FEWEST_FOR_INTERVAL persons, or where all are alike.

    `scores`: of the ensemble, or one row a judge (see `by_judge`).
    """
    people = _per_person(scores, protocol, by)
    totals = pl.col("asked", "judged", *(f"n_{side}" for side in _SIDES), "n_large", "net", "magnitude").sum()
    groups = people.group_by("axis", *by, maintain_order=True).agg(
        totals,
        (pl.col("judged") > 0).sum().cast(pl.Int64).alias("persons"),
        *(squares(figure, "judged").alias(f"{figure}_squares") for figure in _ENDS),
    )
    for figure, ends in _ENDS.items():
        groups = _with_interval(groups, figure, ends, level)
    shares = [_of_judged(f"n_{side}").alias(side) for side in (*_SIDES, "large")]
    found = groups.with_columns(*shares, missing=pl.col("asked") - pl.col("judged"))
    return found.select("axis", *by, *_COLUMNS)


def by_judge(judged: pl.DataFrame, protocol: Protocol, by: Sequence[str], level: float = LEVEL) -> pl.DataFrame:
    """The same of every judge alone, from `judged` (one row per trial, axis and judge): no ensemble at all."""
    return signed(judged, protocol, ["judge", *by], level)


_COLUMNS = (
    *("asked", "judged", "missing", "persons", "n_above", "n_same", "n_below", "above", "same", "below"),
    *("net", "net_low", "net_high", "magnitude", "magnitude_low", "magnitude_high", "n_large", "large"),
)


def _per_person(scores: pl.DataFrame, protocol: Protocol, by: Sequence[str]) -> pl.DataFrame:
    """Counts and sums of each person; `net` and `magnitude` are still sums."""
    found = off_neutral(scores, protocol).with_columns(above=pl.col("off") > 0, below=pl.col("off") < 0)
    above, below = (pl.col(side).sum().cast(pl.Int64) for side in ("above", "below"))
    return found.group_by("axis", *by, "person", maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("asked"),
        pl.col("off").count().cast(pl.Int64).alias("judged"),
        above.alias("n_above"),
        (pl.col("off") == 0).sum().cast(pl.Int64).alias("n_same"),
        below.alias("n_below"),
        pl.col("is_end").sum().cast(pl.Int64).alias("n_large"),
        (above - below).alias("net"),
        pl.col("off").abs().sum().alias("magnitude"),
    )


def off_neutral(scores: pl.DataFrame, protocol: Protocol) -> pl.DataFrame:
    """Rows of signed axes with `off`: how far above neutral, before rounding; `is_end`: at an end of the scale."""
    axes = [axis for axis in protocol.rubrics.axes if axis.is_signed]
    lowest = {axis.id: float(min(axis.scale)) for axis in axes}
    highest = {axis.id: float(max(axis.scale)) for axis in axes}
    kept = scores.filter(pl.col("axis").is_in(list(lowest)) & ~pl.col("requested")).with_columns(
        _at=unrounded(scores),
        _first=pl.col("axis").replace_strict(lowest, default=None, return_dtype=pl.Float64),
        _last=pl.col("axis").replace_strict(highest, default=None, return_dtype=pl.Float64),
    )
    at = pl.col("_at")
    is_end = (at <= pl.col("_first")) | (at >= pl.col("_last"))
    return kept.with_columns(off=at - pl.col("neutral"), is_end=is_end).drop("_at", "_first", "_last")


def _of_judged(count: str) -> pl.Expr:
    return pl.when(pl.col("judged") > 0).then(pl.col(count) / pl.col("judged"))


def _with_interval(
    groups: pl.DataFrame, figure: str, ends: tuple[float | None, float | None], level: float
) -> pl.DataFrame:
    """The sum `figure` as a mean of the judged edits, with low and high."""
    quantile = special.stdtrit(np.maximum(groups["persons"].to_numpy() - 1, 1), 0.5 + level / 2)
    persons, n = pl.col("persons"), pl.col("judged")
    variance = persons / (persons - 1) * pl.col(f"{figure}_squares") / n**2
    is_known = (persons >= FEWEST_FOR_INTERVAL) & (variance > _NOTHING)
    half = pl.when(is_known).then(pl.Series(quantile, dtype=pl.Float64) * variance.sqrt())
    mean = _of_judged(figure)
    return groups.with_columns(
        mean.alias(figure),
        (mean - half).clip(*ends).alias(f"{figure}_low"),
        (mean + half).clip(*ends).alias(f"{figure}_high"),
    )
