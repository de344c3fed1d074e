"""Facial skin and background: where they are, the skin's colour, and how the light on the background changed.

The skin region is the part of the face's oval above the mouth (beards grow below it), without eyes and brows,
drawn in from the hair line. Hair or glasses over it are left out by their distance from the colour of the same
person's nose and cheeks. No colour counts as skin in itself: that would decide beforehand whose skin is skin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from stillme.core.colour import delta_e_2000, srgb_to_lab
from stillme.core.images import Pixels
from stillme.measures.faces import Box, Mesh, Points

Mask = NDArray[np.bool_]
Floats = NDArray[np.float32]
Curve = Callable[[NDArray[np.floating]], NDArray[np.floating]]

# Indices of the mesh's points, in the order of the outline.
# fmt: off
OVAL = [10, 338, 297, 332, 284, 251, 389, 356, 454, 323, 361, 288, 397, 365, 379, 378, 400, 377, 152, 148, 176,
        149, 150, 136, 172, 58, 132, 93, 234, 127, 162, 21, 54, 103, 67, 109]
LEFT_EYE = [263, 249, 390, 373, 374, 380, 381, 382, 362, 398, 384, 385, 386, 387, 388, 466]
RIGHT_EYE = [33, 7, 163, 144, 145, 153, 154, 155, 133, 173, 157, 158, 159, 160, 161, 246]
LEFT_BROW = [276, 283, 282, 295, 285, 300, 293, 334, 296, 336]
RIGHT_BROW = [46, 53, 52, 65, 55, 70, 63, 105, 66, 107]
NOSE_AND_CHEEKS = [168, 50, 205, 425, 280]
MOUTH = (205, 425)  # a line just above it
# fmt: on

MAX_PATCH_HEIGHT = 160  # pixels; a taller face is shrunk first: its skin's median needs no more pixels
MEDIAN_PERCENTILES = (20, 80)  # of L*: neither shadow nor highlight
DRAWN_IN = 0.06  # of the face's height
NEAR = 20.0  # of CIELAB: what is further from the person's own middle is hair, glasses or glare
COVERED = 25.0  # the same in an edit that shows the face in the same place; wider, to keep the same pixels
# What tells a mask or a hand over the face from sunglasses and hats, which leave enough skin to read: on heads and
# photographs a cover of nose and mouth leaves 0.25 to 0.5 of the skin, a hat more than 0.73, sunglasses about 0.7.
COVERED_BELOW, UNCOVERED_ABOVE = 0.65, 0.9  # share of the skin that is left
MIN_SHADING_CORRELATION = 0.1  # between the two shares: less than this is another surface
# Outlines without skin, each with the margin around it in face heights.
HOLES = ((LEFT_EYE, 0.06), (RIGHT_EYE, 0.06), (LEFT_BROW, 0.04), (RIGHT_BROW, 0.04))


@dataclass(frozen=True, eq=False)
class Skin:
    """The part of the picture around a face, and which of its pixels are facial skin."""

    patch: Pixels  # shrunk where the face is tall
    mask: Mask
    nose_and_cheeks: Mask
    corners: tuple[int, int, int, int]  # left, top, right, bottom of the patch in the picture

    @property
    def colours(self) -> Pixels:
        return self.patch[self.mask]

    @cached_property
    def median(self) -> NDArray[np.float64]:
        """The median of L*, a*, b* over the pixels in the middle of L*: neither shadow nor highlight."""
        lab = srgb_to_lab(self.colours)
        low, high = np.percentile(lab[:, 0], MEDIAN_PERCENTILES)
        return np.asarray(np.median(lab[(lab[:, 0] >= low) & (lab[:, 0] <= high)], axis=0), np.float64)

    def on(self, picture: Pixels, across: float, down: float) -> Skin:
        """The same skin in another picture of the same frame, whose pixels are `across` and `down` as many."""
        left, top, right, bottom = self.corners
        height, width = picture.shape[:2]
        low = np.clip([round(left * across), round(top * down)], 0, [width - 1, height - 1])
        high = np.clip([round(right * across), round(bottom * down)], low + 1, [width, height])
        corners = (int(low[0]), int(low[1]), int(high[0]), int(high[1]))
        patch = _cut_patch(picture, corners, self.mask.shape)
        mask = _keep_similar(patch, self.mask, self.nose_and_cheeks, COVERED)
        return Skin(patch=patch, mask=mask, nose_and_cheeks=self.nose_and_cheeks, corners=corners)

    def covers(self, source: Skin) -> bool:
        """Whether something lies over the skin of `source`: little of it is left, or its shading is gone."""
        share = self.mask.sum() / max(source.mask.sum(), 1)
        if share < COVERED_BELOW:
            return True
        return bool(share < UNCOVERED_ABOVE and self._shading_correlation(source) < MIN_SHADING_CORRELATION)

    def _shading_correlation(self, source: Skin) -> float:
        """How the light and shade of nose and cheeks go together in both."""
        sigma = max(1.0, self.patch.shape[0] / 60)
        shades = [cv2.GaussianBlur(srgb_to_lab(skin.patch)[..., 0], (0, 0), sigma) for skin in (self, source)]
        here, there = (shade[source.mask & source.nose_and_cheeks] for shade in shades)
        if here.size < 2 or here.std() == 0 or there.std() == 0:
            return 0.0
        return float(np.corrcoef(here, there)[0, 1])

    def within(self, mask: Mask) -> Skin:
        """Only what `mask` has too; itself where that takes nothing away."""
        return self if mask.all(where=self.mask) else replace(self, mask=self.mask & mask)

    def full_mask(self, shape: tuple[int, ...]) -> Mask:
        """The skin in the pixels of the whole picture of this shape."""
        left, top, right, bottom = self.corners
        size = (right - left, bottom - top)
        mask = np.zeros(shape, bool)
        part = cv2.resize(self.mask.astype(np.uint8), size, interpolation=cv2.INTER_NEAREST)
        mask[top:bottom, left:right] = np.asarray(part) > 0
        return mask


def skin(picture: Pixels, mesh: Mesh) -> Skin:
    """The facial skin of one face."""
    height, width = picture.shape[:2]
    flat = mesh.points[:, :2]
    low = np.clip(np.floor(flat[OVAL].min(0)).astype(int), 0, [width - 1, height - 1])
    high = np.clip(np.ceil(flat[OVAL].max(0)).astype(int) + 1, low + 1, [width, height])
    scale = min(1.0, MAX_PATCH_HEIGHT / (high[1] - low[1]))
    shape = (max(1, round((high[1] - low[1]) * scale)), max(1, round((high[0] - low[0]) * scale)))
    corners = (int(low[0]), int(low[1]), int(high[0]), int(high[1]))
    patch = _cut_patch(picture, corners, shape)
    points = ((flat - low) * scale).astype(np.float32)
    middle = np.zeros(shape, np.uint8)
    cv2.fillPoly(middle, [cv2.convexHull(_rounded(points[NOSE_AND_CHEEKS]))], 1)
    mask = _keep_similar(patch, _skin_mask(shape, points, mesh.height * scale), middle > 0, NEAR)
    return Skin(patch=patch, mask=mask, nose_and_cheeks=middle > 0, corners=corners)


def _cut_patch(picture: Pixels, corners: tuple[int, int, int, int], shape: tuple[int, ...]) -> Pixels:
    """The part between the corners, at this height and width."""
    left, top, right, bottom = corners
    part = picture[top:bottom, left:right]
    if part.shape[:2] == shape:
        return part
    interpolation = cv2.INTER_AREA if part.shape[0] > shape[0] else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(part, (shape[1], shape[0]), interpolation=interpolation), np.uint8)


def _keep_similar(patch: Pixels, mask: Mask, nose_and_cheeks: Mask, max_distance: float) -> Mask:
    """The pixels of `mask` that are coloured like nose and cheeks of the same face."""
    if not (mask & nose_and_cheeks).any():
        return mask
    lab = srgb_to_lab(patch[mask])
    offset = lab - np.median(lab[nose_and_cheeks[mask]], axis=0)
    similar = mask.copy()
    similar[mask] = np.einsum("pc,pc->p", offset, offset) < max_distance * max_distance
    return similar


def _skin_mask(shape: tuple[int, int], points: Points, height: float) -> Mask:
    """The face's oval above the mouth, drawn in, without eyes and brows."""
    oval = np.zeros(shape, np.uint8)
    cv2.fillPoly(oval, [_rounded(points[OVAL])], 1)
    mask = np.asarray(
        cv2.erode(oval, _brush(height * DRAWN_IN), borderType=cv2.BORDER_CONSTANT, borderValue=0), bool
    )
    mask &= side_of_line(shape, points[MOUTH[0]], points[MOUTH[1]]) < 0  # the side where the forehead is
    for outline, margin in HOLES:
        hole = np.zeros(shape, np.uint8)
        cv2.fillPoly(hole, [cv2.convexHull(_rounded(points[outline]))], 1)
        mask[cv2.dilate(hole, _brush(height * margin)) > 0] = False
    return mask


