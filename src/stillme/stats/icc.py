"""Intraclass correlation of scores that the same raters gave the same things: Shrout and Fleiss' six forms.

It takes scores as distances, which a five-point scale need not be; ordinal alpha (see reliability) does not. Only
things that every rater scored count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import polars as pl
from numpy.typing import ArrayLike
from scipy import special

from stillme.stats.intervals import LEVEL


class Form(StrEnum):
    """1: raters differ from thing to thing. 2: raters are a sample. 3: these raters. k: of the mean of all."""

    ONE = "ICC1"
    TWO = "ICC2"
    THREE = "ICC3"
    ONE_K = "ICC1k"
    TWO_K = "ICC2k"
    THREE_K = "ICC3k"


@dataclass(frozen=True)
class Icc:
    """One form: the share of the variance of a score (or of the raters' mean) that lies between things.

    A figure is None where a mean of raters cannot have it: raters who contradict each other have no common mean.
    """

    icc: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class _Squares:
    """Mean squares: between things, within them, between raters, and what is left."""

    things: int
    raters: int
    between: float
    within: float
    judges: float
    rest: float


def icc(scores: ArrayLike, level: float = LEVEL) -> dict[Form, Icc]:
    """The six forms of things × raters, with intervals from the F distribution; empty where nothing can be told.

    >>> scores = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
    >>> found = icc(scores)[Form.TWO]
    >>> round(found.icc, 2), round(found.low, 3), round(found.high, 3)
    (0.29, 0.019, 0.761)
    """
    squares = _squares(scores)
    if squares is None:
        return {}
    single = {
        Form.ONE: _one_way(squares, level),
        Form.TWO: _agreement(squares, level),
        Form.THREE: _consistency(squares, level),
    }
    return single | {Form(f"{form}k"): _of_mean(found, squares.raters) for form, found in single.items()}


def _squares(scores: ArrayLike) -> _Squares | None:
    table = np.atleast_2d(np.asarray(scores, float))
    table = table[~np.isnan(table).any(axis=1)]
    n, k = table.shape
    if n < 2 or k < 2:
        return None
    table = table - table.mean()
    between, judges = k * float((table.mean(1) ** 2).sum()), n * float((table.mean(0) ** 2).sum())
    total = float((table**2).sum())
    rest = max(0.0, total - between - judges)
    if (
        min(rest, between) <= 1e-12 * total
    ):  # raters differ by a constant alone, or things not at all: F has no bound
        return None
    within = (total - between) / (n * (k - 1))
    return _Squares(n, k, between / (n - 1), within, judges / (k - 1), rest / ((n - 1) * (k - 1)))


def _one_way(s: _Squares, level: float) -> Icc:
    return _from_ratio(s.between / s.within, s.raters, s.things - 1, s.things * (s.raters - 1), level)


def _consistency(s: _Squares, level: float) -> Icc:
    return _from_ratio(s.between / s.rest, s.raters, s.things - 1, (s.things - 1) * (s.raters - 1), level)


def _from_ratio(ratio: float, k: int, above: int, below: int, level: float) -> Icc:
    """(F − 1) ÷ (F + k − 1), at F and at its bounds."""
    low = ratio / float(special.fdtri(above, below, 0.5 + level / 2))
    high = ratio * float(special.fdtri(below, above, 0.5 + level / 2))
    return Icc(*((f - 1) / (f + k - 1) for f in (ratio, low, high)))


def _agreement(s: _Squares, level: float) -> Icc:
    """Raters as a sample: their own differences count against agreement. Satterthwaite's degrees of freedom."""
    n, k = s.things, s.raters
    estimate = (s.between - s.rest) / (s.between + (k - 1) * s.rest + k * (s.judges - s.rest) / n)
    tilt = k * estimate * s.judges / s.rest
    base = n * (1 + (k - 1) * estimate) - k * estimate
    df = (k - 1) * (n - 1) * (tilt + base) ** 2 / ((n - 1) * tilt**2 + base**2)
    noise = k * s.judges + (k * n - k - n) * s.rest
    f_low, f_high = (float(special.fdtri(*dfs, 0.5 + level / 2)) for dfs in ((n - 1, df), (df, n - 1)))
    low = n * (s.between - f_low * s.rest) / (f_low * noise + n * s.between)
    high = n * (f_high * s.between - s.rest) / (noise + n * f_high * s.between)
    return Icc(estimate, low, high)


def _of_mean(found: Icc, k: int) -> Icc:
    """Spearman and Brown: the same of the mean of k raters."""
    return Icc(*(_stepped_up(value, k) for value in (found.icc, found.low, found.high)))


def _stepped_up(value: float | None, k: int) -> float | None:
    if value is None or 1 + (k - 1) * value <= 1e-12:
        return None
    return k * value / (1 + (k - 1) * value)


_SCHEMA = {"items": pl.Int64, "raters_per_item": pl.Int64} | dict.fromkeys(
    ("icc1", "icc1_low", "icc1_high", "icc1k", "icc1k_low", "icc1k_high"), pl.Float64
)


def of_ratings(ratings: pl.DataFrame, by: Sequence[str] = ("axis",), level: float = LEVEL) -> pl.DataFrame:
    """Per group in `by`: the one-way forms, for raters who differ from output to output (each task has its own).

    `ratings` has trial and score. Counted are the `items` with the most frequent number of ratings, two or more.
    """
    rated = ratings.drop_nulls("score").group_by(*by, "trial", maintain_order=True).agg("score", pl.len())
    rows = [
        dict(zip(by, key, strict=True)) | _one_way_row(part, level)
        for key, part in rated.group_by(*by, maintain_order=True)
    ]
    return pl.DataFrame(rows, schema={**{name: ratings.schema[name] for name in by}, **_SCHEMA})


def _one_way_row(part: pl.DataFrame, level: float) -> dict[str, object]:
    several = part.filter(pl.col("len") > 1)
    usual = int(several["len"].mode().max()) if several.height else 0  # type: ignore[arg-type]
    scores = several.filter(pl.col("len") == usual)["score"].to_list()
    found = icc(scores, level) if len(scores) > 1 else {}
    row: dict[str, object] = {"items": len(scores), "raters_per_item": usual}
    for form in (Form.ONE, Form.ONE_K):
        one, name = found.get(form, Icc(None, None, None)), form.lower()
        row |= {name: one.icc, f"{name}_low": one.low, f"{name}_high": one.high}
    return row
