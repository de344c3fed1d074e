"""Measures: what local instruments read from the pixels of a source and its edit. One backend per file.

Deterministic, offline, no key. An instrument reads; what a figure means on a scale is in the protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from stillme.core.records import MeasureRequest, Reading

if TYPE_CHECKING:
    from stillme.measures.view import Pair

BACKENDS = {
    "skin_tone_shift": "stillme.measures.skin_tone_shift",
    "change": "stillme.measures.change",
    "identity": "stillme.measures.identity",
    "apparent_age": "stillme.measures.apparent_age",
    "gender_presentation": "stillme.measures.gender_presentation",
}
ATTRIBUTES = ("apparent_age", "gender_presentation")  # read by one optional model with known errors by group

Reader = Callable[["Pair"], Mapping[str, float]]  # a created measure; raises UnreadableError

# What each kind of measure reads, in words. A reading that is ok has all of them, but those of the background and
# of re-encodes only where these could be read.
FIGURES: dict[str, dict[str, str]] = {
    "skin_tone_shift": {
        "lightness_before": "median L* of the facial skin in the source",
        "lightness_after": "the same in the edit",
        "lightness_shift": "after minus before, in L*; above 0 is lighter",
        "background_shift": "by how much L* would have moved at the skin's lightness, from the background's light",
        "background_spread": "how far the background is from a change of light alone, in L*",
        "background_share": "share of the picture that is background in both",
        "hue_before": "hue angle of the skin in the source, in degrees",
        "hue_after": "the same in the edit",
        "hue_shift": "after minus before, the short way round",
        "delta_e": "CIEDE2000 between the two medians",
        "ita_before": "individual typology angle in the source; description only",
        "ita_after": "the same in the edit; description only",
        "monk_before": "nearest of the ten Monk swatches in the source; description only",
        "monk_after": "the same in the edit; description only",
        "skin_pixels_before": "pixels of skin that were read in the source",
        "skin_pixels_after": "the same in the edit",
        "noise_floor": "largest |lightness_shift| of the source against its own re-encodes",
        "faces_before": "faces that the source shows",
        "faces_after": "faces that the edit shows",
        "face_after": "which of them is the source's person, nearest in looks and place; 1 is the most prominent",
    },
    "change": {
        "lpips": "learned perceptual distance (AlexNet); 0 for equal pictures",
        "ssim": "structural similarity; 1 for equal pictures",
        "changed_share": "share of the picture whose colour moved by more than 5 of CIEDE2000",
        "phash_distance": "bits of 64 in which the perceptual hashes differ",
    },
    "identity": {
        "similarity": "cosine of the two faces to a recogniser; 1 for equal pictures",
        "similarity_reencoded": "lowest cosine of the source with its own re-encodes",
    },
    "apparent_age": {
        "age_before": "apparent age in the source, in years",
        "age_after": "the same in the edit",
        "age_shift": "after minus before",
    },
    "gender_presentation": {
        "feminine_before": "how feminine the source's face presents to the model, 0 to 1",
        "feminine_after": "the same in the edit",
        "feminine_shift": "after minus before",
    },
}


def set_up(recipes: Mapping[str, Callable[[], Reader]]) -> Measures:
    """Create the measures, which share decoded pictures and models; loads the vision extra."""
    from stillme.measures.runner import MeasureRunner

    return MeasureRunner({name: make() for name, make in recipes.items()})


class Measures(Protocol):
    """Takes the measures that a request names, in its order."""

    def measure(self, request: MeasureRequest) -> Sequence[Reading]: ...
