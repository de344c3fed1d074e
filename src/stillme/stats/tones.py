"""Where skin goes on the Monk scale: the source's nearest swatch beside the edit's, counted.

The nearest of ten swatches follows the light of a photograph as much as the person: this describes pictures and
decides nothing. What is claimed of lightness rests on `shifts`, which are paired and corrected for light.
"""

from __future__ import annotations

import polars as pl

BEFORE, AFTER = "monk_before", "monk_after"


def tone_flow(edits: pl.DataFrame) -> pl.DataFrame:
    """Editor × `before` × `after`: how many edits and persons, over edits that are pictures.

    A row with both null counts the pictures whose skin could not be read, where there are any. `edits`: one row a
    picture with editor, person and the swatches, 1 (lightest) to 10.
    """
    is_read = pl.col(BEFORE).is_not_null() & pl.col(AFTER).is_not_null()
    swatches = {new: pl.when(is_read).then(pl.col(old)).cast(pl.Int64) for new, old in _NAMES.items()}
    counted = (
        edits.with_columns(**swatches)
        .group_by("editor", *_NAMES)
        .agg(pl.len().cast(pl.Int64).alias("edits"), pl.col("person").n_unique().cast(pl.Int64).alias("persons"))
    )
    order = edits.select("editor").unique(maintain_order=True).with_row_index("_place")
    return counted.join(order, on="editor").sort("_place", *_NAMES, nulls_last=True).drop("_place")


_NAMES = {"before": BEFORE, "after": AFTER}
