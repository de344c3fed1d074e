"""Regions of a portrait: facial skin from the mesh, and the background that a face and its body leave free.

The skin region is the part of the face's oval above the mouth (beards grow below it), without eyes and brows,
drawn in from the hair line. Hair or glasses over it are left out by their distance from the colour of the same
person's nose and cheeks. No colour counts as skin in itself: that would decide beforehand whose skin is skin.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray

from stillme.core.colour import srgb_to_lab
from stillme.core.images import Pixels
from stillme.measures.faces import Box, Mesh, Points

Mask = NDArray[np.bool_]

# Indices of the mesh's points, in the order of the outline.
# fmt: off
OVAL = [10, 338, 297, 332, 284, 251, 389, 356, 454, 323, 361, 288, 397, 365, 379, 378, 400, 377, 152, 148, 176,
        149, 150, 136, 172, 58, 132, 93, 234, 127, 162, 21, 54, 103, 67, 109]
LEFT_EYE = [263, 249, 390, 373, 374, 380, 381, 382, 362, 398, 384, 385, 386, 387, 388, 466]
RIGHT_EYE = [33, 7, 163, 144, 145, 153, 154, 155, 133, 173, 157, 158, 159, 160, 161, 246]
LEFT_BROW = [276, 283, 282, 295, 285, 300, 293, 334, 296, 336]
RIGHT_BROW = [46, 53, 52, 65, 55, 70, 63, 105, 66, 107]
MIDDLE = [168, 50, 205, 425, 280]  # nose and inner cheeks
MOUTH = (205, 425)  # a line just above it
# fmt: on

TALLEST = 160  # a face taller than this is shrunk first: its skin's median needs no more pixels
PERCENTILES = (20, 80)
DRAWN_IN = 0.06  # of the face's height
NEAR = 20.0  # of CIELAB: what is further from the person's own middle is hair, glasses or glare
COVERED = 25.0  # the same in an edit that shows the face in the same place; wider, to keep the same pixels
# What tells a mask or a hand over the face from sunglasses and hats, which leave enough skin to read: on heads and
# photographs a cover of nose and mouth leaves 0.25 to 0.5 of the skin, a hat more than 0.73, sunglasses about 0.7.
LEAST_LEFT, MOST_LEFT, LEAST_ALIKE = 0.65, 0.9, 0.1
LEFT_FREE = ((LEFT_EYE, 0.06), (RIGHT_EYE, 0.06), (LEFT_BROW, 0.04), (RIGHT_BROW, 0.04))


@dataclass(frozen=True, eq=False)
class Skin:
    """The part of the picture around a face, and which of its pixels are facial skin."""

    patch: Pixels  # shrunk where the face is tall
    mask: Mask
    middle: Mask  # nose and inner cheeks
    corners: tuple[int, int, int, int]  # left, top, right, bottom of the patch in the picture

    @property
    def colours(self) -> Pixels:
        return self.patch[self.mask]

    @cached_property
    def median(self) -> NDArray[np.float64]:
        """The median of L*, a*, b* over the pixels in the middle of L*: neither shadow nor highlight."""
        lab = srgb_to_lab(self.colours)
        low, high = np.percentile(lab[:, 0], PERCENTILES)
        return np.asarray(np.median(lab[(lab[:, 0] >= low) & (lab[:, 0] <= high)], axis=0), np.float64)

    def on(self, picture: Pixels, across: float, down: float) -> Skin:
        """The same skin in another picture of the same frame, whose pixels are `across` and `down` as many."""
        left, top, right, bottom = self.corners
        height, width = picture.shape[:2]
        low = np.clip([round(left * across), round(top * down)], 0, [width - 1, height - 1])
        high = np.clip([round(right * across), round(bottom * down)], low + 1, [width, height])
        corners = (int(low[0]), int(low[1]), int(high[0]), int(high[1]))
        patch = _patch(picture, corners, self.mask.shape)
        return Skin(patch, _like(patch, self.mask, self.middle, COVERED), self.middle, corners)

    def covers(self, source: Skin) -> bool:
        """Whether something lies over the skin of `source`: little of it is left, or its shading is gone."""
        left = self.mask.sum() / max(source.mask.sum(), 1)
        return bool(left < LEAST_LEFT or (left < MOST_LEFT and self._alike(source) < LEAST_ALIKE))

    def _alike(self, source: Skin) -> float:
        """How the light and shade of nose and cheeks go together in both, as a correlation."""
        blur = max(1.0, self.patch.shape[0] / 60)
        shades = [cv2.GaussianBlur(srgb_to_lab(one.patch)[..., 0], (0, 0), blur) for one in (self, source)]
        here, there = (shade[source.mask & source.middle] for shade in shades)
        if here.size < 2 or here.std() == 0 or there.std() == 0:
            return 0.0
        return float(np.corrcoef(here, there)[0, 1])

    def within(self, mask: Mask) -> Skin:
        """Only what `mask` has too; itself where that takes nothing away."""
        return self if mask.all(where=self.mask) else replace(self, mask=self.mask & mask)


def skin(picture: Pixels, mesh: Mesh) -> Skin:
    """The facial skin of one face."""
    height, width = picture.shape[:2]
    flat = mesh.points[:, :2]
    low = np.clip(np.floor(flat[OVAL].min(0)).astype(int), 0, [width - 1, height - 1])
    high = np.clip(np.ceil(flat[OVAL].max(0)).astype(int) + 1, low + 1, [width, height])
    scale = min(1.0, TALLEST / (high[1] - low[1]))
    shape = (max(1, round((high[1] - low[1]) * scale)), max(1, round((high[0] - low[0]) * scale)))
    corners = (int(low[0]), int(low[1]), int(high[0]), int(high[1]))
    patch = _patch(picture, corners, shape)
    points = ((flat - low) * scale).astype(np.float32)
    middle = _middle(shape, points)
    return Skin(patch, _like(patch, _oval(shape, points, mesh.height * scale), middle, NEAR), middle, corners)


def _patch(picture: Pixels, corners: tuple[int, int, int, int], shape: tuple[int, ...]) -> Pixels:
    """The part between the corners, at this height and width."""
    left, top, right, bottom = corners
    part = picture[top:bottom, left:right]
    if part.shape[:2] == shape:
        return part
    way = cv2.INTER_AREA if part.shape[0] > shape[0] else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(part, (shape[1], shape[0]), interpolation=way), np.uint8)


def _middle(shape: tuple[int, int], points: Points) -> Mask:
    """Nose and inner cheeks."""
    middle = np.zeros(shape, np.uint8)
    cv2.fillPoly(middle, [cv2.convexHull(_whole(points[MIDDLE]))], 1)
    return middle > 0


def _like(patch: Pixels, mask: Mask, middle: Mask, near: float) -> Mask:
    """The pixels of `mask` that are coloured like the middle of the same face."""
    if not (mask & middle).any():
        return mask
    lab = srgb_to_lab(patch[mask])
    away = lab - np.median(lab[middle[mask]], axis=0)
    like = mask.copy()
    like[mask] = np.einsum("pc,pc->p", away, away) < near * near
    return like


def _above(shape: tuple[int, int], one: Points, other: Points) -> Mask:
    """The side of the line through two points where the forehead is; `one` is the person's right."""
    down, right = np.mgrid[: shape[0], : shape[1]]
    (x1, y1), (x2, y2) = one, other
    return np.asarray((x2 - x1) * (down - y1) - (y2 - y1) * (right - x1) < 0)


