"""Faces: where they are (YuNet) and how they are shaped (a mesh of 478 points), both run by OpenCV.

Coordinates are pixels of the picture given. Nothing here knows who is in the picture or what is measured of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from stillme.core.images import Pixels
from stillme.measures import weights

Points = NDArray[np.float32]

QUICK, THOROUGH = 256, 640  # longest side that faces are looked for at; the second only where the first finds none
MIN_SCORE = 0.6
MIN_SIDE = 8  # pixels that faces are looked for in; OpenCV reads beyond a picture of one row
MAX_SIZE = 4  # of the picture: no face is larger
MAX_SIDE = 32_766  # pixels; OpenCV cuts no piece out of a longer picture
MESH_SIDE = 256
CHIN, BROW = 152, 10  # the mesh's lowest and highest point on the middle line
EYES = (33, 263)  # outer corners
SAME_PLACE = 0.06  # of the face's height; the model's own error on turned faces reaches this
EDGES = (234, 454)  # where the cheeks end, at the ears


Box = tuple[float, float, float, float]  # left, top, width, height


@dataclass(frozen=True, eq=False)
class Face:
    """One face found. `marks`: right eye, left eye, nose, corners of the mouth, the person's right first."""

    box: Box
    marks: Points
    score: float
    row: NDArray[np.float32]  # as the detector gave it, for the embedding's own alignment

    @property
    def size(self) -> float:
        return max(self.box[2:])

    @property
    def centre(self) -> Points:
        left, top, width, height = self.box
        return np.array([left + width / 2, top + height / 2], np.float32)


@dataclass(frozen=True, eq=False)
class Mesh:
    """The face's points. `confidence` below zero: the model itself says that there is no such face."""

    points: Points  # 478 × 3; the third is depth, in pixels too
    confidence: float

    @property
    def height(self) -> float:
        return float(np.linalg.norm(self.points[CHIN, :2] - self.points[BROW, :2]))

    def scaled(self, across: float, down: float) -> Mesh:
        """The same mesh in the pixels of another picture of the same frame."""
        return Mesh(self.points * np.array([across, down, (across + down) / 2], np.float32), self.confidence)

    def agrees(self, other: Mesh) -> bool:
        """Whether the two lie over each other: the same face in the same place."""
        distance = np.linalg.norm(self.points[:, :2] - other.points[:, :2], axis=1).mean()
        return bool(distance < SAME_PLACE * self.height)

    @property
    def yaw(self) -> float:
        """How far the face is turned to a side, in degrees; 0 is frontal."""
        across = self.points[EDGES[1]] - self.points[EDGES[0]]
        return float(np.degrees(np.arctan2(across[2], np.hypot(across[0], across[1]))))


class FaceDetector:
    """Finds faces, the most prominent first. `min_score`: the score below which nothing is called a face."""

    def __init__(self, min_score: float = MIN_SCORE) -> None:
        path = str(weights.verified(weights.DETECTOR))
        self._net = cv2.FaceDetectorYN.create(path, "", (QUICK, QUICK), min_score, 0.3, 500)

    def find(self, picture: Pixels) -> list[Face]:
        if max(picture.shape) > MAX_SIDE:
            return []
        return self._find_at(picture, QUICK) or (
            self._find_at(picture, THOROUGH) if max(picture.shape) > QUICK else []
        )

    def _find_at(self, picture: Pixels, longest: int) -> list[Face]:
        height, width = picture.shape[:2]
        scale = min(1.0, longest / max(height, width))
        size = (max(1, round(width * scale)), max(1, round(height * scale)))
        if min(size) < MIN_SIDE:
            return []
        small = cv2.resize(picture, size, interpolation=cv2.INTER_AREA) if scale < 1 else picture
        self._net.setInputSize(size)
        detected = self._net.detect(np.ascontiguousarray(small[..., ::-1]))[1]
        rows = np.empty((0, 15), np.float32) if detected is None else np.asarray(detected, np.float32).copy()
        # In strips less than some 32 pixels wide the detector invents faces without bounds.
        is_bounded = np.isfinite(rows).all(1) & (rows[:, 2:4].max(1, initial=0) <= MAX_SIZE * max(size))
        rows = rows[is_bounded]
        rows[:, 0:14:2] *= width / size[0]
        rows[:, 1:14:2] *= height / size[1]
        return sorted((_face(row) for row in rows), key=lambda face: -face.box[2] * face.box[3] * face.score)


