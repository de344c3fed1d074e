"""Where the skin is: known to the pixel for stillme's own heads, found by the measures' instruments elsewhere.

In a photograph the instruments find facial skin that is skin for certain. A change that ended at its edge would
look like a mask, so it goes on to whatever looks like that skin and hangs together with it: chin, ears, neck.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stillme.core import images
from stillme.core.colour import srgb_to_lab
from stillme.core.images import Pixels
from stillme.core.records import Status
from stillme.judges.calibration.pixels import feathered
from stillme.sources import heads
from stillme.sources.heads import key_in
from stillme.sources.heads.colour import Bytes, Floats

if TYPE_CHECKING:
    from stillme.measures.faces import Mesh
    from stillme.measures.regions import Skin
    from stillme.measures.view import Optics

LIKE, UNLIKE = 1.0, 1.6  # distances from the sure skin, in its own spread, at which a pixel is skin, and is none
SPREAD = (9.0, 4.5, 4.5)  # L*, a*, b*: at least so far skin differs over one face, in light and shade
AROUND = 0.1  # of the face's height: ears and the edge of the face reach so far out of its oval
NECK = 0.5  # of the face's height: so far below the chin, as wide as the face, skin is looked for
SOFT = 0.012  # of the face's height: how far an edge is blurred


class NoSkinError(Exception):
    """No skin was found; `status` says why."""

    def __init__(self, status: Status, detail: str) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail


class Finder:
    """Finds skin. The instruments are loaded when the first photograph comes."""

    def find(self, content: bytes, picture: Pixels) -> Bytes:
        """How much of each pixel is skin, 0 to 255."""
        key = key_in(images.comment(content))
        if key is not None and heads.load(key).skin.shape == picture.shape[:2]:
            return heads.load(key).skin
        return self._found(content, picture)

    @cached_property
    def _optics(self) -> Optics:
        from stillme.measures.view import Optics

        return Optics()

    def _found(self, content: bytes, picture: Pixels) -> Bytes:
        import cv2

        from stillme.measures.skin_tone_shift import Settings
        from stillme.measures.view import UnreadableError, View

        limits = Settings()  # skin is looked for as the audit's own measure of it does
        try:
            view = View(content, "portrait", self._optics)
            mesh = view.frontal(view.person, limits)
            region = view.region(mesh)
            view.tone(region, limits)
        except UnreadableError as error:
            raise NoSkinError(error.status, error.detail) from None
        matte = grown(view.pixels, _sure(region, view.pixels.shape[:2]), mesh)
        height, width = picture.shape[:2]
        if matte.shape != (height, width):
            matte = np.asarray(cv2.resize(matte, (width, height), interpolation=cv2.INTER_LINEAR), np.float32)
        return feathered(matte)


def _sure(region: Skin, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """The instruments' skin in the pixels of the whole picture."""
    import cv2

    left, top, right, bottom = region.corners
    sure = np.zeros(shape, bool)
    part = cv2.resize(region.mask.astype(np.uint8), (right - left, bottom - top), interpolation=cv2.INTER_NEAREST)
    sure[top:bottom, left:right] = np.asarray(part) > 0
    return sure


def grown(picture: Pixels, sure: NDArray[np.bool_], mesh: Mesh) -> Floats:
    """The sure skin, and what looks like it and hangs together with it; 0 to 1, soft at the edge."""
    import cv2

    like = _likeness(picture, sure) * _head(sure.shape, mesh)
    _, parts = cv2.connectedComponents((like > 0.5).astype(np.uint8) | sure)
    mine = np.isin(parts, np.unique(parts[sure]))
    blur = max(0.5, SOFT * mesh.height)
    skin = np.where(mine, np.maximum(like, sure), 0).astype(np.float32)
    skin = np.asarray(cv2.GaussianBlur(skin, (0, 0), blur), np.float32)
    return np.maximum(skin, sure).astype(np.float32)  # sure skin has its whole shift: it is measured there


def _head(shape: tuple[int, ...], mesh: Mesh) -> Floats:
    """Where a person's skin is looked for: the face's oval and a little around it, and the neck. Soft below."""
    import cv2

    from stillme.measures.regions import OVAL

    outline = mesh.points[OVAL, :2]
    head = np.zeros(shape, np.uint8)
    cv2.fillPoly(head, [cv2.convexHull(np.round(outline).astype(np.int32))], 1)
    reach = max(1, round(AROUND * mesh.height))
    brush = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * reach + 1, 2 * reach + 1))
    head = np.asarray(cv2.dilate(head, brush), np.uint8)
    (left, top), (right, bottom) = np.maximum(outline.min(0), 0), np.maximum(outline.max(0), 0)
    head[int((top + bottom) / 2) : int(bottom + NECK * mesh.height), int(left) : int(right)] = 1
    return np.asarray(cv2.GaussianBlur(head.astype(np.float32), (0, 0), reach / 2), np.float32)


def _likeness(picture: Pixels, sure: NDArray[np.bool_]) -> Floats:
    """1 where a pixel is coloured like the sure skin, 0 where it is not, between the two a slope."""
    import cv2

    lab = srgb_to_lab(np.asarray(cv2.bilateralFilter(picture, 5, 25, 3), np.uint8))
    own = lab[sure]
    middle, low, high = np.median(own, 0), np.percentile(own, 2, 0), np.percentile(own, 98, 0)
    below = np.maximum(middle - low, SPREAD) * 1.3
    above = np.maximum(high - middle, SPREAD) * 1.3
    away = lab - middle
    distance = np.sqrt(np.square(away / np.where(away < 0, below, above)).sum(-1) / 2)
    return np.asarray(np.clip((UNLIKE - distance) / (UNLIKE - LIKE), 0, 1), np.float32)
