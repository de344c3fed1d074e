from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from stillme.core import images
from stillme.core.errors import InputError
from stillme.ledger import Run
from stillme.measures.faces import FaceDetector
from stillme.report.browse import faces, veiled
from stillme.report.browse.faces import Veil, blurred
from stillme.report.context import Example
from tests.report.browse import made


def portraits(run: Path) -> dict[str, bytes]:
    with Run.open_readonly(run) as seen:
        return {image: seen.image(image) for (image,) in seen.query("SELECT DISTINCT image FROM portrait")}


def detail(picture: images.Pixels) -> float:
    """How much neighbouring pixels differ: what a face is known by."""
    grey = picture.astype(float).mean(-1)
    return float(np.abs(np.diff(grey, axis=0)).mean() + np.abs(np.diff(grey, axis=1)).mean())


def lost(picture: images.Pixels) -> float:
    """By how much a picture changes that is brought down to twice the pixels of a blurred face, and up again."""
    small = Image.fromarray(picture).resize((2 * faces.ACROSS, 2 * faces.ACROSS), Image.Resampling.BOX)
    again = small.resize(picture.shape[1::-1], Image.Resampling.BICUBIC)
    return float(np.abs(np.asarray(again, float) - picture).mean())


def test_a_blurred_face_is_no_more_than_a_few_pixels(heads_run: Path) -> None:
    for content in portraits(heads_run).values():
        clear, hidden = images.decode_thumbnail(content, 320), Veil("blur").picture(content, 320)
        assert hidden.shape == clear.shape
        left, top, width, height = (int(value) for value in FaceDetector().find(clear)[0].box)
        face = np.s_[top : top + height, left : left + width]
        assert detail(hidden[face]) < detail(clear[face]) / 2
        assert lost(hidden[face]) < 2 < lost(clear[face]) / 2  # nothing is left that so few pixels do not say
        assert np.array_equal(hidden[-8:, :8], clear[-8:, :8])  # a corner far from any face


def test_the_whole_picture_is_blurred_where_no_face_is_found() -> None:
    noise = np.random.default_rng(1).integers(0, 255, (240, 200, 3), dtype=np.uint8)
    hidden = Veil("blur").picture(images.lossless(noise), 240)
    assert detail(hidden) < detail(noise) / 20
    assert np.ptp(hidden.astype(int).reshape(-1, 3), axis=0).max() < 60


def test_the_whole_picture_is_blurred_where_a_face_is_missing_or_nothing_can_look(
    heads_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = next(iter(portraits(heads_run).values()))
    corner = images.decode_thumbnail(content, 320)[-40:, :40]
    assert not np.array_equal(Veil("blur").picture(content, 320, people=2)[-40:, :40], corner)
    monkeypatch.setattr(faces, "can_look", lambda: False)
    hidden = Veil("blur").picture(content, 320)
    assert not np.array_equal(hidden[-40:, :40], corner)
    assert detail(hidden) < detail(images.decode_thumbnail(content, 320)) / 4


@pytest.mark.parametrize("box", [(-50.0, -50.0, 20.0, 20.0), (90.0, 90.0, 500.0, 400.0), (0.0, 0.0, 0.5, 0.5)])
def test_faces_at_and_beyond_the_edge_break_nothing(box: faces.Box) -> None:
    picture = np.random.default_rng(2).integers(0, 255, (100, 100, 3), dtype=np.uint8)
    assert blurred(picture, [box]).shape == picture.shape


def test_a_face_at_no_number_hides_everything() -> None:
    picture = np.random.default_rng(3).integers(0, 255, (100, 100, 3), dtype=np.uint8)
    assert detail(blurred(picture, [(float("nan"), 0.0, 20.0, 20.0)])) < detail(picture) / 10


def test_no_file_of_a_blurred_bundle_holds_a_clear_face(heads_run: Path, tmp_path: Path) -> None:
    """Not the run's own bytes, and in no picture a face that a detector is sure of being clear, though clear ones
    lay there before; and no picture at all where all are to be left out."""
    run = Path(shutil.copytree(heads_run, tmp_path / "run"))
    folder = run / "report"  # from where the run's own pictures can be reached
    clear_ones = {path.name: path.read_bytes() for path in folder.rglob("*.webp")}
    made.write(run, folder, "blur")
    hidden = {path.name: path.read_bytes() for path in folder.rglob("*.webp")}
    assert clear_ones.keys() == hidden.keys() and not set(clear_ones.values()) & set(hidden.values())
    with Run.open_readonly(run) as seen:
        originals = {row[0] for row in seen.query("SELECT sha256 FROM object")}
        pictures = {name[:20]: seen.image(name) for name in originals}
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert not originals & {hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    small = list((folder / "browse" / "thumbs").rglob("*.webp"))
    assert len(small) == len(pictures)
    for path in small:
        shown = np.asarray(Image.open(path).convert("RGB"))
        clear = images.decode_thumbnail(pictures[path.stem], max(shown.shape))
        for one in FaceDetector().find(clear):
            left, top, width, height = (max(0, int(value)) for value in one.box)
            face = np.s_[top : top + height, left : left + width]
            assert detail(shown[face]) < detail(clear[face]) / 2, path.name
    assert '"originals":""' in (folder / "browse" / "data" / "index.js").read_text()
    made.write(run, folder, "none")
    found = {path.suffix for path in folder.rglob("*") if path.is_file()}
    assert found == {".html", ".css", ".js", ".json", ".csv"}
    page = (folder / "pictures" / "index.html").read_text()
    assert "<img" not in page and "picture left out" in page


def test_the_report_shows_its_examples_likewise(heads_run: Path) -> None:
    content = images.webp(images.decode_thumbnail(next(iter(portraits(heads_run).values())), 224))
    example = Example("race_changed", "erases", "O-01", "text", {}, content, content, {})
    assert veiled([example], "show") == (example,)
    (hidden,) = veiled([example], "blur")
    assert hidden.source != content
    assert detail(images.pixels(hidden.source)) < detail(images.pixels(content))
    (out,) = veiled([example], "none")
    assert np.median(images.pixels(out.source)) == pytest.approx(150, abs=2)  # grey, and words


def test_another_way_to_treat_faces_is_a_mistake(heads_run: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="known: show, blur, none"):
        made.write(heads_run, tmp_path, "smudge")
