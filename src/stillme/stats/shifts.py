"""How far skin lightness moved, by editor and group, under real prompts and under controls; and its noise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import polars as pl

from stillme.stats.means import by_groups, means

_NOISE = {
    "control": pl.String,
    "group": pl.String,
    "images": pl.Int64,
    "median": pl.Float64,
    "p95": pl.Float64,
    "most": pl.Float64,
}


def shifts(edits: pl.DataFrame, keys: Sequence[str], dimensions: Iterable[str]) -> pl.DataFrame:
    """Per `keys` and group: the mean change of L* over persons, background-controlled where that could be done.

    `raw_mean` is the same without the control; `controlled` counts the edits whose background passed the gate.
    """
    return by_groups(edits, keys, dimensions, _shifts)


def _shifts(edits: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    change = means(edits, "lightness_change", by)
    raw = means(edits, "lightness_shift", by).select(*by, raw_mean="mean", raw_low="low", raw_high="high")
    passed = pl.col("controlled") & pl.col("lightness_change").is_not_null()
    gated = edits.group_by(by, maintain_order=True).agg(passed.sum().cast(pl.Int64).alias("controlled"))
    joined = change.join(raw, on=by, validate="1:1", nulls_equal=True, maintain_order="left").join(
        gated, on=by, validate="1:1", nulls_equal=True, maintain_order="left"
    )
    share = pl.when(pl.col("read") > 0).then(pl.col("controlled") / pl.col("read"))
    return joined.with_columns(controlled_share=share)


def noise(measured: pl.DataFrame, controls: Sequence[str], dimension: str) -> pl.DataFrame:
    """Median, 95th percentile and maximum of what reads as a change where nobody made one.

    Rows without a `control`: the noise floor of the source images (the largest shift against own re-encodes), each
    image once. Rows with one: |ΔL*| in the trials of that control. Rows without a `group` are over everybody.
    """
    floors = measured.group_by("source_image", maintain_order=True).agg(
        pl.col(dimension).first(), pl.col("noise_floor").max().alias("size")
    )
    rows = list(_spreads(None, floors, dimension))
    for control in controls:
        made = measured.filter(pl.col("prompt") == control)
        rows += _spreads(control, made.with_columns(size=pl.col("lightness_shift").abs()), dimension)
    return pl.DataFrame(rows, schema=_NOISE)


def _spreads(control: str | None, frame: pl.DataFrame, dimension: str) -> Iterator[dict[str, object]]:
    known = frame.filter(pl.col("size").is_not_null())
    if known.is_empty():
        return
    yield {"control": control, "group": None, **_spread(known["size"])}
    for (group,), part in known.drop_nulls(dimension).group_by(dimension, maintain_order=True):
        yield {"control": control, "group": group, **_spread(part["size"])}


def _spread(sizes: pl.Series) -> dict[str, object]:
    values = sizes.to_numpy()
    median, p95 = np.quantile(values, (0.5, 0.95))
    return {"images": len(values), "median": float(median), "p95": float(p95), "most": float(values.max())}


def readback(edits: pl.DataFrame, planted: pl.DataFrame) -> pl.DataFrame:
    """Editor: what was planted on the skin beside what the instrument read, over the edits that it could read.

    `slope`: least squares of read on planted, 1 when nothing is lost; null where everything planted is alike.
    `error` is the mean of read − planted, `error_sd` its spread over edits.
    """
    both = edits.join(planted.select("trial", "delta_l"), on="trial", how="inner", validate="1:1")
    both = both.drop_nulls(["delta_l", "lightness_change"])
    rows = [
        {"editor": editor, **_fitted(part["delta_l"].to_numpy(), part["lightness_change"].to_numpy())}
        for (editor,), part in both.group_by("editor", maintain_order=True)
    ]
    figures = ("planted", "read", "slope", "error", "error_sd")
    return pl.DataFrame(
        rows, schema={"editor": pl.String, "edits": pl.Int64, **dict.fromkeys(figures, pl.Float64)}
    )


def _fitted(planted: np.ndarray, read: np.ndarray) -> dict[str, object]:
    error, spread = read - planted, float(((planted - planted.mean()) ** 2).sum())
    slope = float(((planted - planted.mean()) * read).sum()) / spread if spread > 0 else None
    return {
        "edits": len(read),
        "planted": float(planted.mean()),
        "read": float(read.mean()),
        "slope": slope,
        "error": float(error.mean()),
        "error_sd": float(error.std(ddof=1)) if len(error) > 1 else None,
    }
