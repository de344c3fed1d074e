"""Colour arithmetic of the renderer: sRGB, linear light, CIELAB (D65)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]

TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
WHITE = np.array([0.95047, 1.0, 1.08883])


def linear(srgb: Floats) -> Floats:
    value = np.clip(srgb, 0, 1)
    return np.asarray(np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4), np.float32)


def encoded(light: Floats) -> Floats:
    value = np.clip(light, 0, 1)
    return np.asarray(np.where(value <= 0.0031308, value * 12.92, 1.055 * value ** (1 / 2.4) - 0.055), np.float32)


def lab_to_linear(lab: Floats) -> Floats:
    light, a, b = np.moveaxis(np.asarray(lab, np.float64), -1, 0)
    fy = (light + 16) / 116
    f = np.stack([fy + a / 500, fy, fy - b / 200], -1)
    xyz = np.where(f > 6 / 29, f**3, 3 * (6 / 29) ** 2 * (f - 4 / 29)) * WHITE
    return np.asarray(np.clip(xyz @ np.linalg.inv(TO_XYZ).T, 0, 1), np.float32)


def linear_to_lab(light: Floats) -> Floats:
    xyz = np.asarray(light, np.float64) @ TO_XYZ.T / WHITE
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    lab = np.stack([116 * f[..., 1] - 16, 500 * (f[..., 0] - f[..., 1]), 200 * (f[..., 1] - f[..., 2])], -1)
    return np.asarray(lab, np.float32)
