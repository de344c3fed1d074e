"""What changes on the head itself: greyer hair, faint healed lines, a stoop. Skin tone never does."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from stillme.sources.heads import SIZE, Head
from stillme.sources.looks.figure import Figure, Mask, figure_of
from stillme.sources.looks.fit import Array, mesh, on_face, warp
from stillme.sources.looks.layers import read_layer

Point = tuple[float, float]
Marker = Callable[[Head, float], tuple[NDArray[np.uint8], Mask]]

WHOLE_SKIN = 229  # mask values above this are skin and nothing else

MARGIN, STRIP = 32, 24  # pixels, of the stoop: more than anything moves in from outside; rows of one slope
Tone = tuple[float, tuple[float, float, float]]  # factor and addition to a level, chosen by eye on every skin tone
PALE: Tone = (1.06, (34, 24, 24))
EDGE: Tone = (0.86, (4, -3, -3))
GREY = np.array((178, 178, 176), np.float32)


def grey_hair(head: Head, strength: float) -> tuple[NDArray[np.uint8], Mask]:
    """Most of the way to grey; strands keep their light and shade."""
    rows, columns = _area(head.hair > 0)
    rgb = head.rgb.copy()
    part = rgb[rows, columns].astype(np.float32)
    hair = head.hair[rows, columns].astype(np.float32) / 255
    light = part @ np.array((0.3, 0.59, 0.11), np.float32)
    typical = float(np.median(light[hair > 0.8])) if (hair > 0.8).any() else 60.0
    tone = np.clip((light + 25) / (typical + 25), 0.45, 1.45) * (head.figure[rows, columns] / np.float32(255))
    share = (0.72 * strength * hair)[..., None]
    rgb[rows, columns] = np.clip(part * (1 - share) + tone[..., None] * GREY * share, 0, 255).astype(np.uint8)
    return rgb, np.zeros((SIZE, SIZE), np.bool_)


def _area(where: Mask) -> tuple[slice, slice]:
    ys, xs = np.flatnonzero(where.any(1)), np.flatnonzero(where.any(0))
    if not ys.size:
        return slice(0, 0), slice(0, 0)
    return slice(int(ys[0]), int(ys[-1]) + 1), slice(int(xs[0]), int(xs[-1]) + 1)


def healed_scars(head: Head, strength: float) -> tuple[NDArray[np.uint8], Mask]:
    """Old lines, paler than the skin around them and softly edged: cheek, brow and chin."""
    lines = warp(read_layer("marks/healed_scars", "RGB"), on_face(head.points))
    rows, columns = _area(np.asarray(lines).max(-1) > 0)
    pale, edge, _ = np.moveaxis(np.asarray(lines)[rows, columns].astype(np.float32) / 255, -1, 0)
    rgb, touched = head.rgb.copy(), np.zeros((SIZE, SIZE), np.bool_)
    part = rgb[rows, columns].astype(np.float32)
    for weight, (gain, lift) in ((edge * 0.9 * strength, EDGE), (pale * strength, PALE)):
        part += (part * (gain - 1) + np.array(lift, np.float32)) * weight[..., None]
    touched[rows, columns] = (pale > 0) | (edge > 0)
    rgb[rows, columns] = np.clip(part + 0.5, 0, 255).astype(np.uint8)
    return rgb, touched


MARKS: Mapping[str, Marker] = {"grey_hair": grey_hair, "healed_scars": healed_scars}


def stooped(head: Head, strength: float) -> Head:
    """The head sunk toward the shoulders, tilted and a little smaller; shoulders stay in the frame.

    Skin pixels are picked, not interpolated, so each still has a value of the head's own.
    """
    return _stoop(figure_of(head), strength).worn_by(head)


@functools.lru_cache(maxsize=8)
def _stoop(figure: Figure, strength: float) -> _Stoop:
    return _Stoop(figure.head, strength)


class _Stoop:
    """Masks and landmarks after the stoop; they do not depend on the skin's colour."""

    def __init__(self, head: Head, strength: float) -> None:
        bend = _Bend(head, strength)
        self.mesh = mesh(bend.back, (0, SIZE), range(0, SIZE + 1, STRIP))
        self.points = {name: bend.forward(point) for name, point in head.points.items()}
        # CMYK, because Pillow would take a fourth channel of RGBA for opacity
        sheet = [Image.fromarray(mask) for mask in (head.figure, head.skin, head.hair, head.cloth)]
        masks = Image.merge("CMYK", sheet)
        picked, smooth = (self._warp(masks, smooth=smooth) for smooth in (False, True))
        whole = picked[..., 1] > WHOLE_SKIN
        self.whole = Image.fromarray(whole)
        self.figure = np.where(whole, picked[..., 0], smooth[..., 0])
        self.skin = np.where(whole, picked[..., 1], np.minimum(smooth[..., 1], WHOLE_SKIN))
        self.hair, self.cloth = smooth[..., 2].copy(), smooth[..., 3].copy()

    def worn_by(self, head: Head) -> Head:
        colours = Image.fromarray(head.rgb)
        rgb = Image.fromarray(self._warp(colours, smooth=True))
        rgb.paste(Image.fromarray(self._warp(colours, smooth=False)), (0, 0), self.whole)
        return dataclasses.replace(
            head,
            rgb=np.asarray(rgb),
            figure=self.figure,
            skin=self.skin,
            hair=self.hair,
            cloth=self.cloth,
            points=self.points,
        )

    def _warp(self, image: Image.Image, *, smooth: bool) -> NDArray[np.uint8]:
        """Edge pixels are repeated around the picture first: what moves in from outside looks like the edge."""
        how = Image.Resampling.BILINEAR if smooth else Image.Resampling.NEAREST
        bands = [Image.fromarray(np.pad(np.asarray(band), MARGIN, "edge")) for band in image.split()]
        wide = Image.merge(image.mode, bands)
        return np.asarray(wide.transform((SIZE, SIZE), Image.Transform.MESH, self.mesh, how))


class _Bend:
    """Full at the chin and above, none at the lower edge of the picture."""

    def __init__(self, head: Head, strength: float) -> None:
        torso = figure_of(head).torso
        self.pivot = torso.x, torso.y
        self.chin = head.points["chin"][1]
        self.turn = math.radians(3.0) * strength
        self.size = 1 - 0.03 * strength
        self.drop = 0.05 * SIZE * strength

    def back(self, x: Array, y: Array) -> tuple[Array, Array]:
        """Where places in the new picture come from, in the picture with its margin."""
        rise = np.clip((SIZE - y) / (SIZE - self.chin - self.drop), 0, 1)
        share = rise * rise * (3 - 2 * rise)
        dx, dy = x - self.pivot[0], y - self.drop - self.pivot[1]
        cos, sin = math.cos(self.turn) / self.size, math.sin(self.turn) / self.size
        sx, sy = self.pivot[0] + dx * cos + dy * sin, self.pivot[1] - dx * sin + dy * cos
        return x + share * (sx - x) + MARGIN, y + share * (sy - y) + MARGIN

    def forward(self, point: Point) -> Point:
        """Where a point of the photograph goes: the inverse of `back`, by a few fixed-point steps."""
        start = np.array(point)
        place = start.copy()
        for _ in range(8):
            place += start - (np.array(self.back(*place)) - MARGIN)
        return float(place[0]), float(place[1])


POSTURES: Mapping[str, Callable[[Head, float], Head]] = {"stooped": stooped}
