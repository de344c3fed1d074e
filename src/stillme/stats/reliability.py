"""How far raters agree, from tables that count how often each thing got each score.

Every coefficient takes such a table (things × points of the scale), so its cost does not grow with the ratings
behind it, and things with few ratings need no filling in. Krippendorff's ordinal alpha is the primary one; Gwet's
AC1 and AC2 and the plain share of agreement stand beside it, because alpha and kappa are low wherever nearly all
scores are one and the same. Fleiss' kappa is for comparison with earlier studies: it knows no distances.

Raters sit in tasks, and items of one task share their raters. Intervals therefore leave out one task at a time: in
simulated studies (10 tasks of 3 raters) that covers about 95 %, resampling items 84 %, resampling tasks 88 %, and
Gwet's own standard error, which takes items as independent, 65 %.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray
from scipy import special

from stillme.core.errors import InputError
from stillme.protocol import Protocol
from stillme.stats.agreement import Weights, agreement_weights, places
from stillme.stats.intervals import LEVEL

Floats = NDArray[np.float64]
Metric = Literal["nominal", "ordinal", "interval", "ratio"]

REPLICATES = 2_000
MOST_KEYS = 1 << 20  # patterns of ratings that may be counted by number; beyond, they are sorted
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
        values = values.astype(float, copy=False)
        known = values == values
        rows, values = (rows, values) if known.all() else (rows[known], values[known])
    found = np.bincount(rows * len(scale) + _columns(values, scale), minlength=things * len(scale))
    return found.reshape(things, len(scale))


def _columns(values: NDArray[np.generic], scale: Sequence[int]) -> NDArray[np.int64]:
    """As `places`, without a search where the scale has no gaps and every score is on it."""
    low, high = min(scale), max(scale)
    with np.errstate(invalid="ignore"):  # infinity is no score either: `places` says so
        whole = values.astype(np.int64, copy=False)
    has_no_gaps = high - low + 1 == len(scale) and len(values) > 0
    if has_no_gaps and low <= int(whole.min()) and int(whole.max()) <= high and np.array_equal(whole, values):
        found: NDArray[np.int64] = whole - low
        return found
    return places(values, scale)


@dataclass(frozen=True)
class _Patterns:
    """The distinct rows of a table, which pattern each thing has, and how many things have each."""

    kinds: Floats
    of: NDArray[np.int64]
    sizes: Floats

    def kept(self, which: NDArray[np.bool_]) -> _Patterns:
        """Only the things of some patterns; `of` then speaks of these things alone."""
        new = np.cumsum(which) - 1
        return _Patterns(self.kinds[which], new[self.of[which[self.of]]], self.sizes[which])

    def summed(self, figures: Floats, clusters: ArrayLike) -> Floats:
        """The sum over each cluster's things of figures that hang on the pattern alone (patterns × …)."""
        from scipy import sparse

        own = np.unique(np.asarray(clusters), return_inverse=True)[1].ravel()
        shape = (int(own.max(initial=-1)) + 1, len(self.kinds))
        if not shape[0]:
            return np.zeros((0, *figures.shape[1:]))
        held = sparse.csr_matrix((np.ones(len(own)), (own, self.of)), shape=shape)
        found: Floats = held @ figures.reshape(len(figures), -1)
        return found.reshape(shape[0], *figures.shape[1:])


