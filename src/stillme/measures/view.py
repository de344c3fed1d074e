"""A picture as the instruments see it: decoded once, and everything read of it kept for the next measure.

A source is one view for all its edits, so its face is found, shaped and embedded once. Nothing here compares two
pictures, except to find in an edit the face of the person whom the source shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray

from stillme.core import images
from stillme.core.colour import srgb_to_lab
from stillme.core.images import Pixels
from stillme.core.records import Status
from stillme.measures import weights
from stillme.measures.faces import Box, Face, FaceDetector, FaceMesher, Mesh
from stillme.measures.skin import Floats, Light, Limits, Skin, Tone, light, skin

Vector = NDArray[np.float64]
Features = tuple[Floats, ...]  # what LPIPS compares, one per layer

MAX_SIDE = 2048  # pixels; a larger picture is shrunk to this first: its face has pixels enough
SMALL = 128  # side at which whole pictures are compared colour by colour
MAX_CANDIDATES = 4  # faces of an edit that are compared with the source's person
MAX_ASPECT_DIFFERENCE = 0.03  # pictures whose width to height differs by more don't show the same frame
DISTANCE_WEIGHT = 0.5  # how much of a cosine a whole picture's diagonal of distance counts for

SQUARE = 256  # side at which LPIPS and SSIM compare whole pictures, in pixels
CHANNELS = (64, 192, 384, 256, 256)  # of AlexNet's five convolutions
LAYERS = tuple(f"relu{n}" for n in range(len(CHANNELS)))
# The constants that the published weights were trained with.
SHIFT = np.array([-0.030, -0.088, -0.188], np.float32)
SCALE = np.array([0.458, 0.448, 0.450], np.float32)


class UnreadableError(Exception):
    """An instrument has no reading; `status` says why, `detail` where."""

    def __init__(self, status: Status, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


class Trunk:
    """AlexNet's five convolutions, run by OpenCV, for LPIPS (Zhang et al. 2018).

    A picture's features are computed apart from any comparison, so that a source's serve all its edits. They come
    scaled by the layer's channel weights, so that the distance is a plain squared difference.
    """

    def __init__(self) -> None:
        self._net = cv2.dnn.readNetFromONNX(str(weights.verified(weights.TRUNK)))
        channel_weights = np.load(weights.verified(weights.HEADS))
        layers = np.split(channel_weights, np.cumsum(CHANNELS)[:-1])
        self._scales = [np.sqrt(layer).astype(np.float32)[:, None, None] for layer in layers]

    def features(self, picture: Pixels) -> Features:
        """Of a picture of SQUARE × SQUARE pixels."""
        levels = (picture.astype(np.float32) / np.float32(127.5) - 1 - SHIFT) / SCALE
        self._net.setInput(np.ascontiguousarray(levels.transpose(2, 0, 1)[None]))
        outputs = self._net.forward(list(LAYERS))
        return tuple(_unit_length(layer[0]) * scale for layer, scale in zip(outputs, self._scales, strict=True))


def _unit_length(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale the features at each position to length 1."""
    length = np.sqrt(np.einsum("chw,chw->hw", features, features))
    return np.asarray(features / (length + np.float32(1e-10)), np.float32)


class VisionModels:
    """The models, each loaded when it is first needed. One thread each: the work is spread over processes."""

    def __init__(self) -> None:
        cv2.setNumThreads(1)

    @cached_property
    def finder(self) -> FaceDetector:
        return FaceDetector()

    @cached_property
    def shaper(self) -> FaceMesher:
        return FaceMesher()

    @cached_property
    def trunk(self) -> Trunk:
        return Trunk()

    @cached_property
    def embedder(self) -> cv2.FaceRecognizerSF:
        return cv2.FaceRecognizerSF.create(str(weights.verified(weights.EMBEDDING)), "")


