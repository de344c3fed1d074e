"""Perceptual fingerprints: pictures that look alike have fingerprints that differ in few bits. Knows no faces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stillme.core import images
from stillme.core.images import Pixels

HASH = 16  # a fingerprint has HASH × HASH bits
SIDE = 64  # of the grey picture that it is read off
Bits = NDArray[np.bool_]


def bits(grey: NDArray[np.floating] | Pixels, side: int = HASH) -> Bits:
    """Which of the lowest side × side frequencies of a small grey picture are above their median."""
    from scipy.fft import dctn

    low = dctn(np.asarray(grey, np.float64), norm="ortho")[:side, :side].ravel()
    return np.asarray(low > np.median(low[1:]))


def fingerprint(picture: Pixels) -> tuple[str, str]:
    """Of a picture and of its mirror image, as hexadecimal: a mirrored copy is a copy."""
    grey = images.small_grey(picture, SIDE)
    return _spelled(bits(grey)), _spelled(bits(grey[:, ::-1]))


def _spelled(found: Bits) -> str:
    return np.packbits(found).tobytes().hex()


def distance(one: str, other: str) -> int:
    """In how many bits two fingerprints differ."""
    return (int(one, 16) ^ int(other, 16)).bit_count()


class Album:
    """Fingerprints that were seen, to find the nearest one among them."""

    def __init__(self) -> None:
        self._rows = np.empty((64, HASH * HASH // 8), np.uint8)
        self._count = 0

    def add(self, one: str) -> None:
        if self._count == len(self._rows):
            self._rows = np.vstack([self._rows, np.empty_like(self._rows)])
        self._rows[self._count] = _bytes(one)
        self._count += 1

    def nearest(self, new: Sequence[str]) -> tuple[int, int] | None:
        """The place of the one nearest to any of `new`, and its distance; None in an empty album."""
        if not self._count:
            return None
        seen = self._rows[: self._count]
        apart = np.min([np.bitwise_count(seen ^ _bytes(one)).sum(1, dtype=np.int64) for one in new], axis=0)
        return int(apart.argmin()), int(apart.min())


def _bytes(one: str) -> NDArray[np.uint8]:
    return np.frombuffer(bytes.fromhex(one), np.uint8)
