"""Blurring and resizing of pictures of numbers."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]


def blurred(picture: Floats, sigma: float) -> Floats:
    return np.asarray(cv2.GaussianBlur(picture, (0, 0), sigma), np.float32)


def resized(picture: Floats, size: int, how: int) -> Floats:
    return np.asarray(cv2.resize(picture, (size, size), interpolation=how), np.float32)
