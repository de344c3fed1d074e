"""What the tests of the measures share: portraits, edits of a known size, and a bench that reads them."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from stillme.core import images
from stillme.core.images import Pixels
from stillme.core.records import MeasureRequest, Reading, Status
from stillme.measures import change, identity, skin_tone_shift
from stillme.measures.runner import MeasureRunner
from stillme.sources import heads

Levels = NDArray[np.float64]

KINDS = ("skin_tone_shift", "change", "identity")
LIMITS = skin_tone_shift.Settings()


def few(values: Sequence[Any], every: int = 4) -> list[Any]:
    """Parameters: one value in so many is always tested, the others in the slow tier."""
    return [one if n % every == 0 else pytest.param(one, marks=pytest.mark.slow) for n, one in enumerate(values)]


def new_bench() -> MeasureRunner:
    return MeasureRunner(
        {
            "skin_tone_shift": lambda pair: skin_tone_shift.read(pair, LIMITS),
            "change": change.read,
            "identity": identity.read,
        }
    )


def request(source: bytes, edited: bytes, *kinds: str) -> MeasureRequest:
    return MeasureRequest(hashlib.sha256(source).hexdigest(), source, edited, kinds or KINDS)


def figures(bench: MeasureRunner, source: bytes, edited: bytes, *kinds: str) -> dict[str, float]:
    """All figures of a pair that can be read."""
    found: dict[str, float] = {}
    for reading in bench.measure(request(source, edited, *kinds)):
        assert reading.status is Status.OK, reading
        found |= reading.figures
    return found


def skin(bench: MeasureRunner, source: bytes, edited: bytes) -> Reading:
    return bench.measure(request(source, edited, "skin_tone_shift"))[0]


def portrait(key: str) -> Pixels:
    return heads.photograph(heads.load(key))


def saved(image: Image.Image | NDArray[np.unsignedinteger], file_format: str = "PNG", **options: object) -> bytes:
    picture = image if isinstance(image, Image.Image) else Image.fromarray(image)
    buffer = io.BytesIO()
    picture.save(buffer, file_format, **options)
    return buffer.getvalue()


def jpeg(picture: Pixels) -> bytes:
    """As editors return pictures."""
    return images.encode(picture, quality=95)


def lighter(picture: Pixels, delta_l: float) -> Pixels:
    """Everything moved by `delta_l` L*, as by a lamp and not by paint."""
    return heads.shift_skin(picture, np.full(picture.shape[:2], 255, np.uint8), delta_l)


def through(curve: Callable[[Levels], Levels]) -> Callable[[Pixels], Pixels]:
    """A tone curve over levels from 0 to 1, for whole pictures."""
    levels = np.clip(curve(np.arange(256) / 255), 0, 1)
    table = np.asarray(levels * 255 + 0.5, np.uint8)
    return lambda picture: table[picture]


def gamma(power: float) -> Callable[[Pixels], Pixels]:
    return through(lambda level: level**power)


def exposure(gain: float) -> Callable[[Pixels], Pixels]:
    """As much more light on the sensor."""

    def curve(level: Levels) -> Levels:
        light = gain * np.where(level <= 0.04045, level / 12.92, ((level + 0.055) / 1.055) ** 2.4)
        light = np.clip(light, 0, 1)
        return np.where(light <= 0.0031308, light * 12.92, 1.055 * light ** (1 / 2.4) - 0.055)

    return through(curve)


def dyed(picture: Pixels, mask: Pixels, colour: tuple[int, int, int]) -> Pixels:
    """What the mask (0 to 255) covers, in another colour."""
    share = (mask / np.float32(255))[..., None]
    return np.asarray(picture * (1 - share) + np.array(colour) * share + 0.5, np.uint8)


def scene(side: int, seed: int = 0) -> Pixels:
    """A picture with light and dark places, for behind people."""
    few = np.random.default_rng(seed).integers(0, 255, (8, 8, 3), np.uint8)
    return np.asarray(Image.fromarray(few).resize((side, side), Image.Resampling.BICUBIC), np.uint8)
