"""The background gate: where the background is unchanged, a change of light is taken off the skin's shift.

The protocol says what unchanged means. Where the gate is closed the raw shift stands, and says so.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from stillme.protocol.schema import Background


def passes(figures: Mapping[str, float | None], gate: Background) -> bool:
    """Whether enough of the background is there, and moved as one, as light moves it."""
    names = ("background_spread", "background_shift", "background_share")
    spread, shift, share = (figures.get(name) for name in names)
    if spread is None or shift is None or share is None:
        return False
    return spread <= gate.most_spread and abs(shift) <= gate.most_shift and share >= gate.least_share


def lightness_change(figures: Mapping[str, float | None], gate: Background) -> float | None:
    """The skin's shift without the light's where the gate passes, else the raw shift."""
    raw, light = figures.get("lightness_shift"), figures.get("background_shift")
    return raw - light if raw is not None and light is not None and passes(figures, gate) else raw


def controlled(measured: pl.DataFrame, gate: Background) -> pl.DataFrame:
    """`measured` with `lightness_change` and `controlled`, where skin was measured at all."""
    if "lightness_shift" not in measured.columns:
        return measured
    figures = measured.select("lightness_shift", "background_shift", "background_spread", "background_share")
    rows = list(figures.iter_rows(named=True))
    return measured.with_columns(
        pl.Series("lightness_change", [lightness_change(row, gate) for row in rows], pl.Float64),
        pl.Series("controlled", [passes(row, gate) for row in rows], pl.Boolean),
    )
