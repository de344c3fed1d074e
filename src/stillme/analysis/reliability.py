"""How far raters agree, from tables that count how often each thing got each score.

Every coefficient takes such a table (things × points of the scale), so its cost does not grow with the ratings
behind it, and things with few ratings need no filling in. Krippendorff's ordinal alpha is the primary one; Gwet's
AC1 and AC2 and the plain share of agreement stand beside it, because alpha and kappa are low wherever nearly all
scores are one and the same. Fleiss' kappa is for comparison with earlier studies: it knows no distances.

Raters sit in tasks, and items of one task share their raters. Intervals therefore leave out one task at a time: in
simulated studies (10 tasks of 3 raters) that covers 95 %, resampling items 85 %, resampling tasks 89 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from stillme.analysis.agreement import Weights, agreement_weights, places
from stillme.analysis.intervals import LEVEL

Floats = NDArray[np.float64]
Metric = Literal["nominal", "ordinal", "interval", "ratio"]

REPLICATES = 2_000
FEWEST_CLUSTERS = 3  # fewer tasks say nothing about how tasks differ


def counts(items: ArrayLike, scores: ArrayLike, scale: Sequence[int]) -> NDArray[np.int64]:
    """Things × points of the scale: how often each thing got each score. Missing scores (NaN) are not counted.

    `items` numbers the things from 0; a thing whose scores are all missing keeps its (empty) row.

    >>> counts([0, 0, 1, 1], [1, 3, 2, 2], scale=[1, 2, 3]).tolist()
    [[1, 0, 1], [0, 2, 0]]
    """
    rows, values = np.asarray(items, np.int64), np.asarray(scores)
    things = int(rows.max(initial=-1)) + 1
    if values.dtype.kind not in "iu":
        values = values.astype(float)
        known = ~np.isnan(values)
        rows, values = rows[known], values[known]
    found = np.bincount(rows * len(scale) + _columns(values, scale), minlength=things * len(scale))
    return found.reshape(things, len(scale))


def _columns(values: NDArray[np.generic], scale: Sequence[int]) -> NDArray[np.int64]:
    """As `places`, without a search where the scale has no gaps and every score is on it."""
    low, high = min(scale), max(scale)
    whole = values.dtype.kind in "iu" and high - low + 1 == len(scale)
    if whole and len(values) and low <= int(values.min()) and int(values.max()) <= high:
        return values.astype(np.int64, copy=False) - low
    return places(values, scale)


# Krippendorff's alpha


def coincidences(table: ArrayLike) -> Floats:
    """How often two ratings of one thing were c and k, each thing counted as often as it was rated.

    Σ over things of (n_c n_k − [c = k] n_c) ÷ (m − 1), with m ratings of a thing; those with fewer than two do not
    count. Alpha depends on the ratings through this alone, and it adds up over things.
    """
    ratings = _pairable(np.asarray(table, float))
    return _coincidences(ratings, ratings.sum(1))


def _pairable(table: Floats) -> Floats:
    rated = table @ np.ones(table.shape[1])
    return table if (rated >= 2).all() else table[rated >= 2]


def _coincidences(ratings: Floats, rated: Floats) -> Floats:
    shared = ratings / (rated - 1)[:, None]
    found: Floats = shared.T @ ratings - np.diag(shared.sum(0))
    return found


def alpha(table: ArrayLike, metric: Metric = "ordinal", values: ArrayLike | None = None) -> float | None:
    """Krippendorff's alpha: 1 − observed ÷ expected disagreement; None where only one score was ever given.

    Disagreement of two scores is 1 ("nominal"), the square of their difference ("interval"), of the difference of
    their ranks in all ratings ("ordinal"), or of difference ÷ sum ("ratio"). `values`: the points of the scale, 1,
    2, 3 … if not given.

    >>> round(alpha([[3, 0, 0], [0, 2, 1], [0, 0, 3], [2, 1, 0]]), 3)
    0.794
    """
    ratings = np.asarray(table, float)
    found = _alphas(coincidences(ratings)[None], metric, _points(ratings, values))[0]
    return None if np.isnan(found) else float(found)


def _points(table: Floats, values: ArrayLike | None) -> Floats:
    return np.arange(1.0, table.shape[1] + 1) if values is None else np.asarray(values, float)


def _alphas(pairs: Floats, metric: Metric, points: Floats) -> Floats:
    """Alpha of each of many coincidence tables (… × c × k); NaN where nothing is expected to differ."""
    totals = pairs.sum(-1)
    apart = _distances(totals, metric, points)
    observed = (pairs * apart).sum((-2, -1))
    expected = (totals[..., :, None] * totals[..., None, :] * apart).sum((-2, -1))
    found = np.full(len(pairs), np.nan)
    np.divide((totals.sum(-1) - 1) * observed, expected, out=found, where=expected > 1e-12)
    return 1 - found


def _distances(totals: Floats, metric: Metric, points: Floats) -> Floats:
    """Squared distance of every two points. The ordinal one is the interval one between middle ranks."""
    if metric == "nominal":
        return 1 - np.eye(len(points))
    if metric == "ratio":
        sums = np.add.outer(points, points)
        return (np.subtract.outer(points, points) / np.where(sums == 0, 1, sums)) ** 2
    middles = np.cumsum(totals, -1) - totals / 2 if metric == "ordinal" else points
    return (middles[..., :, None] - middles[..., None, :]) ** 2


# Intervals


@dataclass(frozen=True)
class Reach:
    """A coefficient with its interval; None where it cannot be told. `clusters`: what was left out or drawn."""

    estimate: float | None
    low: float | None
    high: float | None
    clusters: int


def jackknife(whole: float | None, without: ArrayLike, level: float = LEVEL) -> Reach:
    """A coefficient's interval from what it is without each cluster in turn: estimate ± t(k − 1) · s ÷ √k.

    s is the standard deviation of the k pseudo-values k · whole − (k − 1) · without. The upper limit is at most 1.

    >>> found = jackknife(0.5, [0.48, 0.5, 0.52, 0.5])
    >>> round(found.low, 3), round(found.high, 3)
    (0.422, 0.578)
    """
    left = np.asarray(without, float)
    k = len(left)
    if whole is None or k < FEWEST_CLUSTERS or np.isnan(left).any():
        return Reach(whole, None, None, k)
    spread = (k - 1) * float(left.std(ddof=1)) / math.sqrt(k)
    half = float(special.stdtrit(k - 1, 0.5 + level / 2)) * spread
    return Reach(whole, whole - half, min(1.0, whole + half), k)


def alpha_jackknife(
    table: ArrayLike,
    clusters: ArrayLike,
    metric: Metric = "ordinal",
    values: ArrayLike | None = None,
    level: float = LEVEL,
) -> Reach:
    """Krippendorff's alpha with the interval that leaves out one cluster (task) of things at a time.

    `clusters` has one entry a thing. Fewer than three clusters, or one without which only one score is left: an
    estimate without an interval.
    """
    ratings = np.asarray(table, float)
    parts, points = _cluster_coincidences(ratings, clusters), _points(ratings, values)
    whole = parts.sum(0)
    found = _alphas(whole[None], metric, points)[0]
    return jackknife(None if np.isnan(found) else float(found), _alphas(whole - parts, metric, points), level)


def _cluster_coincidences(table: Floats, clusters: ArrayLike) -> Floats:
    """Coincidences of every cluster that has any: they add up, so that no thing is looked at twice."""
    rated = table.sum(1)
    kept = rated >= 2
    own = np.unique(np.asarray(clusters)[kept], return_inverse=True)[1].ravel()
    ratings, shares = table[kept], table[kept] / np.maximum(rated[kept] - 1, 1)[:, None]
    k, groups = table.shape[1], int(own.max(initial=-1)) + 1
    found = np.empty((groups, k, k))
    for c in range(k):
        for d in range(k):
            products = shares[:, c] * (ratings[:, d] - (c == d))
            found[:, c, d] = np.bincount(own, products, groups)
    return found


def alpha_bootstrap(
    table: ArrayLike,
    clusters: ArrayLike | None = None,
    metric: Metric = "ordinal",
    values: ArrayLike | None = None,
    level: float = LEVEL,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> Reach:
    """Krippendorff's alpha with the middle `level` of its replicates, drawing things, or clusters of them, anew.

    Too narrow where raters sit in tasks (see the top of this module); there for comparison. Things with the same
    ratings are drawn together, so that millions cost no more than their distinct patterns.
    """
    ratings = np.asarray(table, float)
    points = _points(ratings, values)
    if clusters is None:
        parts, sizes = _patterns(_pairable(ratings))
    else:
        parts = _cluster_coincidences(ratings, clusters)
        sizes = np.ones(len(parts), np.int64)
    units = int(sizes.sum())
    if units < FEWEST_CLUSTERS:
        return Reach(alpha(ratings, metric, values), None, None, units)
    weights = np.random.default_rng(seed).multinomial(units, sizes / units, size=replicates).astype(float)
    drawn = weights @ parts.reshape(len(parts), -1)
    found = _alphas(drawn.reshape(replicates, *parts.shape[1:]), metric, points)
    low, high = _middle(found[~np.isnan(found)], level)
    return Reach(alpha(ratings, metric, values), low, high, units)


def _patterns(table: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """The coincidences of one thing of each pattern of ratings, and how many things have it."""
    base, k = int(table.max(initial=0)) + 1, table.shape[1]
    if base**k >= 2**62:
        kinds, sizes = np.unique(table, axis=0, return_counts=True)
    else:
        keys, sizes = np.unique((table @ float(base) ** np.arange(k)).astype(np.int64), return_counts=True)
        kinds = (keys[:, None] // base ** np.arange(k) % base).astype(float)
    pairs = kinds[:, :, None] * kinds[:, None, :] - kinds[:, :, None] * np.eye(k)
    return pairs / (kinds.sum(1) - 1)[:, None, None], sizes


def _middle(replicates: Floats, level: float) -> tuple[float | None, float | None]:
    if not len(replicates):
        return None, None
    low, high = np.quantile(replicates, [0.5 - level / 2, 0.5 + level / 2])
    return float(low), float(high)


# Fleiss' kappa


@dataclass(frozen=True)
class Fleiss:
    """Agreement beyond chance of as many raters for every thing. z and p test "no better than chance", no more:
    no interval can be built from them. `categories`: kappa of each point against the rest."""

    things: int
    raters: int | None
    kappa: float | None = None
    z: float | None = None
    p: float | None = None
    categories: tuple[float | None, ...] = ()


def fleiss(table: ArrayLike) -> Fleiss:
    """Fleiss' kappa over the things with the most frequent number of ratings (two or more).

    `things` says how many those are: where some have fewer ratings, the others are not comparable and left out.

    >>> found = fleiss([[3, 0], [0, 3], [2, 1], [3, 0]])
    >>> found.things, found.raters, round(found.kappa, 3)
    (4, 3, 0.625)
    """
    ratings = np.asarray(table, np.int64)
    rated = ratings.sum(1)
    sizes = np.bincount(rated[rated >= 2])
    if not len(sizes):
        return Fleiss(0, None)
    m = len(sizes) - 1 - int(sizes[::-1].argmax())  # of equally frequent numbers the larger
    ratings = ratings[rated == m]
    n = len(ratings)
    shares = ratings.sum(0) / (n * m)
    rest = shares * (1 - shares)
    if rest.sum() <= 1e-12:
        return Fleiss(n, m)
    differ = (ratings * (m - ratings)).sum(0) / (n * m * (m - 1))
    kappa = 1 - float(differ.sum() / rest.sum())
    z = kappa / _fleiss_error(shares, rest, n, m)
    each = tuple(None if r <= 0 else float(1 - d / r) for d, r in zip(differ, rest, strict=True))
    return Fleiss(n, m, kappa, z, 2 * float(special.ndtr(-abs(z))), each)


def _fleiss_error(shares: Floats, rest: Floats, n: int, m: int) -> float:
    """The standard error if raters scored by chance (Fleiss, Nee and Landis 1979)."""
    all_rest = float(rest.sum())
    skew = float((rest * (1 - 2 * shares)).sum())
    return math.sqrt(2 * (all_rest**2 - skew) / (n * m * (m - 1))) / all_rest


# Gwet's AC1 and AC2, and plain agreement


@dataclass(frozen=True)
class Gwet:
    """Gwet's coefficient; `error` takes things as a sample and independent of each other."""

    things: int
    coefficient: float | None = None
    error: float | None = None
    low: float | None = None
    high: float | None = None


