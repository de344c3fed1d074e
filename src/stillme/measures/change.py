"""change: how much of the picture an edit changed, whatever it changed.

LPIPS says how different the pictures look, `changed_share` how much of the area has another colour, SSIM and the
perceptual hash how far structure moved. None of them sees skin being lightened: that is skin_tone_shift's part.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter

from stillme.core import phash
from stillme.core.colour import delta_e_2000
from stillme.core.yaml import StrictModel
from stillme.engine.backends import BackendContext, PreparedMeasure
from stillme.measures import Reader, weights

if TYPE_CHECKING:
    from stillme.measures.view import Features, Pair, View

Floats = NDArray[np.float64]

VERSION = 1  # raise when the same pictures and settings give other figures
WINDOW = 7  # pixels; SSIM's
HASH = 8  # the perceptual hash has HASH × HASH bits
VISIBLE = 5.0  # CIEDE2000 beyond which two colours are plainly not the same


class Settings(StrictModel):
    pass


def prepare(settings: Settings, context: BackendContext) -> PreparedMeasure[Reader]:
    used = weights.sums(weights.TRUNK, weights.HEADS)
    return PreparedMeasure(
        effective={"measure": "change", "version": VERSION, "weights": used},
        inputs={},
        make=lambda: read,
        description="How much of the picture changed: LPIPS, SSIM, share of pixels with another colour, hash.",
        seconds=0.04,
        requires=("cv2",),
    )


def read(pair: Pair) -> Mapping[str, float]:
    source, edit = pair.source, pair.edit
    return {
        "lpips": lpips_distance(source.features, edit.features),
        "ssim": structural_similarity(source.grey.astype(np.float64), edit.grey.astype(np.float64)),
        "changed_share": float((delta_e_2000(source.small, edit.small) > VISIBLE).mean()),
        "phash_distance": int((perceptual_hash(source) != perceptual_hash(edit)).sum()),
    }


def lpips_distance(one: Features, other: Features) -> float:
    """LPIPS: the sum over layers of the mean squared difference of their features, in the layers' own weights."""

    def mean_square(first: NDArray[np.float32], second: NDArray[np.float32]) -> float:
        difference = (first - second).ravel()
        height, width = first.shape[1:]
        return float(difference @ difference) / float(height * width)

    return float(sum(mean_square(first, second) for first, second in zip(one, other, strict=True)))


def structural_similarity(one: Floats, other: Floats) -> float:
    """Mean SSIM (Wang et al. 2004) of two grey pictures with levels 0 to 255; 1 for equal ones."""
    mean1, mean2 = uniform_filter(one, WINDOW), uniform_filter(other, WINDOW)
    unbiased = WINDOW**2 / (WINDOW**2 - 1)
    spread1 = unbiased * (uniform_filter(one * one, WINDOW) - mean1 * mean1)
    spread2 = unbiased * (uniform_filter(other * other, WINDOW) - mean2 * mean2)
    joint = unbiased * (uniform_filter(one * other, WINDOW) - mean1 * mean2)
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    above = (2 * mean1 * mean2 + c1) * (2 * joint + c2)
    below = (mean1 * mean1 + mean2 * mean2 + c1) * (spread1 + spread2 + c2)
    edge = WINDOW // 2
    return float((above / below)[edge:-edge, edge:-edge].mean())


def perceptual_hash(view: View) -> NDArray[np.bool_]:
    """Which of the lowest frequencies are above their median."""
    grey = view.grey.reshape(32, 8, 32, 8).mean((1, 3), dtype=np.float64)
    return phash.bits(grey, HASH)