class View:
    """One picture. `name` is what a reader calls it: the source, the edit."""

    def __init__(self, content: bytes, name: str, optics: VisionModels) -> None:
        self.name = name
        self._optics = optics
        try:
            self.pixels = _shrink(images.pixels(content))
        except images.BadImageError as error:
            raise UnreadableError(Status.CORRUPT, f"the {name} {error}") from None
        self._meshes: dict[Face, Mesh] = {}
        self._embeddings: dict[Face, Vector] = {}
        self._regions: dict[Mesh, Skin] = {}
        self._shifts: list[float] | None = None

    @cached_property
    def faces(self) -> list[Face]:
        return self._optics.finder.find(self.pixels)

    @property
    def person(self) -> Face:
        """The most prominent face."""
        if not self.faces:
            raise UnreadableError(Status.NO_FACE, f"no face in the {self.name}")
        return self.faces[0]

    def mesh(self, face: Face) -> Mesh:
        if face not in self._meshes:
            self._meshes[face] = self._optics.shaper.shape(self.pixels, face)
        return self._meshes[face]

    def embedding(self, face: Face) -> Vector:
        """What tells this person from others: a direction of length 1."""
        if face not in self._embeddings:
            embedder = self._optics.embedder
            aligned = embedder.alignCrop(self._bgr, face.row)
            direction = np.asarray(embedder.feature(aligned), np.float64).ravel()
            self._embeddings[face] = direction / np.linalg.norm(direction)
        return self._embeddings[face]

    def frontal(self, face: Face, limits: Limits) -> Mesh:
        """The face's mesh, where it holds and the picture has colour."""
        if self.is_grey:
            raise UnreadableError(Status.GREYSCALE, f"the {self.name} has no colour")
        mesh = self.mesh(face)
        if mesh.confidence < 0 or abs(mesh.yaw) > limits.most_turned:
            raise UnreadableError(Status.PROFILE, f"the face in the {self.name} is turned away or covered")
        if mesh.height < limits.least_height:
            raise UnreadableError(
                Status.TOO_SMALL, f"the face in the {self.name} is {mesh.height:.0f} pixels tall"
            )
        return mesh

    def region(self, mesh: Mesh) -> Skin:
        """The skin under a mesh."""
        if mesh not in self._regions:
            self._regions[mesh] = skin(self.pixels, mesh)
        return self._regions[mesh]

    def tone(self, region: Skin, limits: Limits) -> Tone:
        """The colour of a region of skin."""
        tone = Tone(region)
        if tone.pixels < limits.least_pixels:
            raise UnreadableError(Status.TOO_SMALL, f"{tone.pixels} pixels of skin in the {self.name}")
        return tone

    @cached_property
    def features(self) -> Features:
        """What LPIPS compares."""
        return self._optics.trunk.features(self._square)

    @cached_property
    def small(self) -> Floats:
        """The whole picture in CIELAB, at SMALL × SMALL."""
        return srgb_to_lab(self.squared(SMALL))

    def small_box(self, face: Face) -> Box:
        """A face's box in the pixels of `small`."""
        height, width = self.pixels.shape[:2]
        across, down = SMALL / width, SMALL / height
        left, top, wide, tall = face.box
        return left * across, top * down, wide * across, tall * down

    @cached_property
    def grey(self) -> Floats:
        """The whole picture's luma at SQUARE × SQUARE."""
        return cv2.cvtColor(self._square, cv2.COLOR_RGB2GRAY).astype(np.float32)

    @cached_property
    def _square(self) -> Pixels:
        return self.squared(SQUARE)

    @cached_property
    def reencodes(self) -> tuple[View, ...]:
        """The same picture saved again with loss, and halved and enlarged: no one would call it an edit."""
        height, width = self.pixels.shape[:2]
        half = cv2.resize(self.pixels, (max(1, width // 2), max(1, height // 2)), interpolation=cv2.INTER_AREA)
        enlarged = np.asarray(cv2.resize(half, (width, height), interpolation=cv2.INTER_CUBIC), np.uint8)
        contents = (images.encode(self.pixels, quality=60), images.encode(enlarged, quality=95))
        return tuple(View(content, f"re-encoded {self.name}", self._optics) for content in contents)

    @property
    def reencoded_pairs(self) -> tuple[Pair, ...]:
        """One per re-encode that shows a face. Not cached: a view that refers to itself would stay in memory."""
        return tuple(Pair(self, copy) for copy in self.reencodes if copy.faces)

    def reencoded_shifts(self, limits: Limits) -> list[float]:
        """|ΔL*| of the skin in each re-encode where it can be read; read once."""
        if self._shifts is None:
            self._shifts = []
            for pair in self.reencoded_pairs:
                try:
                    before, after = pair.tones(limits)
                except UnreadableError:
                    continue
                self._shifts.append(abs(after.lightness - before.lightness))
        return self._shifts

    @cached_property
    def is_grey(self) -> bool:
        red, green, blue = np.moveaxis(self.squared(SMALL), -1, 0)
        highest, lowest = np.maximum(np.maximum(red, green), blue), np.minimum(np.minimum(red, green), blue)
        return float(np.percentile(highest - lowest, 99)) < images.MAX_GREY_DIFFERENCE

    def squared(self, side: int) -> Pixels:
        """The whole picture at side × side; a picture of another shape is stretched."""
        height, width = self.pixels.shape[:2]
        interpolation = cv2.INTER_AREA if height * width > side * side else cv2.INTER_LINEAR
        return np.asarray(cv2.resize(self.pixels, (side, side), interpolation=interpolation), np.uint8)

    @cached_property
    def _bgr(self) -> Pixels:
        return np.ascontiguousarray(self.pixels[..., ::-1])


@dataclass
class Pair:
    """A source and its edit."""

    source: View
    edit: View

    @cached_property
    def people(self) -> tuple[Face, Face]:
        """The person in the source, and the same person in the edit: the face nearest in looks and place."""
        before, after = self.source.person, self.edit.person
        candidates = [face for face in self.edit.faces[:MAX_CANDIDATES] if face.size > after.size / 3]
        if len(candidates) > 1:
            after = max(candidates, key=lambda face: self._nearness(before, face))
        return before, after

    def tones(self, limits: Limits) -> tuple[Tone, Tone]:
        """The skin's colour before and after.

        A face that stayed in its place is read over the same pixels in both pictures, so that the two medians are
        over the same skin; one that moved, over its own.
        """
        before, after = self.people
        mesh, edit_mesh = self.source.frontal(before, limits), self.edit.frontal(after, limits)
        region = self.source.region(mesh)
        if not mesh.scaled(*self._scale).agrees(edit_mesh):
            return self.source.tone(region, limits), self.edit.tone(self.edit.region(edit_mesh), limits)
        edit_region = region.on(self.edit.pixels, *self._scale)
        if edit_region.covers(region):
            raise UnreadableError(Status.PROFILE, f"the face in the {self.edit.name} is turned away or covered")
        return self.source.tone(region.within(edit_region.mask), limits), self.edit.tone(edit_region, limits)

    @property
    def _scale(self) -> tuple[float, float]:
        """From the source's pixels to the edit's."""
        (h1, w1), (h2, w2) = self.source.pixels.shape[:2], self.edit.pixels.shape[:2]
        return w2 / w1, h2 / h1

    def light(self, lightness: float) -> Light | None:
        """How the background's lightness moved; None where the two pictures don't show the same frame."""
        across, down = self._scale
        if abs(across / down - 1) > MAX_ASPECT_DIFFERENCE:
            return None
        boxes = self.source.small_box(self.people[0]), self.edit.small_box(self.people[1])
        return light(self.source.small[..., 0], self.edit.small[..., 0], boxes, lightness)

    def _nearness(self, before: Face, after: Face) -> float:
        """Similarity of looks, less the distance between the two places in their pictures."""
        similarity = float(self.source.embedding(before) @ self.edit.embedding(after))
        distance = _relative_centre(before, self.source) - _relative_centre(after, self.edit)
        return similarity - DISTANCE_WEIGHT * float(np.linalg.norm(distance)) / float(np.sqrt(2))


def _shrink(picture: Pixels) -> Pixels:
    """Return the picture, at most MAX_SIDE pixels long."""
    height, width = picture.shape[:2]
    scale = MAX_SIDE / max(height, width)
    if scale >= 1:
        return picture
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), np.uint8)


def _relative_centre(face: Face, view: View) -> Floats:
    height, width = view.pixels.shape[:2]
    return np.asarray(face.centre / np.array([width, height]), np.float32)
