from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from stillme import images


def saved(image: Image.Image, file_format: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, file_format, **options)
    return buffer.getvalue()


NOISE = Image.fromarray(np.random.default_rng(0).integers(0, 255, (32, 48, 3), np.uint8))


@pytest.mark.parametrize(("file_format", "extension"), [("JPEG", "jpg"), ("PNG", "png"), ("WEBP", "webp")])
def test_known_formats(file_format: str, extension: str) -> None:
    assert images.inspect(saved(NOISE, file_format)) == images.Facts(extension, 48, 32, False)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not an image file"),
        (b"hello, I cannot edit this image", "is not an image file"),
        (saved(NOISE, "JPEG")[:400], "cannot be decoded"),
        (saved(NOISE, "PNG")[:200], "cannot be decoded"),
        (saved(NOISE, "BMP"), "is of the format BMP"),
        (saved(Image.new("L", (9000, 9000)), "PNG"), "9000 × 9000 pixels"),
        (saved(Image.new("1", (20000, 20000)), "PNG"), "pixels"),
    ],
)
def test_a_bad_image_is_a_sentence(content: bytes, said: str) -> None:
    with pytest.raises(images.BadImageError, match=said):
        images.inspect(content)


@pytest.mark.parametrize("mode", ["L", "LA", "P", "RGBA", "CMYK", "I;16", "1"])
def test_every_mode_becomes_rgb(mode: str) -> None:
    picture = images.pixels(saved(Image.new(mode, (5, 4)), "JPEG" if mode == "CMYK" else "PNG"))
    assert picture.shape == (4, 5, 3) and picture.dtype == np.uint8


def test_a_turned_photograph_is_shown_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    assert images.pixels(saved(NOISE, "JPEG", exif=exif)).shape == (48, 32, 3)


def test_one_flat_colour_is_blank() -> None:
    assert images.inspect(images.encode(images.black(16))).is_blank
    assert images.inspect(saved(Image.new("RGB", (9, 9), (200, 10, 10)), "PNG")).is_blank
    assert not images.inspect(saved(NOISE, "JPEG")).is_blank


def test_a_comment_survives_and_is_empty_elsewhere() -> None:
    assert images.comment(images.encode(np.asarray(NOISE), comment="hello 7")) == "hello 7"
    assert images.comment(saved(NOISE, "PNG")) == "" == images.comment(b"nothing")


def test_a_thumbnail_is_undistorted() -> None:
    small = Image.open(io.BytesIO(images.thumbnail(saved(NOISE, "PNG"), 24)))
    assert small.size == (24, 16) and small.format == "WEBP"
