"""portrait: what can be measured in one photograph to decide whether it suits an audit. Figures only.

Everything is read from the most prominent face. Which figure is good enough is in the protocol, and a person
decides. Nothing here knows who is in the picture, what a group is, or how pictures are chosen. Loads no OpenCV
until a picture is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stillme.core.records import Reading, Status
from stillme.measures import weights

if TYPE_CHECKING:
    from stillme.measures.view import VisionModels

VERSION = 1  # raise when the same picture gives other figures

# Figure -> what it is. A reading that is ok has the first seven; the others only where the mesh holds.
FIGURES: dict[str, str] = {
    "faces": "faces that the picture shows",
    "score": "how sure the detector is of the most prominent one, 0 to 1",
    "certainty": "how sure the mesh is that it lies on a face, as a logit; below 0 it says that it does not",
    "rival": "size of the next largest face, in percent of this one's; 0 where there is no other",
    "face_height": "height of the face, in pixels",
    "face_share": "share of the picture that the face fills, in percent",
    "margin": "distance of the face to the nearest border, in percent of its height; below 0 it is cut off",
    "yaw": "how far the face is turned to a side, in degrees; above 0 to the picture's right",
    "pitch": "how far the chin is up, in degrees; below 0 down",
    "roll": "how far the head is tilted, in degrees; above 0 clockwise",
    "focus": "share of the edges' steepness that one more blur takes away, least of four directions; 0 to 1",
    "side_light": "how much more light falls on one side of the face than on the other, in stops",
    "shadow": "light between the brightest and the darkest tenth of the cheeks, in stops",
    "blown": "share of the skin between brows and mouth too bright to keep detail, in percent",
    "crushed": "share of the same too dark to keep detail, in percent",
    "covered": "share of the same unlike the person's own cheeks in light or colour, in percent",
    "smile": "how far the corners of the mouth are drawn up, 0 to 1",
    "jaw_open": "how far the jaw is open, 0 to 1",
    "brow": "how far the brows are up or down, 0 to 1; follows the face's shape too",
    "eyes_closed": "how far the eyes are closed, 0 to 1",
    "expression": "the larger of smile and open jaw, 0 to 1",
}


def effective() -> dict[str, Any]:
    """Everything that changes a reading."""
    used = weights.sums(weights.DETECTOR, weights.MESH, weights.BLENDSHAPES)
    return {"measure": "portrait", "version": VERSION, "weights": used}


def read(content: bytes, optics: VisionModels) -> Reading:
    """The figures of one picture, or why there are none."""
    from stillme.measures.portrait_quality import portrait_figures
    from stillme.measures.view import UnreadableError, View

    try:
        return Reading(Status.OK, portrait_figures(View(content, "portrait", optics)))
    except UnreadableError as error:
        return Reading(error.status, detail=error.detail)
