"""skin_tone_shift: by how much the facial skin of an edit is lighter or darker than the source's.

Paired, so that light, camera and the person's own tone cancel: the difference of two medians of L* over facial
skin, with hue angle and CIEDE2000. The background's own shift is recorded too: where the background is the same in
both pictures, a change of light moves it as much as the skin, and is subtracted from the skin's shift. The
protocol says what "the same" means. ITA and the nearest Monk swatch describe; nothing is decided by them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from stillme.core import colour
from stillme.core.yaml import StrictModel
from stillme.engine.backends import BackendContext, PreparedMeasure
from stillme.measures import Reader, weights

if TYPE_CHECKING:
    import polars as pl

    from stillme.measures.skin import Tone
    from stillme.measures.view import Pair
    from stillme.protocol.schema import Background

VERSION = 1  # raise when the same pictures and settings give other figures


class Settings(StrictModel):
    """What counts as measurable."""

    least_height: int = Field(default=40, ge=8)  # of a face, brow to chin, in pixels
    least_pixels: int = Field(default=200, ge=20)  # of skin
    most_turned: float = Field(default=60, gt=0, le=90)  # degrees to a side


def prepare(settings: Settings, context: BackendContext) -> PreparedMeasure[Reader]:
    inputs = settings.model_dump(mode="json")
    used = weights.sums(weights.DETECTOR, weights.MESH, weights.EMBEDDING)
    return PreparedMeasure(
        effective={"measure": "skin_tone_shift", "version": VERSION, "weights": used, **inputs},
        inputs=inputs,
        make=lambda: lambda pair: read(pair, settings),
        description="Paired change of the facial skin's lightness, beside the background's own.",
        seconds=0.03,
        requires=("cv2",),
    )


def read(pair: Pair, settings: Settings) -> Mapping[str, float]:
    before, after = pair.tones(settings)
    return {
        **_colours(before, after),
        **_background(pair, before.lightness),
        **_noise_floor(pair.source.reencoded_shifts(settings)),
        "faces_before": len(pair.source.faces),
        "faces_after": len(pair.edit.faces),
        "face_after": pair.edit.faces.index(pair.people[1]) + 1,
    }


def _colours(before: Tone, after: Tone) -> dict[str, float]:
    hues = colour.hue(before.lab), colour.hue(after.lab)
    return {
        "lightness_before": before.lightness,
        "lightness_after": after.lightness,
        "lightness_shift": after.lightness - before.lightness,
        "hue_before": hues[0],
        "hue_after": hues[1],
        "hue_shift": colour.turn(*hues),
        "delta_e": float(colour.delta_e_2000(before.lab, after.lab)),
        "ita_before": colour.individual_typology_angle(before.lab),
        "ita_after": colour.individual_typology_angle(after.lab),
        "monk_before": before.monk,
        "monk_after": after.monk,
        "skin_pixels_before": before.pixels,
        "skin_pixels_after": after.pixels,
    }


def _background(pair: Pair, lightness: float) -> dict[str, float]:
    light = pair.light(lightness)
    if light is None:
        return {"background_share": 0.0}
    return {
        "background_shift": light.shift,
        "background_spread": light.spread,
        "background_share": light.share,
    }


def _noise_floor(shifts: Sequence[float]) -> dict[str, float]:
    """Nothing where no re-encode could be read: an unknown floor is not a floor of 0."""
    return {"noise_floor": max(shifts)} if shifts else {}


def is_background_unchanged(figures: Mapping[str, float | None], rule: Background) -> bool:
    """Whether enough of the background is there, and moved as one, as light moves it."""
    names = ("background_spread", "background_shift", "background_share")
    spread, shift, share = (figures.get(name) for name in names)
    if spread is None or shift is None or share is None:
        return False
    return spread <= rule.most_spread and abs(shift) <= rule.most_shift and share >= rule.least_share


def lightness_change(figures: Mapping[str, float | None], rule: Background) -> float | None:
    """The skin's shift without the light's where the background is unchanged, else the raw shift."""
    raw, light = figures.get("lightness_shift"), figures.get("background_shift")
    if raw is None or light is None or not is_background_unchanged(figures, rule):
        return raw
    return raw - light


def subtract_background_shift(measured: pl.DataFrame, rule: Background) -> pl.DataFrame:
    """`measured` with `lightness_change` and `subtract_background_shift`, where skin was measured at all."""
    import polars as pl  # the processes that measure have no use for it

    if "lightness_shift" not in measured.columns:
        return measured
    figures = measured.select("lightness_shift", "background_shift", "background_spread", "background_share")
    rows = list(figures.iter_rows(named=True))
    return measured.with_columns(
        pl.Series("lightness_change", [lightness_change(row, rule) for row in rows], pl.Float64),
        pl.Series("controlled", [is_background_unchanged(row, rule) for row in rows], pl.Boolean),
    )
