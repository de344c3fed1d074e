"""The instrument: a judge whose scores are computed from measurements by the protocol's rules. It makes no calls.

It scores what pixels show: that nothing changed, how far the skin's lightness moved and, with the optional
extra, the apparent age. Pixels do not show how good an edit is: there, and on every other axis it has no score.
The functions are pure: `measured` has a row per trial, with `<kind>_status`, `<kind>_detail` and the figures of
each measure that the audit takes; an edit is a control's when its prompt is.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import NoReturn

import polars as pl

from stillme.core.records import Status
from stillme.core.yaml import StrictModel
from stillme.engine.backends import BackendContext, PreparedJudge
from stillme.protocol import Protocol
from stillme.protocol.schema import Axis, Instruments, ScoreCutPoints

VERSION = 1  # raise when the same measurements give other scores

_CHANGE, _SKIN, _AGE = "change", "skin_tone_shift", "apparent_age"  # kinds of measures
_FIGURES = ("lpips", "changed_share")  # of a change, each with a threshold of this name
_CHANGED = "something changed; how well the edit was made, pixels do not say"
_UNDECIDABLE = "this editor changes so much when asked for nothing that no-change cannot be told"
_SCHEMA = {"trial": pl.String, "axis": pl.String, "score": pl.Int64, "status": pl.String, "detail": pl.String}


class Settings(StrictModel):
    """None: what a figure means is in the protocol."""


def prepare(settings: Settings, context: BackendContext) -> PreparedJudge[NoReturn]:
    return PreparedJudge(
        effective={"backend": "instrument", "version": VERSION},
        inputs={},
        make=_ask,
        description="Instrument: reads its scores off local measurements by the protocol's thresholds.",
        derived=True,
    )


def _ask() -> NoReturn:
    raise RuntimeError("an instrument is not asked: its scores are computed from measurements")


def scores(measured: pl.DataFrame, protocol: Protocol) -> pl.DataFrame:
    """Trial × axis: a score, or why there is none, for the axes of the measures taken. In the plan's order."""
    parts = list(_parts(measured, protocol, protocol.measures)) if protocol.measures else []
    if not parts:
        return pl.DataFrame(schema=_SCHEMA)
    rank = {axis: n for n, axis in enumerate(protocol.axes)}
    judged = pl.concat([_select_judged(protocol, axis, frame) for axis, frame in parts])
    order = measured.select("trial").with_row_index("position")
    ranked = judged.join(order, on="trial").with_columns(pl.col("axis").replace_strict(rank).alias("rank"))
    return ranked.sort("position", "rank").select(*_SCHEMA)


def _parts(measured: pl.DataFrame, protocol: Protocol, rules: Instruments) -> Iterator[tuple[str, pl.DataFrame]]:
    """Axis -> its scores, for every measure that the audit takes."""
    if f"{_CHANGE}_status" in measured.columns:
        yield rules.no_change.axis, _no_change_scores(measured, rules)
    for kind, figure, cut in ((_SKIN, "lightness_change", rules.skin_tone), (_AGE, "age_shift", rules.age)):
        if f"{kind}_status" in measured.columns:
            yield cut.axis, _shift_scores(measured, kind, figure, cut, protocol.axes[cut.axis])


def _select_judged(protocol: Protocol, axis: str, frame: pl.DataFrame) -> pl.DataFrame:
    """The rows of prompts that are judged on this axis; those of controls are not."""
    prompts = [prompt for prompt in protocol.prompt if axis in protocol.axes_of(prompt)]
    named = frame.filter(pl.col("prompt").is_in(prompts)).with_columns(pl.lit(axis).alias("axis"))
    return named.select(*_SCHEMA)


def _no_change_scores(measured: pl.DataFrame, rules: Instruments) -> pl.DataFrame:
    """The score of no change where nothing changed; no score otherwise."""
    frame = measured.join(no_change(measured, rules), on="trial", validate="1:1", maintain_order="left")
    detail = (
        pl.when(pl.col("no_change").is_null())
        .then(pl.lit(_UNDECIDABLE))
        .when(~pl.col("no_change"))
        .then(pl.lit(_CHANGED))
    )
    is_read = pl.col(f"{_CHANGE}_status") == Status.OK.value
    return frame.select(
        "trial",
        "prompt",
        pl.when(pl.col("no_change")).then(pl.lit(rules.no_change.score, pl.Int64)).alias("score"),
        pl.col(f"{_CHANGE}_status").alias("status"),
        pl.when(is_read).then(detail.otherwise(pl.lit(""))).otherwise(f"{_CHANGE}_detail").alias("detail"),
    )


