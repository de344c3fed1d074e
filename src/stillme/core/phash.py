"""Perceptual hashes: images that look alike have hashes that differ in few bits. Knows nothing about faces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stillme.core import images
from stillme.core.images import Pixels

HASH = 16  # a hash has HASH × HASH bits
SIDE = 64  # of the grey image that it is computed from
Bits = NDArray[np.bool_]


def bits(grey: NDArray[np.floating] | Pixels, side: int = HASH) -> Bits:
    """Whether each of the lowest side × side frequencies of a small grey image is above their median."""
    from scipy.fft import dctn

    low = dctn(np.asarray(grey, np.float64), norm="ortho")[:side, :side].ravel()
    return np.asarray(low > np.median(low[1:]))


def fingerprint(picture: Pixels) -> tuple[str, str]:
    """The hashes of an image and of its mirror image, as hexadecimal: a mirrored copy is a copy."""
    grey = images.small_grey(picture, SIDE)
    upright, mirrored = (np.packbits(bits(side)).tobytes().hex() for side in (grey, grey[:, ::-1]))
    return upright, mirrored


def distance(first: str, second: str) -> int:
    """The number of bits in which two hashes differ."""
    return (int(first, 16) ^ int(second, 16)).bit_count()


class PerceptualHashIndex:
    """An index of hashes, to find the nearest one to a new image."""

    def __init__(self) -> None:
        self._rows = np.empty((64, HASH * HASH // 8), np.uint8)
        self._count = 0

    def add(self, fingerprint: str) -> None:
        if self._count == len(self._rows):
            self._rows = np.vstack([self._rows, np.empty_like(self._rows)])
        self._rows[self._count] = _bytes(fingerprint)
        self._count += 1

    def nearest(self, new: Sequence[str]) -> tuple[int, int] | None:
        """Position and distance of the hash nearest to any of `new`; None in an empty index."""
        if not self._count:
            return None
        rows = self._rows[: self._count]
        counts = [np.bitwise_count(rows ^ _bytes(fingerprint)).sum(1, dtype=np.int64) for fingerprint in new]
        distances = np.min(counts, axis=0)
        return int(distances.argmin()), int(distances.min())


def _bytes(fingerprint: str) -> NDArray[np.uint8]:
    return np.frombuffer(bytes.fromhex(fingerprint), np.uint8)