def _oval(shape: tuple[int, int], points: Points, height: float) -> Mask:
    mask = np.zeros(shape, np.uint8)
    cv2.fillPoly(mask, [_whole(points[OVAL])], 1)
    brush = _brush(height * DRAWN_IN)
    skin = np.asarray(cv2.erode(mask, brush, borderType=cv2.BORDER_CONSTANT, borderValue=0), bool)
    skin &= _above(shape, points[MOUTH[0]], points[MOUTH[1]])
    for outline, margin in LEFT_FREE:
        hole = np.zeros(shape, np.uint8)
        cv2.fillPoly(hole, [cv2.convexHull(_whole(points[outline]))], 1)
        skin[cv2.dilate(hole, _brush(height * margin)) > 0] = False
    return skin


def _whole(points: Points) -> NDArray[np.int32]:
    return np.round(points).astype(np.int32)


def _brush(size: float) -> NDArray[np.uint8]:
    return np.ones((max(1, int(size)) | 1,) * 2, np.uint8)


def background(shape: tuple[int, int], box: Box) -> Mask:
    """What lies clear of the head in `box`, its hair and the body below it."""
    mask = np.ones(shape, bool)
    left, top, width, height = box
    sides = slice(_cut(left - 0.5 * width, shape[1]), _cut(left + 1.5 * width, shape[1]))
    mask[_cut(top - 0.45 * height, shape[0]) :, sides] = False
    below = _cut(top + 1.05 * height, shape[0])  # shoulders are wider than the head
    mask[below:] = False
    return mask


def _cut(value: float, most: int) -> int:
    return int(np.clip(value, 0, most))
