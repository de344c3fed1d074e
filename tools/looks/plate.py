"""The set painter's tools: a background that is built far to near, each step out of focus by its distance.

Places are shares of the picture (0 to 1), so a set reads like a stage plan.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from brush import Colour, Point, box, ellipse, faded, letters, line_stamp, stamp
from PIL import Image, ImageChops, ImageFilter

from stillme.sources.heads import SIZE


class Plate:
    """A picture-sized background in the making."""

    def __init__(self, top: Colour, bottom: Colour, seed: int) -> None:
        ramp = np.linspace(0, 1, SIZE, dtype=np.float32)[:, None, None]
        rows = np.array(top, np.float32) * (1 - ramp) + np.array(bottom, np.float32) * ramp
        self.image = Image.fromarray(np.repeat(rows, SIZE, 1).astype(np.uint8))
        self.chance = np.random.Generator(np.random.PCG64(seed))

    def shape(self, points: Sequence[Point], fill: Colour, opacity: float = 1.0, soft: float = 0.0) -> None:
        self._press(stamp([(x * SIZE, y * SIZE) for x, y in points], soft), fill, opacity)

    def box(
        self,
        x0: float,
        y0: float,
        x1: float,
        y1: float,
        fill: Colour,
        round_: float = 0,
        opacity: float = 1.0,
        soft: float = 0.0,
    ) -> None:
        made = stamp(box(x0 * SIZE, y0 * SIZE, x1 * SIZE, y1 * SIZE, round_), soft)
        self._press(made, fill, opacity)

    def disc(
        self,
        x: float,
        y: float,
        r: float,
        fill: Colour,
        opacity: float = 1.0,
        soft: float = 0.0,
        ry: float = 0,
    ) -> None:
        self._press(stamp(ellipse((x * SIZE, y * SIZE), r * SIZE, (ry or r) * SIZE), soft), fill, opacity)

    def line(
        self, points: Sequence[Point], width: float, fill: Colour, opacity: float = 1.0, soft: float = 0.0
    ) -> None:
        self._press(line_stamp([(x * SIZE, y * SIZE) for x, y in points], width * SIZE, soft), fill, opacity)

    def write(self, x: float, y: float, text: str, size: float, colour: Colour) -> None:
        self._press(letters((x * SIZE, y * SIZE), text, size * SIZE), colour, 1.0)

    def _press(self, made: tuple[Image.Image, tuple[int, int]] | None, fill: Colour, opacity: float) -> None:
        if made is None:
            return
        mask, at = made
        self.image.paste(fill, at, faded(mask, opacity))

    def glow(self, x: float, y: float, r: float, colour: Colour, power: float = 0.6) -> None:
        """Light that adds to what is there."""
        small = SIZE // 8
        yy, xx = (np.mgrid[0:small, 0:small].astype(np.float32) + 0.5) / small
        fall = np.exp(-((xx - x) ** 2 + (yy - y) ** 2) / (2 * r * r))[..., None] * power
        light = Image.fromarray((fall * np.array(colour, np.float32)).clip(0, 255).astype(np.uint8))
        self._screen(light.resize((SIZE, SIZE), Image.Resampling.BICUBIC))

    def bokeh(
        self,
        count: int,
        area: tuple[float, float, float, float],
        colours: Sequence[Colour],
        size: tuple[float, float],
        power: float = 0.5,
    ) -> None:
        """Out-of-focus lights: discs with a slightly brighter rim."""
        layer = Image.new("RGB", (SIZE, SIZE))
        for _ in range(count):
            x, y = self.chance.uniform(area[0], area[2]), self.chance.uniform(area[1], area[3])
            r = self.chance.uniform(*size) * SIZE
            colour = colours[int(self.chance.integers(len(colours)))]
            light = self.chance.uniform(0.5, 1) * power
            self._bokeh_disc(layer, (x * SIZE, y * SIZE), r, colour, light)
        self._screen(layer.filter(ImageFilter.GaussianBlur(1.2)))

    @staticmethod
    def _bokeh_disc(layer: Image.Image, at: Point, r: float, colour: Colour, light: float) -> None:
        for radius, share in ((r, light), (r * 0.86, light * 0.8)):
            made = stamp(ellipse(at, radius, radius))
            if made is not None:
                tone = (int(colour[0] * share), int(colour[1] * share), int(colour[2] * share))
                layer.paste(tone, made[1], made[0])

    def _screen(self, light: Image.Image) -> None:
        self.image = ImageChops.screen(self.image, light)

    def blur(self, radius: float) -> None:
        self.image = self.image.filter(ImageFilter.GaussianBlur(radius))

    def jitter(self, size: float) -> float:
        return float(self.chance.uniform(-size, size))

    def finish(self, vignette: float = 0.22) -> Image.Image:
        """Light falls off to the corners. The grain of a sensor is added where the layer is used."""
        yy, xx = np.mgrid[-1 : 1 : SIZE * 1j, -1 : 1 : SIZE * 1j].astype(np.float32)
        fall = 1 - vignette * np.clip(xx * xx + yy * yy, 0, 2) / 2
        values = np.asarray(self.image, np.float32) * fall[..., None]
        return Image.fromarray(np.clip(values + 0.5, 0, 255).astype(np.uint8))
