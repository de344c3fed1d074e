"""Rates by any grouping, each with its denominators: asked, judged, missing, persons, and its interval."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from stillme.analysis.intervals import LEVEL, Share, clustered_share

_SCHEMA = {
    "asked": pl.Int64,
    "judged": pl.Int64,
    "missing": pl.Int64,
    "single": pl.Int64,
    "flagged": pl.Int64,
    "adjudicated": pl.Int64,
    "persons": pl.Int64,
    "hits": pl.Int64,
    "rate": pl.Float64,
    "nominal_rate": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "deff": pl.Float64,
}


def rates(marked: pl.DataFrame, by: Sequence[str], level: float = LEVEL) -> pl.DataFrame:
    """One row per outcome and group in `by`.

    `asked` counts the trials that the design asks for, `judged` those with a score, `missing` the rest. `rate` is
    hits ÷ judged with a person-clustered 95 % interval; `nominal_rate` is hits ÷ asked (as the seed's table 12).
    """
    keys = ["outcome", *by]
    people = per_person(marked, by)
    rows = [
        {**dict(zip(keys, key, strict=True)), **_row(group, level)}
        for key, group in people.group_by(keys, maintain_order=True)
    ]
    return pl.DataFrame(rows, schema={**{k: marked.schema[k] for k in keys}, **_SCHEMA})


def per_person(marked: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Hits and denominators per person: everything that an interval needs of the edits.

    Flagged and adjudicated ones are counted whether or not there is a score in the end: a person may have decided
    that it cannot be told. Scores that no person could have decided have no column `adjudicated`.
    """
    decided = pl.col("adjudicated") if "adjudicated" in marked.columns else pl.lit(False)
    return marked.group_by("outcome", *by, "person", maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("asked"),
        pl.col("hit").count().cast(pl.Int64).alias("judged"),
        pl.col("hit").sum().cast(pl.Int64).alias("hits"),
        (pl.col("single") & pl.col("hit").is_not_null()).sum().cast(pl.Int64).alias("single"),
        pl.col("flagged").sum().cast(pl.Int64).alias("flagged"),
        decided.sum().cast(pl.Int64).alias("adjudicated"),
    )


def _row(people: pl.DataFrame, level: float) -> dict[str, float | int | None]:
    share: Share = clustered_share(people["hits"], people["judged"], level)
    asked = int(people["asked"].sum())
    return {
        "asked": asked,
        "judged": share.trials,
        "missing": asked - share.trials,
        "single": int(people["single"].sum()),
        "flagged": int(people["flagged"].sum()),
        "adjudicated": int(people["adjudicated"].sum()),
        "persons": share.clusters,
        "hits": share.hits,
        "rate": share.rate,
        "nominal_rate": share.hits / asked if asked else None,
        "low": share.low,
        "high": share.high,
        "deff": share.deff,
    }
