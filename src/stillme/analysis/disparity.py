"""The largest difference between groups, as the seed's table 13 prints it.

Max − min is biased upwards: it is above zero even when all groups are alike. It is shown for comparability and
never as evidence by itself; the contrasts carry the claims.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl


def max_minus_min(rates: pl.DataFrame, within: Sequence[str], group: str) -> pl.DataFrame:
    """Per `within`: the highest rate, the lowest, their difference, and which groups they belong to."""
    known = rates.filter(pl.col("rate").is_not_null())
    return known.group_by(*within, maintain_order=True).agg(
        pl.col("rate").max().alias("highest"),
        pl.col("rate").min().alias("lowest"),
        (pl.col("rate").max() - pl.col("rate").min()).alias("disparity"),
        pl.col(group).sort_by("rate", descending=True, maintain_order=True).first().alias("highest_group"),
        pl.col(group).sort_by("rate", maintain_order=True).first().alias("lowest_group"),
    )
