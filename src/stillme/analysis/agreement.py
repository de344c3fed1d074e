"""How far people or judges agree with each other: exact, within a point, beyond chance."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import polars as pl
from numpy.typing import NDArray


def agreement(scores: pl.DataFrame) -> pl.DataFrame:
    """Per axis, over the pairs that two judges both scored: exact, within one point, mean difference.

    `scores` has trial, axis, judge, rank (0 = primary) and score. The difference is second minus first judge.
    """
    first = scores.filter(pl.col("rank") == 0).select("trial", "axis", first="score")
    second = scores.filter(pl.col("rank") == 1).select("trial", "axis", second="score")
    pairs = first.join(second, on=["trial", "axis"], how="inner", validate="1:1").drop_nulls()
    apart = (pl.col("second") - pl.col("first")).abs()
    return pairs.group_by("axis", maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("pairs"),
        (apart == 0).mean().alias("exact"),
        (apart <= 1).mean().alias("within_one"),
        (apart > 1).sum().cast(pl.Int64).alias("flagged"),
        (pl.col("second") - pl.col("first")).mean().alias("difference"),
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
