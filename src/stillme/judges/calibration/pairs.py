"""Makes the altered picture of a calibration pair: one known change of a portrait, exactly, and nothing else.

It uses no random seed and gives the same bytes every time. Pictures are written without loss, except where the
loss is the change that is made. Skin is known to the pixel for stillme's own heads, and found by the measures'
instruments elsewhere: in a photograph they find facial skin that is skin for certain. A change that ended at its
edge would look like a mask, so it includes adjacent pixels that look like that skin: chin, ears, neck.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stillme.core import images
from stillme.core.colour import srgb_to_lab
from stillme.core.images import Pixels
from stillme.core.records import DELTA_L, OTHER_HEAD, EditReply, EditRequest, Status
from stillme.judges.calibration import kind_of
from stillme.protocol.schema import CalibrationPairKind
from stillme.sources import heads
from stillme.sources.heads import key_in
from stillme.sources.heads.colour import Bytes, Floats

if TYPE_CHECKING:
    from stillme.measures.faces import Mesh
    from stillme.measures.view import VisionModels

SKIN_WITHIN, NO_SKIN_BEYOND = 1.0, 1.6  # distances from the sure skin's colour, in units of its spread
MIN_SPREAD = (9.0, 4.5, 4.5)  # L*, a*, b*: at least so much skin differs over one face, in light and shade
MARGIN = 0.1  # of the face's height: ears and the edge of the face reach so far out of its oval
NECK = 0.5  # of the face's height: so far below the chin, as wide as the face, skin is looked for
EDGE_BLUR = 0.012  # of the face's height: how far an edge is blurred


class Maker:
    """One set of kinds."""

    def __init__(self, kinds: Iterable[CalibrationPairKind]) -> None:
        self.kinds = {kind.id: kind for kind in kinds}
        self._finder = SkinFinder()

    def edit(self, request: EditRequest) -> EditReply:
        kind = self.kinds[kind_of(request.instruction)]
        if kind.by == "copy":
            return EditReply(Status.OK, request.image, truth={DELTA_L: 0.0})
        if kind.by == "person":
            return EditReply(Status.OK, request.references[0], truth={OTHER_HEAD: 1.0})
        try:
            picture = images.pixels(request.image)
        except images.BadImageError as error:
            return EditReply(Status.REJECTED, detail=f"the portrait {error}")
        delta_l = 0.0
        if kind.by == "skin":
            delta_l = kind.delta_l or 0.0
            try:
                skin = self._finder.find(request.image, picture)
            except NoSkinError as error:
                return EditReply(error.status, detail=error.detail)
            content = images.lossless(heads.shift_skin(picture, skin, delta_l))
        elif kind.quality is not None:
            content = images.encode(picture, kind.quality)
        elif kind.gain is not None:
            content = images.lossless(relit(picture, kind.gain))
        else:
            content = images.lossless(framed(picture, kind.width or 0.0, kind.colour or (0, 0, 0)))
        return EditReply(Status.OK, content, truth={DELTA_L: delta_l})


def relit(picture: Bytes, gain: float) -> Bytes:
    """Every pixel's linear light times `gain`, as a lamp or an exposure does; clipped at white."""
    return _relit_levels(gain)[picture]


@functools.lru_cache(maxsize=16)
def _relit_levels(gain: float) -> Bytes:
    level = np.arange(256) / 255
    linear = np.where(level <= 0.04045, level / 12.92, ((level + 0.055) / 1.055) ** 2.4)
    lit = np.clip(linear * gain, 0, 1)
    encoded = np.where(lit <= 0.0031308, lit * 12.92, 1.055 * lit ** (1 / 2.4) - 0.055)
    return np.asarray(encoded * 255 + 0.5, np.uint8)


def framed(picture: Bytes, width: float, colour: tuple[int, int, int]) -> Bytes:
    """A plain frame around the whole picture, which stays as it is inside; `width`: of the shorter side."""
    border = max(1, round(width * min(picture.shape[:2])))
    height, across = (side + 2 * border for side in picture.shape[:2])
    canvas = np.full((height, across, 3), colour, np.uint8)
    canvas[border:-border, border:-border] = picture
    return canvas


