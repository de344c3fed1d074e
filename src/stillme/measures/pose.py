"""Pose: how a head is turned, from its mesh laid over a face that looks straight into the camera.

The mesh has depth, so the best turn is a fit of points to points in space. They lie on forehead, nose, cheeks and
jaw, where expressions move little. Nothing here knows how far turned is too far.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stillme.measures.faces import Mesh

Turn = NDArray[np.float64]  # 3 × 3: from the straight face to the one in the picture

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
_POINTS = [right for right, _ in STRAIGHT] + [left for right, left in STRAIGHT if left != right]
_PLACES = np.array(
    [_MIRROR * place for place in STRAIGHT.values()]
    + [np.array(place) for (right, left), place in STRAIGHT.items() if left != right]
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
    turn = _turn(mesh)
    across = np.hypot(turn[0, 0], turn[1, 0])
    yaw, pitch = np.arctan2(turn[2, 0], across), -np.arctan2(turn[2, 1], turn[2, 2])
    roll = np.arctan2(turn[1, 0], turn[0, 0])
    return Pose(*(float(np.degrees(angle)) for angle in (yaw, pitch, roll)))


def _turn(mesh: Mesh) -> Turn:
    """The turn that lays the straight face nearest to the mesh (Kabsch)."""
    seen, straight = mesh.points[_POINTS].astype(np.float64), _PLACES
    left, _, right = np.linalg.svd((seen - seen.mean(0)).T @ (straight - straight.mean(0)))
    upright = np.diag([1, 1, np.sign(np.linalg.det(left @ right))])  # a turn, never a mirror
    return np.asarray(left @ upright @ right)