def side_of_line(shape: tuple[int, int], start: Points, end: Points) -> NDArray[np.floating]:
    """For each pixel, below 0 on one side of the line from `start` to `end` and above 0 on the other."""
    down, across = np.mgrid[: shape[0], : shape[1]]
    (x1, y1), (x2, y2) = start, end
    return np.asarray((x2 - x1) * (down - y1) - (y2 - y1) * (across - x1))


def _rounded(points: Points) -> NDArray[np.int32]:
    return np.round(points).astype(np.int32)


def _brush(size: float) -> NDArray[np.uint8]:
    return np.ones((max(1, int(size)) | 1,) * 2, np.uint8)


# The Monk Skin Tone scale's ten swatches.
MONK = ("f6ede4", "f3e7db", "f7ead0", "eadaba", "d7bd96", "a07e56", "825c43", "604134", "3a312a", "292420")
_MONK_LAB = srgb_to_lab(np.array([list(bytes.fromhex(swatch)) for swatch in MONK], np.uint8))


class Limits(Protocol):
    """What counts as measurable; the settings of skin_tone_shift."""

    @property
    def least_height(self) -> int: ...
    @property
    def least_pixels(self) -> int: ...
    @property
    def most_turned(self) -> float: ...


@dataclass(frozen=True)
class Tone:
    """The colour of one person's facial skin: the median of its middle."""

    region: Skin

    @property
    def lab(self) -> NDArray[np.float64]:
        return self.region.median

    @property
    def lightness(self) -> float:
        return float(self.lab[0])

    @property
    def pixels(self) -> int:
        return int(self.region.mask.sum())

    @property
    def monk(self) -> int:
        """The nearest of ten swatches. Description only: a photograph's light decides it as much as the skin."""
        return int(delta_e_2000(_MONK_LAB, self.lab[None]).argmin()) + 1

    @property
    def rgb(self) -> tuple[int, int, int]:
        """The colour as a screen shows it, for swatches: the mean of the pixels nearest to it."""
        colours = self.region.colours
        nearest = np.abs(srgb_to_lab(colours) - self.lab).sum(-1).argsort(kind="stable")[:25]
        red, green, blue = colours[nearest].mean(0).round().astype(int)
        return int(red), int(green), int(blue)


