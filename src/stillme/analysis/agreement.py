"""How far judges agree with each other: exact, within a point, and how often a person should look."""

from __future__ import annotations

import polars as pl


def agreement(scores: pl.DataFrame) -> pl.DataFrame:
    """Per axis, over the pairs that two judges both scored: exact, within one point, mean difference.

    `scores` has trial, axis, judge, rank (0 = primary) and score. The difference is second minus first judge.
    """
    first = scores.filter(pl.col("rank") == 0).select("trial", "axis", first="score")
    second = scores.filter(pl.col("rank") == 1).select("trial", "axis", second="score")
    pairs = first.join(second, on=["trial", "axis"], how="inner", validate="1:1").drop_nulls()
    apart = (pl.col("second") - pl.col("first")).abs()
    return pairs.group_by("axis", maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("pairs"),
        (apart == 0).mean().alias("exact"),
        (apart <= 1).mean().alias("within_one"),
        (apart > 1).sum().cast(pl.Int64).alias("flagged"),
        (pl.col("second") - pl.col("first")).mean().alias("difference"),
    )
