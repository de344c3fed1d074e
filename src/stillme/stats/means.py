"""Means and shares of what was measured, with persons as the unit: each person counts once, with all their edits.

Every row has its denominators: asked (edits with a picture), read (those with a figure), persons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import ArrayLike
from scipy import special

from stillme.stats.intervals import FEWEST_FOR_INTERVAL, LEVEL, clustered_share

_COUNTS = {"asked": pl.Int64, "read": pl.Int64, "persons": pl.Int64}
_MEAN = {**_COUNTS, **dict.fromkeys(("mean", "low", "high", "sd"), pl.Float64)}
_SHARE = {**_COUNTS, "hits": pl.Int64, **dict.fromkeys(("rate", "low", "high"), pl.Float64)}
_WHO = {"dimension": pl.String, "group": pl.String}


@dataclass(frozen=True)
class Mean:
    """A mean over persons with its interval. `sd` says how far persons differ."""

    persons: int
    mean: float | None
    low: float | None
    high: float | None
    sd: float | None


def mean_of_persons(means: ArrayLike, level: float = LEVEL) -> Mean:
    """The mean of persons' own means with Student's interval: mean ± t(persons − 1) · sd ÷ √persons.

    No person: no mean. Fewer than FEWEST_FOR_INTERVAL: a mean without an interval, because so few do not say how
    persons differ.

    >>> found = mean_of_persons([1.0, 2.0, 3.0, 6.0] * 2)
    >>> found.mean, round(found.low, 2), round(found.high, 2), round(found.sd, 2)
    (3.0, 1.33, 4.67, 2.0)
    """
    values = np.asarray(means, float)
    if len(values) == 0:
        return Mean(0, None, None, None, None)
    mean = float(values.mean())
    if len(values) == 1:
        return Mean(1, mean, None, None, None)
    sd = float(values.std(ddof=1))
    if len(values) < FEWEST_FOR_INTERVAL:
        return Mean(len(values), mean, None, None, sd)
    half = float(special.stdtrit(len(values) - 1, 0.5 + level / 2)) * sd / float(np.sqrt(len(values)))
    return Mean(len(values), mean, mean - half, mean + half, sd)


def means(frame: pl.DataFrame, figure: str, by: Sequence[str], level: float = LEVEL) -> pl.DataFrame:
    """One row a group in `by`: the mean of `figure` over persons, with the edits that lack it counted beside."""
    people = frame.group_by(*by, "person", maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("asked"),
        pl.col(figure).count().cast(pl.Int64).alias("read"),
        pl.col(figure).mean().alias("mean"),
    )
    return _rows(people, by, _MEAN, lambda group: vars(mean_of_persons(group["mean"].drop_nulls(), level)))


def shares(frame: pl.DataFrame, mark: str, by: Sequence[str], level: float = LEVEL) -> pl.DataFrame:
    """One row a group in `by`: the share of edits where `mark` holds among those where it is known."""
    people = frame.group_by(*by, "person", maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("asked"),
        pl.col(mark).count().cast(pl.Int64).alias("read"),
        pl.col(mark).sum().cast(pl.Int64).alias("hits"),
    )

    def row(group: pl.DataFrame) -> dict[str, object]:
        found = clustered_share(group["hits"], group["read"], level)
        return {**vars(found), "persons": found.clusters}

    return _rows(people, by, _SHARE, row)


def _rows(
    people: pl.DataFrame,
    by: Sequence[str],
    schema: Mapping[str, type[pl.DataType]],
    found: Callable[[pl.DataFrame], dict[str, object]],
) -> pl.DataFrame:
    rows = []
    for key, group in people.group_by(*by, maintain_order=True):
        counts = {"asked": int(group["asked"].sum()), "read": int(group["read"].sum())}
        row = {**dict(zip(by, key, strict=True)), **counts, **found(group)}
        rows.append({name: row[name] for name in (*by, *schema)})
    return pl.DataFrame(rows, schema={**{name: people.schema[name] for name in by}, **schema})


def by_groups(
    frame: pl.DataFrame,
    keys: Sequence[str],
    dimensions: Iterable[str],
    make: Callable[[pl.DataFrame, list[str]], pl.DataFrame],
) -> pl.DataFrame:
    """`make(frame, by)` over everybody and over the groups of each dimension, in one long frame.

    `dimension` and `group` are null in the rows of everybody. A person without a label is in no group of it.
    """
    whole = make(frame, list(keys)).with_columns(pl.lit(None, pl.String).alias(name) for name in _WHO)
    parts = [
        make(frame.filter(pl.col(d).is_not_null()), [*keys, d])
        .rename({d: "group"})
        .with_columns(pl.lit(d).alias("dimension"), pl.col("group").cast(pl.String))
        for d in dimensions
    ]
    order = [*keys, *_WHO, *(name for name in whole.columns if name not in (*keys, *_WHO))]
    return pl.concat([part.select(order) for part in (whole, *parts)])