# The background. Where it is the same in both pictures, a change of light moves it as much as the skin.

BINS = 12  # of the background's lightness, for the curve that a change of light follows
READABLE_LIGHTNESS = (4, 97)  # L* that is neither crushed nor blown out
MAX_EXTRAPOLATION = 20  # L*: further than this from the background's own lightness the curve is not trusted
POWERS = (0.6, 1.7)  # of L*: what exposure and gamma do to a photograph lies well within
SMALL_SHIFT = 1.0  # L*: so little light is taken off whatever else is seen
DETAIL_SIGMA, MIN_DETAIL, SAME_DETAIL = 3.0, 2.5, 0.8  # pixels; L*, standard deviation; correlation
SHARED = 0.9  # hair and clothes share a light that leaves them no more than this part of their change
PARTS = 4  # the picture is cut into PARTS × PARTS, each of which must have changed as the whole
MIN_PART_FILLED = 0.12  # of a part: with less background than this it is not looked at
MIN_RANGE = 0.05  # of ln L*: a background more even than this shows no curve


def background(shape: tuple[int, int], box: Box) -> Mask:
    """What lies clear of the head in `box`, its hair and the body below it."""
    height, width = shape
    left, top, wide, tall = box
    mask = np.ones(shape, bool)
    sides = slice(_index(left - 0.5 * wide, width), _index(left + 1.5 * wide, width))
    mask[_index(top - 0.45 * tall, height) :, sides] = False
    mask[_index(top + 1.05 * tall, height) :] = False  # shoulders are wider than the head
    return mask


def _index(value: float, length: int) -> int:
    return int(np.clip(value, 0, length))


@dataclass(frozen=True)
class Light:
    """How far light moved the skin's lightness to judge by the background, and how much of the picture says so.

    `spread`: how far the background is from a change of light alone; at least the shift itself where neither its
    detail nor hair and clothes confirm that it is the same one.
    """

    shift: float
    spread: float
    share: float


