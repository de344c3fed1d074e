"""Reads the shipped layers: places, garments, props and scars as WebP files. The files are written by tools/looks.

A layer is drawn for one model figure. `index.json` has the model's measures, and which prop goes where.
"""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops

from stillme.sources.heads import SIZE

GRAIN = 2.2  # levels of sensor noise, which binds a place and the figure before it together


@functools.cache
def index() -> Mapping[str, Any]:
    """The measures of the model that the layers were drawn for, and the table of props."""
    content: Mapping[str, Any] = json.loads(_file("index.json"))
    return content


def _file(name: str) -> bytes:
    return files("stillme.sources.looks").joinpath("layers", name).read_bytes()


@functools.lru_cache(maxsize=90)  # a garment is 0.8 MB; twenty looks, four colourways
def read_layer(name: str, mode: str) -> Image.Image:
    """A layer as drawn.

    Mode RGBa: colours multiplied by their opacity. Mode CMYK: colours as they are, with the opacity as a fourth
    band; Pillow would multiply bands that are called RGBA whenever it moves them.
    """
    with Image.open(io.BytesIO(_file(f"{name}.webp"))) as image:
        return Image.merge(mode, image.split()) if mode == "CMYK" else image.convert(mode)


@functools.lru_cache(maxsize=80)  # twenty looks, four variants: 35 MB when all are in use
def backdrop(scene: str, variant: int) -> Image.Image:
    """The place; copy it before painting on it."""
    place = np.asarray(read_layer.__wrapped__(f"scenes/{scene}.{variant}", "RGB"), np.float32)
    return Image.fromarray(np.clip(place + _grain(variant) + 0.5, 0, 255).astype(np.uint8))


@functools.cache
def _grain(variant: int) -> NDArray[np.float32]:
    noise = np.random.Generator(np.random.PCG64(variant)).standard_normal((SIZE, SIZE, 1), np.float32)
    return np.asarray(GRAIN * noise, np.float32)


@dataclass(frozen=True, eq=False)
class Layer:
    """Paint ready to lay on a picture from row `top` down; colours are multiplied by the coverage."""

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
