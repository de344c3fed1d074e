"""Images: open, verify, encode. The only place that knows image formats."""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

LARGEST_PIXELS = 64_000_000
_EXTENSIONS = {"JPEG": "jpg", "PNG": "png", "WEBP": "webp"}

Pixels = NDArray[np.uint8]

# Our own limit is lower and is an error; Pillow's warning would only be printed twice.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)


class BadImageError(ValueError):
    """Not a usable image; the text says why, in words that fit after 'the image'."""


@dataclass(frozen=True)
class Facts:
    """What is known of an image file without interpreting it."""

    extension: str
    width: int
    height: int
    is_blank: bool = False  # one flat colour: what an editor returns when something went wrong inside


UNKNOWN = Facts("bin", 0, 0)  # bytes that are no image are kept all the same


def inspect(content: bytes) -> Facts:
    """Decodes the whole image, so that a cut-off file is found here and not later."""
    image = _open(content)
    extension = _EXTENSIONS.get(image.format or "")
    if extension is None:
        raise BadImageError(f"is of the format {image.format}; JPEG, PNG and WebP are read")
    return Facts(extension, image.width, image.height, _is_flat(image))


def _is_flat(image: Image.Image) -> bool:
    bands = image.convert("RGB").getextrema()
    return all(isinstance(band, tuple) and band[0] == band[1] for band in bands)


def pixels(content: bytes) -> Pixels:
    """The picture as a viewer would show it: upright, RGB."""
    return np.asarray(ImageOps.exif_transpose(_open(content)).convert("RGB"))


def encode(picture: Pixels, quality: int = 90, comment: str = "") -> bytes:
    """JPEG without colour subsampling: small, and skin tones keep their value."""
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "JPEG", quality=quality, subsampling=0, comment=comment.encode())
    return buffer.getvalue()


def comment(content: bytes) -> str:
    """The comment inside a JPEG, without decoding the picture; empty where there is none."""
    try:
        found = Image.open(io.BytesIO(content)).info.get("comment", b"")
    except UnidentifiedImageError:
        return ""
    return found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found)


def thumbnail(content: bytes, side: int, quality: int = 80) -> bytes:
    """A small WebP of the whole picture, undistorted."""
    image = ImageOps.exif_transpose(_open(content)).convert("RGB")
    image.thumbnail((side, side), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", quality=quality, method=4)
    return buffer.getvalue()


def _open(content: bytes) -> Image.Image:
    try:
        image = Image.open(io.BytesIO(content))
        if image.width * image.height > LARGEST_PIXELS:
            raise BadImageError(f"has {image.width} × {image.height} pixels; the limit is {LARGEST_PIXELS:,}")
        image.load()
    except BadImageError:
        raise
    except UnidentifiedImageError:
        raise BadImageError("is not an image file") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise BadImageError(f"claims more than {LARGEST_PIXELS:,} pixels") from None
    except Exception as error:
        raise BadImageError(f"cannot be decoded: {error}") from None
    return image


def black(side: int) -> Pixels:
    return np.zeros((side, side, 3), np.uint8)
