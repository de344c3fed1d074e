"""Bounds and p-values that hold for all comparisons at once, from draws that all comparisons share.

Whoever looks at every pair of groups, or at every editor and endpoint, finds something by chance. Max-T asks of
each draw how far out its most extreme comparison lies, and lets that decide for all. Comparisons of the same
persons move together, and max-T takes that into account where Holm does not.

Intervals come from persons drawn anew, p-values from persons who change groups within their stratum. What the
comparisons mean is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import numpy as np
import polars as pl
from scipy import special

from stillme.protocol import Protocol
from stillme.stats.contrast import TIE
from stillme.stats.intervals import FEWEST_FOR_INTERVAL, LEVEL
from stillme.stats.resample import (
    People,
    Rates,
    gather,
    is_movable,
    permuted_sums,
    ratio,
    reach,
    resampled,
)

_PAIRS = {
    "editor": pl.String,
    "outcome": pl.String,
    "group": pl.String,
    "other": pl.String,
    **dict.fromkeys(("difference", "low", "high", "p"), pl.Float64),
}
_DEVIATIONS = {
    "editor": pl.String,
    "outcome": pl.String,
    "group": pl.String,
    "persons": pl.Int64,
    **dict.fromkeys(("rate", "deviation", "low", "high"), pl.Float64),
}


def pairs(
    marked: pl.DataFrame, protocol: Protocol, dimension: str, seed: int = 0, level: float = LEVEL
) -> pl.DataFrame:
    """Every two groups' difference of rates, with bounds that hold for all pairs of an editor and outcome at once.

    `p` is the share of permutations (persons change groups within the other dimensions) whose largest difference
    is at least this one: adjusted for all the pairs. Of fewer than 8 persons in a group there is no interval.
    """
    people = _people(marked, protocol, dimension)
    if not people.columns:
        return pl.DataFrame(schema=_PAIRS)
    drawn = resampled(people, seed=seed)
    widths, null = _widths(drawn, level), _null_reach(people, seed)
    rows: list[dict[str, object]] = []
    for a, b in combinations(range(len(people.groups)), 2):
        difference = drawn.rates[a] - drawn.rates[b]
        half = widths * np.sqrt(drawn.variances[a] + drawn.variances[b])
        half[(drawn.persons[[a, b]] < FEWEST_FOR_INTERVAL).any(axis=0) | (half == 0)] = np.nan
        p = _share_beyond(null, np.abs(difference))
        named = {"group": people.groups[a], "other": people.groups[b]}
        rows += _named_rows(
            people, named, difference=difference, low=difference - half, high=difference + half, p=p
        )
    return _in_order(rows, _PAIRS, people)


def deviations(
    marked: pl.DataFrame, protocol: Protocol, dimension: str, seed: int = 0, level: float = LEVEL
) -> pl.DataFrame:
    """Each group's rate minus the mean of all groups' rates, with bounds that hold for all groups at once."""
    people = _people(marked, protocol, dimension)
    if not people.columns:
        return pl.DataFrame(schema=_DEVIATIONS)
    drawn = resampled(people, seed=seed)
    centred, errors = _deviations(drawn)
    moved = np.abs(_centred(drawn.replicates) - centred)
    worst = np.nanmax(_over(moved, errors), axis=1, initial=0.0)
    half = _stretched(np.quantile(worst, level, axis=0), drawn.persons, level) * errors
    half[(drawn.persons < FEWEST_FOR_INTERVAL) | (half == 0)] = np.nan  # no spread says nothing of persons
    rows: list[dict[str, object]] = []
    for place, group in enumerate(people.groups):
        figures = {"persons": drawn.persons[place], "rate": drawn.rates[place], "deviation": centred[place]}
        ends = {"low": centred[place] - half[place], "high": centred[place] + half[place]}
        rows += _named_rows(people, {"group": group}, **figures, **ends)
    return _in_order(rows, _DEVIATIONS, people)


def reach_bounds(drawn: Rates, level: float = LEVEL) -> tuple[np.ndarray, np.ndarray]:
    """Bounds on max − min per column that hold whichever two groups are the extreme ones.

    With all pairs' differences within ± c · error at once, max − min is at least the largest |difference| − c ·
    error and at most the largest |difference| + c · error.
    """
    widths = _widths(drawn, level)
    low, high = np.zeros(len(widths)), np.zeros(len(widths))
    for a, b in combinations(range(len(drawn.rates)), 2):
        difference = np.nan_to_num(np.abs(drawn.rates[a] - drawn.rates[b]))
        half = np.nan_to_num(widths * np.sqrt(drawn.variances[a] + drawn.variances[b]))
        low, high = np.maximum(low, difference - half), np.maximum(high, difference + half)
    return low, np.minimum(high, 1.0)


def adjusted(people: People, reference: str, seed: int = 0, draws: int | None = None) -> pl.DataFrame:
    """Everyone else against `reference`, with p-values adjusted over all columns (editors × endpoints) by max-T.

    Quantity: Welch's t of persons' means, and the share of permutations in which any column's |t| (of those not
    yet decided: Westfall and Young's step-down) is at least as large. Null where a column says nothing.
    """
    observed, p = np.full(len(people.columns), np.nan), list[float | None]([None] * len(people.columns))
    if reference in people.groups and is_movable(people):
        place = people.groups.index(reference)
        observed = _welch_t(people, _sides(people), place)
        p = _stepped_down(np.abs(observed), np.abs(_permuted_t(people, place, seed, draws)))
    rows = [
        {"editor": editor, "outcome": outcome, "t": _plain(t), "p_max_t": found}
        for (editor, outcome), t, found in zip(people.columns, observed, p, strict=True)
    ]
    schema = {"editor": pl.String, "outcome": pl.String, "t": pl.Float64, "p_max_t": pl.Float64}
    return pl.DataFrame(rows, schema=schema)


def family(
    endpoints: pl.DataFrame, protocol: Protocol, seed: int = 0, dimension: str | None = None
) -> pl.DataFrame:
    """`adjusted` over a frame of endpoints (see `contrast.endpoints`), against the protocol's reference group."""
    main = dimension or next(iter(protocol.groups.reference_group))
    people = _people(endpoints, protocol, main, "value")
    return adjusted(people, protocol.groups.reference_group[main], seed)


