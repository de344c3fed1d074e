"""One person's sitting: every figure of `portrait`, taken of the most prominent face in a view."""

from __future__ import annotations

from collections.abc import Mapping

from stillme.core.records import Status
from stillme.measures.expression import expression
from stillme.measures.faces import Face, Mesh
from stillme.measures.focus import focus
from stillme.measures.lighting import lighting
from stillme.measures.pose import pose
from stillme.measures.upright import upright
from stillme.measures.view import UnreadableError, View

LEAST_HEIGHT = 40  # pixels of a face; the mesh of a smaller one is guesswork


def figures(view: View) -> Mapping[str, float]:
    face = view.person
    framing = _framing(view, face)
    mesh = view.mesh(face)
    return {**framing, "certainty": mesh.confidence, **(_looks(view, mesh) if mesh.confidence >= 0 else {})}


def _framing(view: View, face: Face) -> dict[str, float]:
    """Where and how large the face is; from the detector alone, so that every face found has it."""
    left, top, width, height = face.box
    tall, wide = view.pixels.shape[:2]
    if height < LEAST_HEIGHT:
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


def _looks(view: View, mesh: Mesh) -> dict[str, float]:
    """What is read of a face that the mesh lies on."""
    turned, face = pose(mesh), upright(view.pixels, mesh)
    return {
        "yaw": turned.yaw,
        "pitch": turned.pitch,
        "roll": turned.roll,
        "focus": focus(face),
        **lighting(face),
        **expression(mesh),
    }
