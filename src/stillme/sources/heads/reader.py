"""Reads the shipped layers: an index and two WebP files a picture. The files are written by tools/heads.

`<name>.webp` is the portrait on its own background; `<name>.m.webp` is one grey sheet of masks: figure and
skin at full size, hair and cloth at half size below them. Masks are cleaned after their lossy journey.
"""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from stillme.sources.heads.backdrop import SIZE, Rgb, backdrop

Bytes = NDArray[np.uint8]

HALF = SIZE // 2
FAINT, FIRM = 8, 246  # lossy masks are stretched so that this much is nothing, and this much is all
CACHED = 160  # about 1 MB each


@dataclass(frozen=True, eq=False)
class Head:
    """One portrait (or one version of it) as layers; arrays are read-only."""

    key: str
    variant: str
    labels: Mapping[str, str]
    years: int
    rgb: Bytes
    figure: Bytes
    skin: Bytes
    hair: Bytes
    cloth: Bytes
    points: Mapping[str, tuple[float, float]]
    background: tuple[Rgb, Rgb]
    truth: Mapping[str, object]


def keys() -> tuple[str, ...]:
    """All heads, in the order of the protocol: race, then gender, then age."""
    return tuple(_index())


def labels(key: str) -> Mapping[str, str]:
    """The groups that a head belongs to, without loading its picture."""
    return MappingProxyType(_entry(key, "base")["labels"])


def variants(key: str) -> tuple[str, ...]:
    return tuple(_versions(key))


@functools.lru_cache(maxsize=CACHED)
def load(key: str, variant: str = "base") -> Head:
    entry = _entry(key, variant)
    name = key if variant == "base" else f"{key}.{variant}"
    background = (_rgb(entry["background"][0]), _rgb(entry["background"][1]))
    figure, skin, hair, cloth = _masks(_picture(f"{name}.m.webp", "L"))
    return Head(
        key=key,
        variant=variant,
        labels=MappingProxyType(entry["labels"]),
        years=entry["years"],
        rgb=_frozen(_cut_out(_picture(f"{name}.webp", "RGB"), figure, background)),
        figure=_frozen(figure),
        skin=_frozen(skin),
        hair=_frozen(hair),
        cloth=_frozen(cloth),
        points=MappingProxyType({point: (spot[0], spot[1]) for point, spot in entry["points"].items()}),
        background=background,
        truth=MappingProxyType(entry["truth"]),
    )


@functools.cache
def _index() -> dict[str, dict[str, dict[str, Any]]]:
    heads: dict[str, dict[str, dict[str, Any]]] = json.loads(_read("index.json"))["heads"]
    return heads


def _versions(key: str) -> dict[str, dict[str, Any]]:
    if key not in _index():
        raise KeyError(f"There is no head named {key!r}; stillme.sources.heads.keys() lists all {len(_index())}.")
    return _index()[key]


def _entry(key: str, variant: str) -> dict[str, Any]:
    versions = _versions(key)
    if variant not in versions:
        raise KeyError(f"The head {key!r} has no variant {variant!r}; it has {', '.join(versions)}.")
    return versions[variant]


def _read(name: str) -> bytes:
    return files("stillme.sources.heads").joinpath("files", name).read_bytes()


def _picture(name: str, mode: str) -> Bytes:
    with Image.open(io.BytesIO(_read(name))) as image:
        return np.asarray(image.convert(mode), np.uint8)


def _rgb(levels: list[int]) -> Rgb:
    return levels[0], levels[1], levels[2]


def _masks(sheet: Bytes) -> tuple[Bytes, Bytes, Bytes, Bytes]:
    """Figure, skin, hair, cloth; the last three never add up to more than the figure."""
    figure = _clean(sheet[:SIZE, :SIZE])
    skin = np.minimum(_clean(sheet[:SIZE, SIZE:]), figure)
    hair = np.minimum(_clean(_enlarged(sheet[SIZE:, :HALF])), figure - skin)
    cloth = np.minimum(_clean(_enlarged(sheet[SIZE:, HALF:SIZE])), figure - skin - hair)
    return figure, skin, hair, cloth


@functools.cache
def _stretch() -> Bytes:
    level = np.arange(256, dtype=np.float32)
    return np.asarray(np.clip((level - FAINT) / (FIRM - FAINT), 0, 1) * 255 + 0.5, np.uint8)


def _clean(mask: Bytes) -> Bytes:
    return _stretch()[mask]


def _enlarged(mask: Bytes) -> Bytes:
    return np.asarray(Image.fromarray(mask).resize((SIZE, SIZE), Image.Resampling.BICUBIC), np.uint8)


def _cut_out(photograph: Bytes, figure: Bytes, background: tuple[Rgb, Rgb]) -> Bytes:
    """The figure over black: what is left of the photograph when its background's share is taken away."""
    cover = (figure / np.float32(255))[..., None]
    kept = photograph - backdrop(background) * (1 - cover)
    return np.asarray(np.clip(kept, 0, 255 * cover) + 0.5, np.uint8)


def _frozen(layer: Bytes) -> Bytes:
    layer.flags.writeable = False
    return layer
