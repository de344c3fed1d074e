from __future__ import annotations

import io
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image

from stillme.core import images
from tests.core import colour_profiles


def saved(image: Image.Image, file_format: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, file_format, **options)
    return buffer.getvalue()


NOISE = Image.fromarray(np.random.default_rng(0).integers(0, 255, (32, 48, 3), np.uint8))
RAMP = np.arange(256, dtype=np.uint8).reshape(16, 16)


@pytest.mark.parametrize(("file_format", "extension"), [("JPEG", "jpg"), ("PNG", "png"), ("WEBP", "webp")])
def test_known_formats(file_format: str, extension: str) -> None:
    assert images.inspect(saved(NOISE, file_format)) == images.ImageInfo(extension, 48, 32, False)


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


@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_orientation_shows_the_same_upright_picture(orientation: int) -> None:
    """The camera's frame is made from the upright picture by turning it back."""
    upright = np.asarray(NOISE)
    turned = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.transpose(1, 0, 2),
        6: np.rot90(upright, 1),
        7: upright[::-1, ::-1].transpose(1, 0, 2),
        8: np.rot90(upright, -1),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = saved(Image.fromarray(np.ascontiguousarray(turned)), "PNG", exif=exif)
    assert (images.pixels(stored) == upright).all()


def test_a_turned_16_bit_picture_is_upright_too() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    levels = np.arange(12, dtype=np.uint16).reshape(3, 4) * 5000
    content = saved(Image.fromarray(levels), "PNG", exif=exif)
    assert images.pixels(content).shape == (4, 3, 3)


@pytest.mark.parametrize("broken", [b"Exif\0\0II*\0\x08\0\0\0\xff\xff", b"Exif\0\0nonsense", b"\xff" * 40])
def test_broken_exif_says_nothing_and_warns_of_nothing(broken: bytes) -> None:
    plain, odd = saved(NOISE, "WEBP", lossless=True), saved(NOISE, "WEBP", lossless=True, exif=broken)
    assert (images.pixels(odd) == images.pixels(plain)).all()
    code = "import sys; from stillme.core import images; images.pixels(sys.stdin.buffer.read())"
    run = subprocess.run([sys.executable, "-c", code], input=odd, capture_output=True, check=True)
    assert run.stderr == b""


def test_16_bit_greys_are_scaled_and_not_cut_off() -> None:
    content = saved(Image.fromarray(RAMP.astype(np.uint16) * 257), "PNG")
    assert (images.pixels(content) == RAMP[..., None]).all()
    assert not images.inspect(content).is_blank


def test_32_bit_greys_are_read_as_16_bits() -> None:
    content = saved(Image.fromarray(RAMP.astype(np.int32) * 257), "TIFF")
    assert (images.pixels(content) == RAMP[..., None]).all()


def test_16_bit_colour() -> None:
    wide = np.stack([RAMP, RAMP[::-1], RAMP.T], -1)
    assert np.abs(images.pixels(png_16(wide.astype(">u2") * 257)).astype(int) - wide).max() <= 1


def png_16(levels: np.ndarray[Any, np.dtype[np.uint16]]) -> bytes:
    """An RGB PNG of 16 bits a channel, which Pillow reads and does not write."""
    height, width = levels.shape[:2]
    return png(width, height, 16, 2, b"".join(b"\0" + row.astype(">u2").tobytes() for row in levels))


def png_without_palette() -> bytes:
    """A PNG whose pixels are numbers of colours, without the colours."""
    return png(4, 4, 8, 3, b"\0\1\2\3\4" * 4)


def png(width: int, height: int, depth: int, kind: int, rows: bytes) -> bytes:
    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    header = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


@pytest.mark.parametrize("read", [images.inspect, images.examine, images.pixels])
def test_a_palette_that_is_missing_is_a_sentence(read: Callable[[bytes], object]) -> None:
    with pytest.raises(images.BadImageError, match=r"^cannot be decoded: \w"):
        read(png_without_palette())


def test_cmyk_shows_its_colours() -> None:
    red = Image.new("CMYK", (16, 16), (0, 255, 255, 0))
    shown = images.pixels(saved(red, "JPEG", quality=100)).reshape(-1, 3).mean(0)
    assert shown == pytest.approx([255, 0, 0], abs=4)


def half_clear(mode: str) -> Image.Image:
    """Left half red and solid (grey in LA), right half black and clear."""
    solid = {"RGBA": (200, 0, 0, 255), "LA": (120, 255)}[mode]
    picture = Image.new(mode, (8, 4), (0,) * len(solid))
    picture.paste(solid, (0, 0, 4, 4))
    return picture


