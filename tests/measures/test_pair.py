"""`stillme measure`: two pictures, a small table, a picture on wish."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from PIL import Image

from stillme.core import images
from stillme.sources import heads
from tests.command import stillme


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A head, and the same head with skin 6 L* lighter."""
    head = heads.load(heads.keys()[40])
    lighter = replace(head, rgb=heads.shift_skin(head.rgb, head.skin, 6.0))
    before, after = tmp_path / "before.jpg", tmp_path / "after.jpg"
    before.write_bytes(images.encode(heads.photograph(head), quality=95))
    after.write_bytes(images.encode(heads.photograph(lighter), quality=95))
    return before, after


run = partial(stillme, "measure")


def test_a_small_table(pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*pair) == 0
    out = capsys.readouterr().out
    line = next(line for line in out.splitlines() if line.startswith("skin tone shift"))
    assert float(line.split()[3]) == pytest.approx(6, abs=0.4)
    assert "lighter; re-encoding alone" in line and "of light, taken off" in out
    assert max(len(line) for line in out.splitlines()[1:]) <= 100


def test_json_for_scripts(pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*pair, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["lightness_change"] == pytest.approx(6, abs=0.4)
    assert found["controlled"] is True and found["nothing_changed"] is False
    assert found["identity"]["status"] == "ok" and found["identity"]["similarity"] > 0.9


def test_a_copy_reads_nothing(pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(pair[0], pair[0]) == 0
    out = capsys.readouterr().out
    assert "+0.00 L*" in out and "nothing to be seen" in out


def test_a_picture_of_both_masks_and_swatches(
    pair: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = tmp_path / "shown.png"
    assert run(*pair, "--show", shown) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"Picture: {shown}"
    picture = Image.open(shown).convert("RGB")
    outline, colours = (0, 114, 178), picture.getcolors(maxcolors=1 << 24)
    assert colours is not None
    assert sum(count for count, colour in colours if colour == outline) > 500
    first, second = picture.getpixel((60, 600)), picture.getpixel((picture.width // 2 + 60, 600))
    assert isinstance(first, tuple) and isinstance(second, tuple)
    assert sum(second) > sum(first), "the second swatch is lighter"


def test_no_face_is_a_finding_and_still_drawn(
    pair: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Image.linear_gradient("L").convert("RGB").save(empty := tmp_path / "empty.png")
    assert run(pair[0], empty, "--show", tmp_path / "shown.png") == 0
    assert "not measured: no face in the edit (no face)" in capsys.readouterr().out
    with Image.open(tmp_path / "shown.png") as shown:
        assert shown.width > 500


@pytest.mark.parametrize(
    ("content", "said"), [(b"<html>", "is not an image file"), (None, "There is no file")], ids=["html", "missing"]
)
def test_a_file_that_is_no_picture_is_a_sentence(
    pair: tuple[Path, Path], tmp_path: Path, content: bytes | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, shown = tmp_path / "bad.jpg", tmp_path / "shown.png"
    if content is not None:
        bad.write_bytes(content)
    assert run(pair[0], bad, "--show", shown) == 2
    errors = capsys.readouterr().err
    assert errors.startswith("stillme: ") and said in errors and "bad.jpg" in errors
    assert not shown.exists()


def test_a_truncated_source_is_named(
    pair: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = tmp_path / "cut.jpg"
    cut.write_bytes(pair[0].read_bytes()[:2000])
    assert run(cut, pair[1]) == 2
    assert f"{cut} cannot be decoded" in capsys.readouterr().err


def test_a_transparent_palette_picture_is_read(pair: tuple[Path, Path], tmp_path: Path) -> None:
    picture = Image.open(io.BytesIO(pair[0].read_bytes())).convert("P", palette=Image.Palette.ADAPTIVE)
    picture.save(palette := tmp_path / "palette.png")
    assert run(pair[0], palette) == 0
