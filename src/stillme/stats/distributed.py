"""How scores are spread over their scale: the share of edits at every score, by axis and any grouping.

Nothing is rounded: an edit whose judges' mean lies between two scores counts in both, by how near it is to each,
so that two judges who say 3 and 4 are half a 3 and half a 4. Rounding would move such edits to one side. Describes
and tests nothing; there is no interval in it.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from stillme.protocol import Protocol
from stillme.stats.outcomes import unrounded


def distributions(scores: pl.DataFrame, protocol: Protocol, by: Sequence[str]) -> pl.DataFrame:
    """One row per axis, group in `by` and score of the axis' scale.

    `meaning`: the scale's words for the score. `edits`: how many have it, parts of an edit included; `part`: of
    the judged, null where nothing was judged, and no share of whole edits. asked, judged, missing and persons are
    the group's and stand in each of its rows. Changes that the prompt asks for are left out.
    """
    keys = ["axis", *by]
    kept = scores.filter(~pl.col("requested")).with_columns(_at=unrounded(scores))
    groups = kept.group_by(keys, maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("asked"),
        pl.col("_at").count().cast(pl.Int64).alias("judged"),
        pl.col("person").filter(pl.col("_at").is_not_null()).n_unique().cast(pl.Int64).alias("persons"),
    )
    every = groups.join(_scales(protocol), on="axis", maintain_order="left")
    found = every.join(_parts(kept, keys), on=[*keys, "score"], how="left", maintain_order="left")
    edits = pl.col("edits").fill_null(0.0)
    return found.select(
        *keys,
        "score",
        "meaning",
        edits,
        pl.when(pl.col("judged") > 0).then(edits / pl.col("judged")).alias("part"),
        "asked",
        "judged",
        (pl.col("asked") - pl.col("judged")).alias("missing"),
        "persons",
    )


def _scales(protocol: Protocol) -> pl.DataFrame:
    rows = [
        (axis.id, score, meaning)
        for axis in protocol.rubrics.axes
        for score, meaning in sorted(axis.scale.items())
    ]
    return pl.DataFrame(rows, schema={"axis": pl.String, "score": pl.Int64, "meaning": pl.String}, orient="row")


def _parts(kept: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Every edit as two parts: at the score below its place and at the one above."""
    at = pl.col("_at")
    known = kept.drop_nulls("_at").with_columns(_lower=at.floor().cast(pl.Int64), _above=at - at.floor())
    lower = known.select(*keys, score="_lower", edits=1 - pl.col("_above"))
    upper = known.select(*keys, score=pl.col("_lower") + 1, edits="_above").filter(pl.col("edits") > 0)
    return pl.concat([lower, upper]).group_by(*keys, "score", maintain_order=True).agg(pl.col("edits").sum())
