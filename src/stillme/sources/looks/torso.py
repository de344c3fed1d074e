"""Where the upper body is in the picture: landmarks turned into a tailor's measures.

`at(u, v)`: u = -1 and 1 are the shoulders, v counts down from the front of the neckline, both in half
shoulder widths; so one drawing fits every head.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from stillme.sources.heads import SIZE, Head
from stillme.sources.looks.bounded import Bounded
from stillme.sources.looks.brush import FLAT, Point, Stamp, curve, ellipse, faded, line_stamp, stamp, trimmed


@dataclass(frozen=True, eq=False)
class Torso:
    """Measures of one figure, in pixels. The neckline is the tailor's own, not the photographed shirt's."""

    x: float  # middle of the neck
    y: float  # front of an ordinary round neckline
    half: float  # half the shoulder width
    neck: float  # half the width of the neck
    base: float  # the height at which a shirt collar begins at the sides of the neck
    eyes: float  # distance between the eyes
    ridge: NDArray[np.int64]  # for every column, the row where the clothing begins

    def at(self, u: float, v: float) -> Point:
        return self.x + u * self.half, self.y + v * self.half

    def throat(self, sign: int) -> Point:
        """The left (-1) or right (1) side of the neck where a shirt collar begins."""
        return self.x + sign * self.neck, self.base

    def side(self, sign: int) -> Point:
        """Half-way along the shoulder, where straps lie."""
        x = self.x + sign * max(0.5 * self.half, 1.15 * self.neck)
        return x, self.top(x)

    def top(self, x: float) -> float:
        """The shoulder line above x; hair may hide one side, so both are asked."""
        here, there = (min(SIZE - 1, max(0, round(v))) for v in (x, 2 * self.x - x))
        return float(min(self.ridge[here], self.ridge[there]))


def measure(head: Head) -> Torso:
    """Shirts of every neckline give the same measures: they hang on chin and shoulders."""
    points = head.points
    eyes = points["eye_right"][0] - points["eye_left"][0]
    left, right = points["shoulder_left"], points["shoulder_right"]
    half = max(90.0, (right[0] - left[0]) / 2)
    meets = min(points["neck_left"][1], points["neck_right"][1])
    chin, shoulder = points["chin"][1], (left[1] + right[1]) / 2
    base = min(max(meets, chin + 0.02 * half, shoulder - 0.34 * half), shoulder - 0.16 * half)
    neck = (points["neck_right"][0] - points["neck_left"][0]) / 2
    return Torso(
        x=points["collar"][0],
        y=max(base + 0.32 * half, chin + 0.26 * half),
        half=half,
        neck=min(max(neck, 0.78 * eyes), 1.15 * eyes),
        base=base,
        eyes=eyes,
        ridge=np.where((head.cloth > 128).any(0), np.argmax(head.cloth > 128, 0), SIZE),
    )


def open_front(head: Head) -> Image.Image:
    """Where clothing may be painted: on the figure, behind the hair."""
    free = (255 - head.hair) * (head.figure > 0)
    return Image.fromarray(free.astype(np.uint8))


def shirt_share(head: Head) -> Image.Image:
    """How much of each pixel of the figure is shirt.

    The shirt's mask is coarser than the figure's; along its rim, what is neither skin nor hair is shirt too.
    """
    share = np.minimum(255, head.cloth.astype(np.uint16) * 255 // np.maximum(head.figure, 1)).astype(np.uint8)
    wide = share.copy()
    np.maximum(wide[1:], share[:-1], out=wide[1:])
    np.maximum(wide[:-1], share[1:], out=wide[:-1])
    tall = wide.copy()
    np.maximum(wide[:, 1:], tall[:, :-1], out=wide[:, 1:])
    np.maximum(wide[:, :-1], tall[:, 1:], out=wide[:, :-1])
    free = (255 - np.maximum(head.skin, head.hair)) * (head.figure > 0)
    return Image.fromarray(np.maximum(share, np.minimum(wide, free)).astype(np.uint8))


def shirt_light(head: Head) -> NDArray[np.uint8]:
    """Brightness of the shirt where nothing else is mixed in; 0 elsewhere. Skin never enters, so a person whose
    skin was changed wears the very same garment."""
    shirt = (head.cloth > 200) & (head.skin == 0)
    top = int(np.argmax(shirt.any(1)))
    grey = np.asarray(Image.fromarray(head.rgb[top:]).convert("L"))
    light = np.zeros((SIZE, SIZE), np.uint8)
    light[top:] = np.maximum(grey, 1) * shirt[top:]
    return light


class Figure:
    """What painters need to know of a head: worked out once per shape, whatever the skin's colour."""

    def __init__(self, head: Head, key: Hashable, light: NDArray[np.uint8]) -> None:
        self.key = key
        self.points = head.points
        self.torso = measure(head)
        self.front = open_front(head)
        self.folds = folds(light)
        self.shirt = trimmed(shirt_share(head))
        self.outline = Image.fromarray(head.figure)
        self.soft = np.nonzero((head.figure > 0) & (head.figure < 255))
        self.share = head.figure[self.soft][:, None]  # how much of each soft pixel is figure

    @functools.cached_property
    def drape(self) -> Stamp | None:
        """Where cloth folds from armpits and shoulders."""
        at, made = self.torso.at, Image.new("L", (SIZE, SIZE))
        for s in (-1, 1):
            _add(made, [at(s * 0.80, 0.02), at(s * 0.74, 0.3), at(s * 0.76, 0.7)], 3.0, 2.5, 1.0)
            _add(made, [at(s * 0.70, 0.5), at(s * 0.56, 0.34), at(s * 0.46, 0.3)], 5.0, 4.0, 0.85)
            _add(made, [at(s * 0.92, 0.42), at(s * 0.99, 0.3), at(s * 1.1, 0.26)], 5.0, 4.0, 0.85)
        _add(made, [at(-0.16, 0.36), at(-0.05, 0.5), at(-0.04, 0.7)], 4.0, 4.0, 0.6)
        return trimmed(made)

    @functools.cached_property
    def seams(self) -> Stamp | None:
        at, made = self.torso.at, Image.new("L", (SIZE, SIZE))
        for s in (-1, 1):
            _add(made, [at(s * 0.79, -0.3), at(s * 0.80, 0.05), at(s * 0.72, 0.6)], 1.6, 0.0, 0.8)
        return trimmed(made)

    @functools.cached_property
    def chin_shade(self) -> Stamp | None:
        """Where the head keeps light off the collar."""
        t = self.torso
        return stamp(ellipse((t.x, t.y - 0.16 * t.half), t.neck * 1.15, 0.2 * t.half), 9.0)


