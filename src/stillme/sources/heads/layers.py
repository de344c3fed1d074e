"""The shipped layers of each head, its studio background, and the two put together. tools/heads makes the files.

`<name>.webp` is the portrait on its own background; `<name>.m.webp` is one grey sheet of masks: figure and
skin at full size, hair and cloth at half size below them. Masks are cleaned of what lossy compression added.
"""

from __future__ import annotations

import functools
import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from stillme.sources.heads.colour import Bytes, Floats

Rgb = tuple[int, int, int]

SIZE = 384  # pixels, width and height of every portrait
HALF = SIZE // 2
# Lossy masks are stretched so that levels up to the first are nothing, and levels from the second are everything.
MASK_NOTHING, MASK_ALL = 8, 246
CACHED_HEADS = 160  # about 1 MB each

_SIGNATURE = "stillme synthetic portrait {number}"
_SIGNATURE_PATTERN = re.compile(_SIGNATURE.format(number=r"(\d+)"))


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
    return MappingProxyType(_variants(key)["base"]["labels"])


def variants(key: str) -> tuple[str, ...]:
    return tuple(_variants(key))


@functools.lru_cache(maxsize=CACHED_HEADS)
def load(key: str, variant: str = "base") -> Head:
    if variant not in _variants(key):
        raise KeyError(f"The head {key!r} has no variant {variant!r}; it has {', '.join(_variants(key))}.")
    entry = _variants(key)[variant]
    name = key if variant == "base" else f"{key}.{variant}"
    top, bottom = entry["background"]
    background = (top[0], top[1], top[2]), (bottom[0], bottom[1], bottom[2])
    figure, skin, hair, cloth = _masks(_read_image(f"{name}.m.webp", "L"))
    # The figure over black: what is left of the photograph when its background's share is taken away.
    cover = (figure / np.float32(255))[..., None]
    photograph = _read_image(f"{name}.webp", "RGB") - backdrop(background) * (1 - cover)
    rgb = np.asarray(np.clip(photograph, 0, 255 * cover) + 0.5, np.uint8)
    for layer in (rgb, figure, skin, hair, cloth):
        layer.flags.writeable = False
    return Head(
        key=key,
        variant=variant,
        labels=MappingProxyType(entry["labels"]),
        years=entry["years"],
        rgb=rgb,
        figure=figure,
        skin=skin,
        hair=hair,
        cloth=cloth,
        points=MappingProxyType({name: (point[0], point[1]) for name, point in entry["points"].items()}),
        background=background,
        truth=MappingProxyType(entry["truth"]),
    )


@functools.cache
def _index() -> dict[str, dict[str, dict[str, Any]]]:
    heads: dict[str, dict[str, dict[str, Any]]] = json.loads(_read("index.json"))["heads"]
    return heads


def _variants(key: str) -> dict[str, dict[str, Any]]:
    if key not in _index():
        raise KeyError(f"There is no head named {key!r}; stillme.sources.heads.keys() lists all {len(_index())}.")
    return _index()[key]


def _read(name: str) -> bytes:
    return files("stillme.sources.heads").joinpath("files", name).read_bytes()


def _read_image(name: str, mode: str) -> Bytes:
    with Image.open(io.BytesIO(_read(name))) as image:
        return np.asarray(image.convert(mode), np.uint8)


def _masks(sheet: Bytes) -> tuple[Bytes, Bytes, Bytes, Bytes]:
    """Figure, skin, hair, cloth; the last three never add up to more than the figure."""
    level = np.arange(256, dtype=np.float32)
    stretched = np.clip((level - MASK_NOTHING) / (MASK_ALL - MASK_NOTHING), 0, 1) * 255 + 0.5
    clean = np.asarray(stretched, np.uint8)

    def upscale(mask: Bytes) -> Bytes:
        return np.asarray(Image.fromarray(mask).resize((SIZE, SIZE), Image.Resampling.BICUBIC), np.uint8)

    figure = clean[sheet[:SIZE, :SIZE]]
    skin = np.minimum(clean[sheet[:SIZE, SIZE:]], figure)
    hair = np.minimum(clean[upscale(sheet[SIZE:, :HALF])], figure - skin)
    cloth = np.minimum(clean[upscale(sheet[SIZE:, HALF:SIZE])], figure - skin - hair)
    return figure, skin, hair, cloth


# The studio


@functools.lru_cache(maxsize=32)
def backdrop(pair: tuple[Rgb, Rgb]) -> Floats:
    """Top colour to bottom colour with a pool of light behind the head; sRGB levels, read-only."""
    rise = np.linspace(0, 1, SIZE, dtype=np.float32)[:, None, None]
    top, bottom = (np.array(colour, np.float32) for colour in pair)
    light, grain = _studio_light()
    picture = np.asarray((top * (1 - rise) + bottom * rise) * light + grain, np.float32)
    picture.flags.writeable = False
    return picture


@functools.cache
def _studio_light() -> tuple[Floats, Floats]:
    """The pool of light as a factor, and less than one level of noise, so that the gradient shows no bands."""
    y, x = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32) / SIZE
    reach = ((x - 0.5) / 0.55) ** 2 + ((y - 0.42) / 0.6) ** 2
    light = np.asarray(0.93 + 0.10 * np.exp(-reach), np.float32)[..., None]
    noise: NDArray[np.float64] = np.random.default_rng(384).normal(0, 0.7, (SIZE, SIZE, 1))
    return light, np.asarray(noise, np.float32)


def photograph(head: Head) -> Bytes:
    """The head on its own studio background: the source portrait."""
    return over(head, _studio(head.background))


def over(head: Head, behind: Bytes) -> Bytes:
    """The head in front of any picture of the same size."""
    share = np.uint16(255) - head.figure[..., None]
    visible = (behind * share + np.uint16(127)) // np.uint16(255)
    return np.minimum(head.rgb + visible, 255).astype(np.uint8)


@functools.lru_cache(maxsize=32)
def _studio(pair: tuple[Rgb, Rgb]) -> Bytes:
    return np.asarray(np.clip(backdrop(pair) + 0.5, 0, 255), np.uint8)


# The signature: how a synthetic portrait is recognised again, by a number in its JPEG comment, which says nothing
# about the person


def signature(key: str) -> str:
    return _SIGNATURE.format(number=keys().index(key))


def key_in(comment: str) -> str | None:
    """The head that a comment names, or None for any other picture."""
    match = _SIGNATURE_PATTERN.fullmatch(comment)
    number = int(match.group(1)) if match else -1
    return keys()[number] if 0 <= number < len(keys()) else None
