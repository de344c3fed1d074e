"""LPIPS with AlexNet (Zhang et al. 2018): the learned perceptual distance, with the network run by OpenCV.

A picture's features are computed apart from any comparison, so that a source's serve all its edits. They come
scaled by the layer's channel weights, so that the distance is a plain squared difference.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from stillme.core.images import Pixels
from stillme.measures import weights

Features = tuple[NDArray[np.float32], ...]

SIDE = 256
CHANNELS = (64, 192, 384, 256, 256)
LAYERS = tuple(f"relu{n}" for n in range(len(CHANNELS)))
# The constants that the published weights were trained with.
SHIFT = np.array([-0.030, -0.088, -0.188], np.float32)
SCALE = np.array([0.458, 0.448, 0.450], np.float32)


class Trunk:
    """AlexNet's five convolutions."""

    def __init__(self) -> None:
        self._net = cv2.dnn.readNetFromONNX(str(weights.verified(weights.TRUNK)))
        heads = np.load(weights.verified(weights.HEADS))
        parts = np.split(heads, np.cumsum(CHANNELS)[:-1])
        self._scales = [np.sqrt(part).astype(np.float32)[:, None, None] for part in parts]

    def features(self, picture: Pixels) -> Features:
        """Of a picture of SIDE × SIDE pixels."""
        given = (picture.astype(np.float32) / np.float32(127.5) - 1 - SHIFT) / SCALE
        self._net.setInput(np.ascontiguousarray(given.transpose(2, 0, 1)[None]))
        found = self._net.forward(list(LAYERS))
        return tuple(_unit(one[0]) * scale for one, scale in zip(found, self._scales, strict=True))


def _unit(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Each place's features with length 1."""
    length = np.sqrt(np.einsum("chw,chw->hw", features, features))
    return np.asarray(features / (length + np.float32(1e-10)), np.float32)
