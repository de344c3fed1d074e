"""Pictures: whatever the bytes are, there are facts and pixels, or a sentence."""

from __future__ import annotations

import io
import struct
import zlib
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from PIL import Image

from stillme.core import images
from stillme.core.images import BadImageError
from tests.core.colour_profiles import ADOBE_RGB, rgb_profile
from tests.fuzz.damage import Input, bytes_of
from tests.fuzz.target import Feed, Target, sentence

SIDE = (14, 11)
WIDE = rgb_profile(ADOBE_RGB, 2.2)


def saved(mode: str, form: str, **options: Any) -> bytes:
    picture = Image.effect_noise(SIDE, 60).convert("RGB").convert(mode)
    buffer = io.BytesIO()
    picture.save(buffer, form, **options)
    return buffer.getvalue()


def bomb(width: int, height: int) -> bytes:
    """A PNG that claims a size and has next to nothing in it."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(b"\0" * 100)), (b"IEND", b""))
    made = b"\x89PNG\r\n\x1a\n"
    for kind, content in parts:
        made += struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    return made


def seeds() -> list[bytes]:
    exif = Image.Exif()
    exif[images.ORIENTATION] = 6
    more = [Image.effect_noise(SIDE, 90).convert("RGB") for _ in range(2)]
    moving: dict[str, Any] = {"save_all": True, "append_images": more, "duration": 10}
    return [
        saved("RGB", "JPEG", exif=exif, comment=b"words", icc_profile=WIDE),
        saved("L", "JPEG"),
        saved("CMYK", "JPEG"),
        saved("RGB", "JPEG", progressive=True),
        *(saved(mode, "PNG") for mode in ("RGB", "RGBA", "L", "LA", "P", "1")),
        saved("L", "PNG", transparency=3),
        saved("RGB", "PNG", icc_profile=WIDE, exif=exif),
        saved("RGB", "PNG", **moving),
        saved("RGB", "WEBP", exif=exif, icc_profile=WIDE),
        saved("RGBA", "WEBP", lossless=True),
        saved("RGB", "WEBP", **moving),
        saved("RGB", "GIF", **moving),
        saved("RGB", "TIFF"),
        saved("RGB", "BMP"),
        saved("RGB", "JPEG2000"),
        saved("RGB", "ICO"),
        saved("RGB", "PPM"),
        bomb(100_000, 100_000),
        bomb(9_000, 9_000),
    ]


def feed(content: bytes) -> None:
    images.comment(content).encode("utf-8", "surrogatepass")
    assert images.media_type(content) in ("", "image/jpeg", "image/png", "image/webp")
    with sentence(BadImageError):
        facts = images.inspect(content)
        assert 0 < facts.width * facts.height <= images.MAX_PIXELS
        seen = images.examine(content)
        assert seen.pixels.shape[2] == 3
        assert Image.open(io.BytesIO(images.thumbnail(content, 8))).width <= 8
        assert max(images.decode_thumbnail(content, 8).shape[:2]) == 8
        images.plain(content)
        images.upscale(content, 16, "bicubic")


def _pictures(folder: Path, stack: ExitStack) -> tuple[Input, Feed]:
    return bytes_of(*seeds()), feed


TARGETS = (Target("images", _pictures, 27_000),)
