"""Who is measured when there are several people, and what is said when nobody can be."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from stillme.core import images
from stillme.core.images import Pixels
from stillme.core.records import Status
from stillme.measures.faces import FaceDetector, Mesh
from stillme.measures.identity import read
from stillme.measures.runner import MeasureRunner
from stillme.measures.view import Pair, View, VisionModels
from stillme.sources import heads
from tests.measures import pairs
from tests.measures.pairs import saved

PERSON, OTHER = "white-female-30s", "black-male-40s"
SOURCE = saved(pairs.portrait(PERSON))


def sized(key: str, side: int, shift: float = 0) -> Image.Image:
    """Somebody's portrait at a size, with their skin moved."""
    head = heads.load(key)
    picture = heads.shift_skin(heads.photograph(head), head.skin, shift) if shift else heads.photograph(head)
    return Image.fromarray(picture).resize((side, side), Image.Resampling.LANCZOS)


def beside(left: Image.Image, right: Image.Image) -> bytes:
    sheet = Image.new("RGB", (left.width + right.width, max(left.height, right.height)), (128, 128, 128))
    sheet.paste(left, (0, 0))
    sheet.paste(right, (left.width, 0))
    return saved(sheet)


@pytest.mark.parametrize("other", pairs.few([OTHER, "east_asian-female-20s", "white-female-20s"], 3))
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("size", [384, 560])
def test_the_same_person_is_measured_wherever_they_stand(
    bench: MeasureRunner, other: str, side: str, size: int
) -> None:
    """A second person, also a bigger one, does not take the first one's place."""
    people = sized(PERSON, 384), sized(other, size)
    found = pairs.figures(bench, SOURCE, beside(*(people if side == "left" else people[::-1])))
    assert (found["faces_before"], found["faces_after"]) == (1, 2)
    if size > 384:
        assert found["face_after"] == 2, "that it is the smaller one of two is recorded"
    assert abs(found["lightness_shift"]) < 0.5
    assert found["similarity"] > 0.9


def test_a_change_of_the_same_person_is_read_beside_somebody_else(bench: MeasureRunner) -> None:
    found = pairs.figures(bench, SOURCE, beside(sized(OTHER, 384), sized(PERSON, 384, shift=-6)))
    assert found["lightness_shift"] == pytest.approx(-6, abs=0.6)


def test_among_lookalikes_place_decides(bench: MeasureRunner) -> None:
    """The same face twice, one of them lighter: the one in the source's place is measured."""
    source = beside(sized(PERSON, 384), sized(OTHER, 300))
    twice = beside(sized(PERSON, 384), sized(PERSON, 384, shift=-9))
    swapped = beside(sized(PERSON, 384, shift=-9), sized(PERSON, 384))
    assert abs(pairs.figures(bench, source, twice, "skin_tone_shift")["lightness_shift"]) < 0.6
    assert pairs.figures(bench, source, swapped, "skin_tone_shift")["lightness_shift"] == pytest.approx(
        -9, abs=0.8
    )


def test_the_most_prominent_face_of_a_source_is_its_person(bench: MeasureRunner) -> None:
    source = beside(sized(PERSON, 500), sized(OTHER, 300))
    found = pairs.figures(bench, source, source, "skin_tone_shift")
    alone = pairs.figures(bench, SOURCE, SOURCE, "skin_tone_shift")
    assert found["faces_before"] == 2
    assert found["lightness_before"] == pytest.approx(alone["lightness_before"], abs=0.5)


def test_a_re_encode_is_read_at_the_same_person() -> None:
    """Also where another face comes out as the more prominent one."""
    optics = VisionModels()
    source = View(SOURCE, "source", optics)
    source.reencodes = (View(beside(sized(OTHER, 560), sized(PERSON, 384)), "re-encoded source", optics),)
    assert source.reencodes[0].person.size > source.person.size
    assert read(Pair(source, source))["similarity_reencoded"] > 0.9


def test_nobody(bench: MeasureRunner) -> None:
    empty = saved(heads.backdrop(heads.load(PERSON).background).clip(0, 255).astype(np.uint8))
    after, _, identity = bench.measure(pairs.request(SOURCE, empty))
    assert (
        (after.status, after.detail)
        == (Status.NO_FACE, "no face in the edit")
        == (identity.status, identity.detail)
    )
    before = pairs.skin(bench, empty, SOURCE)
    assert (before.status, before.detail) == (Status.NO_FACE, "no face in the source")


def test_too_small_says_how_small(bench: MeasureRunner) -> None:
    reading = pairs.skin(bench, SOURCE, saved(sized(PERSON, 80)))
    assert reading.status is Status.TOO_SMALL
    assert "pixels tall" in reading.detail and "the edit" in reading.detail


@pytest.mark.parametrize("side", [192, 576, 1024])
def test_another_size_is_no_change_of_skin(bench: MeasureRunner, side: int) -> None:
    found = pairs.figures(bench, SOURCE, saved(sized(PERSON, side)))
    assert abs(found["lightness_shift"]) < 0.3 and abs(found["background_shift"]) < 0.3
    assert found["similarity"] > 0.95 and found["lpips"] < 0.02


def test_a_shift_is_read_at_another_size(bench: MeasureRunner) -> None:
    found = pairs.figures(bench, SOURCE, saved(sized(PERSON, 640, shift=6)))
    assert found["lightness_shift"] == pytest.approx(6, abs=0.4)


