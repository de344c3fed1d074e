"""Expression: how far parts of a face are from rest, as MediaPipe's blendshapes read it off the mesh, 0 to 1.

The model sees 146 points of the mesh and no pixel. It was made to move drawn faces, not to say what anyone feels.
Its brows follow the shape of a face as much as its expression: they are recorded, and no rule should rest on them.
"""

from __future__ import annotations

from functools import cache

import cv2
import numpy as np
from numpy.typing import NDArray

from stillme.measures import weights
from stillme.measures.faces import Mesh

# The points that the model takes, in its order (`kLandmarksSubsetIdxs` of MediaPipe's face_blendshapes_graph.cc).
# fmt: off
POINTS = [0, 1, 4, 5, 6, 7, 8, 10, 13, 14, 17, 21, 33, 37, 39, 40, 46, 52, 53, 54, 55, 58, 61, 63, 65, 66, 67, 70,
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
    """`expression` is the larger of smile and open jaw."""
    shapes = blendshapes(mesh)
    smile, jaw = _of(shapes, MOUTH_SMILE), _of(shapes, JAW_OPEN)
    return {
        "smile": smile,
        "jaw_open": jaw,
        "brow": max(_of(shapes, which) for which in (BROW_DOWN, BROW_INNER_UP, BROW_OUTER_UP)),
        "eyes_closed": _of(shapes, BLINK),
        "expression": max(smile, jaw),
    }


def blendshapes(mesh: Mesh) -> NDArray[np.float32]:
    """The model's 52 answers. It takes out place and size itself."""
    net = _net()
    net.setInput(np.ascontiguousarray(mesh.points[POINTS, :2][None]))
    return np.asarray(net.forward(), np.float32).ravel()


def _of(shapes: NDArray[np.float32], which: tuple[int, ...]) -> float:
    return float(shapes[list(which)].mean())


@cache
def _net() -> cv2.dnn.Net:
    """One a process: pictures are spread over processes, and a net serves one caller."""
    return cv2.dnn.readNetFromTFLite(str(weights.verified(weights.BLENDSHAPES)))
