"""The weights that are shipped with the package: found, and checked against their SHA-256 before they are used."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from stillme.core.errors import SurroundingsError

FOLDER = Path(__file__).parent / "weights"
DETECTOR = "face_detection_yunet_2023mar_int8bq.onnx"
MESH = "face_landmarks_detector.tflite"
BLENDSHAPES = "face_blendshapes.tflite"
EMBEDDING = "face_recognition_sface_2021dec_int8bq.onnx"
TRUNK = "lpips_alex.onnx"
HEADS = "lpips_alex_heads.npy"
AGAIN = "Install stillme again: pip install --force-reinstall --no-deps stillme"


def sums(*names: str) -> dict[str, str]:
    """File -> the SHA-256 that it must have; part of the settings of every measure that uses it."""
    return {name: _listed()[name] for name in names}


def verified(name: str) -> Path:
    """The path of a weights file whose content is what it should be."""
    path = FOLDER / name
    check(path, _listed()[name], AGAIN)
    return path


def check(path: Path, expected: str, remedy: str) -> None:
    """Refuses a file whose content is another than it should be; `remedy` is the next step."""
    found = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "missing"
    if found != expected:
        what = "is missing" if found == "missing" else f"has the SHA-256 {found}, not {expected}"
        raise SurroundingsError(f"The weights file {path} {what}.", remedy)


@cache
def _listed() -> dict[str, str]:
    path = FOLDER / "SHA256SUMS"
    if not path.is_file():
        raise SurroundingsError(f"The list of weights {path} is missing.", AGAIN)
    lines = path.read_text(encoding="utf-8").splitlines()
    return {name: value for value, name in (line.split() for line in lines)}
