"""Where the upper body is in the picture: landmarks turned into measures, and the shirt's masks and light."""

from __future__ import annotations

import functools
import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from stillme.sources.heads import SIZE, Head
from stillme.sources.looks.layers import index

FLAT = 128  # the light of a shirt that is as bright as usual
LEANING = 0.12  # of half the shoulder width: what differs more from ordinary shoulders is hair over them

Mask = NDArray[np.bool_]
Levels = NDArray[np.uint8]


@dataclass(frozen=True)
class Torso:
    """Measures of one figure, in pixels. The neckline is the tailor's own, not the photographed shirt's."""

    x: float  # middle of the neck
    y: float  # front of an ordinary round neckline
    half: float  # half the shoulder width
    neck: float  # half the width of the neck
    base: float  # the height at which a shirt collar begins at the sides of the neck
    shoulder: tuple[float, ...]  # height of the shoulder line at the model's places, below y, in halves


def measure(head: Head) -> Torso:
    """Shirts of every neckline give the same measures: they hang on chin and shoulders."""
    points = head.points
    eyes = points["eye_right"][0] - points["eye_left"][0]
    left, right = points["shoulder_left"], points["shoulder_right"]
    x, half = points["collar"][0], max(90.0, (right[0] - left[0]) / 2)
    meets = min(points["neck_left"][1], points["neck_right"][1])
    chin, shoulder = points["chin"][1], (left[1] + right[1]) / 2
    base = min(max(meets, chin + 0.02 * half, shoulder - 0.34 * half), shoulder - 0.16 * half)
    y = max(base + 0.32 * half, chin + 0.26 * half)
    neck = (points["neck_right"][0] - points["neck_left"][0]) / 2
    shirt = head.cloth > 128
    ridge = np.where(shirt.any(0), np.argmax(shirt, 0), SIZE)
    heights = []
    for u, usual in index()["torso"]["shoulder"]:  # hair may hide one side, so both are looked at
        columns = [min(SIZE - 1, max(0, round(x + side * u * half))) for side in (-1, 1)]
        v = (ridge[columns].min() - y) / half
        heights.append(float(np.clip(v, usual - LEANING, usual + LEANING)))
    return Torso(
        x=x,
        y=y,
        half=half,
        neck=min(max(neck, 0.78 * eyes), 1.15 * eyes),
        base=(base - y) / half,
        shoulder=tuple(heights),
    )


class Figure:
    """What fitting needs to know of a head. Equal figures have one shape and shirt, in whatever skin."""

    def __init__(self, head: Head) -> None:
        self.head, self.shirt_light = head, shirt_light(head)
        masks = (self.shirt_light, head.figure, head.skin, head.hair, head.cloth)
        points = tuple((name, x, y) for name, (x, y) in head.points.items())
        self.key = (tuple(zlib.adler32(mask.data) for mask in masks), points)
        self.points = head.points

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Figure) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @functools.cached_property
    def torso(self) -> Torso:
        return measure(self.head)

    @functools.cached_property
    def front(self) -> Image.Image:
        """Where clothing may lie: on the figure, behind the hair."""
        return Image.fromarray((255 - self.head.hair) * (self.head.figure > 0))

    @functools.cached_property
    def shirt(self) -> Image.Image:
        """How much of each pixel of the figure is shirt.

        The shirt's mask is coarser than the figure's; along its rim, what is neither skin nor hair is shirt too.
        """
        head = self.head
        share = np.minimum(255, head.cloth.astype(np.uint16) * 255 // np.maximum(head.figure, 1)).astype(np.uint8)
        wide = share.copy()
        np.maximum(wide[1:], share[:-1], out=wide[1:])
        np.maximum(wide[:-1], share[1:], out=wide[:-1])
        tall = wide.copy()
        np.maximum(wide[:, 1:], tall[:, :-1], out=wide[:, 1:])
        np.maximum(wide[:, :-1], tall[:, 1:], out=wide[:, :-1])
        free = (255 - np.maximum(head.skin, head.hair)) * (head.figure > 0)
        return Image.fromarray(np.maximum(share, np.minimum(wide, free)))

    @functools.cached_property
    def folds(self) -> Levels:
        """How much lighter or darker than its typical self the shirt is (FLAT: as usual).

        Broad light and shade are kept; fine detail (stripes, buttons of the old shirt) mostly goes.
        """
        counts = np.bincount(self.shirt_light.ravel(), minlength=256)
        counts[0] = 0
        typical = int(np.searchsorted(np.cumsum(counts), counts.sum() / 2))
        ratio = np.clip((np.arange(256) + 14.0) / (typical + 14.0), 0.45, 1.5)
        ratio[0] = 1.0
        fine = Image.fromarray((ratio * FLAT).astype(np.uint8)[self.shirt_light])
        broad = fine.reduce(4).filter(ImageFilter.GaussianBlur(2)).resize(fine.size, Image.Resampling.BICUBIC)
        return np.asarray(Image.blend(broad, fine, 0.25))

    @functools.cached_property
    def light(self) -> NDArray[np.float32]:
        """The folds on the figure and nothing elsewhere, as a factor of levels of 0 to 255."""
        return np.asarray(self.folds * (self.head.figure / np.float32(FLAT * 255 * 255)), np.float32)

    def place(self, person: Image.Image, behind: Image.Image) -> Image.Image:
        """The figure in front of a place. Dividing its few soft pixels lets Pillow do the rest in one pass."""
        colours, soft = np.array(person), self._soft
        whole = colours[soft].astype(np.uint16) * 255 // self.head.figure[soft][:, None]
        colours[soft] = np.minimum(whole, 255)
        return Image.composite(Image.fromarray(colours), behind, Image.fromarray(self.head.figure))

    @functools.cached_property
    def _soft(self) -> tuple[NDArray[np.intp], ...]:
        return np.nonzero((self.head.figure > 0) & (self.head.figure < 255))


def shirt_light(head: Head) -> Levels:
    """Brightness of the shirt where nothing else is mixed in; 0 elsewhere. Skin never enters, so a person whose
    skin was changed wears the same garment."""
    shirt = (head.cloth > 200) & (head.skin == 0)
    top = int(np.argmax(shirt.any(1)))
    grey = np.asarray(Image.fromarray(head.rgb[top:]).convert("L"))
    light = np.zeros((SIZE, SIZE), np.uint8)
    light[top:] = np.maximum(grey, 1) * shirt[top:]
    return light


def figure_of(head: Head) -> Figure:
    return _kept(Figure(head))


@functools.lru_cache(maxsize=8)
def _kept(figure: Figure) -> Figure:
    """The first of equal figures, with what was worked out for it."""
    return figure
