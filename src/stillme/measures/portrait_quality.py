"""Portrait quality: every figure of `portrait`, read from the most prominent face of a view.

Framing comes from the detector alone, so that every face has it. Pose, focus, light and expression come from the
mesh, and only where the mesh lies on a face. Nothing here knows which figure is good enough.

Light is counted in stops, as photographers do: one stop is twice the light. A ratio of light is the same on dark
and on light skin, where a difference of lightness is not. Everything about light is relative to the same person's
own cheeks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

import cv2
import numpy as np
from numpy.typing import NDArray

from stillme.core import colour
from stillme.core.images import Pixels
from stillme.core.records import Status
from stillme.measures import weights
from stillme.measures.faces import BROW, CHIN, EYES, Face, Mesh, Points
from stillme.measures.skin import (
    LEFT_BROW,
    LEFT_EYE,
    NOSE_AND_CHEEKS,
    RIGHT_BROW,
    RIGHT_EYE,
    Floats,
    Mask,
    side_of_line,
)
from stillme.measures.view import UnreadableError, View

MIN_FACE_HEIGHT = 40  # pixels; the mesh of a smaller face is guesswork


def portrait_figures(view: View) -> Mapping[str, float]:
    """Return the figures of the most prominent face; those that need the mesh only where the mesh holds."""
    face = view.person
    framing = _framing(view, face)
    mesh = view.mesh(face)
    if mesh.confidence < 0:
        return {**framing, "certainty": mesh.confidence}
    angles, aligned = pose(mesh), upright(view.pixels, mesh)
    return {
        **framing,
        "certainty": mesh.confidence,
        "yaw": angles.yaw,
        "pitch": angles.pitch,
        "roll": angles.roll,
        "focus": focus(aligned),
        **lighting(aligned),
        **expression(mesh),
    }


def _framing(view: View, face: Face) -> dict[str, float]:
    left, top, width, height = face.box
    tall, wide = view.pixels.shape[:2]
    if height < MIN_FACE_HEIGHT:
        raise UnreadableError(Status.TOO_SMALL, f"the face in the {view.name} is {height:.0f} pixels tall")
    border = min(left, top, wide - left - width, tall - top - height)
    return {
        "faces": len(view.faces),
        "score": face.score,
        "rival": 100 * max((other.size for other in view.faces[1:]), default=0.0) / face.size,
        "face_height": height,
        "face_share": 100 * width * height / (wide * tall),
        "margin": 100 * border / height,
    }


# The face upright and at one size, so that what is read from it does not depend on the picture's size.

TALL = 96  # pixels from brow to chin: what a portrait of 224 pixels still has
SIDE = int(1.5 * TALL)
HALO = 0.45  # of a pixel of the smaller picture: what keeps detail too fine for it from turning into patterns


@dataclass(frozen=True, eq=False)
class AlignedFace:
    """SIDE × SIDE pixels around a face that is TALL pixels tall, eyes level; `points` of its mesh there."""

    pixels: Pixels
    points: Points

    def mask(self, *outlines: Iterable[int]) -> Mask:
        """What lies within the hulls of these points of the mesh."""
        mask = np.zeros((SIDE, SIDE), np.uint8)
        for outline in outlines:
            hull = cv2.convexHull(np.round(self.points[list(outline)]).astype(np.int32))
            cv2.fillConvexPoly(mask, hull, 1)
        return mask > 0

    def at(self, values: Floats, points: Iterable[int]) -> Floats:
        """The values where these points of the mesh lie."""
        pixels = np.clip(np.round(self.points[list(points)]).astype(int), 0, SIDE - 1)
        return np.asarray(values[pixels[:, 1], pixels[:, 0]], np.float32)


def upright(picture: Pixels, mesh: Mesh) -> AlignedFace:
    """Cut the face out of the picture, turned and scaled; a picture that shrinks is blurred first."""
    flat = mesh.points[:, :2].astype(np.float64)
    across, centre = flat[EYES[1]] - flat[EYES[0]], (flat[CHIN] + flat[BROW]) / 2
    size = np.array([picture.shape[1], picture.shape[0]])
    low = np.clip((centre - 1.2 * mesh.height).astype(np.int64), 0, size - 1)
    high = np.clip((centre + 1.2 * mesh.height).astype(np.int64) + 1, low + 1, size)
    part = picture[low[1] : high[1], low[0] : high[0]]  # all that can be in the crop
    scale, angle = TALL / max(mesh.height, 1.0), np.arctan2(across[1], across[0])
    if scale < 1:
        part = np.asarray(cv2.GaussianBlur(part, (0, 0), HALO * np.sqrt(1 / scale**2 - 1) + 1e-3), np.uint8)
    cos, sin = scale * np.cos(angle), scale * np.sin(angle)
    turn = np.array([[cos, sin], [-sin, cos]])
    shift = SIDE / 2 - turn @ (centre - low)
    crop = cv2.warpAffine(part, np.column_stack([turn, shift]), (SIDE, SIDE), borderMode=cv2.BORDER_REPLICATE)
    return AlignedFace(np.asarray(crop, np.uint8), ((flat - low) @ turn.T + shift).astype(np.float32))


# Pose. The mesh has depth, so the best turn is a fit of points to points in space. They lie on forehead, nose,
# cheeks and jaw, where expressions move little.

Rotation = NDArray[np.float64]  # 3 × 3: from the straight face to the one in the picture

# A straight face: the mesh's points on the person's right and left, and where the left one lies: across, down and
# away, in centimetres. From MediaPipe's face model, whose 33 points for this purpose these are (Apache 2.0).
STRAIGHT = {
    (4, 4): (0.00, 0.46, -7.59),
    (6, 6): (0.00, -2.47, -5.79),
    (10, 10): (0.00, -8.26, -4.48),
    (33, 263): (4.45, -2.66, -3.17),
    (54, 284): (6.28, -6.62, -1.43),
    (67, 297): (3.52, -8.01, -3.73),
    (117, 346): (5.26, -0.95, -2.97),
    (119, 348): (3.30, -0.86, -3.87),
    (121, 350): (1.82, -1.47, -4.22),
    (127, 356): (7.74, -2.36, 2.01),
    (129, 358): (1.79, 0.98, -4.85),
    (132, 361): (7.27, 2.89, 2.25),
    (133, 362): (1.86, -2.59, -3.76),
    (136, 365): (5.09, 7.18, -0.71),
    (143, 372): (6.41, -2.24, -1.56),
    (147, 376): (6.23, 1.94, -1.66),
    (198, 420): (1.25, -0.23, -5.68),
    (205, 425): (3.83, 1.54, -4.14),
}
_MIRROR = np.array([-1, 1, 1])
_POSE_POINTS = [right for right, _ in STRAIGHT] + [left for right, left in STRAIGHT if left != right]
_POSE_POSITIONS = np.array(
    [_MIRROR * position for position in STRAIGHT.values()]
    + [np.array(position) for (right, left), position in STRAIGHT.items() if left != right]
)


@dataclass(frozen=True)
class Pose:
    """Degrees, 0 for a head that is upright and looks into the camera.

    `yaw` above 0: turned to the picture's right. `pitch` above 0: chin up. `roll` above 0: tilted clockwise.
    """

    yaw: float
    pitch: float
    roll: float


def pose(mesh: Mesh) -> Pose:
    """How the head is turned, tilt first: turning the picture turns `roll` and nothing else."""
    turn = _rotation(mesh)
    across = np.hypot(turn[0, 0], turn[1, 0])
    return Pose(
        yaw=float(np.degrees(np.arctan2(turn[2, 0], across))),
        pitch=float(np.degrees(-np.arctan2(turn[2, 1], turn[2, 2]))),
        roll=float(np.degrees(np.arctan2(turn[1, 0], turn[0, 0]))),
    )


def _rotation(mesh: Mesh) -> Rotation:
    """The rotation that lays the straight face nearest to the mesh (Kabsch 1976)."""
    points = mesh.points[_POSE_POINTS].astype(np.float64)
    covariance = (points - points.mean(0)).T @ (_POSE_POSITIONS - _POSE_POSITIONS.mean(0))
    left, _, right = np.linalg.svd(covariance)
    proper = np.diag([1, 1, np.sign(np.linalg.det(left @ right))])  # a rotation, never a mirror
    return np.asarray(left @ proper @ right)


# Focus: how much of its edges' steepness a face loses when it is blurred once more. A sharp edge loses most of it,
# a soft one hardly any. The share that is lost depends on neither contrast nor skin tone, and the least share of
# four directions is lowered by shaking as much as by a lens out of focus. It is read around eyes, nose and mouth:
# every face has edges there, whatever its age. Noise reads as sharpness.

_NOSE_OUTLINE = (49, 279, 1, 2, 4, 5)
_MOUTH_OUTLINE = (61, 291, 0, 17, 37, 267)
_BLUR_PIXELS = 5  # pixels that are averaged along a direction
_NEIGHBOURHOOD = np.ones((5, 5), np.uint8)  # how far around the outlines edges are read


def focus(face: AlignedFace) -> float:
    """0 for a face without any edge to 1; a face as sharp as its pixels allow reads about 0.6."""
    grey = cv2.cvtColor(face.pixels, cv2.COLOR_RGB2GRAY).astype(np.float32)
    outlines = (LEFT_EYE + LEFT_BROW, RIGHT_EYE + RIGHT_BROW, _NOSE_OUTLINE, _MOUTH_OUTLINE)
    mask = np.asarray(cv2.dilate(face.mask(*outlines).astype(np.uint8), _NEIGHBOURHOOD), np.uint8)
    # As it is, and turned by 45°: rows and columns of both are four directions.
    turn = cv2.getRotationMatrix2D((SIDE / 2, SIDE / 2), 45, 1)
    turned = cv2.warpAffine(grey, turn, (SIDE, SIDE), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    turned_mask = np.asarray(cv2.warpAffine(mask, turn, (SIDE, SIDE)), np.uint8)
    images = ((grey, mask > 0), (np.asarray(turned, np.float32), turned_mask > 0))
    return min(_blur_loss(pixels, where, axis) for pixels, where in images for axis in (0, 1))


def _blur_loss(grey: Floats, where: Mask, axis: int) -> float:
    """The share of the squared steps along an axis that averaging along it takes away."""
    kernel = (1, _BLUR_PIXELS) if axis == 0 else (_BLUR_PIXELS, 1)  # width, height
    blurred = np.asarray(cv2.blur(grey, kernel), np.float32)
    inside = where[1:] if axis == 0 else where[:, 1:]
    before, after = (float((np.diff(pixels, axis=axis)[inside] ** 2).sum()) for pixels in (grey, blurred))
    return 1 - after / before if before > 0 else 0.0


# Lighting: how evenly a face is lit, and what lies over it. Beards and fringes are left out, by where they grow.
# Over- and under-exposed are levels at which a file keeps no detail of any skin.

# Points of the mesh on cheeks and nose, the person's right; the same on the left.
# fmt: off
RIGHT_CHEEK = (36, 50, 100, 101, 118, 119, 123, 126, 142, 203, 205)
LEFT_CHEEK = (266, 280, 329, 330, 347, 348, 352, 355, 371, 423, 425)
RIGHT_BROADLY = (*RIGHT_CHEEK, 69, 104, 108, 116, 117)  # and forehead
LEFT_BROADLY = (*LEFT_CHEEK, 299, 333, 337, 345, 346)
BETWEEN = (226, 113, 225, 223, 221, 9, 441, 443, 445, 342, 446, 345, 425, 164, 205, 116)  # brows and mouth
NOSE_LINE = (168, 2)
NOSE_LINE = (168, 2)
# fmt: on

SHADE = 0.03 * TALL  # pixels: finer light and shade is wrinkles and pores
SHADOW_PERCENTILES = (10, 90)
FAINT = 0.003  # of full light: below this a file's levels are too coarse for a ratio
# Of full light: about what any skin's surface mirrors, whatever its tone. Without it gloss and a camera's dark end
# count for more on dark skin: rendered heads in one light read a `shadow` of 0.37 to 0.58 stops (medians by tone),
# with it 0.34 to 0.47.
GLOSS = 0.04
BLOWN = 0.88  # of full light: L* 95
CRUSHED = 14  # of 255, the highest channel: L* 4
COVERED_STOPS, COVERED_COLOUR = 1.7, 0.13  # stops; distance of the shares of red and green in the light


def lighting(face: AlignedFace) -> dict[str, float]:
    """Light in stops, and shares in percent of the skin between brows and mouth where the mesh leaves any."""
    light = colour.light()[face.pixels]
    stops = np.log2(_blur(_luminance(light), SHADE) + GLOSS)
    sides = face.at(stops, LEFT_BROADLY) - face.at(stops, RIGHT_BROADLY)
    low, high = np.percentile(face.at(stops, RIGHT_CHEEK + LEFT_CHEEK), SHADOW_PERCENTILES)
    figures = {"side_light": abs(float(np.median(sides))), "shadow": float(high - low)}
    features = face.mask(LEFT_EYE, RIGHT_EYE, LEFT_BROW, RIGHT_BROW).astype(np.uint8)
    skin = face.mask(BETWEEN) & ~(cv2.dilate(features, np.ones((3, 3), np.uint8)) > 0)
    if not skin.any():
        return figures
    masks = {
        "blown": _luminance(light) >= BLOWN,
        "crushed": face.pixels.max(-1) <= CRUSHED,
        "covered": _unlike_cheeks(face, light),
    }
    return figures | {name: 100 * float(mask[skin].mean()) for name, mask in masks.items()}


def _luminance(light: Floats) -> Floats:
    return np.asarray(light @ colour.TO_XYZ[1].astype(np.float32), np.float32)


def _blur(values: Floats, sigma: float) -> Floats:
    return np.asarray(cv2.GaussianBlur(values, (0, 0), sigma), np.float32)


def _unlike_cheeks(face: AlignedFace, light: Floats) -> Mask:
    """Pixels whose light is far from that of the cheek on their side, or whose colour is far from the face's."""
    fine = _blur(light, 1)
    stops = np.log2(_luminance(fine) + FAINT)
    cheeks = [float(np.median(face.at(_blur(stops, SHADE), cheek))) for cheek in (RIGHT_CHEEK, LEFT_CHEEK)]
    is_right = side_of_line((SIDE, SIDE), *face.points[list(NOSE_LINE)]) > 0
    distance = np.abs(stops - np.where(is_right, *cheeks))
    shares = (fine[..., :2] + FAINT) / (fine.sum(-1, keepdims=True) + 3 * FAINT)
    median = np.median(shares[face.mask(NOSE_AND_CHEEKS)], axis=0)
    return np.asarray((distance > COVERED_STOPS) | (np.linalg.norm(shares - median, axis=-1) > COVERED_COLOUR))


