"""The interval that takes every edit for an independent one: Wilson's, with all judged edits as its sample.

Too narrow wherever one person has several edits. It stands beside the interval over persons to show how much, and
nothing is claimed by it.
"""

from __future__ import annotations

import polars as pl
from scipy import special

from stillme.stats.intervals import LEVEL, wilson


def with_naive(rates: pl.DataFrame, level: float = LEVEL) -> pl.DataFrame:
    """Adds naive_low and naive_high to rows of `stats.rates`; null where there is no interval over persons.

    >>> row = {"hits": 81, "judged": 263, "low": 0.2, "high": 0.4}
    >>> with_naive(pl.DataFrame([row])).select(pl.col("naive_low", "naive_high").round(4)).row(0)
    (0.2553, 0.3662)
    """
    quantile = float(special.ndtri(0.5 + level / 2))
    ends = [
        wilson(hits / judged, judged, quantile) if low is not None and judged else (None, None)
        for hits, judged, low in rates.select("hits", "judged", "low").iter_rows()
    ]
    lows, highs = zip(*ends, strict=True) if ends else ((), ())
    return rates.with_columns(pl.Series("naive_low", lows, pl.Float64), pl.Series("naive_high", highs, pl.Float64))
