"""Images: open, verify, decode as a viewer would show them, encode. The only place that knows image formats.

Levels are sRGB. An image with another colour profile is converted; one without a profile, or with a broken one, is
taken to be sRGB, as editors write it.
"""

from __future__ import annotations

import io
import itertools
import warnings
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageCms, UnidentifiedImageError

MAX_PIXELS = 64_000_000  # 192 MB as 8-bit RGB; a decompression bomb is refused before it is decoded
# All formats that are ever parsed: others are rare, and Pillow hands some of them (EPS) to another program.
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP")
_EXTENSIONS = {"JPEG": "jpg", "PNG": "png", "WEBP": "webp"}
_SEVERAL_JPEGS = "MPO"  # Pillow's name

Pixels = NDArray[np.uint8]

ORIENTATION = 0x0112  # EXIF's
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_SPACES = {"RGB": "RGB ", "L": "GRAY", "CMYK": "CMYK"}  # mode -> a colour profile's name for it
_METHODS = {"lanczos": Image.Resampling.LANCZOS, "bicubic": Image.Resampling.BICUBIC}
GREY_CHECK_SIDE = 128  # pixels: side at which colour is looked for
MAX_GREY_DIFFERENCE = 6  # levels between channels, all over: scans and JPEG leave a few in a grey image
_SAME = 2  # levels: a profile that moves no colour further is sRGB under any name

# Faults of an image are errors here, or do not matter (broken EXIF); Pillow's own limit is above ours.
warnings.filterwarnings("ignore", module=r"PIL\.")


class BadImageError(ValueError):
    """Not a usable image; the text is the reason, in words that fit after 'the image'."""


@dataclass(frozen=True)
class ImageInfo:
    """Format and size of an image file."""

    extension: str
    width: int
    height: int
    is_blank: bool = False  # one flat colour: what an editor returns when something went wrong inside


UNKNOWN = ImageInfo("bin", 0, 0)  # bytes that are not an image are kept, too


def inspect(content: bytes) -> ImageInfo:
    """Decode the whole image, so that a truncated file is an error here and not later."""
    return _facts(_open(content))


def _facts(image: Image.Image) -> ImageInfo:
    extension = _EXTENSIONS.get(_format(image))
    if extension is None:
        raise BadImageError(f"is of the format {image.format}; JPEG, PNG and WebP are read")
    try:
        bands = _over_white(_eight_bits(image)).getextrema()
    except Exception as error:
        raise _undecodable(error) from None
    is_blank = all(isinstance(band, tuple) and band[0] == band[1] for band in bands)
    return ImageInfo(extension=extension, width=image.width, height=image.height, is_blank=is_blank)


def _format(image: Image.Image) -> str:
    """Pillow's name of the format; a JPEG with further images behind it, as phones write them, is a JPEG."""
    return "JPEG" if image.format == _SEVERAL_JPEGS else image.format or ""


@dataclass(frozen=True)
class DecodedImage:
    """An image file decoded once: its format, its peculiarities, and its pixels as a viewer shows them."""

    facts: ImageInfo
    frames: int
    mode: str
    is_turned: bool  # stored lying down; EXIF says how to show it
    is_grey: bool
    has_profile: bool  # of other colours than sRGB's
    pixels: Pixels


def examine(content: bytes) -> DecodedImage:
    """Decode the whole image and describe what is unusual about it."""
    image = _open(content)
    facts = _facts(image)
    frames = 1 if image.format == _SEVERAL_JPEGS else int(getattr(image, "n_frames", 1))
    mode = image.mode
    profile = image.info.get("icc_profile")
    has_profile = isinstance(profile, bytes) and mode in _SPACES and _transform(profile, mode) is not None
    is_turned = _upright(image) is not image
    shown = _as_shown(image)
    small = np.asarray(shown.resize((GREY_CHECK_SIDE, GREY_CHECK_SIDE), Image.Resampling.BOX), np.int16)
    is_grey = float(np.percentile(small.max(-1) - small.min(-1), 99)) < MAX_GREY_DIFFERENCE
    return DecodedImage(
        facts=facts,
        frames=frames,
        mode=mode,
        is_turned=is_turned,
        is_grey=is_grey,
        has_profile=has_profile,
        pixels=np.asarray(shown),
    )