@pytest.mark.parametrize(("mode", "colour"), [("RGBA", (200, 0, 0)), ("LA", (120, 120, 120))])
def test_what_is_clear_is_white(mode: str, colour: tuple[int, int, int]) -> None:
    shown = images.pixels(saved(half_clear(mode), "PNG"))
    assert (shown[:, :4] == colour).all() and (shown[:, 4:] == 255).all()


def test_half_transparent_colours_are_mixed_with_white() -> None:
    shown = images.pixels(saved(Image.new("RGBA", (4, 4), (100, 0, 200, 128)), "PNG"))
    assert shown[0, 0] == pytest.approx([177, 127, 227], abs=1)


def palette() -> Image.Image:
    picture = Image.new("P", (8, 4), 0)
    picture.putpalette([10, 20, 30, 200, 100, 50])
    picture.paste(1, (0, 0, 4, 4))
    return picture


@pytest.mark.parametrize(
    ("file_format", "options", "right"),
    [
        ("PNG", {}, (10, 20, 30)),
        ("PNG", {"transparency": 0}, (255, 255, 255)),
        ("PNG", {"transparency": b"\x00\xff"}, (255, 255, 255)),
        ("GIF", {}, (10, 20, 30)),
        ("GIF", {"transparency": 0}, (255, 255, 255)),
    ],
)
def test_palettes_with_and_without_a_clear_colour(
    file_format: str, options: dict[str, object], right: tuple[int, int, int]
) -> None:
    shown = images.pixels(saved(palette(), file_format, **options))
    assert (shown[:, :4] == (200, 100, 50)).all() and (shown[:, 4:] == right).all()


def test_one_bit_and_grey_with_a_clear_level() -> None:
    bits = Image.fromarray(np.indices((4, 8)).sum(0) % 2 == 1)
    assert (images.pixels(saved(bits, "PNG"))[..., 0] == np.asarray(bits) * 255).all()
    grey = images.pixels(saved(Image.fromarray(RAMP), "PNG", transparency=7))
    assert (grey[0, 7] == 255).all() and (grey[0, 8] == 8).all()


@pytest.mark.parametrize(
    ("file_format", "options"), [("WEBP", {"lossless": True}), ("PNG", {}), ("GIF", {"disposal": 2})]
)
def test_an_animation_shows_its_first_frame(file_format: str, options: dict[str, object]) -> None:
    frames = [Image.new("RGB", (8, 6), colour) for colour in ("#204060", "#c08040", "#10c010")]
    content = saved(frames[0], file_format, save_all=True, append_images=frames[1:], duration=90, **options)
    assert Image.open(io.BytesIO(content)).n_frames == 3  # type: ignore[attr-defined]
    assert (images.pixels(content) == (0x20, 0x40, 0x60)).all()


def test_a_jpeg_with_further_pictures_behind_it_is_a_jpeg() -> None:
    """As phones write portraits; Pillow calls it MPO."""
    behind = Image.new("RGB", (24, 16), "#c08040")
    content = saved(NOISE, "MPO", save_all=True, append_images=[behind])
    assert Image.open(io.BytesIO(content)).format == "MPO"
    alone = saved(NOISE, "JPEG")
    assert images.inspect(content) == images.inspect(alone) == images.ImageInfo("jpg", 48, 32, False)
    assert images.media_type(content) == "image/jpeg"
    assert images.examine(content).frames == 1
    assert (images.pixels(content) == images.pixels(alone)).all()
    assert (images.decode_thumbnail(content, 12) == images.decode_thumbnail(alone, 12)).all()


def converted(colour: tuple[int, int, int], primaries: Any, gamma: float) -> list[float]:
    """What sRGB calls a colour of another space; plain arithmetic, no colour library."""
    light = np.array(primaries).T @ (np.array(colour) / 255) ** gamma
    linear = np.clip(np.linalg.solve(np.array(colour_profiles.SRGB).T, light), 0, 1)
    levels = np.where(linear <= 0.0031308, linear * 12.92, 1.055 * linear ** (1 / 2.4) - 0.055)
    return [float(level) for level in levels * 255]


