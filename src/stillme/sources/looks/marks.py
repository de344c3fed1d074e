"""What changes on the head itself: greyer hair, faint healed lines, a stoop. Skin tone never does."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from stillme.sources.heads import SIZE, Head
from stillme.sources.looks.bounded import Bounded
from stillme.sources.looks.brush import Point, curve, line_stamp, moved
from stillme.sources.looks.torso import figure_of

Mask = NDArray[np.bool_]
Marker = Callable[[Head, float], tuple[NDArray[np.uint8], Mask]]

Mesh = list[tuple[tuple[int, int, int, int], tuple[float, ...]]]

WHOLE_SKIN = 229  # mask values above this are skin and nothing else

MARGIN, STRIP = 32, 24  # pixels, of the stoop
Tone = tuple[float, tuple[float, float, float]]
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
    rgb, touched = head.rgb.copy(), np.zeros((SIZE, SIZE), np.bool_)
    eyes = head.points["eye_right"][0] - head.points["eye_left"][0]
    for line, width in _scar_lines(head.points, eyes):
        _press(rgb, touched, moved(line, 0.7, 0.9), width * 1.9, EDGE, 0.9 * strength)
        _press(rgb, touched, line, width, PALE, strength)
    return rgb, touched


def _scar_lines(points: Mapping[str, Point], d: float) -> list[tuple[list[Point], float]]:
    bx, by = points["brow_right"]
    ex, ey = points["eye_left"]
    cx, cy = points["chin"]
    brow = curve((bx + 0.10 * d, by - 0.36 * d), (bx + 0.16 * d, by - 0.08 * d), (bx + 0.13 * d, by + 0.12 * d))
    cheek = curve((ex - 0.3 * d, ey + 0.38 * d), (ex - 0.06 * d, ey + 0.62 * d), (ex + 0.05 * d, ey + 1.08 * d))
    chin = curve((cx + 0.14 * d, cy - 0.3 * d), (cx + 0.22 * d, cy - 0.2 * d), (cx + 0.24 * d, cy - 0.1 * d))
    return [(brow, 0.05 * d), (cheek, 0.064 * d), (chin, 0.045 * d)]


def _press(
    rgb: NDArray[np.uint8], touched: Mask, line: list[Point], width: float, tone: Tone, share: float
) -> None:
    """Moves the pixels under a line to `gain * value + lift`."""
    made = line_stamp(line, width, 1.0)
    if made is None:
        return
    mask, (x, y) = made
    area = slice(y, y + mask.height), slice(x, x + mask.width)
    weight = np.asarray(mask, np.float32)[..., None] / 255 * share
    part = rgb[area].astype(np.float32)
    lit = part * tone[0] + np.array(tone[1], np.float32)
    rgb[area] = np.clip(part * (1 - weight) + lit * weight + 0.5, 0, 255).astype(np.uint8)
    touched[area] |= weight[..., 0] > 0


MARKS: Mapping[str, Marker] = {"grey_hair": grey_hair, "healed_scars": healed_scars}


def stooped(head: Head, strength: float) -> Head:
    """The head sunk toward the shoulders, tilted and a little smaller; shoulders stay in the frame.

    Skin pixels are picked, not interpolated, so each still has a value of the head's own.
    """
    stoop = _stoops.get((figure_of(head).key, strength), lambda: _Stoop(head, strength))
    return stoop.worn_by(head)


class _Stoop:
    """Masks and landmarks after the stoop; they do not depend on the skin's colour."""

    def __init__(self, head: Head, strength: float) -> None:
        bend = _Bend(head, strength)
        self.mesh = bend.mesh()
        self.points = {name: bend.forward(point) for name, point in head.points.items()}
        masks = _stacked(head.figure, head.skin, head.hair, head.cloth)
        picked, smooth = (_warp(masks, self.mesh, smooth=smooth) for smooth in (False, True))
        whole = picked[..., 1] > WHOLE_SKIN
        self.whole = Image.fromarray(whole)
        self.figure = np.where(whole, picked[..., 0], smooth[..., 0])
        self.skin = np.where(whole, picked[..., 1], np.minimum(smooth[..., 1], WHOLE_SKIN))
        self.hair, self.cloth = smooth[..., 2].copy(), smooth[..., 3].copy()

    def worn_by(self, head: Head) -> Head:
        colours = Image.fromarray(head.rgb)
        rgb = Image.fromarray(_warp(colours, self.mesh, smooth=True))
        rgb.paste(Image.fromarray(_warp(colours, self.mesh, smooth=False)), (0, 0), self.whole)
        return dataclasses.replace(
            head,
            rgb=np.asarray(rgb),
            figure=self.figure,
            skin=self.skin,
            hair=self.hair,
            cloth=self.cloth,
            points=self.points,
        )