def gwet(table: ArrayLike, weights: Weights = "identity", level: float = LEVEL) -> Gwet:
    """Gwet's AC1 ("identity") or AC2 (other weights): (observed − chance credit) ÷ (1 − chance credit).

    Chance agreement is that of raters who guess where they cannot tell, so the coefficient stays high where almost
    all scores are one and the same. Standard error of Gwet (2014), t quantile on (things − 1).

    >>> found = gwet([[3, 0, 0], [3, 0, 0], [2, 1, 0], [3, 0, 0]])
    >>> round(found.coefficient, 3), round(found.error, 3)
    (0.82, 0.194)
    """
    ratings = np.asarray(table, float)
    ratings = ratings[ratings.sum(1) > 0]
    credit = agreement_weights(ratings.shape[1], weights)
    rated, agreed = ratings.sum(1), _credit(ratings, credit)
    coefficient = _gwet(_gwet_sums(ratings, agreed).sum(0)[None], credit)[0]
    if np.isnan(coefficient):
        return Gwet(len(ratings))
    error = _gwet_error(ratings, rated, agreed, credit, float(coefficient))
    if error is None:
        return Gwet(len(ratings), float(coefficient))
    half = float(special.stdtrit(len(ratings) - 1, 0.5 + level / 2)) * error
    low, high = max(-1.0, coefficient - half), min(1.0, coefficient + half)
    return Gwet(len(ratings), float(coefficient), error, float(low), float(high))


