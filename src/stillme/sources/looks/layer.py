"""Finished paint, ready to be laid on a picture, and what a layer depends on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops

from stillme.sources.heads import SIZE
from stillme.sources.looks.brush import Canvas


@dataclass(frozen=True, eq=False)
class Layer:
    """Paint ready to lay on a picture from row `top` down; premultiplied."""

    top: int
    paint: Image.Image
    cover: Image.Image

    def lay(self, picture: Image.Image) -> None:
        """Covers the picture with this layer, in place."""
        area = (0, self.top, SIZE, SIZE)
        under = picture.crop(area)
        under.paste((0, 0, 0), (0, 0), self.cover)
        picture.paste(ImageChops.add(under, self.paint), area)

    def mask(self) -> NDArray[np.bool_]:
        """Where the layer covers anything at all."""
        touched = np.zeros((SIZE, SIZE), np.bool_)
        touched[self.top :] = np.asarray(self.cover) > 0
        return touched


def finished(canvas: Canvas) -> Layer:
    """The canvas without its empty upper part."""
    frame = canvas.cover.getbbox()
    top = frame[1] if frame else SIZE - 1
    area = (0, top, SIZE, SIZE)
    return Layer(top, canvas.paint.crop(area), canvas.cover.crop(area))