def light(before: Floats, after: Floats, boxes: tuple[Box, Box], lightness: float) -> Light | None:
    """From two L* maps of one size, with the faces' boxes in their pixels. None where no background is seen."""
    shape = (before.shape[0], before.shape[1])
    free = background(shape, boxes[0]) & background(shape, boxes[1])
    if not free.any():
        return None
    fits = [(curve, _misfit(after - curve(before), free)) for curve in _light_curves(before[free], after[free])]
    curve, spread = min(fits, key=lambda fit: fit[1])
    darkest, lightest = np.percentile(before[free], (5, 95))
    level = np.clip(np.array([lightness]), darkest - MAX_EXTRAPOLATION, lightest + MAX_EXTRAPOLATION)
    shift = float((curve(level) - level)[0])
    background_shift = float(np.median((after - before)[free]))
    if abs(background_shift) > 1 and shift * background_shift < 0:
        # Light that darkens the background does not lighten skin: the curve was not to be trusted that far.
        shift = background_shift
    is_same = _keeps_detail(before, after, free) or _shares_light(before, after, curve, _body(shape, boxes))
    if abs(shift) > SMALL_SHIFT and not is_same:
        spread = max(spread, abs(shift))
    return Light(shift, spread, float(free.mean()))


def _keeps_detail(before: Floats, after: Floats, free: Mask) -> bool:
    """Whether the background has detail, and has it still: then it is the same one, however light."""
    fine = [(levels - cv2.GaussianBlur(levels, (0, 0), DETAIL_SIGMA))[free] for levels in (before, after)]
    if min(detail.std() for detail in fine) < MIN_DETAIL:
        return False
    return bool(np.corrcoef(fine[0], fine[1])[0, 1] > SAME_DETAIL)


def _body(shape: tuple[int, int], boxes: tuple[Box, Box]) -> Mask:
    """Hair right above the face and clothes right below it, in both pictures."""
    body = np.ones(shape, bool)
    for left, top, width, height in boxes:
        person = np.zeros(shape, bool)
        sides = slice(max(0, int(left)), max(0, int(left + width)))
        person[max(0, int(top - 0.15 * height)) : max(0, int(top)), sides] = True
        person[max(0, int(top + 1.15 * height)) :, sides] = True
        body &= person
    return body


def _shares_light(before: Floats, after: Floats, curve: Curve, body: Mask) -> bool:
    """Whether hair and clothes moved as the background's change of light says.

    A plain wall that became lighter may be another wall. Light would have fallen on hair and clothes too.
    """
    if not body.any():
        return False
    residual = float(np.median(np.abs(after - curve(before))[body]))
    return residual < SHARED * float(np.median(np.abs(after - before)[body]))


def _misfit(residual: NDArray[np.floating], free: Mask) -> float:
    """How far the background is from a change of light alone: overall (75th percentile), or in its worst part.

    A background that was repainted, or only shines through, may fit a curve on the whole but not everywhere.
    """
    step = max(1, residual.shape[0] // PARTS)
    corners = [
        (row, column) for row in range(0, residual.shape[0], step) for column in range(0, residual.shape[1], step)
    ]
    parts = [np.s_[row : row + step, column : column + step] for row, column in corners]
    medians = [
        abs(float(np.median(residual[part][free[part]]))) for part in parts if free[part].mean() > MIN_PART_FILLED
    ]
    return max(float(np.percentile(np.abs(residual[free]), 75)), *medians, 0.0)


def _light_curves(before: Floats, after: Floats) -> Iterator[Curve]:
    """What a change of light may make of each lightness; the background decides which of the two fits.

    L*' = L* + c, and L*' = a · L*^b as exposure and gamma do, fitted through the medians of the background's bins.
    An even background shows no curve: then every lightness is taken to move as much as it did. A power that no
    light has means that the background was replaced.
    """
    constant = float(np.median(after - before))
    yield lambda lightness: lightness + constant
    low, high = READABLE_LIGHTNESS
    readable = (before > low) & (before < high) & (after > low) & (after < high)
    x, y = np.log(before[readable]), np.log(after[readable])
    if x.size >= BINS * BINS and np.ptp(np.percentile(x, (5, 95))) >= MIN_RANGE:
        bins = np.digitize(x, np.quantile(x, np.linspace(0, 1, BINS + 1)[1:-1]))  # equally many pixels in each
        medians = [(np.median(x[bins == n]), np.median(y[bins == n])) for n in np.unique(bins)]
        points = np.array(medians, np.float32)
        power, scale = np.polyfit(points[:, 0], points[:, 1], 1)
        if POWERS[0] < power < POWERS[1]:
            yield lambda lightness: np.asarray(np.exp(scale) * np.maximum(lightness, 1) ** power)
