"""Lighting: how evenly a face is lit, and what lies over it; everything relative to the same person's own cheeks.

Light is counted in stops, as photographers do: one stop is twice the light. A ratio of light is the same on dark
and on light skin, where a difference of lightness is not. Beards and fringes are left out, by where they grow.
Over- and under-exposed are levels at which a file keeps no detail of any skin.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from stillme.core import colour
from stillme.measures.regions import LEFT_BROW, LEFT_EYE, RIGHT_BROW, RIGHT_EYE, Mask
from stillme.measures.upright import SIDE, TALL, Upright

Floats = NDArray[np.float32]

# Points of the mesh on cheeks and nose, the person's right; the same on the left.
# fmt: off
RIGHT_CHEEK = (36, 50, 100, 101, 118, 119, 123, 126, 142, 203, 205)
LEFT_CHEEK = (266, 280, 329, 330, 347, 348, 352, 355, 371, 423, 425)
RIGHT_BROADLY = (*RIGHT_CHEEK, 69, 104, 108, 116, 117)  # and forehead
LEFT_BROADLY = (*LEFT_CHEEK, 299, 333, 337, 345, 346)
MIDDLE = (168, 50, 205, 425, 280)
BETWEEN = (226, 113, 225, 223, 221, 9, 441, 443, 445, 342, 446, 345, 425, 164, 205, 116)  # brows and mouth
NOSE_LINE = (168, 2)
# fmt: on

SHADE = 0.03 * TALL  # pixels: finer light and shade is wrinkles and pores
PERCENTILES = (10, 90)
FAINT = 0.003  # of full light: below this a file's levels are too coarse for a ratio
# Of full light: about what any skin's surface mirrors, whatever its tone. Without it gloss and a camera's dark end
# count for more on dark skin: rendered heads in one light read a `shadow` of 0.37 to 0.58 stops (medians by tone),
# with it 0.34 to 0.47.
GLOSS = 0.04
BLOWN = 0.88  # of full light: L* 95
CRUSHED = 14  # of 255, the highest channel: L* 4
UNLIKE_LIGHT, UNLIKE_COLOUR = 1.7, 0.13  # stops; distance of the shares of red and green in the light


def lighting(face: Upright) -> dict[str, float]:
    light = colour.light()[face.pixels]
    stops = np.log2(_smooth(_bright(light), SHADE) + GLOSS)
    sides = face.at(stops, LEFT_BROADLY) - face.at(stops, RIGHT_BROADLY)
    low, high = np.percentile(face.at(stops, RIGHT_CHEEK + LEFT_CHEEK), PERCENTILES)
    return {"side_light": abs(float(np.median(sides))), "shadow": float(high - low), **_shares(face, light)}


def _shares(face: Upright, light: Floats) -> dict[str, float]:
    """In percent of the skin between brows and mouth; nothing where the mesh leaves none of it."""
    skin = _between(face)
    if not skin.any():
        return {}
    marked = {
        "blown": _bright(light) >= BLOWN,
        "crushed": face.pixels.max(-1) <= CRUSHED,
        "covered": _unlike(face, light),
    }
    return {name: 100 * float(mask[skin].mean()) for name, mask in marked.items()}


def _bright(light: Floats) -> Floats:
    return np.asarray(light @ colour.TO_XYZ[1].astype(np.float32), np.float32)


def _smooth(values: Floats, blur: float) -> Floats:
    return np.asarray(cv2.GaussianBlur(values, (0, 0), blur), np.float32)


def _between(face: Upright) -> Mask:
    """The skin between brows and mouth, without the eyes."""
    features = face.mask(LEFT_EYE, RIGHT_EYE, LEFT_BROW, RIGHT_BROW).astype(np.uint8)
    return face.mask(BETWEEN) & ~(cv2.dilate(features, np.ones((3, 3), np.uint8)) > 0)


def _unlike(face: Upright, light: Floats) -> Mask:
    """Pixels whose light is far from that of the cheek on their side, or whose colour is far from the face's."""
    fine = _smooth(light, 1)
    stops = np.log2(_bright(fine) + FAINT)
    cheeks = [float(np.median(face.at(_smooth(stops, SHADE), cheek))) for cheek in (RIGHT_CHEEK, LEFT_CHEEK)]
    away = np.abs(stops - np.where(_on_right(face), *cheeks))
    shares = (fine[..., :2] + FAINT) / (fine.sum(-1, keepdims=True) + 3 * FAINT)
    middle = np.median(shares[face.mask(MIDDLE)], axis=0)
    return np.asarray((away > UNLIKE_LIGHT) | (np.linalg.norm(shares - middle, axis=-1) > UNLIKE_COLOUR))


def _on_right(face: Upright) -> Mask:
    """The person's right of the line down the nose."""
    down, across = np.mgrid[:SIDE, :SIDE]
    (x1, y1), (x2, y2) = face.points[list(NOSE_LINE)]
    return np.asarray((x2 - x1) * (down - y1) - (y2 - y1) * (across - x1) > 0)
