"""Coverage: how often each instrument could read, by group. One that misses a group more often says so here."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from stillme.core.records import Status
from stillme.stats.means import by_groups, shares

_ENDING = "_status"
_NOT_TRIED = (Status.PENDING.value, Status.LEFT_OUT.value)


def kinds(measured: pl.DataFrame) -> list[str]:
    """The kinds of measure that a frame of measurements holds, in its order."""
    return [name.removesuffix(_ENDING) for name in measured.columns if name.endswith(_ENDING)]


def coverage(measured: pl.DataFrame, dimensions: Iterable[str], warn_points: float) -> pl.DataFrame:
    """Measure × dimension × group: of the edits with a picture that were measured, the share that was read.

    `best` is the share of the best-read group of the dimension, `behind` how far below it a group is, `warns`
    whether that is more than `warn_points` percentage points.
    """
    parts = [_of_kind(measured, kind, list(dimensions)) for kind in kinds(measured)]
    found = (
        pl.concat(parts) if parts else _of_kind(measured.with_columns(_status=pl.lit("")), "", list(dimensions))
    )
    grouped = pl.col("dimension").is_not_null()
    best = pl.when(grouped).then(pl.col("rate").max().over("measure", "dimension"))
    found = found.with_columns(best=best).with_columns(behind=pl.col("best") - pl.col("rate"))
    warns = (pl.col("behind") * 100 > warn_points + 1e-9).fill_null(False)  # 10 of 100 points are not more than 10
    return found.with_columns(warns=warns)


def _of_kind(measured: pl.DataFrame, kind: str, dimensions: list[str]) -> pl.DataFrame:
    status = pl.col(f"{kind}{_ENDING}")
    tried = measured.filter((pl.col("status") == Status.OK.value) & ~status.is_in(_NOT_TRIED))
    marked = tried.with_columns(pl.lit(kind).alias("measure"), (status == Status.OK.value).alias("is_read"))
    found = by_groups(marked, ["measure"], dimensions, lambda frame, by: shares(frame, "is_read", by))
    # every tried edit has a mark, so what was read is what the mark holds for
    return found.with_columns(read=pl.col("hits")).drop("hits")


def statuses(measured: pl.DataFrame, dimension: str) -> pl.DataFrame:
    """Measure × group × status: how many measurements ended how; the edit's own status where it has no picture."""
    schema = {"measure": pl.String, "group": pl.String, "status": pl.String, "edits": pl.UInt32}
    parts = [
        measured.group_by(
            pl.lit(kind).alias("measure"),
            pl.col(dimension).cast(pl.String).alias("group"),
            pl.col(f"{kind}{_ENDING}").cast(pl.String).alias("status"),
            maintain_order=True,
        ).len("edits")
        for kind in kinds(measured)
    ]
    return pl.concat(parts) if parts else pl.DataFrame(schema=schema)