def _people(frame: pl.DataFrame, protocol: Protocol, dimension: str, value: str = "hit") -> People:
    strata = [name for name in protocol.groups.dimensions if name != dimension]
    return gather(frame, dimension, protocol.groups.ids(dimension), strata, value)


def _widths(drawn: Rates, level: float) -> np.ndarray:
    """Per column: how many errors wide the bounds on all pairs of groups are."""
    worst = np.zeros(drawn.replicates[:, 0].shape)
    for a, b in combinations(range(len(drawn.rates)), 2):
        error = np.sqrt(drawn.variances[a] + drawn.variances[b])
        moved = drawn.replicates[:, a] - drawn.replicates[:, b] - (drawn.rates[a] - drawn.rates[b])
        worst = np.fmax(worst, _over(np.abs(moved), error))
    return _stretched(np.quantile(worst, level, axis=0), drawn.persons, level)


def _stretched(widths: np.ndarray, persons: np.ndarray, level: float) -> np.ndarray:
    """Errors come from few persons: wider by Student's quantile over the normal one, at the smallest group's n.

    A group without anybody is in no comparison.
    """
    fewest = np.maximum(np.where(persons > 0, persons, persons.max(axis=0)).min(axis=0) - 1, 1)
    return np.asarray(widths * special.stdtrit(fewest, 0.5 + level / 2) / special.ndtri(0.5 + level / 2))


def _deviations(drawn: Rates) -> tuple[np.ndarray, np.ndarray]:
    """[groups, columns]: rate − mean of rates, and its error: (1 − 1/G)² v_g + Σ_others v ÷ G²."""
    count = np.maximum((~np.isnan(drawn.rates)).sum(axis=0), 1)
    v = np.nan_to_num(drawn.variances)
    variance = (1 - 1 / count) ** 2 * v + (v.sum(axis=0) - v) / count**2
    return _centred(drawn.rates), np.sqrt(variance)


def _centred(rates: np.ndarray) -> np.ndarray:
    known = ~np.isnan(rates)
    mean = ratio(np.where(known, rates, 0.0).sum(axis=-2), known.sum(axis=-2).astype(float))
    return np.asarray(rates - mean[..., None, :])


