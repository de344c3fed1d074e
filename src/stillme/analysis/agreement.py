"""How far people or judges agree with each other and with themselves: exact, within a point, beyond chance."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import polars as pl
from numpy.typing import NDArray

from stillme.analysis.means import shares


def agreement(scores: pl.DataFrame) -> pl.DataFrame:
    """Per pair of judges and axis, over the edits that both scored: exact, within one point, beyond chance.

    `scores` has trial, axis, judge, rank (0 = primary) and score. The difference is second minus first judge.
    """
    own = scores.select("trial", "axis", "rank", first_judge="judge", first="score")
    other = scores.select("trial", "axis", pl.col("rank").alias("below"), second_judge="judge", second="score")
    both = own.join(other, on=["trial", "axis"], how="inner", maintain_order="left_right")
    pairs = both.filter(pl.col("rank") < pl.col("below")).drop_nulls(["first", "second"])
    ordered = pairs.sort("rank", "below", maintain_order=True)
    return ordered.group_by("first_judge", "second_judge", "axis", maintain_order=True).agg(_AGREED)


def self_agreement(repeats: pl.DataFrame) -> pl.DataFrame:
    """Per judge and axis, over the edits that it scored twice: how far it agrees with itself.

    `repeats` has person, axis, judge, score and score_again, a row for every look that was to be made twice;
    `asked` counts them, `same` those with equal scores. The interval is of the exact share, over persons; the
    difference is second minus first.
    """
    looked = repeats.rename({"score": "first", "score_again": "second"})
    exact = shares(looked.with_columns(exact=pl.col("first") == pl.col("second")), "exact", ["judge", "axis"])
    pairs = looked.drop_nulls(["first", "second"])
    agreed = pairs.group_by("judge", "axis", maintain_order=True).agg(_AGREED)
    counted = exact.select("judge", "axis", "asked", "persons", pl.col("hits").alias("same"), "low", "high")
    found = counted.join(agreed, on=["judge", "axis"], how="left", validate="1:1", maintain_order="left")
    return found.with_columns(pl.col("pairs", "flagged").fill_null(0))


def weighted_kappa() -> pl.Expr:
    """Cohen's kappa of the columns `first` and `second` with quadratic weights; null where all scores are one.

    1 − the mean squared difference over what it would be if either's scores were dealt out by chance.
    """
    first, second = pl.col("first"), pl.col("second")
    chance = first.var(ddof=0) + second.var(ddof=0) + (first.mean() - second.mean()) ** 2
    return pl.when(chance > 1e-12).then(1 - ((second - first) ** 2).mean() / chance)


_APART = (pl.col("second") - pl.col("first")).abs()
_AGREED = (
    pl.len().cast(pl.Int64).alias("pairs"),
    (_APART == 0).mean().alias("exact"),
    (_APART <= 1).mean().alias("within_one"),
    (_APART > 1).sum().cast(pl.Int64).alias("flagged"),
    (pl.col("second") - pl.col("first")).mean().alias("difference"),
    weighted_kappa().alias("kappa"),
)


@dataclass(frozen=True)
class Kappa:
    """Agreement of two people who put the same things into categories, beyond what chance would give."""

    n: int
    agreement: float | None  # share of things in the same category; None without any
    kappa: float | None  # None where it is not defined: nothing was compared, or one category took everything
    low: float | None = None
    high: float | None = None


def cohen(first: Sequence[Hashable], second: Sequence[Hashable]) -> Kappa:
    """Cohen's kappa (observed − expected) / (1 − expected), with the 95 % interval of Fleiss, Cohen and Everitt.

    >>> found = cohen(["a", "a", "b", "b"], ["a", "a", "b", "a"])
    >>> found.agreement, found.kappa
    (0.75, 0.5)
    """
    if not first:
        return Kappa(0, None, None)
    places = {category: place for place, category in enumerate(dict.fromkeys((*first, *second)))}
    table = np.zeros((len(places), len(places)))
    for one, other in zip(first, second, strict=True):
        table[places[one], places[other]] += 1
    shares = table / len(first)
    agreed, expected = float(np.trace(shares)), float(shares.sum(1) @ shares.sum(0))
    if expected >= 1:
        return Kappa(len(first), agreed, None)
    kappa = (agreed - expected) / (1 - expected)
    reach = NormalDist().inv_cdf(0.975) * _error(shares, kappa, expected, len(first))
    return Kappa(len(first), agreed, kappa, max(-1.0, kappa - reach), min(1.0, kappa + reach))


def _error(shares: NDArray[np.float64], kappa: float, expected: float, n: int) -> float:
    """Large-sample standard error of kappa (Fleiss, Cohen and Everitt 1969)."""
    rows, columns = shares.sum(1), shares.sum(0)
    same = float(np.sum(np.diag(shares) * (1 - (rows + columns) * (1 - kappa)) ** 2))
    weights = (columns[:, None] + rows[None, :]) ** 2
    np.fill_diagonal(weights, 0.0)
    apart = (1 - kappa) ** 2 * float(np.sum(shares * weights))
    spread = same + apart - (kappa - expected * (1 - kappa)) ** 2
    return math.sqrt(max(0.0, spread) / n) / (1 - expected)