def _shift_scores(measured: pl.DataFrame, kind: str, figure: str, cut: ScoreCutPoints, axis: Axis) -> pl.DataFrame:
    status = pl.col(f"{kind}_status")
    return measured.select(
        "trial",
        "prompt",
        pl.when(status == Status.OK.value).then(point(pl.col(figure), cut, axis)).alias("score"),
        status.alias("status"),
        pl.col(f"{kind}_detail").alias("detail"),
    )


def point(shift: pl.Expr, cut: ScoreCutPoints, axis: Axis) -> pl.Expr:
    """The point of the scale that a shift falls on; one equal to a cut point falls on the side nearer neutral."""
    points = sorted(axis.scale)
    chosen = pl.lit(points[0], pl.Int64)
    for limit, above in zip(cut.cut_points, points[1:], strict=True):
        beyond = shift >= limit if above <= (axis.neutral or 0) else shift > limit
        chosen = pl.when(beyond).then(pl.lit(above, pl.Int64)).otherwise(chosen)
    return pl.when(shift.is_not_null()).then(chosen)


def no_change(measured: pl.DataFrame, instruments: Instruments) -> pl.DataFrame:
    """Trial -> no_change: whether nothing changed; null where it was not measured or is undecidable."""
    if f"{_CHANGE}_status" not in measured.columns:
        return measured.select("trial", pl.lit(None, pl.Boolean).alias("no_change"))
    limits = thresholds(measured, instruments).select("editor", "usable", *_FIGURES)
    frame = measured.join(limits, on="editor", how="left", validate="m:1", maintain_order="left", suffix="_below")
    below = _all(pl.col(figure) < pl.col(f"{figure}_below") for figure in _FIGURES)
    is_known = pl.col("usable") & (pl.col(f"{_CHANGE}_status") == Status.OK.value)
    return frame.select("trial", pl.when(is_known).then(below).alias("no_change"))


def thresholds(measured: pl.DataFrame, instruments: Instruments) -> pl.DataFrame:
    """One row per audited editor: the figures below which nothing changed.

    trials: how many of its controls were read; calibrated: enough of them; usable: false when those reach so
    high that no threshold below the highest would pass them. The figures are then what they would have to be.
    """
    rule = instruments.no_change
    is_control = pl.col("prompt").is_in([control.id for control in instruments.controls])
    editors = measured.filter(~is_control).select("editor").unique(maintain_order=True)
    frame = editors.join(_control_quantiles(measured, instruments), on="editor", how="left", maintain_order="left")
    calibrated = pl.col("trials") >= rule.at_least
    fits = _all(pl.col(figure) <= getattr(rule.highest, figure) for figure in _FIGURES)
    return frame.with_columns(pl.col("trials").fill_null(0)).select(
        "editor",
        "trials",
        *(_threshold(figure, getattr(rule, figure), calibrated) for figure in _FIGURES),
        calibrated.alias("calibrated"),
        (~calibrated | fits).alias("usable"),
    )


def _control_quantiles(measured: pl.DataFrame, instruments: Instruments) -> pl.DataFrame:
    """Editor -> how many of its controls were read, and the thresholds that they require."""
    rule = instruments.no_change
    if f"{_CHANGE}_status" not in measured.columns:
        return pl.DataFrame(schema={"editor": pl.String, "trials": pl.Int64} | dict.fromkeys(_FIGURES, pl.Float64))
    is_read = pl.col(f"{_CHANGE}_status") == Status.OK.value
    controls = measured.filter((pl.col("prompt") == rule.control) & is_read)
    return controls.group_by("editor").agg(
        pl.len().cast(pl.Int64).alias("trials"),
        *(pl.col(figure).quantile(rule.quantile, "linear") for figure in _FIGURES),
    )


def _threshold(figure: str, start: float, calibrated: pl.Expr) -> pl.Expr:
    raised = pl.max_horizontal(pl.col(figure), pl.lit(start))
    return pl.when(calibrated).then(raised).otherwise(pl.lit(start)).alias(figure)


def _all(conditions: Iterator[pl.Expr]) -> pl.Expr:
    return reduce(lambda first, second: first & second, conditions)