def _over(moved: np.ndarray, error: np.ndarray) -> np.ndarray:
    """moved ÷ error; 0 where there is no error to measure by."""
    error = np.broadcast_to(error, moved.shape)
    return np.asarray(np.divide(moved, error, out=np.zeros_like(moved), where=error > 0))


def _null_reach(people: People, seed: int) -> np.ndarray | None:
    """[draws, columns]: max − min of rates after persons changed places; None where nobody can."""
    if not is_movable(people):
        return None
    both = permuted_sums(people, np.hstack([people.sums, people.trials]), seed)
    return reach(ratio(*np.split(both, 2, axis=-1)))


def _share_beyond(null: np.ndarray | None, observed: np.ndarray) -> np.ndarray:
    if null is None:
        return np.full(len(observed), np.nan)
    beyond = (1 + (null >= observed - TIE).sum(axis=0)) / (len(null) + 1)
    return np.where(np.isnan(observed), np.nan, beyond)


def _sides(people: People) -> np.ndarray:
    """[persons, 3 × columns]: whether known, the person's mean, and its square."""
    shares = people.shares()
    return np.hstack([people.known().astype(float), shares, shares**2])


def _welch_t(people: People, values: np.ndarray, reference: int) -> np.ndarray:
    own = values[people.group == reference].sum(axis=0)
    return _t(own, values.sum(axis=0))


def _permuted_t(people: People, reference: int, seed: int, draws: int | None) -> np.ndarray:
    values = _sides(people)
    own = permuted_sums(people, values, seed, draws, groups=[reference])[:, 0]
    return _t(own, values.sum(axis=0))


def _t(own: np.ndarray, everyone: np.ndarray) -> np.ndarray:
    """Welch's t of others − own from counts, sums and sums of squares; NaN with fewer than 2 on a side."""
    (n, mean, variance), (m, other, spread) = _moments(own), _moments(everyone - own)
    error = np.sqrt(ratio(variance, n) + ratio(spread, m))
    flat = np.where(np.abs(other - mean) < TIE, 0.0, np.copysign(np.inf, other - mean))
    return np.where((n < 2) | (m < 2), np.nan, np.where(error > TIE, _over(other - mean, error), flat))


def _moments(summed: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n, total, squares = np.split(summed, 3, axis=-1)
    mean = np.nan_to_num(ratio(total, n))
    variance = np.maximum(squares - n * mean**2, 0.0) / np.maximum(n - 1, 1)
    return n, mean, np.where(variance < TIE**2, 0.0, variance)


def _stepped_down(observed: np.ndarray, drawn: np.ndarray) -> list[float | None]:
    """Westfall and Young: the largest first, each against the maximum of what is left; never below one before."""
    p: list[float | None] = [None] * len(observed)
    told = [
        int(i) for i in np.argsort(-np.nan_to_num(observed, nan=-1.0), kind="stable") if not np.isnan(observed[i])
    ]
    drawn, highest = np.nan_to_num(drawn, nan=0.0, posinf=np.inf), 0.0
    for rank, column in enumerate(told):
        most = drawn[:, told[rank:]].max(axis=1)
        found = float((1 + (most >= observed[column] - TIE).sum()) / (len(drawn) + 1))
        highest = max(highest, found)
        p[column] = highest
    return p


def _named_rows(people: People, named: dict[str, str], **figures: np.ndarray) -> Iterable[dict[str, object]]:
    for place, (editor, outcome) in enumerate(people.columns):
        plain = {name: _plain(values[place]) for name, values in figures.items()}
        yield {"editor": editor, "outcome": outcome, **named, **plain}


def _in_order(rows: list[dict[str, object]], schema: dict[str, type[pl.DataType]], people: People) -> pl.DataFrame:
    """Rows by editor and outcome as they came, then by group."""
    place = {column: index for index, column in enumerate(people.columns)}
    rows.sort(key=lambda row: place[(str(row["editor"]), str(row["outcome"]))])
    return pl.DataFrame(rows, schema=schema)


def _plain(value: float) -> float | int | None:
    """A figure for a frame: None for what is not known."""
    if isinstance(value, int | np.integer):
        return int(value)
    return float(value) if np.isfinite(value) else None
