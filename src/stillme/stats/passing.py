"""Pass rates of a filter by group: one that passes a group less often is itself a finding.

Each criterion's rate in a group is set beside the rate of everybody else on the same dimension. The test is
Fisher's exact one (one-sided: less often), corrected with Holm over every criterion and group that was tested, so
that few people and many looks accuse nobody. A candidate that could not be measured counts on neither side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from scipy import special

from stillme.stats.families import holm
from stillme.stats.intervals import LEVEL, wilson

_SCHEMA = {
    "dimension": pl.String,
    "group": pl.String,
    "criterion": pl.String,
    "candidates": pl.Int64,
    "measured": pl.Int64,
    "unmeasured": pl.Int64,
    "passed": pl.Int64,
    "others_measured": pl.Int64,
    "others_passed": pl.Int64,
}
_OTHERS = ("measured", "passed")
_RATES = ("rate", "low", "high", "others_rate", "p")


def passing(judged: pl.DataFrame, dimensions: Sequence[str], level: float = LEVEL) -> pl.DataFrame:
    """Dimension × group × criterion: counts, rate with its Wilson interval, the others' rate, p, and `less_often`.

    `judged` has a row per candidate and criterion: `criterion`, `passed` (null: not measured) and a column a
    dimension. `less_often` is whether p_holm is below 1 − level.
    """
    parts = [_counts(judged, dimension) for dimension in dimensions]
    counted = pl.concat([pl.DataFrame(schema=_SCHEMA), *parts])
    rows = [_rated(row, level) for row in counted.iter_rows(named=True)]
    rated = pl.DataFrame(rows, schema={**_SCHEMA, **dict.fromkeys(_RATES, pl.Float64)})
    corrected = pl.Series("p_holm", holm(rated["p"].to_list()), pl.Float64)
    flag = (pl.col("p_holm") < 1 - level).fill_null(False).alias("less_often")
    return rated.with_columns(corrected).with_columns(flag)


def _counts(judged: pl.DataFrame, dimension: str) -> pl.DataFrame:
    """How many of each group passed, and how many of everybody else who has a label on this dimension."""
    counted = (
        judged.filter(pl.col(dimension).is_not_null())
        .group_by(pl.col(dimension).cast(pl.String).alias("group"), "criterion", maintain_order=True)
        .agg(
            candidates=pl.len(),
            measured=pl.col("passed").count(),
            unmeasured=pl.col("passed").null_count(),
            passed=pl.col("passed").sum(),
        )
    )
    others = [(pl.col(name).sum().over("criterion") - pl.col(name)).alias(f"others_{name}") for name in _OTHERS]
    found = counted.with_columns(pl.lit(dimension).alias("dimension"), *others)
    return found.select(pl.col(name).cast(kind) for name, kind in _SCHEMA.items())


def _rated(row: Mapping[str, Any], level: float) -> dict[str, Any]:
    n, passed = row["measured"], row["passed"]
    others, others_passed = row["others_measured"], row["others_passed"]
    low, high = wilson(passed / n, n, float(special.ndtri(0.5 + level / 2))) if n else (None, None)
    return {
        **row,
        "rate": passed / n if n else None,
        "low": low,
        "high": high,
        "others_rate": others_passed / others if others else None,
        "p": less_often(passed, n, others_passed, others) if n and others else None,
    }


def less_often(passed: int, measured: int, others_passed: int, others_measured: int) -> float:
    """Fisher's exact p, one-sided: how likely so few of the group, or fewer, would pass if it were like the rest.

    >>> round(less_often(8, 10, 18, 18), 4)
    0.119
    """
    everybody, all_passed = measured + others_measured, passed + others_passed
    fewest = max(0, all_passed - others_measured)
    hits = np.arange(fewest, passed + 1)
    ways = _log_ways(measured, hits) + _log_ways(others_measured, all_passed - hits)
    return min(1.0, float(np.exp(ways - _log_ways(everybody, np.array([all_passed]))).sum()))


def _log_ways(n: int, hits: np.ndarray) -> np.ndarray:
    """The logarithm of n choose hits."""
    return np.asarray(special.gammaln(n + 1) - special.gammaln(hits + 1) - special.gammaln(n - hits + 1))
