"""How far people or judges agree with each other and with themselves: exact, within a point, beyond chance."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from stillme.core.errors import InputError
from stillme.stats.intervals import LEVEL
from stillme.stats.means import shares

Weights = Literal["identity", "linear", "quadratic", "ordinal"]


def agreement(scores: pl.DataFrame) -> pl.DataFrame:
    """Per pair of judges and axis, over the edits that both scored: exact, within one point, beyond chance.

    `scores` has trial, axis, judge, rank (0 = primary) and score. The difference is second minus first judge.
    `missing`: what was asked of both and one did not score; `persons`: of the pairs, where `scores` names them.
    """
    whose = [name for name in scores.columns if name == "person"]
    persons = [pl.col(name).n_unique().cast(pl.Int64).alias("persons") for name in whose]
    found = judge_pairs(scores, *whose).group_by(*PAIR, "axis", maintain_order=True).agg(*_AGREED, *persons)
    asked = scores.group_by("judge", "axis").agg(pl.len().cast(pl.Int64).alias("asked"))
    for side in PAIR:
        own = asked.rename({"judge": side, "asked": f"asked_{side}"})
        found = found.join(own, on=[side, "axis"], how="left", maintain_order="left")
    of_both = [f"asked_{side}" for side in PAIR]
    return found.with_columns(missing=pl.min_horizontal(of_both) - pl.col("pairs")).drop(of_both)


PAIR = ("first_judge", "second_judge")


def judge_pairs(scores: pl.DataFrame, *about: str) -> pl.DataFrame:
    """Every two judges' scores (`first`, `second`) of an edit on an axis, and second − first as `difference`.

    `about`: columns of the trial to keep.
    """
    own = scores.select("trial", "axis", *about, "rank", first_judge="judge", first="score")
    other = scores.select("trial", "axis", pl.col("rank").alias("below"), second_judge="judge", second="score")
    first, second = pl.col("first").is_not_null(), pl.col("second").is_not_null()
    ranks = sorted(scores["rank"].unique().to_list())
    pairs = [  # judge by judge: all of them at once would hold every edit four times
        own.filter(first, rank=rank).join(
            other.filter(second, below=below), ["trial", "axis"], maintain_order="left"
        )
        for rank, below in combinations(ranks, 2)
    ]
    ordered = pl.concat(pairs) if pairs else own.clear().join(other.clear(), ["trial", "axis"])
    return ordered.with_columns(difference=pl.col("second") - pl.col("first")).drop("rank", "below")


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
    return kappa_of(table)


def kappa(first: ArrayLike, second: ArrayLike, scale: Sequence[int], weights: Weights = "quadratic") -> Kappa:
    """Cohen's kappa of two people's scores on a scale, with credit for being close.

    Credit is 1 − d ÷ the largest d ("linear", in steps of the scale), 1 − d² ÷ its square ("quadratic"), or none
    ("identity"). Pairs in which either score is missing (NaN) are left out.

    >>> found = kappa([1, 2, 3, 4, 5, 5], [1, 2, 4, 4, 5, 3], scale=range(1, 6))
    >>> found.n, round(found.agreement, 2), round(found.kappa, 3), round(found.low, 2), round(found.high, 2)
    (6, 0.67, 0.795, 0.45, 1.0)
    """
    one, other = np.asarray(first, float), np.asarray(second, float)
    known = ~(np.isnan(one) | np.isnan(other))
    rows, columns, points = places(one[known], scale), places(other[known], scale), len(scale)
    table = np.bincount(rows * points + columns, minlength=points**2)
    return kappa_of(table.reshape(points, points), weights)


def places(scores: ArrayLike, scale: Sequence[int]) -> NDArray[np.int64]:
    """Where on the scale each score stands, from 0. A score that is not on it is an error.

    >>> places([2, 5, 1], scale=range(1, 6)).tolist()
    [1, 4, 0]
    """
    values, points = np.asarray(scores), np.sort(np.asarray(scale))
    found: NDArray[np.int64] = np.minimum(np.searchsorted(points, values), len(points) - 1)
    wrong = points[found] != values
    if wrong.any():
        raise InputError(
            f"A score is {values[wrong][0]}, and the scale has {points[0]} to {points[-1]}.",
            "Correct the scores, or leave missing ones empty.",
        )
    return found


def kappa_of(table: ArrayLike, weights: Weights | NDArray[np.float64] = "identity", level: float = LEVEL) -> Kappa:
    """Cohen's kappa of a table of counts, first × second: (observed − expected credit) ÷ (1 − expected credit).

    `weights`: how credit falls with distance, or a table of credit (1 for the same, less for others). The interval
    is that of Fleiss, Cohen and Everitt (1969).

    >>> found = kappa_of([[44, 7, 9], [5, 20, 5], [1, 3, 6]])
    >>> round(found.kappa, 3), round(found.low, 3), round(found.high, 3)
    (0.492, 0.35, 0.633)
    """
    counts = np.asarray(table, float)
    n = float(counts.sum())
    if n == 0:
        return Kappa(0, None, None)
    credit = weights if isinstance(weights, np.ndarray) else agreement_weights(len(counts), weights)
    shares = counts / n
    agreed, rows, columns = float(np.trace(shares)), shares.sum(1), shares.sum(0)
    observed, expected = float((shares * credit).sum()), float(rows @ credit @ columns)
    if 1 - expected <= 1e-12:
        return Kappa(round(n), agreed, None)
    kappa = (observed - expected) / (1 - expected)
    reach = NormalDist().inv_cdf(0.5 + level / 2) * _error(shares, credit, kappa, expected, n)
    return Kappa(round(n), agreed, kappa, max(-1.0, kappa - reach), min(1.0, kappa + reach))


def agreement_weights(points: int, kind: Weights) -> NDArray[np.float64]:
    """Credit for two scores on a scale of `points`: 1 where they are equal, 0 at the two ends.

    >>> agreement_weights(3, "quadratic").tolist()
    [[1.0, 0.75, 0.0], [0.75, 1.0, 0.75], [0.0, 0.75, 1.0]]
    """
    apart = np.abs(np.subtract.outer(np.arange(points), np.arange(points))).astype(float)
    most = max(points - 1, 1)
    if kind == "identity":
        return np.eye(points)
    lost = {
        "linear": apart / most,
        "quadratic": (apart / most) ** 2,
        "ordinal": apart * (apart + 1) / (most * (most + 1)),  # Gwet's: the pairs of scores in between
    }
    return np.asarray(1 - lost[kind])


def _error(
    shares: NDArray[np.float64], credit: NDArray[np.float64], kappa: float, expected: float, n: float
) -> float:
    """Large-sample standard error of kappa (Fleiss, Cohen and Everitt 1969)."""
    rows, columns = shares.sum(1), shares.sum(0)
    usual = (credit @ columns)[:, None] + (rows @ credit)[None, :]
    spread = float((shares * (credit - usual * (1 - kappa)) ** 2).sum()) - (kappa - expected * (1 - kappa)) ** 2
    return math.sqrt(max(0.0, spread) / n) / (1 - expected)