def _face(row: NDArray[np.float32]) -> Face:
    left, top, width, height = (float(value) for value in row[:4])
    return Face((left, top, width, height), row[4:14].reshape(5, 2), float(row[14]), row)


class FaceMesher:
    """Lays the mesh over a face; a second time where the first shows that its crop did not fit."""

    def __init__(self) -> None:
        self._net = cv2.dnn.readNetFromTFLite(str(weights.verified(weights.MESH)))
        self._net.enableWinograd(False)  # the mesh's layers are small: a fifth quicker without
        self._outputs = self._net.getUnconnectedOutLayersNames()

    def shape(self, picture: Pixels, face: Face) -> Mesh:
        first = _square_of_face(face)
        mesh = self._mesh_in(picture, first)
        better = _square_of_mesh(mesh)
        return mesh if better.fits(first) else self._mesh_in(picture, better)

    def _mesh_in(self, picture: Pixels, square: Square) -> Mesh:
        crop = square.to_model_input()
        flags = cv2.INTER_AREA if square.side > MESH_SIDE else cv2.INTER_LINEAR
        size = (MESH_SIDE, MESH_SIDE)
        patch = cv2.warpAffine(picture, crop, size, flags=flags, borderMode=cv2.BORDER_REPLICATE)
        self._net.setInput(np.ascontiguousarray(patch.transpose(2, 0, 1)[None], np.float32) / np.float32(255))
        outputs = self._net.forward(self._outputs)
        points = next(output for output in outputs if output.size == 478 * 3).reshape(478, 3)
        confidence = next(float(output.ravel()[0]) for output in outputs if output.size == 1 and output.ndim == 4)
        back = cv2.invertAffineTransform(crop)
        flat = points[:, :2] @ back[:, :2].T + back[:, 2]
        depth = points[:, 2:] * (square.side / MESH_SIDE)
        return Mesh(np.hstack([flat, depth]).astype(np.float32), confidence)


@dataclass(frozen=True)
class Square:
    """A turned square of the picture, as the mesh model wants it: the face in the middle, the eyes level."""

    centre: Points
    side: float
    angle: float

    def to_model_input(self) -> NDArray[np.float64]:
        """The affine map that takes this square to the model's input."""
        scale = MESH_SIDE / max(self.side, 1e-3)
        cos, sin = scale * np.cos(self.angle), scale * np.sin(self.angle)
        turn = np.array([[cos, sin], [-sin, cos]])
        shift = MESH_SIDE / 2 - turn @ np.asarray(self.centre, np.float64)
        return np.hstack([turn, shift[:, None]])

    def fits(self, used: Square) -> bool:
        """Whether the model's answer from `used` would hardly differ from its answer from this one."""
        moved = float(np.linalg.norm(self.centre - used.centre)) / max(used.side, 1e-3)
        turned = abs((self.angle - used.angle + np.pi) % (2 * np.pi) - np.pi)
        return moved < 0.06 and 0.85 < self.side / max(used.side, 1e-3) < 1.15 and turned < 0.15


def _square_of_face(face: Face) -> Square:
    """Where the mesh's square will be, from the detector's five marks.

    The three numbers are fitted on 154 FairFace portraits: one pass with them differs from a converged mesh by
    1 % of the distance between the eyes.
    """
    across = face.marks[1] - face.marks[0]
    angle = float(np.arctan2(across[1], across[0]))
    eyes, mouth = face.marks[:2].mean(0), face.marks[3:].mean(0)
    scale = float(np.hypot(np.linalg.norm(across), np.linalg.norm(mouth - eyes)))
    right, down = np.array([np.cos(angle), np.sin(angle)]), np.array([-np.sin(angle), np.cos(angle)])
    nose = float((face.marks[2] - eyes) @ right)
    centre = eyes - 1.18 * nose * right + 0.352 * scale * down
    return Square(centre.astype(np.float32), 2.72 * scale, angle)


def _square_of_mesh(mesh: Mesh) -> Square:
    flat = mesh.points[:, :2]
    across = flat[EYES[1]] - flat[EYES[0]]
    low, high = flat.min(0), flat.max(0)
    return Square((low + high) / 2, 1.5 * float((high - low).max()), float(np.arctan2(across[1], across[0])))
