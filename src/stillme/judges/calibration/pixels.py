"""The known changes, made on pixels: all light times a gain, skin moved in lightness alone, a frame put around."""

from __future__ import annotations

import functools

import numpy as np

from stillme.core.colour import linear_to_srgb, srgb_to_linear
from stillme.sources import heads
from stillme.sources.heads.colour import Bytes, Floats


def relit(picture: Bytes, gain: float) -> Bytes:
    """Every pixel's linear light times `gain`, as a lamp or an exposure does; what passes white is white."""
    return _relit_levels(gain)[picture]


@functools.lru_cache(maxsize=16)
def _relit_levels(gain: float) -> Bytes:
    lit = np.clip(srgb_to_linear(np.arange(256) / 255) * gain, 0, 1)
    return np.asarray(linear_to_srgb(lit) * 255 + 0.5, np.uint8)


def shifted(picture: Bytes, skin: Bytes, delta_l: float) -> Bytes:
    """The skin lighter or darker by `delta_l` L*, as much as `skin` (0 to 255) says at each pixel."""
    return heads.shift_skin(picture, skin, delta_l)


def framed(picture: Bytes, width: float, colour: tuple[int, int, int]) -> Bytes:
    """A plain frame around the whole picture, which stays as it is inside; `width`: of the shorter side."""
    border = max(1, round(width * min(picture.shape[:2])))
    height, across = (side + 2 * border for side in picture.shape[:2])
    sheet = np.full((height, across, 3), colour, np.uint8)
    sheet[border:-border, border:-border] = picture
    return sheet


def feathered(mask: Floats) -> Bytes:
    """A mask of shares as levels."""
    return np.asarray(np.clip(mask, 0, 1) * 255 + 0.5, np.uint8)
