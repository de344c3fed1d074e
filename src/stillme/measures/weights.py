"""The weights shipped with the package, checked against their SHA-256 before they are used."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from stillme.core.errors import SetupError

FOLDER = Path(__file__).parent / "weights"
DETECTOR = "face_detection_yunet_2023mar_int8bq.onnx"
MESH = "face_landmarks_detector.tflite"
BLENDSHAPES = "face_blendshapes.tflite"
EMBEDDING = "face_recognition_sface_2021dec_int8bq.onnx"
TRUNK = "lpips_alex.onnx"
HEADS = "lpips_alex_heads.npy"
REINSTALL_HINT = "Install stillme again: pip install --force-reinstall --no-deps stillme"


def sums(*names: str) -> dict[str, str]:
    """File -> the SHA-256 that it must have; part of the settings of every measure that uses it."""
    return {name: listed_checksums()[name] for name in names}


def verified(name: str) -> Path:
    """The path of a weights file whose content is what it should be."""
    path = FOLDER / name
    check(path, listed_checksums()[name], REINSTALL_HINT)
    return path


def check(path: Path, expected: str, remedy: str) -> None:
    """Raise SetupError if the file is missing or has another checksum; `remedy` is the next step."""
    if not path.is_file():
        raise SetupError(f"The weights file {path} is missing.", remedy)
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    if checksum != expected:
        raise SetupError(f"The weights file {path} has the SHA-256 {checksum}, not {expected}.", remedy)


@cache
def listed_checksums() -> dict[str, str]:
    path = FOLDER / "SHA256SUMS"
    if not path.is_file():
        raise SetupError(f"The list of weights {path} is missing.", REINSTALL_HINT)
    lines = path.read_text(encoding="utf-8").splitlines()
    return {name: value for value, name in (line.split() for line in lines)}
