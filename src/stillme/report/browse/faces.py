"""What becomes of faces before a picture leaves the run: shown, blurred, or left out.

Blurring happens to the pixels: a face is brought down to a few pixels and up again, so that no file holds more of
it than those. Where a picture shows fewer faces than it should, or nothing can look for faces, all of it is
treated as one face: a detector that fails leaks nobody.
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from PIL import Image, ImageFilter

from stillme.core import images
from stillme.core.errors import InputError
from stillme.core.images import Pixels

Faces = Literal["show", "blur", "none"]
SHOW, BLUR, NONE = "show", "blur", "none"
ACROSS = 8  # pixels that are left of a face's width
ROOM = 0.45  # of a face's size, blurred beyond it on every side: hair, ears, chin
LOOKED_AT = 320  # the longer side of the picture that faces are looked for in
LEAST_SCORE = 0.3  # half of what measuring asks for: a face too many costs nothing

Box = tuple[float, float, float, float]  # left, top, width, height


def check(faces: str) -> Faces:
    if faces not in get_args(Faces):
        raise InputError(f"'{faces}' is no way to treat faces; known: {', '.join(get_args(Faces))}.")
    return faces  # type: ignore[return-value]


@dataclass(frozen=True)
class Veil:
    """One way to treat faces. Safe to use from several threads: each has a detector of its own."""

    faces: Faces
    _own: threading.local = field(default_factory=threading.local, repr=False, compare=False)

    @property
    def leaves_out(self) -> bool:
        return self.faces == NONE

    def picture(self, content: bytes, side: int, people: int = 1) -> Pixels:
        """The whole picture, its longer side brought to `side`. `people`: how many faces it has at least."""
        if self.faces == SHOW:
            return images.decode_thumbnail(content, side)
        if self.faces == NONE:
            raise ValueError("pictures are left out")
        looked_at = images.decode_thumbnail(content, max(side, LOOKED_AT))
        hidden = Image.fromarray(blurred(looked_at, self._found(looked_at), people))
        hidden.thumbnail((side, side), Image.Resampling.BOX)
        return np.asarray(hidden)

    def _found(self, picture: Pixels) -> list[Box]:
        if not can_look():
            return []
        if not hasattr(self._own, "finder"):
            self._own.finder = _finder()
        return [face.box for face in self._own.finder.find(picture)]


def can_look() -> bool:
    """Whether faces can be looked for at all: it takes OpenCV, of the extra `vision`."""
    return importlib.util.find_spec("cv2") is not None


def _finder() -> Any:
    from stillme.measures.faces import FaceDetector

    return FaceDetector(LEAST_SCORE)


def blurred(picture: Pixels, boxes: Sequence[Box], people: int = 1) -> Pixels:
    """Every face with room around it; the whole picture where there are fewer faces than people."""
    sheet = Image.fromarray(picture)
    if len(boxes) < people or not all(np.isfinite(box).all() for box in boxes):
        return np.asarray(_coarse(sheet, max(sheet.size) / ACROSS))
    for left, top, width, height in boxes:
        room, cell = ROOM * max(width, height), max(1.0, min(width, height) / ACROSS)
        edges = (left - room, top - room, left + width + room, top + height + room)
        box = _within(edges, sheet.size)
        sheet.paste(_coarse(sheet.crop(box), cell), box)
    return np.asarray(sheet)


def _within(edges: Box, size: tuple[int, int]) -> tuple[int, int, int, int]:
    """Whole pixels of the picture, at least one."""
    left, top = (min(max(0, int(np.floor(edges[i]))), size[i] - 1) for i in (0, 1))
    right, bottom = (max(min(size[i], int(np.ceil(edges[i + 2]))), (left, top)[i] + 1) for i in (0, 1))
    return left, top, right, bottom


def _coarse(part: Image.Image, cell: float) -> Image.Image:
    """A pixel a cell, then smooth: what lies between is made up, not kept."""
    few = (max(1, round(part.width / cell)), max(1, round(part.height / cell)))
    small = part.resize(few, Image.Resampling.BOX)
    return small.resize(part.size, Image.Resampling.BICUBIC).filter(ImageFilter.GaussianBlur(cell / 2))