def small_grey(picture: Pixels, side: int) -> Pixels:
    """The luma of an image, stretched to side × side: means of equal parts."""
    grey = Image.fromarray(picture).convert("L")
    return np.asarray(grey.resize((side, side), Image.Resampling.BOX))


def plain(content: bytes) -> bytes:
    """The image as a viewer would show it, without loss: upright, sRGB, one frame. PNG."""
    buffer = io.BytesIO()
    _shown(content).save(buffer, "PNG", icc_profile=None)
    return buffer.getvalue()


def upscale(content: bytes, side: int, method: str) -> bytes:
    """The image with its shorter side scaled to `side` by a named method; PNG, so nothing is lost again."""
    image = _shown(content)
    scale = side / min(image.size)
    size = (round(image.width * scale), round(image.height * scale))
    require_room(*size)
    buffer = io.BytesIO()
    image.resize(size, _METHODS[method]).save(buffer, "PNG", icc_profile=None)
    return buffer.getvalue()


def require_room(width: int, height: int) -> None:
    """Refuse a size that could not be read again."""
    if width * height > MAX_PIXELS:
        raise BadImageError(f"would have {width} × {height} pixels; the limit is {MAX_PIXELS:,}")


def fit_longer_side(content: bytes, side: int) -> Pixels:
    """The whole image as a viewer would show it, its longer side scaled to `side`; never distorted."""
    return _fit(_shown(content), side)


def decode_thumbnail(content: bytes, side: int) -> Pixels:
    """As `fit_longer_side`, but much faster for a large JPEG: it is decoded no larger than needed."""
    return _fit(_as_shown(_open(content, least=side)), side)


def _fit(image: Image.Image, side: int) -> Pixels:
    scale = side / max(image.size)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return np.asarray(image if size == image.size else image.resize(size, Image.Resampling.LANCZOS))


def webp(picture: Pixels, quality: int = 80, effort: int = 4) -> bytes:
    """A small WebP file. `effort`: 0 is fastest, 6 smallest."""
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "WEBP", quality=quality, method=effort)
    return buffer.getvalue()


def pixels(content: bytes) -> Pixels:
    """The image as a viewer would show it: its first frame, upright, over white, as 8-bit sRGB."""
    return np.asarray(_shown(content))


def encode(picture: Pixels, quality: int = 90, comment: str = "") -> bytes:
    """JPEG without colour subsampling: small, and skin tones keep their value."""
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "JPEG", quality=quality, subsampling=0, comment=comment.encode())
    return buffer.getvalue()


def lossless(picture: Pixels) -> bytes:
    """PNG: every level as it is."""
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "PNG")
    return buffer.getvalue()


def comment(content: bytes) -> str:
    """The comment inside a JPEG, without decoding the image; empty where there is none."""
    image = _header(content)
    text = b"" if image is None else image.info.get("comment", b"")
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)


def media_type(content: bytes) -> str:
    """The file's MIME type, without decoding the image; empty for formats that are not read."""
    image = _header(content)
    name = "" if image is None else _format(image)
    return Image.MIME[name] if name in _EXTENSIONS else ""


def _header(content: bytes) -> Image.Image | None:
    """The image before it is decoded; None where not even its header can be read."""
    try:
        return Image.open(io.BytesIO(content), formats=_FORMATS)
    except Exception:  # parsers of headers raise all kinds of errors
        return None