@pytest.mark.parametrize("primaries", [colour_profiles.ADOBE_RGB, colour_profiles.DISPLAY_P3])
@pytest.mark.parametrize("colour", [(196, 150, 120), (90, 60, 45), (128, 128, 128), (40, 90, 160)])
@pytest.mark.parametrize("file_format", ["PNG", "JPEG", "WEBP"])
def test_another_colour_space_becomes_srgb(file_format: str, colour: tuple[int, int, int], primaries: Any) -> None:
    picture = Image.new("RGB", (16, 16), colour)
    options: dict[str, Any] = {"lossless": True} if file_format == "WEBP" else {}
    profile = colour_profiles.rgb_profile(primaries, 2.19921875)
    shown = images.pixels(saved(picture, file_format, icc_profile=profile, **options))[8, 8]
    assert shown == pytest.approx(converted(colour, primaries, 2.19921875), abs=2)


def test_transparency_and_palettes_keep_their_colour_space() -> None:
    profile = colour_profiles.rgb_profile(colour_profiles.ADOBE_RGB, 2.2)
    expected = converted((200, 100, 50), colour_profiles.ADOBE_RGB, 2.19921875)
    clear = Image.new("RGBA", (8, 8), (200, 100, 50, 255))
    clear.putpixel((0, 0), (0, 0, 0, 0))
    shown = images.pixels(saved(clear, "PNG", icc_profile=profile))
    assert shown[4, 4] == pytest.approx(expected, abs=2) and (shown[0, 0] == 255).all()
    assert images.pixels(saved(palette(), "PNG", icc_profile=profile))[0, 0] == pytest.approx(expected, abs=2)


def test_a_grey_profile() -> None:
    shown = images.pixels(saved(Image.new("L", (4, 4), 128), "PNG", icc_profile=colour_profiles.grey_profile(1.0)))
    assert shown[0, 0] == pytest.approx([188] * 3, abs=2)


@pytest.mark.parametrize(
    "profile",
    [
        colour_profiles.rgb_profile(colour_profiles.SRGB, None),  # sRGB under another name
        b"no profile at all",
        colour_profiles.rgb_profile(colour_profiles.ADOBE_RGB, 2.2)[:200],
        colour_profiles.grey_profile(1.0),  # of a picture that is not grey
    ],
)
def test_srgb_and_profiles_that_do_not_hold_leave_every_level_alone(profile: bytes) -> None:
    assert (images.pixels(saved(NOISE, "PNG", icc_profile=profile)) == np.asarray(NOISE)).all()


def test_the_same_file_gives_the_same_pixels_every_time() -> None:
    profile = colour_profiles.rgb_profile(colour_profiles.DISPLAY_P3, 2.2)
    content = saved(NOISE, "JPEG", icc_profile=profile)
    assert len({images.pixels(content).tobytes() for _ in range(5)}) == 1


def test_what_cannot_be_shown_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(image: Image.Image) -> Image.Image:
        raise MemoryError("no room for the picture")

    monkeypatch.setattr(images, "_eight_bits", fail)
    with pytest.raises(images.BadImageError, match="cannot be decoded: no room for the picture"):
        images.pixels(saved(NOISE, "PNG"))


def test_one_flat_colour_is_blank() -> None:
    assert images.inspect(images.encode(images.black(16))).is_blank
    assert images.inspect(saved(Image.new("RGB", (9, 9), (200, 10, 10)), "PNG")).is_blank
    assert images.inspect(saved(Image.new("RGBA", (9, 9), (200, 10, 10, 0)), "PNG")).is_blank
    assert not images.inspect(saved(NOISE, "JPEG")).is_blank


def test_a_comment_survives_and_is_empty_elsewhere() -> None:
    assert images.comment(images.encode(np.asarray(NOISE), comment="hello 7")) == "hello 7"
    assert images.comment(saved(NOISE, "PNG")) == "" == images.comment(b"nothing")


def test_a_thumbnail_is_undistorted() -> None:
    small = Image.open(io.BytesIO(images.thumbnail(saved(NOISE, "PNG"), 24)))
    assert small.size == (24, 16) and small.format == "WEBP"


def test_a_thumbnail_shows_what_is_measured() -> None:
    profile = colour_profiles.rgb_profile(colour_profiles.ADOBE_RGB, 2.2)
    content = saved(Image.new("RGB", (64, 64), (60, 120, 60)), "PNG", icc_profile=profile)
    small = Image.open(io.BytesIO(images.thumbnail(content, 32, quality=100)))
    assert "icc_profile" not in small.info
    assert np.asarray(small)[16, 16] == pytest.approx(images.pixels(content)[0, 0], abs=3)
