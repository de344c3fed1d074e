"""Repeatable smooth noise, looked up by place."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

Floats = NDArray[np.floating[Any]]
SIZE = 512


@functools.cache
def field(seed: int) -> Floats:
    """A tile of soft noise that repeats without a seam, mean 0, deviation 1."""
    rng = np.random.default_rng(seed)
    soft = ndimage.gaussian_filter(rng.standard_normal((SIZE, SIZE)), 3, mode="wrap")
    return np.asarray(soft / soft.std(), np.float32)


def at(x: Floats, y: Floats, seed: int) -> Floats:
    """Noise at places; one unit is about eight blobs."""
    u, v = np.mod(x * 64, SIZE), np.mod(y * 64, SIZE)
    i, j = u.astype(np.int64) % SIZE, v.astype(np.int64) % SIZE
    a, b = (u - np.floor(u)).astype(np.float32), (v - np.floor(v)).astype(np.float32)
    tile = field(seed)
    k, m = (i + 1) % SIZE, (j + 1) % SIZE
    near = tile[j, i] * (1 - a) + tile[j, k] * a
    far = tile[m, i] * (1 - a) + tile[m, k] * a
    return np.asarray(near * (1 - b) + far * b, np.float32)