def test_a_mirrored_or_moved_face_is_read_over_its_own_skin(bench: MeasureRunner) -> None:
    picture = pairs.portrait(PERSON)
    mirrored = saved(np.ascontiguousarray(picture[:, ::-1]))
    moved = saved(np.pad(picture, ((0, 60), (60, 0), (0, 0)), "edge")[60:, :-60])
    for edited in (mirrored, moved):
        assert abs(pairs.figures(bench, SOURCE, edited, "skin_tone_shift")["lightness_shift"]) < 0.8


def turned_away(key: str) -> Pixels:
    """A quarter of a face: what a cropped or hidden face leaves."""
    nose = heads.load(key).points["nose"]
    return np.ascontiguousarray(pairs.portrait(key)[int(nose[1]) - 20 :, int(nose[0]) :])


def test_a_face_that_the_mesh_does_not_hold_is_no_reading(bench: MeasureRunner) -> None:
    readings = [pairs.skin(bench, SOURCE, saved(turned_away(key))) for key in heads.keys()[::12]]
    refused = [reading for reading in readings if reading.status is Status.PROFILE]
    assert len(refused) >= 5
    assert {reading.detail for reading in refused} == {"the face in the edit is turned away or covered"}
    as_source = pairs.skin(bench, saved(turned_away(PERSON)), SOURCE)
    assert (as_source.status, as_source.detail) == (
        Status.PROFILE,
        "the face in the source is turned away or covered",
    )


def test_turned_to_a_side_is_an_angle() -> None:
    points = np.zeros((478, 3), np.float32)
    points[234], points[454] = (0, 0, 0), (100, 0, 100)
    assert Mesh(points, 1).yaw == pytest.approx(45)


@pytest.mark.parametrize("tint", [(1.0, 1.0, 1.0), (1.0, 0.995, 0.98)])
def test_greyscale_is_told_from_dull_colour(bench: MeasureRunner, tint: tuple[float, float, float]) -> None:
    """A grey picture saved as colour, and one with a breath of sepia, say nothing about skin."""
    grey = np.asarray(Image.fromarray(pairs.portrait(PERSON)).convert("L"))[..., None] * np.array(tint)
    reading = pairs.skin(bench, SOURCE, images.encode(grey.astype(np.uint8)))
    assert (reading.status, reading.detail) == (Status.GREYSCALE, "the edit has no colour")


@pytest.mark.parametrize("key", pairs.few([key for key in heads.keys()[::2] if key.startswith("black-")], 3))
def test_dark_skin_before_a_grey_wall_is_not_greyscale(bench: MeasureRunner, key: str) -> None:
    plain = heads.over(heads.load(key), np.full((heads.SIZE, heads.SIZE, 3), 110, np.uint8))
    dim = saved(pairs.exposure(0.5)(plain))
    assert pairs.skin(bench, dim, dim).status is Status.OK


@pytest.mark.parametrize("key", pairs.few(heads.keys()[::5]))
def test_every_head_is_found_once_and_read(bench: MeasureRunner, key: str) -> None:
    content = saved(pairs.portrait(key))
    view = bench.pair(pairs.request(content, content)).source
    assert len(view.faces) == 1
    mesh = view.frontal(view.person, pairs.LIMITS)
    nose = heads.load(key).points["nose"]
    assert np.hypot(*(mesh.points[4, :2] - nose)) < 0.12 * mesh.height  # point 4 is the tip of the nose


def covered(key: str, top: float, bottom: float, colour: tuple[int, int, int]) -> bytes:
    """A flat band over the face, from one share of its height to another."""
    picture = pairs.portrait(key).copy()
    left, up, width, height = (round(value) for value in FaceDetector().find(picture)[0].box)
    picture[round(up + top * height) : round(up + bottom * height), left : left + width] = colour
    return saved(picture)


@pytest.mark.parametrize("colour", [(225, 235, 240), (40, 45, 60), (60, 90, 200)])
@pytest.mark.parametrize("key", pairs.few([PERSON, OTHER, "indian-female-50s"], 2))
def test_a_mask_over_nose_and_mouth_is_not_read_as_skin(
    bench: MeasureRunner, key: str, colour: tuple[int, int, int]
) -> None:
    found = pairs.skin(bench, saved(pairs.portrait(key)), covered(key, 0.5, 1.05, colour))
    assert found.status is Status.PROFILE or abs(found.figures["lightness_shift"]) < 1.5
    if found.status is Status.PROFILE:
        assert found.detail == "the face in the edit is turned away or covered" and not found.figures


@pytest.mark.parametrize("key", [PERSON, OTHER, "indian-female-50s"])
def test_sunglasses_leave_enough_to_read(bench: MeasureRunner, key: str) -> None:
    found = pairs.skin(bench, saved(pairs.portrait(key)), covered(key, 0.3, 0.46, (20, 20, 25)))
    assert found.status is Status.OK and abs(found.figures["lightness_shift"]) < 2


def test_a_large_photograph_is_read_like_a_small_one(bench: MeasureRunner) -> None:
    large = saved(sized(PERSON, 5000), "JPEG", quality=95)
    found = pairs.figures(bench, SOURCE, large)
    assert abs(found["lightness_shift"]) < 0.3 and found["similarity"] > 0.95
