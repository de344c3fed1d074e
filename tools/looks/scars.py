"""Where healed lines lie on a face, as two masks: the pale line (red) and the darker edge beside it (green)."""

from __future__ import annotations

from brush import Point, curve, line_stamp, moved, sheet
from model import EYES, POINTS
from PIL import Image


def healed_scars() -> Image.Image:
    pale, edge = (Image.new("L", sheet().size) for _ in range(2))
    for line, width in _lines():
        for mask, where, wide in ((edge, moved(line, 0.7, 0.9), width * 1.9), (pale, line, width)):
            made = line_stamp(where, wide, 1.0)
            if made is not None:
                mask.paste(255, made[1], made[0])
    return Image.merge("RGB", [pale, edge, Image.new("L", sheet().size)])


def _lines() -> list[tuple[list[Point], float]]:
    (bx, by), (ex, ey), (cx, cy) = POINTS["brow_right"], POINTS["eye_left"], POINTS["chin"]
    d = EYES
    brow = curve((bx + 0.10 * d, by - 0.36 * d), (bx + 0.16 * d, by - 0.08 * d), (bx + 0.13 * d, by + 0.12 * d))
    cheek = curve((ex - 0.3 * d, ey + 0.38 * d), (ex - 0.06 * d, ey + 0.62 * d), (ex + 0.05 * d, ey + 1.08 * d))
    chin = curve((cx + 0.14 * d, cy - 0.3 * d), (cx + 0.22 * d, cy - 0.2 * d), (cx + 0.24 * d, cy - 0.1 * d))
    return [(brow, 0.05 * d), (cheek, 0.064 * d), (chin, 0.045 * d)]
