"""Writes the shipped layers: two WebP files a picture and one index, swapped into place whole.

`<name>.webp` is the photograph on its own background (encodes without dark rims); `<name>.m.webp` holds the
masks as one grey sheet: figure and skin at full size, hair and cloth below them at half size.
"""

from __future__ import annotations

import io
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from people import Person
from PIL import Image
from portrait import Layers

from stillme.sources.heads import SIZE

HALF = SIZE // 2
Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Quality:
    picture: int
    masks: int


BASE = Quality(92, 70)
VERSION = Quality(86, 52)


def picture_bytes(layers: Layers, quality: Quality) -> bytes:
    return _webp(Image.fromarray(layers.rgb), quality.picture)


def mask_bytes(layers: Layers, quality: Quality) -> bytes:
    return _webp(Image.fromarray(mask_sheet(layers)), quality.masks)


def mask_sheet(layers: Layers) -> Bytes:
    sheet = np.zeros((SIZE + HALF, SIZE * 2), np.uint8)
    sheet[:SIZE, :SIZE] = layers.figure
    sheet[:SIZE, SIZE:] = layers.skin
    sheet[SIZE:, :HALF] = _half(layers.hair)
    sheet[SIZE:, HALF:SIZE] = _half(layers.cloth)
    return sheet[:, : SIZE * 2]


def _half(mask: Bytes) -> Bytes:
    return np.asarray(cv2.resize(mask, (HALF, HALF), interpolation=cv2.INTER_AREA), np.uint8)


def _webp(image: Image.Image, quality: int) -> bytes:
    out = io.BytesIO()
    image.save(out, "WEBP", quality=quality, method=6)
    return out.getvalue()


def name_of(person: Person) -> str:
    return person.key if person.variant == "base" else f"{person.key}.{person.variant}"


def entry(person: Person, layers: Layers) -> dict[str, Any]:
    truth = person.truth() | {"skin_lab_measured": [round(value, 2) for value in layers.measured_lab]}
    return {
        "labels": dict(person.labels),
        "years": person.years,
        "points": {name: list(spot) for name, spot in layers.points.items()},
        "background": [list(part) for part in person.background],
        "truth": truth,
    }


def write_layers(folder: Path, person: Person, layers: Layers) -> dict[str, Any]:
    quality = BASE if person.variant == "base" else VERSION
    name = name_of(person)
    (folder / f"{name}.webp").write_bytes(picture_bytes(layers, quality))
    (folder / f"{name}.m.webp").write_bytes(mask_bytes(layers, quality))
    return entry(person, layers)


def write_index(folder: Path, found: dict[str, dict[str, Any]]) -> None:
    index = {
        "note": "Invented people rendered from CC0 geometry. The looks are placeholders, not representations of "
        "groups; differences between groups in these pictures are inputs, not findings.",
        "size": SIZE,
        "heads": found,
    }
    text = json.dumps(index, separators=(",", ":"), ensure_ascii=False)
    (folder / "index.json").write_text(text + "\n")


def swap(fresh: Path, place: Path) -> None:
    """Put a finished folder where readers look; the old one is complete until the moment it is replaced."""
    old = place.with_name(place.name + ".old")
    shutil.rmtree(old, ignore_errors=True)
    if place.exists():
        place.rename(old)
    fresh.rename(place)
    shutil.rmtree(old, ignore_errors=True)