class NoSkinError(Exception):
    """No skin was found; `status` says why."""

    def __init__(self, status: Status, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


class SkinFinder:
    """Finds skin. The instruments are loaded for the first photograph."""

    def find(self, content: bytes, picture: Pixels) -> Bytes:
        """How much of each pixel is skin, 0 to 255."""
        key = key_in(images.comment(content))
        if key is not None and heads.load(key).skin.shape == picture.shape[:2]:
            return heads.load(key).skin
        import cv2

        from stillme.measures.skin_tone_shift import Settings
        from stillme.measures.view import UnreadableError, View

        limits = Settings()  # the defaults of the audit's own measure of skin
        try:
            view = View(content, "portrait", self._optics)
            mesh = view.frontal(view.person, limits)
            region = view.region(mesh)
            view.tone(region, limits)
        except UnreadableError as error:
            raise NoSkinError(error.status, error.detail) from None
        matte = grow_skin(view.pixels, region.full_mask(view.pixels.shape[:2]), mesh)
        height, width = picture.shape[:2]
        if matte.shape != (height, width):
            matte = np.asarray(cv2.resize(matte, (width, height), interpolation=cv2.INTER_LINEAR), np.float32)
        return np.asarray(np.clip(matte, 0, 1) * 255 + 0.5, np.uint8)

    @cached_property
    def _optics(self) -> VisionModels:
        from stillme.measures.view import VisionModels

        return VisionModels()


def grow_skin(picture: Pixels, sure: NDArray[np.bool_], mesh: Mesh) -> Floats:
    """The sure skin and connected pixels that look like it; 0 to 1, soft at the edge."""
    import cv2

    similarity = _skin_similarity(picture, sure) * _head_area(sure.shape, mesh)
    _, parts = cv2.connectedComponents((similarity > 0.5).astype(np.uint8) | sure)
    is_connected = np.isin(parts, np.unique(parts[sure]))
    blur = max(0.5, EDGE_BLUR * mesh.height)
    skin = np.where(is_connected, np.maximum(similarity, sure), 0).astype(np.float32)
    skin = np.asarray(cv2.GaussianBlur(skin, (0, 0), blur), np.float32)
    return np.maximum(skin, sure).astype(np.float32)  # sure skin has its whole shift: it is measured there


def _head_area(shape: tuple[int, ...], mesh: Mesh) -> Floats:
    """Where a person's skin is searched: the face's oval with a margin, and the neck. Soft at the edge."""
    import cv2

    from stillme.measures.skin import OVAL

    outline = mesh.points[OVAL, :2]
    head = np.zeros(shape, np.uint8)
    cv2.fillPoly(head, [cv2.convexHull(np.round(outline).astype(np.int32))], 1)
    reach = max(1, round(MARGIN * mesh.height))
    brush = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * reach + 1, 2 * reach + 1))
    head = np.asarray(cv2.dilate(head, brush), np.uint8)
    (left, top), (right, bottom) = np.maximum(outline.min(0), 0), np.maximum(outline.max(0), 0)
    head[int((top + bottom) / 2) : int(bottom + NECK * mesh.height), int(left) : int(right)] = 1
    return np.asarray(cv2.GaussianBlur(head.astype(np.float32), (0, 0), reach / 2), np.float32)


def _skin_similarity(picture: Pixels, sure: NDArray[np.bool_]) -> Floats:
    """1 where a pixel is coloured like the sure skin, 0 where it is not, with a linear slope between the two."""
    import cv2

    lab = srgb_to_lab(np.asarray(cv2.bilateralFilter(picture, 5, 25, 3), np.uint8))
    colours = lab[sure]
    median, low, high = np.median(colours, 0), np.percentile(colours, 2, 0), np.percentile(colours, 98, 0)
    below = np.maximum(median - low, MIN_SPREAD) * 1.3
    above = np.maximum(high - median, MIN_SPREAD) * 1.3
    offset = lab - median
    distance = np.sqrt(np.square(offset / np.where(offset < 0, below, above)).sum(-1) / 2)
    similarity = (NO_SKIN_BEYOND - distance) / (NO_SKIN_BEYOND - SKIN_WITHIN)
    return np.asarray(np.clip(similarity, 0, 1), np.float32)