def gwet_jackknife(
    table: ArrayLike, clusters: ArrayLike, weights: Weights = "quadratic", level: float = LEVEL
) -> Reach:
    """Gwet's coefficient with the interval that leaves out one cluster (task) of things at a time."""
    ratings = np.asarray(table, float)
    kept = ratings.sum(1) > 0
    ratings, own = ratings[kept], np.unique(np.asarray(clusters)[kept], return_inverse=True)[1].ravel()
    credit = agreement_weights(ratings.shape[1], weights)
    sums = _gwet_sums(ratings, _credit(ratings, credit))
    groups = int(own.max(initial=-1)) + 1
    parts = np.stack([np.bincount(own, column, groups) for column in sums.T], axis=1)
    whole = _gwet(parts.sum(0)[None], credit)[0]
    return jackknife(None if np.isnan(whole) else float(whole), _gwet(parts.sum(0) - parts, credit), level)


def _credit(ratings: Floats, credit: Floats) -> Floats:
    """Of every thing: the mean credit of two of its ratings; 0 where it has one."""
    rated = ratings.sum(1)
    found: Floats = (ratings * (ratings @ credit - 1)).sum(1) / np.maximum(rated * (rated - 1), 1)
    return found


def _gwet_sums(ratings: Floats, agreed: Floats) -> Floats:
    """What the coefficient needs of every thing, so that sums of it suffice: counts, credit, shares of scores."""
    rated = ratings.sum(1)
    return np.column_stack([np.ones(len(ratings)), rated >= 2, agreed, ratings / np.maximum(rated, 1)[:, None]])


