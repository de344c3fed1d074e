"""Puts a head's figure on a background."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from stillme.sources.heads.backdrop import Rgb, backdrop
from stillme.sources.heads.reader import Head

Bytes = NDArray[np.uint8]


def photograph(head: Head) -> Bytes:
    """The head on its own studio background: the source portrait."""
    return over(head, _studio(head.background))


def over(head: Head, behind: Bytes) -> Bytes:
    """The head in front of any picture of the same size."""
    share = np.uint16(255) - head.figure[..., None]
    seen = (behind * share + np.uint16(127)) // np.uint16(255)
    return np.minimum(head.rgb + seen, 255).astype(np.uint8)


@functools.lru_cache(maxsize=32)
def _studio(pair: tuple[Rgb, Rgb]) -> Bytes:
    return np.asarray(np.clip(backdrop(pair) + 0.5, 0, 255), np.uint8)
