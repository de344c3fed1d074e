"""The soft studio background behind every portrait, computed from two colours."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

SIZE = 384

Rgb = tuple[int, int, int]


@functools.lru_cache(maxsize=32)
def backdrop(pair: tuple[Rgb, Rgb]) -> NDArray[np.float32]:
    """Top colour to bottom colour with a pool of light behind the head; sRGB levels, read-only."""
    rise = np.linspace(0, 1, SIZE, dtype=np.float32)[:, None, None]
    top, bottom = (np.array(part, np.float32) for part in pair)
    picture = (top * (1 - rise) + bottom * rise) * _pool() + _grain()
    picture.flags.writeable = False
    return np.asarray(picture, np.float32)


@functools.cache
def _pool() -> NDArray[np.float32]:
    y, x = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32) / SIZE
    reach = ((x - 0.5) / 0.55) ** 2 + ((y - 0.42) / 0.6) ** 2
    return np.asarray(0.93 + 0.10 * np.exp(-reach), np.float32)[..., None]


@functools.cache
def _grain() -> NDArray[np.float32]:
    """Less than one level of noise, so that the gradient shows no bands."""
    noise = np.random.default_rng(384).normal(0, 0.7, (SIZE, SIZE, 1))
    return np.asarray(noise, np.float32)
