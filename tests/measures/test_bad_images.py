"""Whatever an editor returns, or a folder of portraits holds: figures, or a status and a sentence. Never a crash."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from stillme.core.records import Status
from stillme.measures import FIGURES
from stillme.measures.runner import MeasureRunner
from tests.measures import pairs
from tests.measures.pairs import saved

UPRIGHT = pairs.portrait("white-female-30s")
GOOD = saved(UPRIGHT)
PICTURE = Image.fromarray(UPRIGHT)
GREY = np.asarray(PICTURE.convert("L"))
OK, CORRUPT, NO_FACE, GREYSCALE = Status.OK, Status.CORRUPT, Status.NO_FACE, Status.GREYSCALE


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few bytes that claims to be huge."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(99))) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def turned() -> bytes:
    """Stored lying on its side, with EXIF that says so."""
    exif = Image.Exif()
    exif[0x0112] = 6
    return saved(np.ascontiguousarray(np.rot90(UPRIGHT, 1)), exif=exif)


def flat(width: int, height: int, colour: tuple[int, int, int] = (200, 150, 120)) -> bytes:
    return saved(Image.new("RGB", (width, height), colour))


# What each file gives: status of skin_tone_shift, of change, of identity.
FILES = {
    "truncated JPEG": (saved(PICTURE, "JPEG")[:5000], (CORRUPT, CORRUPT, CORRUPT)),
    "truncated PNG": (GOOD[:5000], (CORRUPT, CORRUPT, CORRUPT)),
    "truncated WebP": (saved(PICTURE, "WEBP")[:2000], (CORRUPT, CORRUPT, CORRUPT)),
    "CMYK JPEG": (saved(PICTURE.convert("CMYK"), "JPEG", quality=95), (OK, OK, OK)),
    "16-bit grey PNG": (saved(GREY.astype(np.uint16) * 257), (GREYSCALE, OK, OK)),
    "grey JPEG": (saved(GREY, "JPEG"), (GREYSCALE, OK, OK)),
    "palette": (saved(PICTURE.quantize(256)), (OK, OK, OK)),
    "palette, a clear colour": (saved(PICTURE.quantize(256), transparency=0), (OK, OK, OK)),
    "alpha": (saved(PICTURE.convert("RGBA")), (OK, OK, OK)),
    "all clear": (saved(Image.new("RGBA", (384, 384))), (NO_FACE, OK, NO_FACE)),
    "turned by EXIF": (turned(), (OK, OK, OK)),
    "1 × 1": (flat(1, 1), (NO_FACE, OK, NO_FACE)),
    "30 000 × 30 000": (bomb(30_000, 30_000), (CORRUPT, CORRUPT, CORRUPT)),
    "just too large": (bomb(8_001, 8_001), (CORRUPT, CORRUPT, CORRUPT)),
    "animated WebP": (
        saved(PICTURE, "WEBP", save_all=True, append_images=[Image.new("RGB", PICTURE.size)], duration=50),
        (OK, OK, OK),
    ),
    "not an image": (b"Sorry, I can't help with that.", (CORRUPT, CORRUPT, CORRUPT)),
    "no bytes": (b"", (CORRUPT, CORRUPT, CORRUPT)),
    "2 × 4000": (flat(2, 4000), (NO_FACE, OK, NO_FACE)),
    "4000 × 2": (flat(4000, 2), (NO_FACE, OK, NO_FACE)),
    "40000 × 9": (flat(40_000, 9), (NO_FACE, OK, NO_FACE)),
    "all black": (flat(384, 384, (0, 0, 0)), (NO_FACE, OK, NO_FACE)),
}


@pytest.mark.parametrize(
    ("name", "place"),
    [  # each file in one of the two places; in the other one in the slow tier
        pytest.param(name, place, marks=[pytest.mark.slow] if (number + other) % 2 else [])
        for number, name in enumerate(FILES)
        for other, place in enumerate(("edit", "source"))
    ],
)
def test_every_file_gives_figures_or_a_status_and_a_sentence(bench: MeasureRunner, name: str, place: str) -> None:
    content, expected = FILES[name]
    source, edit = (content, GOOD) if place == "source" else (GOOD, content)
    readings = bench.measure(pairs.request(source, edit))
    assert tuple(reading.status for reading in readings) == expected
    for kind, reading in zip(pairs.KINDS, readings, strict=True):
        if reading.status is OK:
            assert set(reading.figures) == set(FIGURES[kind]) and not reading.detail
            assert all(np.isfinite(value) for value in reading.figures.values())
        else:
            assert not reading.figures and f"the {place}" in reading.detail


def test_the_sentence_says_what_is_wrong(bench: MeasureRunner) -> None:
    said = {name: pairs.skin(bench, GOOD, content).detail for name, (content, _) in FILES.items()}
    assert said["not an image"] == said["no bytes"] == "the edit is not an image file"
    assert said["30 000 × 30 000"] == "the edit claims more than 64,000,000 pixels"
    assert said["just too large"] == "the edit has 8001 × 8001 pixels; the limit is 64,000,000"
    assert said["truncated JPEG"].startswith("the edit cannot be decoded: ")
    assert said["1 × 1"] == said["4000 × 2"] == "no face in the edit"
    assert said["grey JPEG"] == "the edit has no colour"


@pytest.mark.parametrize("name", ["turned by EXIF", "alpha"])
def test_the_same_picture_in_another_file_reads_as_the_same(bench: MeasureRunner, name: str) -> None:
    """Its pixels are equal, so everything is; the figures of the source alone are left out."""
    read = pairs.figures(bench, GOOD, FILES[name][0])
    assert read["lightness_shift"] == read["hue_shift"] == read["delta_e"] == read["background_shift"] == 0
    assert read["lpips"] == read["changed_share"] == read["phash_distance"] == 0
    assert read["ssim"] == read["similarity"] == 1


@pytest.mark.parametrize(("name", "within"), [("CMYK JPEG", 0.2), ("palette", 0.4), ("animated WebP", 0.3)])
def test_another_format_hardly_moves_the_skin(bench: MeasureRunner, name: str, within: float) -> None:
    assert abs(pairs.figures(bench, GOOD, FILES[name][0])["lightness_shift"]) < within


@pytest.mark.parametrize("rows", [1, 2, 3, 7])
def test_a_picture_of_few_rows_has_no_face_every_time(bench: MeasureRunner, rows: int) -> None:
    noise = np.random.default_rng(rows).integers(0, 255, (rows, 320, 3), np.uint8)
    assert {pairs.skin(bench, GOOD, saved(noise)).status for _ in range(5)} == {NO_FACE}