class _Bend:
    """Full at the chin and above, none at the lower edge of the picture."""

    def __init__(self, head: Head, strength: float) -> None:
        self.pivot = figure_of(head).torso.at(0, 0)
        self.chin = head.points["chin"][1]
        self.turn = math.radians(3.0) * strength
        self.size = 1 - 0.03 * strength
        self.drop = 0.05 * SIZE * strength

    def back(self, x: float, y: float) -> Point:
        """Where a place in the new picture comes from."""
        share = self._share(y)
        dx, dy = x - self.pivot[0], y - self.drop - self.pivot[1]
        cos, sin = math.cos(self.turn) / self.size, math.sin(self.turn) / self.size
        sx, sy = self.pivot[0] + dx * cos + dy * sin, self.pivot[1] - dx * sin + dy * cos
        return x + share * (sx - x), y + share * (sy - y)

    def _share(self, y: float) -> float:
        t = min(1.0, max(0.0, (SIZE - y) / (SIZE - self.chin - self.drop)))
        return t * t * (3 - 2 * t)

    def forward(self, point: Point) -> Point:
        """Where a point of the photograph goes: the inverse of `back`, by a few fixed-point steps."""
        x, y = point
        for _ in range(8):
            bx, by = self.back(x, y)
            x, y = x + point[0] - bx, y + point[1] - by
        return x, y

    def mesh(self) -> Mesh:
        """Strips of the new picture and the corners they come from, in the picture with its margin."""
        strips = []
        for top in range(0, SIZE, STRIP):
            corners = (
                self.back(0, top),
                self.back(0, top + STRIP),
                self.back(SIZE, top + STRIP),
                self.back(SIZE, top),
            )
            strips.append(((0, top, SIZE, top + STRIP), tuple(v + MARGIN for corner in corners for v in corner)))
        return strips


def _stacked(*masks: NDArray[np.uint8]) -> Image.Image:
    """Four masks in one image. CMYK, because Pillow would take a fourth channel of RGBA for opacity."""
    return Image.merge("CMYK", [Image.fromarray(mask) for mask in masks])


def _warp(image: Image.Image, mesh: Mesh, *, smooth: bool) -> NDArray[np.uint8]:
    """Edge pixels are repeated around the picture first: what moves in from outside looks like the edge."""
    how = Image.Resampling.BILINEAR if smooth else Image.Resampling.NEAREST
    wide = ImageOps.expand(image, MARGIN)
    for box, at in (((0, 0, SIZE, 1), 0), ((0, SIZE - 1, SIZE, SIZE), SIZE + MARGIN)):
        wide.paste(image.crop(box).resize((SIZE, MARGIN)), (MARGIN, at))
    for x, at in ((MARGIN, 0), (SIZE + MARGIN - 1, SIZE + MARGIN)):
        column = wide.crop((x, 0, x + 1, wide.height))
        wide.paste(column.resize((MARGIN, wide.height)), (at, 0))
    return np.asarray(wide.transform((SIZE, SIZE), Image.Transform.MESH, mesh, how))


_stoops: Bounded[_Stoop] = Bounded(8)

POSTURES: Mapping[str, Callable[[Head, float], Head]] = {"stooped": stooped}
