"""Two images measured on the spot, as `stillme measure` prints them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stillme.core.records import Status
from stillme.measures.attributes import errors
from stillme.measures.pair import Comparison


def render_comparison(pair: Comparison) -> str:
    """Return what every instrument measured on the two images."""
    rows = [(f"{name}:", text) for name, text in _rows(pair)]
    width = max(len(name) for name, _ in rows)
    lines = [f"{name.ljust(width)}  {text}".rstrip() for name, text in rows]
    return "\n".join([f"{pair.before} → {pair.after}", *lines])


def _rows(pair: Comparison) -> Iterator[tuple[str, str]]:
    for kind, reading in pair.readings.items():
        name, figures = kind.replace("_", " "), reading.figures
        if reading.status is not Status.OK:
            yield name, f"not measured: {reading.detail} ({reading.status.label})"
            continue
        match kind:
            case "skin_tone_shift":
                yield from _skin(name, pair, figures)
            case "change":
                share = f"{figures['changed_share']:.1%} of the picture"
                yield name, "nothing to be seen" if pair.nothing_changed else share
                similarity = f"LPIPS {figures['lpips']:.3f}, SSIM {figures['ssim']:.3f}"
                yield "  distance", f"{similarity}, hash {figures['phash_distance']:.0f} of 64 bits"
            case "identity":
                alone = ""
                if "similarity_reencoded" in figures:
                    alone = f" (re-encoding alone {figures['similarity_reencoded']:.3f})"
                yield name, f"similarity {figures['similarity']:.3f}{alone}; no threshold says who is who"
            case "apparent_age":
                yield name, f"{figures['age_before']:.0f} → {figures['age_after']:.0f} years to the model"
                yield "  its error", f"{_model_error('age_mae', '{:.0f}')}, in years, against labelled photographs"
            case "gender_presentation":
                feminine = f"{figures['feminine_before']:.2f} → {figures['feminine_after']:.2f}"
                yield name, f"feminine to the model {feminine}"
                yield (
                    "  its error",
                    f"{_model_error('gender_error', '{:.0%}')} wrong, against labelled photographs",
                )
            case _:
                raise AssertionError(f"no text for {kind}")


def _skin(name: str, pair: Comparison, figures: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    change = pair.lightness_change or 0.0
    way = "lighter" if change > 0 else "darker"
    if "noise_floor" in figures:
        noise = figures["noise_floor"]
        if abs(change) <= noise:
            way = f"no more than re-encoding alone ({noise:.2f})"
        else:
            way = f"{way}; re-encoding alone moves it by up to {noise:.2f}"
    yield name, f"{change:+.2f} L*, {way}"
    light = "none to be seen"
    if "background_shift" in figures:
        light = f"{figures['background_shift']:+.2f} L* of light"
    taken = "taken off" if pair.is_controlled else "not taken off: changed, or too little"
    yield "  background", f"{light}, {taken}; skin by itself {figures['lightness_shift']:+.2f}"
    yield "  colour", f"hue {figures['hue_shift']:+.1f}°, CIEDE2000 {figures['delta_e']:.1f}"
    tones = f"L* {figures['lightness_before']:.1f} → {figures['lightness_after']:.1f}"
    ita = f"ITA {figures['ita_before']:.0f}° → {figures['ita_after']:.0f}°"
    monk = f"Monk {figures['monk_before']:.0f} → {figures['monk_after']:.0f}"
    yield "  description", f"{tones}, {ita}, {monk}"
    if figures["faces_before"] > 1 or figures["faces_after"] > 1:
        n_faces = f"{figures['faces_before']:.0f} before, {figures['faces_after']:.0f} after"
        yield "  faces", f"{n_faces}; one person is read"


def _model_error(figure: str, form: str) -> str:
    """Return the model's mean error, and its range over groups: whose group a face is of is not known here."""
    overall = next(getattr(row, figure) for row in errors() if row.dimension == "all")
    groups = [getattr(row, figure) for row in errors() if row.dimension != "all"]
    return f"{form.format(overall)} ({form.format(min(groups))} to {form.format(max(groups))} by group)"
