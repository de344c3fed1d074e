"""Alike, or no worse: what has to be shown before anybody says so.

That no difference was found is no evidence of none. Two rates may be called alike only where two one-sided tests
reject that their difference is as large as the declared margin, to either side; equally, where the 90 % interval
lies within it. The margin is declared in the protocol before a score is looked at. Persons are the unit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
from scipy import special

from stillme.protocol import Protocol
from stillme.stats import contrast
from stillme.stats.families import holm
from stillme.stats.intervals import FEWEST_FOR_INTERVAL
from stillme.stats.rates import per_person

SIZE = 0.05  # the chance to call alike what differs by the margin


@dataclass(frozen=True)
class Welch:
    """A difference of means with its standard error and degrees of freedom (Welch and Satterthwaite)."""

    difference: float
    error: float
    df: float


@dataclass(frozen=True)
class Tost:
    """Two one-sided tests. p is the larger of both; `alike` where it is below 0.05, None where unknown."""

    low: float | None = None
    high: float | None = None
    t_lower: float | None = None
    t_upper: float | None = None
    p: float | None = None
    alike: bool | None = None


@dataclass(frozen=True)
class NoWorse:
    """One one-sided test. `low`: the difference's lower bound; `no_worse` where it is above minus the margin."""

    low: float | None = None
    t: float | None = None
    p: float | None = None
    no_worse: bool | None = None


def welch(means: tuple[float, float], sds: tuple[float, float], sizes: tuple[int, int]) -> Welch:
    """First minus second mean; error = √(s₁²/n₁ + s₂²/n₂).

    >>> found = welch((5.25, 5.22), (0.95, 0.83), (95, 89))
    >>> round(found.error, 4), round(found.df, 2)
    (0.1313, 181.13)
    """
    a, b = (sd**2 / n for sd, n in zip(sds, sizes, strict=True))
    if a + b == 0:
        return Welch(means[0] - means[1], 0.0, float(sum(sizes) - 2))
    df = (a + b) ** 2 / (a**2 / (sizes[0] - 1) + b**2 / (sizes[1] - 1))
    return Welch(means[0] - means[1], math.sqrt(a + b), df)


def tost(difference: float, error: float, df: float, margin: float, size: float = SIZE) -> Tost:
    """Is the difference within ± margin? t = (difference ± margin) ÷ error, on df degrees of freedom.

    The interval is that of 1 − 2 · size (90 %). Persons who do not differ at all (error 0) say nothing about how
    certain a difference is: rare events that nobody had yet would count as proof.

    >>> found = tost(0.03, 0.1313, 181.13, margin=0.3836)
    >>> round(found.t_upper, 2), round(found.p, 4), found.alike
    (-2.69, 0.0039, True)
    """
    if error <= 0:
        return Tost(difference, difference)
    lower, upper = (difference + margin) / error, (difference - margin) / error
    p = max(float(special.stdtr(df, -lower)), float(special.stdtr(df, upper)))
    half = float(special.stdtrit(df, 1 - size)) * error
    return Tost(difference - half, difference + half, lower, upper, p, p < size)


def noninferiority(difference: float, error: float, df: float, margin: float, size: float = SIZE) -> NoWorse:
    """Is the difference above − margin? Larger is better. `low` is the one-sided 95 % bound.

    >>> found = noninferiority(-0.05, 0.08, 83, margin=0.25)
    >>> round(found.low, 3), round(found.p, 3), found.no_worse
    (-0.183, 0.007, True)
    """
    if error <= 0:
        return NoWorse(difference)
    t = (difference + margin) / error
    p = float(special.stdtr(df, -t))
    return NoWorse(difference - float(special.stdtrit(df, 1 - size)) * error, t, p, p < size)


_SCHEMA = {
    "editor": pl.String,
    "outcome": pl.String,
    **dict.fromkeys(("reference_persons", "others_persons"), pl.Int64),
    **dict.fromkeys(("difference", "error", "df", "low", "high", "margin", "p"), pl.Float64),
    "alike": pl.Boolean,
    "reason": pl.String,
}
_TOO_FEW = f"fewer than {FEWEST_FOR_INTERVAL} persons on one side"
_NO_SPREAD = "persons do not differ at all"


def equivalence(marked: pl.DataFrame, protocol: Protocol, outcomes: Sequence[str] | None = None) -> pl.DataFrame:
    """Per editor and outcome: may everyone else and the reference group be called alike?

    The difference, its error and degrees of freedom are those of `contrasts`: everyone else minus the reference
    group, over persons' own shares. The margin is the protocol's, in shares (3 points are 0.03). `p_holm` corrects
    over all rows: a sentence that calls several things alike rests on it. `reason`: why there is no test.
    """
    dimension, reference = next(iter(protocol.groups.reference_group.items()))
    kept = marked if outcomes is None else marked.filter(pl.col("outcome").is_in(list(outcomes)))
    people = per_person(kept.filter(pl.col(dimension).is_not_null()), ["editor", dimension])
    people = people.filter(pl.col("judged") > 0).with_columns(share=pl.col("hits") / pl.col("judged"))
    margin = protocol.analysis.equivalence_points / 100
    rows = [
        {"editor": editor, "outcome": outcome, **_row(group, pl.col(dimension) == reference, margin)}
        for (editor, outcome), group in people.group_by("editor", "outcome", maintain_order=True)
    ]
    frame = pl.DataFrame(rows, schema=_SCHEMA)
    return frame.with_columns(pl.Series("p_holm", holm(frame["p"].to_list()), dtype=pl.Float64))


def _row(people: pl.DataFrame, is_reference: pl.Expr, margin: float) -> dict[str, object]:
    own, others = people.filter(is_reference)["share"], people.filter(~is_reference)["share"]
    row = {"reference_persons": len(own), "others_persons": len(others), "margin": margin}
    found = contrast.welch(others, own, cautious=True)
    if found.difference is None or min(len(own), len(others)) < FEWEST_FOR_INTERVAL:
        return {**row, "difference": found.difference, "reason": _TOO_FEW}
    if found.error is None or found.df is None:
        return {**row, "difference": found.difference, "reason": _NO_SPREAD}
    told = tost(found.difference, found.error, found.df, margin)
    about = {"difference": found.difference, "error": found.error, "df": found.df}
    return {**row, **about, "low": told.low, "high": told.high, "p": told.p, "alike": told.alike}
