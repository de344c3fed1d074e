"""CIELAB by tables, quick enough for thousands of renderings, and a known change made with it: a ΔL* of skin.

Measurements use the exact conversion in `stillme.core.colour`.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from stillme.core import colour

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

STEPS = 16384  # of the tables; L* is then within 0.1 of the exact conversion
TO_XYZ = colour.TO_XYZ.astype(np.float32)
WHITE = TO_XYZ.sum(1)
FROM_XYZ = np.linalg.inv(TO_XYZ.astype(np.float64)).astype(np.float32)
# A shift is made whole where the distance to black or white is at least this many times as large; elsewhere it is
# cut to the distance divided by this, so that no pixel reaches black or white.
ROOM = 1.25


@functools.cache
def _levels() -> Bytes:
    """The level nearest to a linear light, over STEPS steps."""
    return np.asarray(colour.linear_to_srgb(np.linspace(0, 1, STEPS)) * 255 + 0.5, np.uint8)


@functools.cache
def _roots() -> Floats:
    """CIELAB's f over STEPS steps of a ratio to white."""
    ratio = np.linspace(0, 1, STEPS)
    return np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio * (841 / 108) + 4 / 29).astype(np.float32)


def _step(values: Floats) -> NDArray[np.intp]:
    return np.asarray(np.clip(values, 0, 1) * (STEPS - 1) + 0.5, np.intp)


def srgb_to_lab(rgb: Bytes) -> Floats:
    """(…, 3) sRGB levels to L*, a*, b*; L* within 0.1."""
    f = _roots()[_step(colour.light()[rgb] @ (TO_XYZ / WHITE[:, None]).T)]
    lab = np.empty(f.shape, np.float32)
    lab[..., 0] = 116 * f[..., 1] - 16
    lab[..., 1] = 500 * (f[..., 0] - f[..., 1])
    lab[..., 2] = 200 * (f[..., 1] - f[..., 2])
    return lab


def lab_to_srgb(lab: Floats) -> Bytes:
    """L*, a*, b* to sRGB levels; a colour outside sRGB keeps its lightness and gives up chroma."""
    lab = np.asarray(lab, np.float32)
    fy = (lab[..., 0] + 16) / 116
    f = np.stack([fy + lab[..., 1] / 500, fy, fy - lab[..., 2] / 200], -1)
    ratio = np.where(f > 6 / 29, f * f * f, (f - 4 / 29) * (108 / 841))
    linear = np.asarray((ratio * WHITE) @ FROM_XYZ.T, np.float32)
    grey = np.clip(linear @ TO_XYZ[1], 0, 1)[..., None]
    high = linear.max(-1, keepdims=True)
    low = linear.min(-1, keepdims=True)
    above = np.where(high > 1, (1 - grey) / np.maximum(high - grey, 1e-6), 1)
    below = np.where(low < 0, grey / np.maximum(grey - low, 1e-6), 1)
    within_gamut = np.asarray(grey + (linear - grey) * np.minimum(above, below), np.float32)
    return _levels()[_step(within_gamut)]


def shift_skin(rgb: Bytes, mask: Bytes, delta_l: float) -> Bytes:
    """The picture with its skin moved by `delta_l` L*, as much as `mask` (0 to 255) says at each pixel."""
    pixels = np.flatnonzero(mask)
    flat = rgb.reshape(-1, 3)
    lab = srgb_to_lab(flat[pixels])
    # The whole shift, except for the few pixels so near white or black that it would pass them.
    room = 100 - lab[:, 0] if delta_l > 0 else lab[:, 0]
    share = np.minimum(1, np.maximum(room, 0) / max(ROOM * abs(delta_l), 1e-6))
    shift = np.asarray(delta_l * share, np.float32)
    lab[:, 0] += shift * (mask.reshape(-1)[pixels] / np.float32(255))
    moved = flat.copy()
    moved[pixels] = lab_to_srgb(lab)
    return moved.reshape(rgb.shape)
