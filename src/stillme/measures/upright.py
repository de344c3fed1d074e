"""The face upright and at one size, so that what is read of it does not depend on the picture's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from stillme.core.images import Pixels
from stillme.measures.faces import BROW, CHIN, EYES, Mesh, Points
from stillme.measures.regions import Mask

TALL = 96  # pixels from brow to chin: what a portrait of 224 pixels still has
SIDE = int(1.5 * TALL)
HALO = 0.45  # of a pixel of the smaller picture: what keeps detail too fine for it from turning into patterns


@dataclass(frozen=True, eq=False)
class Upright:
    """SIDE × SIDE pixels around a face that is TALL pixels tall, eyes level; `points` of its mesh there."""

    pixels: Pixels
    points: Points

    def mask(self, *outlines: Iterable[int]) -> Mask:
        """What lies within the hulls of these points of the mesh."""
        mask = np.zeros((SIDE, SIDE), np.uint8)
        for outline in outlines:
            hull = cv2.convexHull(np.round(self.points[list(outline)]).astype(np.int32))
            cv2.fillConvexPoly(mask, hull, 1)
        return mask > 0

    def at(self, values: NDArray[np.float32], points: Iterable[int]) -> NDArray[np.float32]:
        """The values where these points of the mesh lie."""
        places = np.clip(np.round(self.points[list(points)]).astype(int), 0, SIDE - 1)
        return np.asarray(values[places[:, 1], places[:, 0]], np.float32)


def upright(picture: Pixels, mesh: Mesh) -> Upright:
    flat = mesh.points[:, :2].astype(np.float64)
    across, middle = flat[EYES[1]] - flat[EYES[0]], (flat[CHIN] + flat[BROW]) / 2
    part, corner = _around(picture, middle, mesh.height)
    scale, angle = TALL / max(mesh.height, 1.0), np.arctan2(across[1], across[0])
    cos, sin = scale * np.cos(angle), scale * np.sin(angle)
    turn = np.array([[cos, sin], [-sin, cos]])
    shift = SIDE / 2 - turn @ (middle - corner)
    crop = cv2.warpAffine(
        _softened(part, scale), np.column_stack([turn, shift]), (SIDE, SIDE), borderMode=cv2.BORDER_REPLICATE
    )
    return Upright(np.asarray(crop, np.uint8), ((flat - corner) @ turn.T + shift).astype(np.float32))


def _around(picture: Pixels, middle: NDArray[np.float64], height: float) -> tuple[Pixels, NDArray[np.int64]]:
    """The part of the picture that matters, and its corner there."""
    size = np.array([picture.shape[1], picture.shape[0]])
    low = np.clip((middle - 1.2 * height).astype(np.int64), 0, size - 1)
    high = np.clip((middle + 1.2 * height).astype(np.int64) + 1, low + 1, size)
    return picture[low[1] : high[1], low[0] : high[0]], low


def _softened(part: Pixels, scale: float) -> Pixels:
    if scale >= 1:
        return part
    return np.asarray(cv2.GaussianBlur(part, (0, 0), HALO * np.sqrt(1 / scale**2 - 1) + 1e-3), np.uint8)
