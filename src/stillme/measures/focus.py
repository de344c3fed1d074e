"""Focus: how sharp a face is, told by how much is lost when it is blurred once more.

A sharp edge loses most of its steepness, a soft one hardly any. The share that is lost depends on neither contrast
nor skin tone, and the least share of four directions is lowered by shaking as much as by a lens out of focus. Read
around eyes, nose and mouth: every face has edges there, whatever its age. Noise reads as sharpness.
"""

from __future__ import annotations

from collections.abc import Iterator

import cv2
import numpy as np
from numpy.typing import NDArray

from stillme.measures.regions import LEFT_BROW, LEFT_EYE, RIGHT_BROW, RIGHT_EYE, Mask
from stillme.measures.upright import SIDE, Upright

NOSE = (49, 279, 1, 2, 4, 5)
MOUTH = (61, 291, 0, 17, 37, 267)
AGAIN = 5  # pixels that are averaged along a direction
AROUND = np.ones((5, 5), np.uint8)


def focus(face: Upright) -> float:
    """0 for a face without any edge to 1; a face as sharp as its pixels allow reads about 0.6."""
    grey = cv2.cvtColor(face.pixels, cv2.COLOR_RGB2GRAY).astype(np.float32)
    outlines = (LEFT_EYE + LEFT_BROW, RIGHT_EYE + RIGHT_BROW, NOSE, MOUTH)
    mask = np.asarray(cv2.dilate(face.mask(*outlines).astype(np.uint8), AROUND), np.uint8)
    return min(_lost(one, where, axis) for one, where in _both_ways(grey, mask) for axis in (0, 1))


def _both_ways(grey: NDArray[np.float32], mask: NDArray[np.uint8]) -> Iterator[tuple[NDArray[np.float32], Mask]]:
    """As it is, and turned by 45°: rows and columns of both are four directions."""
    yield grey, mask > 0
    turn = cv2.getRotationMatrix2D((SIDE / 2, SIDE / 2), 45, 1)
    size, edge = (SIDE, SIDE), cv2.BORDER_REPLICATE
    turned = cv2.warpAffine(grey, turn, size, flags=cv2.INTER_CUBIC, borderMode=edge)
    yield np.asarray(turned, np.float32), np.asarray(cv2.warpAffine(mask, turn, size), np.uint8) > 0


def _lost(grey: NDArray[np.float32], where: Mask, axis: int) -> float:
    """The share of the squared steps along an axis that averaging along it takes away."""
    blurred = np.asarray(cv2.blur(grey, (1, AGAIN) if axis == 0 else (AGAIN, 1)), np.float32)  # width, height
    inside = where[1:] if axis == 0 else where[:, 1:]
    before, after = (float((np.diff(one, axis=axis)[inside] ** 2).sum()) for one in (grey, blurred))
    return 1 - after / before if before > 0 else 0.0
