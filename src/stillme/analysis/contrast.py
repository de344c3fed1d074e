"""Reference group against everyone else: the difference of two rates, with persons as the unit.

Welch's t on person means. Declared families of contrasts are corrected with Holm, so that an even-handed editor
is not accused because many things were looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import ArrayLike
from scipy import special

from stillme.analysis.intervals import LEVEL
from stillme.analysis.rates import per_person

FEWEST_PERSONS = 3  # below this a group says nothing about how persons differ


@dataclass(frozen=True)
class Difference:
    """others − reference, as a difference of shares."""

    difference: float | None
    low: float | None
    high: float | None
    p: float | None


def welch(others: ArrayLike, reference: ArrayLike, level: float = LEVEL) -> Difference:
    """The difference of two means of persons, with Welch's interval and two-sided p."""
    a, b = np.asarray(others, float), np.asarray(reference, float)
    if min(len(a), len(b)) < FEWEST_PERSONS:
        return Difference(None, None, None, None)
    difference = float(a.mean() - b.mean())
    va, vb = a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)
    error = float(np.sqrt(va + vb))
    if error == 0:
        return Difference(difference, difference, difference, 1.0 if difference == 0 else 0.0)
    df = float((va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1)))
    half = float(special.stdtrit(df, 0.5 + level / 2)) * error
    p = float(2 * special.stdtr(df, -abs(difference) / error))
    return Difference(difference, difference - half, difference + half, p)


def holm(p: Sequence[float | None]) -> list[float | None]:
    """Holm's adjusted p-values; a missing p stays missing and does not enlarge the family.

    >>> holm([0.01, 0.04, None, 0.03])
    [0.03, 0.06, None, 0.06]
    """
    adjusted: list[float | None] = [None] * len(p)
    family = sorted((value, index) for index, value in enumerate(p) if value is not None)
    highest = 0.0
    for rank, (value, index) in enumerate(family):
        highest = max(highest, min(1.0, value * (len(family) - rank)))
        adjusted[index] = round(highest, 15)
    return adjusted


def contrasts(
    marked: pl.DataFrame, outcomes: Sequence[str], dimension: str, reference: str, level: float = LEVEL
) -> pl.DataFrame:
    """Everyone else minus the reference group, per editor and outcome, Holm-corrected over all of them."""
    chosen = marked.filter(pl.col("outcome").is_in(list(outcomes)))
    people = per_person(chosen, ["editor", dimension]).filter(pl.col("judged") > 0)
    people = people.with_columns(share=pl.col("hits") / pl.col("judged"))
    rows = [
        {"editor": key[0], "outcome": key[1], **_contrast(group, dimension, reference, level)}
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


def _contrast(people: pl.DataFrame, dimension: str, reference: str, level: float) -> dict[str, float | int | None]:
    is_reference = pl.col(dimension) == reference
    theirs, own = people.filter(~is_reference)["share"], people.filter(is_reference)["share"]
    found = welch(theirs, own, level)
    return {
        "reference_rate": _mean(own),
        "others_rate": _mean(theirs),
        "reference_persons": len(own),
        "others_persons": len(theirs),
        "difference": found.difference,
        "low": found.low,
        "high": found.high,
        "p": found.p,
    }


def _mean(values: pl.Series) -> float | None:
    return float(values.to_numpy().mean()) if len(values) else None
