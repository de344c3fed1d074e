"""The figure that every layer is drawn for: a torso and a face of ordinary measures, and the sheets they lie on.

At run time a layer is stretched from this figure to each head's own measures, so these numbers go into the index.
They are medians over the 420 shipped heads (84 people, five versions each), rounded.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np
from brush import Point, Sheet, Stamp, curve, ellipse, faded, line_stamp, sheet, stamp, trimmed
from PIL import Image

X, Y, HALF, NECK, BASE = 192.0, 290.0, 145.0, 0.33, -0.32
SHOULDER = {0.6: -0.27, 0.8: -0.213, 1.0: -0.1}  # height of the shoulder line by distance from the middle, in HALF
EYES, EYE_LINE = 52.0, 150.0
EAR, CHIN = (1.2, 0.12), 1.73  # from the middle of the eyes, in EYES

WIDE, ABOVE, BELOW, PIXELS = 1.37, 0.72, 1.03, 180  # what can be seen of clothes, in HALF; and pixels to a HALF
CLOTH = Sheet(
    round(2 * WIDE * PIXELS), round((ABOVE + BELOW) * PIXELS), PIXELS / HALF, X - WIDE * HALF, Y - ABOVE * HALF
)
FACE = Sheet(360, 330, 2.0, X - 90, EYE_LINE - 45)
PICTURE = Sheet()
SIDES = Sheet(height=PICTURE.height + 60)  # figures that sit higher show more of what is held at their sides


class Torso:
    """Measures of the model, in pixels of a portrait; see `stillme.sources.looks.figure` for those of a head."""

    x, y, half, neck, base, eyes = X, Y, HALF, NECK * HALF, Y + BASE * HALF, EYES

    def at(self, u: float, v: float) -> Point:
        return self.x + u * self.half, self.y + v * self.half

    def throat(self, sign: int) -> Point:
        """The left (-1) or right (1) side of the neck where a shirt collar begins."""
        return self.x + sign * self.neck, self.base

    def side(self, sign: int) -> Point:
        """Half-way along the shoulder, where straps lie."""
        x = self.x + sign * 0.5 * self.half
        return x, self.top(x)

    def top(self, x: float) -> float:
        """The shoulder line above x."""
        us, vs = [NECK, *SHOULDER], [BASE, *SHOULDER.values()]
        return float(self.y + np.interp(abs(x - self.x) / self.half, us, vs) * self.half)


class Figure:
    """The model's soft shades; drawn once, on the sheet of clothes."""

    torso = Torso()

    @functools.cached_property
    def drape(self) -> Stamp | None:
        """Where cloth folds from armpits and shoulders."""
        at, made = self.torso.at, Image.new("L", sheet().size)
        for s in (-1, 1):
            _add(made, [at(s * 0.80, 0.02), at(s * 0.74, 0.3), at(s * 0.76, 0.7)], 3.0, 2.5, 1.0)
            _add(made, [at(s * 0.70, 0.5), at(s * 0.56, 0.34), at(s * 0.46, 0.3)], 5.0, 4.0, 0.85)
            _add(made, [at(s * 0.92, 0.42), at(s * 0.99, 0.3), at(s * 1.1, 0.26)], 5.0, 4.0, 0.85)
        _add(made, [at(-0.16, 0.36), at(-0.05, 0.5), at(-0.04, 0.7)], 4.0, 4.0, 0.6)
        return trimmed(made)

    @functools.cached_property
    def seams(self) -> Stamp | None:
        """Where the sleeves are set in."""
        at, made = self.torso.at, Image.new("L", sheet().size)
        for s in (-1, 1):
            _add(made, [at(s * 0.79, -0.3), at(s * 0.80, 0.05), at(s * 0.72, 0.6)], 1.6, 0.0, 0.8)
        return trimmed(made)

    @functools.cached_property
    def chin_shade(self) -> Stamp | None:
        """Where the head keeps light off the collar."""
        t = self.torso
        return stamp(ellipse((t.x, t.y - 0.16 * t.half), t.neck * 1.15, 0.2 * t.half), 9.0)


def _add(made: Image.Image, points: list[Point], width: float, soft: float, share: float) -> None:
    drawn = line_stamp(curve(*points), width, soft)
    if drawn is not None:
        made.paste(255, drawn[1], faded(drawn[0], share))


FIGURE = Figure()
POINTS: Mapping[str, Point] = {
    "eye_left": (X - EYES / 2, EYE_LINE),
    "eye_right": (X + EYES / 2, EYE_LINE),
    "brow_right": (X + EYES / 2, EYE_LINE - 0.27 * EYES),
    "ear_left": (X - EAR[0] * EYES, EYE_LINE + EAR[1] * EYES),
    "ear_right": (X + EAR[0] * EYES, EYE_LINE + EAR[1] * EYES),
    "chin": (X, EYE_LINE + CHIN * EYES),
}


def measures() -> dict[str, object]:
    """What the compositor has to know of the model."""
    return {
        "torso": {"x": X, "y": Y, "half": HALF, "neck": NECK, "base": BASE, "shoulder": list(SHOULDER.items())},
        "face": {"x": X, "y": EYE_LINE, "eyes": EYES, "ear": list(EAR), "chin": CHIN},
        "sheets": {name: [one.left, one.top, one.zoom] for name, one in SHEETS.items()},
    }


SHEETS = {"torso": CLOTH, "face": FACE, "sides": SIDES, "picture": PICTURE}