def _gwet(sums: Floats, credit: Floats) -> Floats:
    things, paired, agreed, shares = sums[:, 0], sums[:, 1], sums[:, 2], sums[:, 3:]
    shares = shares / np.maximum(things, 1)[:, None]
    chance = _price(credit) * (shares * (1 - shares)).sum(1)
    found = np.full(len(sums), np.nan)
    np.divide(agreed / np.maximum(paired, 1) - chance, 1 - chance, out=found, where=paired >= 1)
    return found


def _price(credit: Floats) -> float:
    k = len(credit)
    return float(credit.sum()) / (k * (k - 1)) if k > 1 else 0.0


def _gwet_error(ratings: Floats, rated: Floats, agreed: Floats, credit: Floats, found: float) -> float | None:
    n, paired = len(ratings), int((rated >= 2).sum())
    if n < 2:
        return None
    shares = ratings / rated[:, None]
    mean = shares.mean(0)
    chance = _price(credit) * float((mean * (1 - mean)).sum())
    own = n / paired * (agreed - chance * (rated >= 2)) / (1 - chance)
    shifted = own - 2 * (1 - found) * (_price(credit) * (shares @ (1 - mean)) - chance) / (1 - chance)
    return math.sqrt(float(((shifted - found) ** 2).sum()) / (n * (n - 1)))


def percent_agreement(table: ArrayLike) -> float | None:
    """The share of equal pairs of ratings of one thing, averaged over things with two or more.

    >>> percent_agreement([[2, 0], [1, 1], [0, 1]])
    0.5
    """
    ratings = _pairable(np.asarray(table, float))
    return float(_credit(ratings, np.eye(ratings.shape[1])).mean()) if len(ratings) else None


# More raters


def of_mean(single: float, raters: float) -> float | None:
    """Spearman and Brown: the reliability of the mean of k raters, k r ÷ (1 + (k − 1) r); None below 0.

    >>> round(of_mean(0.23, 3), 2), round(of_mean(0.46, 3), 2)
    (0.47, 0.72)
    """
    return raters * single / (1 + (raters - 1) * single) if single >= 0 else None


def raters_needed(single: float, target: float) -> int | None:
    """How many raters' mean reaches the reliability `target`; None where one rater has none.

    >>> raters_needed(0.46, 0.8), raters_needed(0.23, 0.8)
    (5, 14)
    """
    if single <= 0 or single >= 1:
        return None if single <= 0 else 1
    return max(1, math.ceil(round(target * (1 - single) / (single * (1 - target)), 9)))
