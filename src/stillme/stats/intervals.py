"""Intervals for a share whose trials come in clusters: many edits of one person are not independent.

The unit of replication is the person. Wilson's interval is computed at the effective sample size n / deff, with
a t quantile on (persons − 1) degrees of freedom. With 12 persons a group it covers 94–98 % where the plain Wilson
interval covers 72–95 % and the percentile bootstrap 75–90 %. Of fewer than FEWEST_FOR_INTERVAL persons it is not
computed at all: so few do not say how persons differ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import ArrayLike
from scipy import special

LEVEL = 0.95
FEWEST_FOR_INTERVAL = 8  # persons; of fewer a rate stands without an interval
FEW_PERSONS = 20  # below this an interval stands on few persons, and whoever prints it says so


@dataclass(frozen=True)
class Share:
    """A share with its interval. `deff` is how many edits of one person count as one."""

    hits: int
    trials: int
    clusters: int
    rate: float | None
    low: float | None
    high: float | None
    deff: float | None


def wilson(rate: float, n: float, quantile: float) -> tuple[float, float]:
    """Wilson's score interval for a share `rate` of `n`; n need not be whole.

    >>> low, high = wilson(81 / 263, 263, 1.959964)
    >>> round(low, 4), round(high, 4)
    (0.2553, 0.3662)
    """
    square = quantile * quantile
    centre = (rate + square / (2 * n)) / (1 + square / n)
    half = quantile / (1 + square / n) * float(np.sqrt(rate * (1 - rate) / n + square / (4 * n * n)))
    return max(0.0, centre - half), min(1.0, centre + half)


def clustered_share(hits: ArrayLike, trials: ArrayLike, level: float = LEVEL) -> Share:
    """The share of hits, given hits and trials per cluster (person), with its person-clustered interval.

    No trial: no rate. Fewer than FEWEST_FOR_INTERVAL clusters: a rate without an interval, because so few do not
    say how persons differ. All or none: the design effect cannot be estimated, so each person counts as one trial.
    """
    per_hits, per_trials = np.asarray(hits, float), np.asarray(trials, float)
    per_hits, per_trials = per_hits[per_trials > 0], per_trials[per_trials > 0]
    clusters, n, k = len(per_trials), float(per_trials.sum()), float(per_hits.sum())
    if clusters == 0:
        return Share(0, 0, 0, None, None, None, None)
    rate = k / n
    if clusters == 1:
        return Share(int(k), int(n), 1, rate, None, None, None)
    effective = _effective_trials(per_hits, per_trials, rate)
    low, high = None, None
    if clusters >= FEWEST_FOR_INTERVAL:
        low, high = wilson(rate, effective, float(special.stdtrit(clusters - 1, 0.5 + level / 2)))
    return Share(int(k), int(n), clusters, rate, low, high, n / effective)


def _effective_trials(hits: np.ndarray, trials: np.ndarray, rate: float) -> float:
    """n / deff, at most n; the between-person variance is that of the ratio estimator."""
    clusters, n = len(trials), float(trials.sum())
    if rate in (0.0, 1.0):
        return float(clusters)
    variance = clusters / (clusters - 1) * float(((hits - rate * trials) ** 2).sum()) / n**2
    return min(n, rate * (1 - rate) / variance) if variance > 0 else n


def squares(hits: str, trials: str) -> pl.Expr:
    """Σ (hits − rate · trials)² over the persons of a group, for `agg` on one row a person; see `with_shares`."""
    rate = pl.col(hits).sum() / pl.col(trials).sum()
    return ((pl.col(hits) - rate * pl.col(trials)) ** 2).sum()


def with_shares(groups: pl.DataFrame, hits: str, trials: str, level: float = LEVEL) -> pl.DataFrame:
    """`clustered_share` for many groups at once: adds rate, low, high and deff; `squares` goes.

    `groups`: one row a group with its hits, its trials, `persons` (those with a trial) and `squares`.
    """
    quantile = special.stdtrit(np.maximum(groups["persons"].to_numpy() - 1, 1), 0.5 + level / 2)
    found = groups.with_columns(
        pl.when(pl.col(trials) > 0).then(pl.col(hits) / pl.col(trials)).alias("rate"),
        pl.Series("_t", quantile, dtype=pl.Float64),
    )
    found = found.with_columns(_effective(trials).alias("_n"))
    low, high = _wilson(pl.col("rate"), pl.col("_n"), pl.col("_t"))
    is_enough = pl.col("persons") >= FEWEST_FOR_INTERVAL
    return found.with_columns(
        pl.when(is_enough).then(low).alias("low"),
        pl.when(is_enough).then(high).alias("high"),
        pl.when(pl.col("persons") > 1).then(pl.col(trials) / pl.col("_n")).alias("deff"),
    ).drop("_t", "_n", "squares")


def _effective(trials: str) -> pl.Expr:
    """`_effective_trials` of each row; null without a second person."""
    rate, persons, n = pl.col("rate"), pl.col("persons"), pl.col(trials).cast(pl.Float64)
    variance = persons / (persons - 1) * pl.col("squares") / n**2
    spread = pl.when(variance > 0).then(rate * (1 - rate) / variance).otherwise(n).clip(upper_bound=n)
    found = pl.when((rate == 0) | (rate == 1)).then(persons.cast(pl.Float64)).otherwise(spread)
    return pl.when(persons > 1).then(found)


def _wilson(rate: pl.Expr, n: pl.Expr, quantile: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    square = quantile * quantile
    centre = (rate + square / (2 * n)) / (1 + square / n)
    half = quantile / (1 + square / n) * (rate * (1 - rate) / n + square / (4 * n * n)).sqrt()
    return (centre - half).clip(0.0, 1.0), (centre + half).clip(0.0, 1.0)