# Expression: how far parts of a face are from rest, as MediaPipe's blendshapes read it from the mesh, 0 to 1. The
# model sees 146 points of the mesh and no pixel. It was made to move drawn faces, not to say what anyone feels.
# Its brows follow the shape of a face as much as its expression: they are recorded, and no rule should use them.

# The points that the model takes, in its order (`kLandmarksSubsetIdxs` of MediaPipe's face_blendshapes_graph.cc).
# fmt: off
_BLENDSHAPE_POINTS = [
          0, 1, 4, 5, 6, 7, 8, 10, 13, 14, 17, 21, 33, 37, 39, 40, 46, 52, 53, 54, 55, 58, 61, 63, 65, 66, 67, 70,
          78, 80, 81, 82, 84, 87, 88, 91, 93, 95, 103, 105, 107, 109, 127, 132, 133, 136, 144, 145, 146, 148, 149,
          150, 152, 153, 154, 155, 157, 158, 159, 160, 161, 162, 163, 168, 172, 173, 176, 178, 181, 185, 191, 195,
          197, 234, 246, 249, 251, 263, 267, 269, 270, 276, 282, 283, 284, 285, 288, 291, 293, 295, 296, 297,
          300, 308, 310, 311, 312, 314, 317, 318, 321, 323, 324, 332, 334, 336, 338, 356, 361, 362, 365, 373,
          374, 375, 377, 378, 379, 380, 381, 382, 384, 385, 386, 387, 388, 389, 390, 397, 398, 400, 402, 405, 409,
          415, 454, 466, *range(468, 478)]
