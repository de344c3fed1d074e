"""From ensemble scores to outcomes: did it happen, did it not, or is the answer missing?"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from stillme.protocol.schema import Outcome


def mark(scores: pl.DataFrame, outcomes: Mapping[str, Outcome]) -> pl.DataFrame:
    """One row per trial and outcome with `hit`: true, false, or null where no score exists.

    `scores` has one row per trial and axis, with `score` (null when missing) and `requested` (the prompt itself
    asks for a change on this axis). Requested changes are left out: they are not drift. So are columns that say
    more of a score than an outcome needs: there are several outcomes of each, and a large audit fills the memory.
    """
    kept = scores.drop(_MORE, strict=False).filter(~pl.col("requested"))
    parts = [
        kept.filter(pl.col("axis") == outcome.axis).with_columns(
            pl.lit(name).alias("outcome"), happened(outcome).alias("hit")
        )
        for name, outcome in outcomes.items()
    ]
    return pl.concat(parts) if parts else kept.with_columns(outcome=pl.lit(""), hit=pl.lit(False)).clear()


_MORE = (
    *("edit", "source", "source_id", "seed", "neutral"),
    *("judges", "mean", "spread", "standing", "open", "contested"),
)


def happened(outcome: Outcome) -> pl.Expr:
    """The outcome's threshold on the column `score`; null stays null."""
    if outcome.at_least is not None:
        return pl.col("score") >= outcome.at_least
    return pl.col("score") <= outcome.at_most


def unrounded(scores: pl.DataFrame) -> pl.Expr:
    """Where an edit lies on its axis before anything is rounded: the mean of its judges; null where there is none.

    What a person decided stands over the judges' mean. Rows of single judges, and scores without a mean, are taken
    as they are.
    """
    score = pl.col("score").cast(pl.Float64)
    if "mean" not in scores.columns or "judge" in scores.columns:
        return score
    decided = pl.col("adjudicated") if "adjudicated" in scores.columns else pl.lit(False)
    found = pl.when(decided | pl.col("mean").is_null()).then(score).otherwise("mean")
    return pl.when(score.is_not_null()).then(found)


def direction(scores: pl.DataFrame) -> pl.Expr:
    """−1, 0 or 1: which way a signed score lies of its neutral one; null where it is missing.

    Never from a rounded score: where halves go up, even judges would show a change upwards.
    """
    return (unrounded(scores) - pl.col("neutral")).sign()