def _patterns(table: ArrayLike) -> _Patterns:
    """Three raters and five points make 35 patterns, however many things there are; each is a number to count."""
    ratings = np.asarray(table)
    base, k = int(ratings.max(initial=0)) + 1, ratings.shape[1]
    if base**k > MOST_KEYS:
        kinds, of, sizes = np.unique(ratings, axis=0, return_inverse=True, return_counts=True)
        return _Patterns(kinds.astype(float), of.ravel(), sizes.astype(float))
    powers = base ** np.arange(k)
    keys = ratings @ powers if ratings.dtype.kind in "iu" else (ratings @ powers.astype(float)).astype(np.int64)
    held = np.bincount(keys, minlength=1)
    there = np.flatnonzero(held)
    place = np.zeros(len(held), np.int64)
    place[there] = np.arange(len(there))
    kinds = (there[:, None] // powers % base).astype(float)
    return _Patterns(kinds, place[keys], held[there].astype(float))


# Krippendorff's alpha


def coincidences(table: ArrayLike) -> Floats:
    """How often two ratings of one thing were c and k, each thing counted as often as it was rated.

    Σ over things of (n_c n_k − [c = k] n_c) ÷ (m − 1), with m ratings of a thing; those with fewer than two do not
    count. Alpha depends on the ratings through this alone, and it adds up over things.
    """
    patterns = _patterns(table)
    found: Floats = np.tensordot(patterns.sizes, _pairs(patterns.kinds), 1)
    return found


def _pairs(kinds: Floats) -> Floats:
    """The coincidences of one thing of each pattern; none where it has fewer than two ratings."""
    rated = kinds.sum(1)
    pairs = kinds[:, :, None] * kinds[:, None, :] - kinds[:, :, None] * np.eye(kinds.shape[1])
    found: Floats = pairs * ((rated >= 2) / np.maximum(rated - 1, 1))[:, None, None]
    return found


def alpha(table: ArrayLike, metric: Metric = "ordinal", values: ArrayLike | None = None) -> float | None:
    """Krippendorff's alpha: 1 − observed ÷ expected disagreement; None where only one score was ever given.

    Disagreement of two scores is 1 ("nominal"), the square of their difference ("interval"), of the difference of
    their ranks in all ratings ("ordinal"), or of difference ÷ sum ("ratio"). `values`: the points of the scale, 1,
    2, 3 … if not given.

    >>> round(alpha([[3, 0, 0], [0, 2, 1], [0, 0, 3], [2, 1, 0]]), 3)
    0.794
    """
    pairs = coincidences(table)
    return _known(_alphas(pairs[None], metric, _points(len(pairs), values))[0])


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _points(points: int, values: ArrayLike | None) -> Floats:
    return np.arange(1.0, points + 1) if values is None else np.asarray(values, float)


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
    parts = _cluster_coincidences(table, clusters)
    whole, points = parts.sum(0), _points(parts.shape[1], values)
    found = _known(_alphas(whole[None], metric, points)[0])
    return jackknife(found, _alphas(whole - parts, metric, points), level)


def _cluster_coincidences(table: ArrayLike, clusters: ArrayLike) -> Floats:
    """The coincidences of every cluster that has any: they add up, so that no thing is looked at twice."""
    patterns = _patterns(table)
    parts = patterns.summed(_pairs(patterns.kinds), clusters)
    found: Floats = parts[parts.sum((1, 2)) > 0]
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
    if clusters is None:
        paired = _patterns(table)
        paired = paired.kept(paired.kinds.sum(1) >= 2)
        parts, sizes = _pairs(paired.kinds), paired.sizes
    else:
        parts = _cluster_coincidences(table, clusters)
        sizes = np.ones(len(parts))
    units, found = int(sizes.sum()), alpha(table, metric, values)
    if units < FEWEST_CLUSTERS:
        return Reach(found, None, None, units)
    weights = np.random.default_rng(seed).multinomial(units, sizes / units, size=replicates).astype(float)
    drawn = (weights @ parts.reshape(len(parts), -1)).reshape(replicates, *parts.shape[1:])
    alphas = _alphas(drawn, metric, _points(parts.shape[1], values))
    return Reach(found, *_middle(alphas[~np.isnan(alphas)], level), units)


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
    patterns = _patterns(table)
    rated = patterns.kinds.sum(1).astype(np.int64)
    numbers = np.bincount(rated, patterns.sizes)[2:]
    if not numbers.any():
        return Fleiss(0, None)
    m = len(numbers) + 1 - int(numbers[::-1].argmax())  # of equally frequent numbers the larger
    ratings, sizes = patterns.kinds[rated == m], patterns.sizes[rated == m]
    n = int(sizes.sum())
    shares = sizes @ ratings / (n * m)
    rest = shares * (1 - shares)
    if rest.sum() <= 1e-12:
        return Fleiss(n, m)
    differ = sizes @ (ratings * (m - ratings)) / (n * m * (m - 1))
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
    rated = _rated(table)
    credit = agreement_weights(rated.kinds.shape[1], weights)
    things = int(rated.sizes.sum())
    found = _known(_gwet((rated.sizes @ _gwet_sums(rated.kinds, credit))[None], credit)[0])
    if found is None or things < 2:
        return Gwet(things, found)
    error = _gwet_error(rated.kinds, rated.sizes, credit, found)
    half = float(special.stdtrit(things - 1, 0.5 + level / 2)) * error
    return Gwet(things, found, error, max(-1.0, found - half), min(1.0, found + half))


def _rated(table: ArrayLike) -> _Patterns:
    patterns = _patterns(table)
    return patterns.kept(patterns.kinds.sum(1) > 0)


def gwet_jackknife(
    table: ArrayLike, clusters: ArrayLike, weights: Weights = "quadratic", level: float = LEVEL
) -> Reach:
    """Gwet's coefficient with the interval that leaves out one cluster (task) of things at a time."""
    patterns = _patterns(table)
    credit = agreement_weights(patterns.kinds.shape[1], weights)
    parts = patterns.summed(_gwet_sums(patterns.kinds, credit), clusters)
    parts = parts[parts[:, 0] > 0]
    whole = _known(_gwet(parts.sum(0)[None], credit)[0])
    return jackknife(whole, _gwet(parts.sum(0) - parts, credit), level)


def _credit(ratings: Floats, credit: Floats) -> Floats:
    """Of every thing: the mean credit of two of its ratings; 0 where it has one."""
    rated = ratings.sum(1)
    found: Floats = (ratings * (ratings @ credit - 1)).sum(1) / np.maximum(rated * (rated - 1), 1)
    return found


def _gwet_sums(ratings: Floats, credit: Floats) -> Floats:
    """What the coefficient needs of every thing, so that sums of it suffice: counts, credit, shares of scores."""
    rated = ratings.sum(1)
    shares = ratings / np.maximum(rated, 1)[:, None]
    return np.column_stack([rated >= 1, rated >= 2, _credit(ratings, credit), shares])


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


def _gwet_error(ratings: Floats, sizes: Floats, credit: Floats, found: float) -> float:
    sums = _gwet_sums(ratings, credit)
    is_paired, agreed, shares = sums[:, 1], sums[:, 2], sums[:, 3:]
    n = float(sizes.sum())
    mean = sizes @ shares / n
    chance = _price(credit) * float((mean * (1 - mean)).sum())
    own = n / float(sizes @ is_paired) * (agreed - chance * is_paired) / (1 - chance)
    shifted = own - 2 * (1 - found) * (_price(credit) * (shares @ (1 - mean)) - chance) / (1 - chance)
    return math.sqrt(float(sizes @ (shifted - found) ** 2) / (n * (n - 1)))


def percent_agreement(table: ArrayLike) -> float | None:
    """The share of equal pairs of ratings of one thing, averaged over things with two or more.

    >>> percent_agreement([[2, 0], [1, 1], [0, 1]])
    0.5
    """
    patterns = _patterns(table)
    paired = patterns.sizes * (patterns.kinds.sum(1) >= 2)
    equal = float(paired @ _credit(patterns.kinds, np.eye(patterns.kinds.shape[1])))
    return equal / float(paired.sum()) if paired.any() else None


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


# Ratings of a study


class Gate(StrEnum):
    """What may rest on an axis, by its ordinal alpha and what the protocol declares."""

    CONFIRMATORY = "confirmatory"
    MODELS_ONLY = "models only"
    EXPLORATORY = "exploratory"


class Bar(StrEnum):
    """The study's own bars for alpha."""

    ACCEPTABLE = "acceptable"
    BETWEEN = "between"
    PROBLEMATIC = "problematic"


_FIGURES = {
    **dict.fromkeys(("asked", "ratings", "raters", "items", "paired", "clusters"), pl.Int64),
    "unit": pl.String,
    **dict.fromkeys(("alpha_ordinal", "low", "high", "alpha_interval", "alpha_nominal"), pl.Float64),
    "fleiss": pl.Float64,
    **dict.fromkeys(("fleiss_items", "fleiss_raters"), pl.Int64),
    **dict.fromkeys(("ac1", "ac2", "ac2_low", "ac2_high", "agreement", "raters_per_item", "of_mean"), pl.Float64),
    "raters_needed": pl.Int64,
    **dict.fromkeys(("gate", "bar"), pl.String),
}


def reliability(
    ratings: pl.DataFrame, protocol: Protocol, by: Sequence[str] = (), level: float = LEVEL
) -> pl.DataFrame:
    """One row per axis and group in `by`: how far raters agree, and what may therefore rest on the axis.

    `ratings` has a row per rater × output × axis: task, rater, trial, person, axis, score (null where none was
    given). `items` are outputs with a score, `paired` those with two or more; only these say anything. The
    intervals of ordinal alpha and AC2 leave out one task at a time; tasks that share outputs count as one, and
    where fewer than three are left, persons take their place (`unit`). Fleiss' kappa is of the `fleiss_items`
    outputs with `fleiss_raters` ratings. `of_mean` is the reliability of the mean of `raters_per_item` ratings;
    `raters_needed` how many would reach the study's own bar.
    """
    scored = ratings.filter(pl.col("score").is_not_null())
    scored = scored.with_columns(pl.col("task").cast(pl.String).fill_null(""))
    _check(ratings["axis"].unique().to_list(), scored, protocol)
    keys = ["axis", *by]
    asked = ratings.group_by(keys, maintain_order=True).agg(
        pl.len().alias("asked"),
        pl.col("score").count().alias("ratings"),
        pl.col("rater").filter(pl.col("score").is_not_null()).n_unique().alias("raters"),
    )
    things = _things(scored, keys, protocol).partition_by(keys, as_dict=True, include_key=False)
    empty = _things(scored.clear(), keys, protocol)
    rows = []
    for row in asked.iter_rows(named=True):
        own = things.get(tuple(row[key] for key in keys), empty)
        rows.append({**row, **_row(own, protocol.axes[row["axis"]].scale, protocol, level)})
    return pl.DataFrame(rows, schema={**{key: ratings.schema[key] for key in keys}, **_FIGURES})


def _check(axes: Sequence[str], scored: pl.DataFrame, protocol: Protocol) -> None:
    for axis in axes:
        if axis not in protocol.axes:
            raise InputError(f"The protocol has no axis {axis}.", "Rate the axes of the protocol.")
        scores = scored.filter(pl.col("axis") == axis)["score"].unique()
        places(scores, sorted(protocol.axes[axis].scale))
    given = scored.select("task", "rater", "trial", "axis")
    if given.n_unique() < len(given):
        raise InputError(
            "A rater scored the same output on the same axis twice in one task.",
            "Keep one row per task, rater, trial and axis.",
        )


def _things(scored: pl.DataFrame, keys: Sequence[str], protocol: Protocol) -> pl.DataFrame:
    """One row per output and axis: its person, its tasks as one, and how often it got each score."""
    points = sorted({point for axis in protocol.axes.values() for point in axis.scale})
    linked = _linked(scored)
    return scored.group_by(*keys, "trial", maintain_order=True).agg(
        pl.col("person").first(),
        pl.col("task").first().replace_strict(linked, default=None, return_dtype=pl.Int64).alias("cluster"),
        *((pl.col("score") == point).sum().cast(pl.Int64).alias(str(point)) for point in points),
    )


def _linked(scored: pl.DataFrame) -> dict[object, int]:
    """Task -> its number; tasks that rated the same outputs have the same one."""
    from scipy import sparse

    pairs = scored.select("trial", "task").unique(maintain_order=True)
    tasks, trials = pairs["task"].unique(maintain_order=True), pairs["trial"].unique(maintain_order=True)
    if pairs.is_empty():
        return {}
    rows = pairs["task"].rank("dense").to_numpy() - 1
    columns = pairs["trial"].rank("dense").to_numpy() - 1
    held = sparse.csr_matrix((np.ones(len(pairs)), (rows, columns)), shape=(len(tasks), len(trials)))
    _, labels = sparse.csgraph.connected_components(held @ held.T, directed=False)
    return dict(zip(pairs["task"].to_list(), labels[rows].tolist(), strict=True))


def _row(things: pl.DataFrame, scale: Mapping[int, str], protocol: Protocol, level: float) -> dict[str, object]:
    table = things.select(str(point) for point in sorted(scale)).to_numpy()
    paired = things.filter(table.sum(1) >= 2)
    unit = "task" if paired["cluster"].n_unique() >= FEWEST_CLUSTERS else "person"
    clusters = things["cluster" if unit == "task" else "person"].rank("dense").to_numpy()
    ordinal = alpha_jackknife(table, clusters, "ordinal", level=level)
    second = gwet_jackknife(table, clusters, "quadratic", level)
    counted = fleiss(table)
    each = float(table.sum()) / len(table) if len(table) else None
    return {
        "items": len(table),
        "paired": len(paired),
        "clusters": ordinal.clusters,
        "unit": unit,
        "alpha_ordinal": ordinal.estimate,
        "low": ordinal.low,
        "high": ordinal.high,
        "alpha_interval": alpha(table, "interval", sorted(scale)),
        "alpha_nominal": alpha(table, "nominal"),
        "fleiss": counted.kappa,
        "fleiss_items": counted.things,
        "fleiss_raters": counted.raters,
        "ac1": gwet(table).coefficient,
        "ac2": second.estimate,
        "ac2_low": second.low,
        "ac2_high": second.high,
        "agreement": percent_agreement(table),
        "raters_per_item": each,
        **_judged(ordinal.estimate, each, protocol),
    }


def _judged(found: float | None, each: float | None, protocol: Protocol) -> dict[str, object]:
    if found is None or each is None:
        return dict.fromkeys(("of_mean", "raters_needed", "gate", "bar"))
    declared, bars = protocol.analysis.reliability, protocol.study_rules.reliability
    middle = Gate.MODELS_ONLY if found >= declared.exploratory else Gate.EXPLORATORY
    between = Bar.PROBLEMATIC if found < bars["problematic_below"] else Bar.BETWEEN
    acceptable = bars["krippendorff_alpha_acceptable"]
    return {
        "of_mean": of_mean(found, each),
        "raters_needed": raters_needed(found, acceptable),
        "gate": Gate.CONFIRMATORY if found >= declared.confirmatory else middle,
        "bar": Bar.ACCEPTABLE if found >= acceptable else between,
    }