# fmt: on

# Where the model's 52 answers have what is used here; a pair is left and right.
BROW_DOWN, BROW_INNER_UP, BROW_OUTER_UP = (1, 2), (3,), (4, 5)
BLINK, JAW_OPEN, MOUTH_SMILE = (9, 10), (25,), (44, 45)


def expression(mesh: Mesh) -> dict[str, float]:
    """How far parts of the face are from rest; `expression` is the larger of smile and open jaw."""
    shapes = blendshapes(mesh)

    def mean(indices: tuple[int, ...]) -> float:
        return float(shapes[list(indices)].mean())

    smile, jaw = mean(MOUTH_SMILE), mean(JAW_OPEN)
    return {
        "smile": smile,
        "jaw_open": jaw,
        "brow": max(mean(indices) for indices in (BROW_DOWN, BROW_INNER_UP, BROW_OUTER_UP)),
        "eyes_closed": mean(BLINK),
        "expression": max(smile, jaw),
    }


def blendshapes(mesh: Mesh) -> NDArray[np.float32]:
    """The model's 52 answers. It takes out place and size itself."""
    net = blendshape_net()
    net.setInput(np.ascontiguousarray(mesh.points[_BLENDSHAPE_POINTS, :2][None]))
    return np.asarray(net.forward(), np.float32).ravel()


@cache
def blendshape_net() -> cv2.dnn.Net:
    """One per process: pictures are spread over processes, and a net serves one caller."""
    return cv2.dnn.readNetFromTFLite(str(weights.verified(weights.BLENDSHAPES)))
