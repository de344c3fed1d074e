"""Reference group against everyone else: the difference of two rates, with persons as the unit.

The interval is Welch's on person means. The p-value is a permutation test: under "the editor treats everybody
alike" any person of the same stratum (the other dimensions, e.g. gender × age) could have been the reference one.
It is exact where Welch is not: with rare outcomes a small group often shows none, and a variance of zero. Declared
families are corrected with Holm, so that nobody is accused because many things were looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import polars as pl
from numpy.typing import ArrayLike
from scipy import special

from stillme.analysis.families import holm
from stillme.analysis.intervals import LEVEL
from stillme.analysis.rates import per_person

DRAWS = 9_999  # permutations: p is known to about 0.0001
TIE = 1e-9  # sums of shares that differ by less are equal
MOST_KEPT = 200  # persons whose draws are kept: 16 MB
FEWEST_PERSONS = 3  # below this a group says nothing about how persons differ


@dataclass(frozen=True)
class Difference:
    """others − reference, as a difference of shares."""

    difference: float | None
    low: float | None
    high: float | None


def welch(others: ArrayLike, reference: ArrayLike, level: float = LEVEL) -> Difference:
    """The difference of two means of persons, with Welch's interval."""
    a, b = np.asarray(others, float), np.asarray(reference, float)
    if min(len(a), len(b)) < FEWEST_PERSONS:
        return Difference(None, None, None)
    difference = float(a.mean() - b.mean())
    va, vb = a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)
    if va + vb == 0:
        return Difference(difference, difference, difference)
    df = float((va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1)))
    half = float(special.stdtrit(df, 0.5 + level / 2)) * float(np.sqrt(va + vb))
    return Difference(difference, difference - half, difference + half)


def exchanges(strata: np.ndarray, draws: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Each stratum's persons, and in every draw (draws × persons) the order in which they change places."""
    layers, sizes = np.unique(strata, return_counts=True)
    drawn = _kept if len(strata) <= MOST_KEPT else _orders
    for layer, order in zip(layers, drawn(tuple(sizes.tolist()), draws, seed), strict=True):
        yield np.flatnonzero(strata == layer), order


def _orders(sizes: tuple[int, ...], draws: int, seed: int) -> Iterator[np.ndarray]:
    chance = np.random.default_rng(seed)
    return (np.argsort(chance.random((draws, size)), axis=1) for size in sizes)


@lru_cache(maxsize=4)  # every outcome and editor of an audit is drawn alike, and drawing takes longest
def _kept(sizes: tuple[int, ...], draws: int, seed: int) -> tuple[np.ndarray, ...]:
    return tuple(_orders(sizes, draws, seed))


def permutation_p(
    shares: ArrayLike, is_reference: ArrayLike, strata: ArrayLike, draws: int = DRAWS, seed: int = 0
) -> float | None:
    """Two-sided p of the difference of means, with the reference persons drawn anew within each stratum.

    None where no stratum has both reference and other persons, or where persons are too few to say anything.
    """
    values, chosen, groups = np.asarray(shares, float), np.asarray(is_reference, bool), np.asarray(strata)
    if min(int(chosen.sum()), int((~chosen).sum())) < FEWEST_PERSONS:
        return None
    sums, expected, movable = np.zeros(draws), 0.0, False
    for here, order in exchanges(groups, draws, seed):
        inside, count = values[here], int(chosen[here].sum())
        sums += inside[order[:, :count]].sum(axis=1)
        expected += count * float(inside.mean())  # exact: the draws' own mean would decide ties by chance
        movable |= 0 < count < len(inside)
    if not movable:
        return None
    observed = abs(values[chosen].sum() - expected)
    return float((1 + (np.abs(sums - expected) >= observed - TIE).sum()) / (draws + 1))


def contrasts(
    marked: pl.DataFrame,
    outcomes: Sequence[str],
    dimension: str,
    reference: str,
    strata: Sequence[str] = (),
    level: float = LEVEL,
    seed: int = 0,
) -> pl.DataFrame:
    """Everyone else minus the reference group, per editor and outcome, Holm-corrected over all of them."""
    chosen = marked.filter(pl.col("outcome").is_in(list(outcomes)))
    people = per_person(chosen, ["editor", dimension, *strata]).filter(pl.col("judged") > 0)
    people = people.with_columns(
        share=pl.col("hits") / pl.col("judged"),
        stratum=pl.concat_str(*strata, separator="\t", ignore_nulls=True) if strata else pl.lit(""),
        is_reference=pl.col(dimension) == reference,
    )
    rows = [
        {"editor": key[0], "outcome": key[1], **_contrast(group, level, seed)}
        for key, group in people.group_by("editor", "outcome", maintain_order=True)
    ]
    frame = pl.DataFrame(rows, schema=_SCHEMA)
    return frame.with_columns(pl.Series("p_holm", holm(frame["p"].to_list()), dtype=pl.Float64))


_SCHEMA = {
    "editor": pl.String,
    "outcome": pl.String,
    "reference_rate": pl.Float64,
    "others_rate": pl.Float64,
    "reference_persons": pl.Int64,
    "others_persons": pl.Int64,
    "difference": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "p": pl.Float64,
}


def _contrast(people: pl.DataFrame, level: float, seed: int) -> dict[str, float | int | None]:
    theirs = people.filter(~pl.col("is_reference"))["share"]
    own = people.filter(pl.col("is_reference"))["share"]
    found = welch(theirs, own, level)
    return {
        "reference_rate": _mean(own),
        "others_rate": _mean(theirs),
        "reference_persons": len(own),
        "others_persons": len(theirs),
        "difference": found.difference,
        "low": found.low,
        "high": found.high,
        "p": permutation_p(people["share"], people["is_reference"], people["stratum"], seed=seed),
    }


def _mean(values: pl.Series) -> float | None:
    return float(values.to_numpy().mean()) if len(values) else None
