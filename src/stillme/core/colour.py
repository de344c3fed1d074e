"""sRGB and CIELAB (D65): conversion, differences, and the angles that studies of skin colour use."""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float64]

TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
WHITE = TO_XYZ.sum(1)  # the white of sRGB itself, so that grey has no chroma


def srgb_to_linear(level: NDArray[np.floating]) -> Floats:
    """Linear light of sRGB levels from 0 to 1 (IEC 61966-2-1)."""
    return np.where(level <= 0.04045, level / 12.92, ((level + 0.055) / 1.055) ** 2.4)


def linear_to_srgb(light: NDArray[np.floating]) -> Floats:
    """sRGB levels of linear light from 0 to 1; the inverse of `srgb_to_linear`."""
    return np.where(light <= 0.0031308, light * 12.92, 1.055 * light ** (1 / 2.4) - 0.055)


@functools.cache
def light() -> NDArray[np.float32]:
    """Linear light of each of the 256 levels."""
    return srgb_to_linear(np.arange(256) / 255).astype(np.float32)


def srgb_to_lab(rgb: Bytes) -> NDArray[np.float32]:
    """(…, 3) sRGB levels to L*, a*, b*."""
    ratio = light()[rgb] @ (TO_XYZ / WHITE[:, None]).T.astype(np.float32)
    f = np.where(
        ratio > np.float32((6 / 29) ** 3), np.cbrt(ratio), ratio * np.float32(841 / 108) + np.float32(4 / 29)
    )
    lab = np.empty(f.shape, np.float32)
    lab[..., 0] = 116 * f[..., 1] - 16
    lab[..., 1] = 500 * (f[..., 0] - f[..., 1])
    lab[..., 2] = 200 * (f[..., 1] - f[..., 2])
    return lab


def hue(lab: Floats) -> float:
    """Hue angle h* in degrees: 0 is towards red, 90 towards yellow."""
    return float(np.degrees(np.arctan2(lab[2], lab[1])))


def turn(before: float, after: float) -> float:
    """The difference of two angles the short way round, in degrees."""
    return (after - before + 180) % 360 - 180


def individual_typology_angle(lab: Floats) -> float:
    """ITA in degrees. For description only: it is unstable under the edits that matter here."""
    return float(np.degrees(np.arctan2(lab[0] - 50, lab[2])))


def delta_e_2000(first: NDArray[np.floating], second: NDArray[np.floating]) -> NDArray[np.floating]:
    """CIEDE2000 with unit weights, elementwise over (…, 3) Lab arrays. Keeps the arrays' precision.

    Sharma, Wu and Dalal (2005), "The CIEDE2000 color-difference formula", equations 2 to 22.
    """
    (l1, a1, b1), (l2, a2, b2) = np.moveaxis(first, -1, 0), np.moveaxis(second, -1, 0)
    seventh = ((np.hypot(a1, b1) + np.hypot(a2, b2)) / 2) ** 7
    stretch = 1 + (1 - np.sqrt(seventh / (seventh + 25.0**7))) / 2
    c1, c2 = np.hypot(stretch * a1, b1), np.hypot(stretch * a2, b2)
    h1, h2 = np.arctan2(b1, stretch * a1) % (2 * np.pi), np.arctan2(b2, stretch * a2) % (2 * np.pi)
    dh, mean_h = _hue_difference_and_mean(h1, h2, c1 * c2 == 0)
    dl, dc, dhue = l2 - l1, c2 - c1, 2 * np.sqrt(c1 * c2) * np.sin(dh / 2)
    mean_l, mean_c = (l1 + l2) / 2, (c1 + c2) / 2
    sl = 1 + 0.015 * (mean_l - 50) ** 2 / np.sqrt(20 + (mean_l - 50) ** 2)
    t = np.asarray(
        1
        - 0.17 * np.cos(mean_h - math.radians(30))
        + 0.24 * np.cos(2 * mean_h)
        + 0.32 * np.cos(3 * mean_h + math.radians(6))
        - 0.20 * np.cos(4 * mean_h - math.radians(63))
    )
    sc, sh = 1 + 0.045 * mean_c, 1 + 0.015 * mean_c * t
    rotation = _rotation(mean_c, mean_h)
    squared = (dl / sl) ** 2 + (dc / sc) ** 2 + (dhue / sh) ** 2 + rotation * (dc / sc) * (dhue / sh)
    return np.asarray(np.sqrt(np.maximum(squared, 0)))


def _hue_difference_and_mean(
    h1: NDArray[np.floating], h2: NDArray[np.floating], grey: NDArray[np.bool_]
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """The difference the short way round, and the mean hue; a grey has no hue."""
    dh = h2 - h1
    difference = np.where(dh > np.pi, dh - 2 * np.pi, np.where(dh < -np.pi, dh + 2 * np.pi, dh))
    total = h1 + h2
    around = np.where(total < 2 * np.pi, total + 2 * np.pi, total - 2 * np.pi)
    mean = np.where(np.abs(dh) <= np.pi, total, around) / 2
    return np.where(grey, 0, difference), np.where(grey, total, mean)


def _rotation(chroma: NDArray[np.floating], h: NDArray[np.floating]) -> NDArray[np.floating]:
    """The rotation term for blues, where differences of hue and chroma interact."""
    angle = math.radians(30) * np.exp(-(((np.degrees(h) - 275) / 25) ** 2))
    seventh = chroma**7
    return np.asarray(-2 * np.sqrt(seventh / (seventh + 25.0**7)) * np.sin(2 * angle))