def thumbnail(content: bytes, side: int, quality: int = 80) -> bytes:
    """A small WebP of the whole image, undistorted."""
    image = _shown(content)
    image.thumbnail((side, side), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", quality=quality, method=4, icc_profile=None)
    return buffer.getvalue()


def _open(content: bytes, least: int = 0) -> Image.Image:
    """`least`: the side that is enough, for files that can be decoded smaller than they are."""
    try:
        image = Image.open(io.BytesIO(content), formats=_FORMATS)
        if image.width * image.height > MAX_PIXELS:
            raise BadImageError(f"has {image.width} × {image.height} pixels; the limit is {MAX_PIXELS:,}")
        if least:
            image.draft(None, (least, least))
        image.load()
    except BadImageError:
        raise
    except UnidentifiedImageError:
        raise BadImageError("is not an image file") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise BadImageError(f"claims more than {MAX_PIXELS:,} pixels") from None
    except Exception as error:
        raise _undecodable(error) from None
    return image


def _undecodable(error: Exception) -> BadImageError:
    return BadImageError(f"cannot be decoded: {str(error) or type(error).__name__}")


def _shown(content: bytes) -> Image.Image:
    return _as_shown(_open(content))


def _as_shown(image: Image.Image) -> Image.Image:
    profile = image.info.get("icc_profile")
    try:
        return _over_white(_eight_bits(_upright(image)), profile if isinstance(profile, bytes) else b"")
    except Exception as error:
        raise _undecodable(error) from None


def _eight_bits(image: Image.Image) -> Image.Image:
    """Pillow would cut levels above 255 off instead of scaling them."""
    if not image.mode.startswith("I"):
        return image
    levels = np.clip(np.asarray(image, np.int64), 0, 65535)
    return Image.fromarray(((levels + 128) // 257).astype(np.uint8))


def _upright(image: Image.Image) -> Image.Image:
    try:
        transpose = _UPRIGHT.get(image.getexif().get(ORIENTATION, 1))
    except Exception:  # broken EXIF is ignored, as viewers do
        transpose = None
    return image if transpose is None else image.transpose(transpose)


def _over_white(image: Image.Image, profile: bytes = b"") -> Image.Image:
    """RGB without transparency."""
    if not image.has_transparency_data:
        return _in_srgb(image, profile)
    with_alpha = image.convert("RGBA")
    canvas = Image.new("RGB", image.size, (255, 255, 255))
    canvas.paste(_in_srgb(with_alpha, profile), mask=with_alpha.getchannel("A"))
    return canvas


def _in_srgb(image: Image.Image, profile: bytes) -> Image.Image:
    plain = image if image.mode in _SPACES else image.convert("L" if image.mode == "1" else "RGB")
    transform = _transform(profile, plain.mode) if profile else None
    return plain.convert("RGB") if transform is None else transform.apply(plain)


@lru_cache(maxsize=8)
def _transform(profile: bytes, mode: str) -> ImageCms.ImageCmsTransform | None:
    """From a profile's colours to sRGB; None where it is broken, for other bands than these, or sRGB itself."""
    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        if source.profile.xcolor_space != _SPACES[mode]:
            return None
        srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB"))
        transform = ImageCms.ImageCmsTransform(source, srgb, mode, "RGB")
        return transform if _changes_colours(transform, mode) else None
    except Exception:  # a broken profile, or a Pillow without LittleCMS
        return None


def _changes_colours(transform: ImageCms.ImageCmsTransform, mode: str) -> bool:
    """Whether some colour differs from what it would be without the profile."""
    bands = len(Image.new(mode, (1, 1)).getbands())
    grid = np.array(list(itertools.product(range(0, 256, 51), repeat=bands)), np.uint8)
    shades = Image.frombytes(mode, (len(grid), 1), grid.tobytes())
    difference = np.asarray(transform.apply(shades), np.int16) - np.asarray(shades.convert("RGB"), np.int16)
    return bool(np.abs(difference).max() > _SAME)


def black(side: int) -> Pixels:
    return np.zeros((side, side, 3), np.uint8)
