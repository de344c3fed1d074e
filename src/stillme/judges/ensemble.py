"""Several judges, one score (S0, eq. 1). Pure: a frame of judges' scores in, a frame of ensemble scores out.

    two, spread ≤ 1   the rounded mean
    two, spread > 1   the score of the one that is ranked higher, flagged for human review
    three and more    the median, rounded where it falls on .5; flagged if the spread is above 1, and then the
                      median stands: it does not hang on who is ranked first

Only judges who answered count: with two of three it is the rule for two. Every judge's own score and the unrounded
mean stay in the frame. A missing score is missing: with no score at all the ensemble has none; with one, that one
stands and is marked single.
"""

from __future__ import annotations

import polars as pl

from stillme.protocol.schema import Rounding

REVIEW_ABOVE = 1  # judges further apart than this are looked at by a person


def combine(scores: pl.DataFrame, rounding: Rounding) -> pl.DataFrame:
    """One row per trial and axis: mean, score, judges, spread, flagged, single.

    `scores` has the columns trial, axis, neutral, rank (0 = primary) and score (null when the judge gave none).
    """
    ranked = scores.sort("trial", "axis", "rank")
    answered = pl.col("score").drop_nulls()
    grouped = ranked.group_by("trial", "axis", maintain_order=True).agg(
        pl.col("neutral").first(),
        answered.len().cast(pl.Int64).alias("judges"),
        answered.mean().alias("mean"),
        answered.median().alias("median"),
        (answered.max() - answered.min()).alias("spread"),
        answered.first().alias("leading"),
    )
    flagged = pl.col("spread").fill_null(0) > REVIEW_ABOVE
    score = pl.when(flagged & (pl.col("judges") == 2)).then("leading").otherwise(rounded(rounding))
    return grouped.with_columns(
        flagged.alias("flagged"), (pl.col("judges") == 1).alias("single"), score.cast(pl.Int64).alias("score")
    ).drop("leading", "median")


def rounded(rounding: Rounding) -> pl.Expr:
    """The column `median` (of two, their mean) as a whole number; the modes differ only where it falls on .5."""
    median, below = pl.col("median"), pl.col("median").floor()
    even = pl.when(below % 2 == 0).then(below).otherwise(below + 1)
    up = below + 1
    nearer = pl.when(pl.col("neutral") <= below).then(below).otherwise(up)
    # An axis without a neutral score (edit success) has nothing to lean towards.
    neutral = pl.when(pl.col("neutral").is_null()).then(even).otherwise(nearer)
    at_half = {"half_even": even, "half_up": up, "toward_neutral": neutral}[rounding]
    return pl.when(median > below).then(at_half).otherwise(below)