def _add(made: Image.Image, points: list[Point], width: float, soft: float, share: float) -> None:
    drawn = line_stamp(curve(*points), width, soft)
    if drawn is not None:
        made.paste(255, drawn[1], faded(drawn[0], share))


_figures: Bounded[Figure] = Bounded(8)


def figure_of(head: Head) -> Figure:
    light = shirt_light(head)
    sums = tuple(zlib.adler32(a.data) for a in (light, head.figure, head.skin, head.hair, head.cloth))
    key = (sums, tuple((name, x, y) for name, (x, y) in head.points.items()))
    return _figures.get(key, lambda: Figure(head, key, light))


def folds(light: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """How much lighter or darker than its typical self the shirt is (FLAT: as usual).

    Broad light and shade are kept; fine detail (stripes, buttons of the old shirt) mostly goes.
    """
    counts = np.bincount(light.ravel(), minlength=256)
    counts[0] = 0
    typical = int(np.searchsorted(np.cumsum(counts), counts.sum() / 2))
    ratio = np.clip((np.arange(256) + 14.0) / (typical + 14.0), 0.45, 1.5)
    ratio[0] = 1.0
    fine = Image.fromarray((ratio * FLAT).astype(np.uint8)[light])
    broad = fine.reduce(4).filter(ImageFilter.GaussianBlur(2)).resize(fine.size, Image.Resampling.BICUBIC)
    return np.asarray(Image.blend(broad, fine, 0.25))
