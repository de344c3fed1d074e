"""The colour of facial skin in one picture, and how the light on the background changed between two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from stillme.core import colour
from stillme.measures.faces import Box
from stillme.measures.regions import Mask, Skin, background

Floats = NDArray[np.float32]
Curve = Callable[[NDArray[np.floating]], NDArray[np.floating]]

BINS = 12  # of the background's lightness, for the curve that a change of light follows
SEEN = (4, 97)  # L* that is neither crushed nor blown out
BEYOND = 20  # L*: further than this from the background's own lightness the curve is not trusted
POWERS = (0.6, 1.7)  # of L*: what exposure and gamma do to a photograph lies well within
SMALL_SHIFT = 1.0  # L*: so little light is taken off whatever else is seen
FINE, LEAST_DETAIL, SAME_DETAIL = 3.0, 2.5, 0.8  # pixels; L*, standard deviation; correlation
SHARED = 0.9  # hair and clothes share a light that leaves them no more than this part of their change
PARTS = 4  # the picture is cut into PARTS × PARTS, each of which must have changed as the whole
FILLED = 0.12  # of a part: with less background than this it is not looked at
LEAST_RANGE = 0.05  # of ln L*: a background more even than this shows no curve

# The Monk Skin Tone scale's ten swatches.
MONK = ("f6ede4", "f3e7db", "f7ead0", "eadaba", "d7bd96", "a07e56", "825c43", "604134", "3a312a", "292420")
_MONK_LAB = colour.srgb_to_lab(np.array([list(bytes.fromhex(swatch)) for swatch in MONK], np.uint8))


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
        return int(colour.delta_e_2000(_MONK_LAB, self.lab[None]).argmin()) + 1

    @property
    def rgb(self) -> tuple[int, int, int]:
        """The colour as a screen shows it, for swatches: the mean of the pixels nearest to it."""
        colours = self.region.colours
        near = np.abs(colour.srgb_to_lab(colours) - self.lab).sum(-1).argsort(kind="stable")[:25]
        red, green, blue = colours[near].mean(0).round().astype(int)
        return int(red), int(green), int(blue)


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
    share = float(free.mean())
    if not free.any():
        return None
    curves = _curves(before[free], after[free])
    fits, spread = min(((one, _misfit(after - one(before), free)) for one in curves), key=lambda pair: pair[1])
    darkest, lightest = np.percentile(before[free], (5, 95))
    where = np.clip(np.array([lightness]), darkest - BEYOND, lightest + BEYOND)
    shift = _same_way(float((fits(where) - where)[0]), float(np.median((after - before)[free])))
    known = _detail_kept(before, after, free) or _shared(before, after, fits, _body(shape, boxes))
    if abs(shift) > SMALL_SHIFT and not known:
        spread = max(spread, abs(shift))
    return Light(shift, spread, share)


def _detail_kept(before: Floats, after: Floats, free: Mask) -> bool:
    """Whether the background has detail, and has it still: then it is the same one, however light."""
    fine = [(one - cv2.GaussianBlur(one, (0, 0), FINE))[free] for one in (before, after)]
    if min(one.std() for one in fine) < LEAST_DETAIL:
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


def _shared(before: Floats, after: Floats, lit: Curve, body: Mask) -> bool:
    """Whether hair and clothes moved as the background's change of light says.

    A plain wall that became lighter may be another wall. Light would have fallen on hair and clothes too.
    """
    if not body.any():
        return False
    left = float(np.median(np.abs(after - lit(before))[body]))
    return left < SHARED * float(np.median(np.abs(after - before)[body]))


def _same_way(shift: float, background: float) -> float:
    """Light that darkens the background does not lighten skin: then the curve was not to be trusted that far."""
    return background if abs(background) > 1 and shift * background < 0 else shift


def _misfit(residual: NDArray[np.floating], free: Mask) -> float:
    """How far the background is from a change of light alone: overall (75th percentile), or in its worst part.

    A background that was painted anew, or only shines through, may fit a curve on the whole but not everywhere.
    """
    step = max(1, residual.shape[0] // PARTS)
    corners = [
        (row, column) for row in range(0, residual.shape[0], step) for column in range(0, residual.shape[1], step)
    ]
    cut = [np.s_[row : row + step, column : column + step] for row, column in corners]
    parts = [abs(float(np.median(residual[one][free[one]]))) for one in cut if free[one].mean() > FILLED]
    return max(float(np.percentile(np.abs(residual[free]), 75)), *parts, 0.0)


def _curves(level: Floats, now: Floats) -> Iterator[Curve]:
    """What a change of light may make of each lightness; the background decides which of the two fits.

    L*' = L* + c, and L*' = a · L*^b as exposure and gamma do, fitted through the medians of the background's bins.
    An even background shows no curve: then every lightness is taken to move as much as it did. A power that no
    light has means that the background was replaced.
    """
    constant = float(np.median(now - level))
    yield lambda lightness: lightness + constant
    seen = (level > SEEN[0]) & (level < SEEN[1]) & (now > SEEN[0]) & (now < SEEN[1])
    x, y = np.log(level[seen]), np.log(now[seen])
    if x.size >= BINS * BINS and np.ptp(np.percentile(x, (5, 95))) >= LEAST_RANGE:
        power, scale = np.polyfit(*_middles(x, y), 1)
        if POWERS[0] < power < POWERS[1]:
            yield lambda lightness: np.asarray(np.exp(scale) * np.maximum(lightness, 1) ** power)


def _middles(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """The medians of both in bins of x with equally many pixels."""
    bins = np.digitize(x, np.quantile(x, np.linspace(0, 1, BINS + 1)[1:-1]))
    found = [(np.median(x[bins == n]), np.median(y[bins == n])) for n in np.unique(bins)]
    middles = np.array(found, np.float32)
    return middles[:, 0], middles[:, 1]
