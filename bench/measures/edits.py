"""Edits of known size: skin shifted by so many L*, another shirt, another background, another light.

What is planted here is what the instruments are expected to read, or not to read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bench.measures.pictures import QUALITY, Photo
from stillme.core import images
from stillme.core.colour import linear_to_srgb, srgb_to_linear
from stillme.core.images import Pixels
from stillme.sources import heads, looks
from stillme.sources.heads.colour import ROOM
from stillme.sources.looks.layers import backdrop
from stillme.sources.looks.table import table

SHIFTS = (-12.0, -6.0, -3.0, 3.0, 6.0, 12.0)  # L*
ELLIPSE = (0.75, 0.70)  # half axes, in widths and heights of the face's box: all of the face, with room around it
FEATHER = 0.25  # of the half axes, outwards: as far as the edit fades
SHIRTS = {"a dark red shirt": (120, 28, 36), "a white shirt": (236, 236, 232), "a blue shirt": (40, 80, 160)}
PLACES = ("another place", "another studio")
GAIN = 1.12
STOP = 1 / 3  # of exposure

Box = tuple[float, float, float, float]


def _levels(picture: Pixels, change: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> Pixels:
    """Every level of every channel by one curve of 0 to 1."""
    curve = np.clip(change(np.arange(256) / 255), 0, 1)
    return np.asarray(curve * 255 + 0.5, np.uint8)[picture]


def _lighter(picture: Pixels, delta: float) -> Pixels:
    return heads.shift_skin(picture, np.full(picture.shape[:2], 255, np.uint8), delta)


def _exposed(level: NDArray[np.float64]) -> NDArray[np.float64]:
    return linear_to_srgb(srgb_to_linear(level) * 2**STOP)


RELIT: Mapping[str, Callable[[Pixels], Pixels]] = {
    "L* +5 everywhere": lambda picture: _lighter(picture, 5),
    "L* -5 everywhere": lambda picture: _lighter(picture, -5),
    "gamma 0.85": lambda picture: _levels(picture, lambda level: level**0.85),
    "gamma 1.2": lambda picture: _levels(picture, lambda level: level**1.2),
    f"gain {GAIN:g}": lambda picture: _levels(picture, lambda level: level * GAIN),
    "exposure +1/3 stop": lambda picture: _levels(picture, _exposed),
}


def planted(delta: float) -> str:
    """The name of a shift."""
    return f"skin {delta:+g}"


def has_room(before: float, delta: float) -> bool:
    """Whether skin this light can move so far: nearer to black or white the planted shift itself is cut short."""
    return (100 - before if delta > 0 else before) >= ROOM * abs(delta)


def of_head(key: str) -> Iterator[tuple[str, bytes]]:
    """Name -> edit, for everything that is planted on a rendered head."""
    head = heads.load(key)
    for delta in SHIFTS:
        moved = replace(head, rgb=heads.shift_skin(head.rgb, head.skin, delta))
        yield planted(delta), encoded(heads.photograph(moved))
    for name, colour in SHIRTS.items():
        yield name, encoded(heads.photograph(replace(head, rgb=_dyed(head, colour))))
    for name, behind in _places(key):
        yield name, encoded(heads.over(head, behind))


def _dyed(head: heads.Head, colour: tuple[int, int, int]) -> Pixels:
    """The figure in cloth of another colour, which keeps its folds."""
    cover = (head.cloth / np.float32(255))[..., None]
    shade = head.rgb.mean(-1, keepdims=True)
    folds = shade / max(float(shade[head.cloth > 200].mean()), 1.0)
    dyed = head.rgb * (1 - cover) + np.array(colour, np.float32) * folds * cover
    return np.asarray(np.clip(dyed, 0, 255) + 0.5, np.uint8)


def _places(key: str) -> Iterator[tuple[str, Pixels]]:
    """A place that a prompt would ask for, and the plain backgrounds of the other heads' studio."""
    keys = heads.keys()
    number = keys.index(key)
    scenes = sorted({look.scene for look in table().values()})
    yield PLACES[0], np.asarray(backdrop(scenes[number % len(scenes)], number % 4), np.uint8)
    own = heads.load(key).background
    studios = sorted({heads.load(other).background for other in keys} - {own})
    plain = heads.backdrop(studios[number % len(studios)])
    yield PLACES[1], np.asarray(np.clip(plain + 0.5, 0, 255), np.uint8)


def of_photo(photo: Photo, box: Box) -> Iterator[tuple[str, bytes]]:
    """Name -> edit, for the shifts of skin planted on a photograph with a face in `box`."""
    picture = images.pixels(photo.content)
    mask = feathered(picture.shape[:2], box)
    for delta in SHIFTS:
        yield planted(delta), encoded(heads.shift_skin(picture, mask, delta))


def feathered(shape: tuple[int, ...], box: Box) -> NDArray[np.uint8]:
    """An ellipse around a face: 255 inside, fading outwards to 0."""
    left, top, width, height = box
    down, across = np.mgrid[: shape[0], : shape[1]]
    x = (across - left - width / 2) / (ELLIPSE[0] * width)
    y = (down - top - height / 2) / (ELLIPSE[1] * height)
    inside = np.clip((1 + FEATHER - np.hypot(x, y)) / FEATHER, 0, 1)
    return np.asarray(inside * 255 + 0.5, np.uint8)


def in_another_light(photo: Photo) -> Iterator[tuple[str, bytes]]:
    picture = images.pixels(photo.content)
    for name, relight in RELIT.items():
        yield name, encoded(relight(picture))


def dressed(key: str, most: int) -> Iterator[bytes]:
    """The head in the looks of the demo's prompts."""
    for look in looks.names()[:most]:
        yield encoded(looks.dress(heads.load(key), look))


def encoded(picture: Pixels) -> bytes:
    return images.encode(picture, QUALITY)
