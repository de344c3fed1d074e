"""The shipped weights: complete, unharmed, and a sentence where they are not."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from stillme.core.errors import SetupError
from stillme.engine.backends import BackendContext
from stillme.measures import change, identity, skin_tone_shift, weights
from stillme.measures.faces import FaceDetector, FaceMesher
from stillme.measures.view import Trunk, VisionModels
from stillme.protocol import Protocol
from tests.measures import pairs

MODELS = (weights.DETECTOR, weights.MESH, weights.BLENDSHAPES, weights.EMBEDDING, weights.TRUNK, weights.HEADS)
ENDINGS = (".onnx", ".tflite", ".npy")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the weights that a test may harm."""
    copy = tmp_path / "weights"
    shutil.copytree(weights.FOLDER, copy)
    monkeypatch.setattr(weights, "FOLDER", copy)
    return copy


def test_every_file_of_weights_islisted_checksums_and_is_what_the_list_says() -> None:
    shipped = {path.name for path in weights.FOLDER.iterdir() if path.suffix in ENDINGS}
    assert shipped == set(MODELS) == set(weights.sums(*MODELS))
    for name, value in weights.sums(*MODELS).items():
        assert hashlib.sha256((weights.FOLDER / name).read_bytes()).hexdigest() == value
        assert weights.verified(name) == weights.FOLDER / name


def test_every_file_of_weights_has_its_licence_and_origin_written_beside_it() -> None:
    page = (weights.FOLDER / "README.md").read_text(encoding="utf-8")
    for name, value in weights.sums(*MODELS).items():
        assert name in page and value in page
    texts = {path.name for path in weights.FOLDER.glob("LICENSE-*.txt")}
    assert texts and all(text in page for text in texts)


def test_a_damaged_and_a_missing_file_are_named_with_a_next_step(folder: Path) -> None:
    for name in MODELS:
        content = bytearray((folder / name).read_bytes())
        content[len(content) // 2] ^= 1
        (folder / name).write_bytes(content)
        for said in ("has the SHA-256", "is missing"):
            with pytest.raises(SetupError, match=said) as caught:
                weights.verified(name)
            assert name in str(caught.value) and "Install stillme again" in caught.value.next_step
            (folder / name).unlink(missing_ok=True)


def test_a_missing_list_is_a_sentence_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "SHA256SUMS").unlink()
    monkeypatch.setattr(weights, "listed_checksums", weights.listed_checksums.__wrapped__)
    with pytest.raises(SetupError, match="SHA256SUMS is missing"):
        weights.sums(weights.DETECTOR)


def test_no_model_is_loaded_from_a_damaged_file(folder: Path) -> None:
    for name in MODELS:
        (folder / name).write_bytes(b"something else")
    for load in (FaceDetector, FaceMesher, Trunk, lambda: VisionModels().embedder):
        with pytest.raises(SetupError, match="has the SHA-256"):
            load()


def test_damaged_weights_stop_the_work_instead_of_ending_as_a_reading(folder: Path) -> None:
    (folder / weights.DETECTOR).write_bytes(b"")
    content = pairs.saved(pairs.portrait("white-male-20s"))
    with pytest.raises(SetupError):
        pairs.new_bench().measure(pairs.request(content, content, "identity"))


def test_what_a_measure_depends_on_is_part_of_its_settings(protocol: Protocol) -> None:
    """Other weights are another instrument: what they read is not mixed with what was read before."""
    place = BackendContext(Path(), protocol)
    used = {
        skin_tone_shift: {weights.DETECTOR, weights.MESH, weights.EMBEDDING},
        change: {weights.TRUNK, weights.HEADS},
        identity: {weights.DETECTOR, weights.EMBEDDING},
    }
    for module, names in used.items():
        prepared = module.prepare(module.Settings(), place)
        assert prepared.effective["weights"] == weights.sums(*names)
