"""The same on photographs of people: a sample of FairFace beside the project, where there is one.

Labels are annotators' perceptions; they say here only how evenly the instrument reads.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import polars as pl
import pytest

from stillme.core import images
from stillme.core.images import Pixels
from stillme.core.records import Reading, Status
from stillme.measures.runner import MeasureRunner
from stillme.measures.skin import OVAL
from stillme.measures.skin import background as background_of
from stillme.measures.skin_tone_shift import is_background_unchanged, lightness_change
from stillme.measures.view import UnreadableError, View
from stillme.protocol import Protocol
from stillme.protocol.schema import Background
from stillme.sources import heads
from stillme.stats.coverage import coverage
from tests.measures import pairs

SAMPLE = Path(__file__).parents[2].parent / "shared/data/fairface_sample"

pytestmark = pytest.mark.skipif(not SAMPLE.is_dir(), reason="no fairface_sample beside the project")

PLANTED = (3, -3, 6, -6, 12, -12)
LOOKED_AT = {"few": 6, "all": 1}  # one portrait in so many
EDITED = {"few": 4, "all": 3}  # one in so many of those
READ, LIT_EVENLY = {"few": 5, "all": 40}, {"few": 3, "all": 20}  # of those, at least


@dataclass(frozen=True)
class Photograph:
    """One portrait, and what the instrument says of it unedited."""

    labels: dict[str, str]
    content: bytes
    faces: int
    reading: Reading


@dataclass
class Sitting:
    """What was read of all edits of one kind; `without_room` people are too light or too dark to plant it."""

    read: list[dict[str, float]]
    without_room: int = 0
    unread: int = 0

    def column(self, name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.array([row[name] for row in self.read])


def portraits() -> list[dict[str, str]]:
    with (SAMPLE / "fairface_label_train.csv").open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


@pytest.fixture(scope="module", params=["few", pytest.param("all", marks=pytest.mark.slow)])
def many(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def photographs(bench: MeasureRunner, many: str) -> list[Photograph]:
    found = []
    for labels in portraits()[:: LOOKED_AT[many]]:
        content = (SAMPLE / labels["file"]).read_bytes()
        view = bench.pair(pairs.request(content, content)).source
        found.append(Photograph(labels, content, len(view.faces), _unedited(view)))
    return found


def _unedited(view: View) -> Reading:
    """Whether the face's skin can be read; without the noise floor, which takes longest."""
    try:
        tone = view.tone(view.region(view.frontal(view.person, pairs.LIMITS)), pairs.LIMITS)
    except UnreadableError as error:
        return Reading(error.status, detail=error.detail)
    return Reading(Status.OK, {"lightness": tone.lightness})


def face(view: View) -> Pixels:
    """The whole face, a little beyond its edges, softly."""
    outline = view.mesh(view.person).points[OVAL, :2]
    wider = outline.mean(0) + 1.08 * (outline - outline.mean(0))
    mask = np.zeros(view.pixels.shape[:2], np.uint8)
    cv2.fillPoly(mask, [np.round(wider).astype(np.int32)], 255)
    return np.asarray(cv2.GaussianBlur(mask, (0, 0), 3), np.uint8)


def below(view: View) -> Pixels:
    """Everything under the chin: clothes."""
    mesh = view.mesh(view.person)
    mask = np.zeros(view.pixels.shape[:2], np.uint8)
    mask[int(mesh.points[:, 1].max() + 0.12 * mesh.height) :] = 255
    return mask


def edits(view: View, lightness: float) -> Iterator[tuple[str, Pixels | None]]:
    """None where there is no room for the shift."""
    picture, mask = view.pixels, face(view)
    for planted in PLANTED:
        room = 0 < lightness + planted < 100
        yield f"skin {planted:+}", heads.shift_skin(picture, mask, planted) if room else None
    yield "clothes", pairs.dyed(picture, below(view), (190, 30, 40))
    behind = background_of(picture.shape[:2], view.person.box)
    scene = pairs.scene(max(picture.shape))[: picture.shape[0], : picture.shape[1]]
    yield "background", np.where(behind[..., None], scene, picture)
    yield "L* + 5", pairs.lighter(picture, 5)
    yield "gamma 1.2", pairs.gamma(1.2)(picture)


@pytest.fixture(scope="module")
def read(bench: MeasureRunner, photographs: list[Photograph], many: str) -> dict[str, Sitting]:
    sittings: dict[str, Sitting] = {}
    for one in photographs[:: EDITED[many]]:
        if one.reading.status is not Status.OK:
            continue
        view = bench.pair(pairs.request(one.content, one.content)).source
        for name, edited in edits(view, one.reading.figures["lightness"]):
            sitting = sittings.setdefault(name, Sitting([]))
            if edited is None:
                sitting.without_room += 1
                continue
            reading = pairs.skin(bench, one.content, images.encode(edited, quality=95))
            if reading.status is Status.OK:
                sitting.read.append(dict(reading.figures))
            else:
                sitting.unread += 1
    return sittings


@pytest.fixture(scope="module")
def background(protocol: Protocol) -> Background:
    assert protocol.measures is not None
    return protocol.measures.skin_tone.background


def test_a_face_is_found_in_nearly_every_photograph(photographs: list[Photograph]) -> None:
    found = np.mean([one.faces > 0 for one in photographs])
    print(f"faces found: {found:.1%} of {len(photographs)}")
    assert found >= 0.99


def test_coverage_is_counted_by_race_and_the_warning_fires_where_it_must(
    photographs: list[Photograph], protocol: Protocol
) -> None:
    assert protocol.measures is not None
    points = protocol.measures.coverage.warn_points
    rows = [
        {
            "person": one.labels["file"],
            "race": one.labels["race"],
            "status": Status.OK.value,
            "skin_tone_shift_status": one.reading.status.value,
        }
        for one in photographs
    ]
    table = coverage(pl.DataFrame(rows), ["race"], points).filter(pl.col("dimension") == "race")
    for race, count, rate, warns in table.select("group", "read", "rate", "warns").iter_rows():
        print(f"{race}: {count} read, {rate:.0%}{', warns' if warns else ''}")
    rates: list[float] = table["rate"].to_list()
    assert len(rates) == 7 and min(rates) > 0.7
    assert table["warns"].to_list() == [max(rates) - rate > points / 100 + 1e-9 for rate in rates]


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_shift_is_read_back(read: dict[str, Sitting], many: str, planted: int) -> None:
    sitting = read[f"skin {planted:+}"]
    shifts = sitting.column("lightness_shift")
    print(
        f"planted {planted:+}: median {np.median(shifts):+.3f}, sd {shifts.std(ddof=1):.3f}, n {len(shifts)}, "
        f"without room {sitting.without_room}, unread {sitting.unread}"
    )
    assert len(shifts) >= READ[many]
    assert np.median(shifts) == pytest.approx(planted, rel=0.1)
    assert shifts.std(ddof=1) <= 0.5
    assert sitting.unread <= 0.06 * (len(shifts) + sitting.unread)


@pytest.mark.parametrize("name", ["clothes", "background"])
def test_what_is_not_skin_does_not_count(read: dict[str, Sitting], background: Background, name: str) -> None:
    shifts = read[name].column("lightness_shift")
    print(f"{name}: median {np.median(shifts):+.3f}, largest {np.abs(shifts).max():.3f}, n {len(shifts)}")
    assert np.abs(shifts).max() <= 0.5
    if name == "background":
        assert not any(is_background_unchanged(row, background) for row in read[name].read)


@pytest.mark.parametrize("name", ["L* + 5", "gamma 1.2"])
def test_another_light_is_taken_off_where_the_gate_passes(
    read: dict[str, Sitting], background: Background, many: str, name: str
) -> None:
    rows = [row for row in read[name].read if is_background_unchanged(row, background)]
    left = np.array([lightness_change(row, background) for row in rows], np.float64)
    print(f"{name}: gate passed by {len(left)}, median {np.median(left):+.3f}, sd {left.std(ddof=1):.3f}")
    assert len(left) >= LIT_EVENLY[many]
    assert abs(np.median(left)) <= 0.8


@pytest.mark.parametrize("name", ["L* + 5", "gamma 1.2"])
def test_another_light_is_taken_off_whoever_it_falls_on(
    read: dict[str, Sitting], background: Background, name: str
) -> None:
    raw = read[name].column("lightness_shift")
    left = np.array([lightness_change(row, background) for row in read[name].read], np.float64)
    print(f"{name}: raw {np.median(raw):+.2f}, under control {np.median(left):+.3f}, n {len(left)}")
    assert abs(np.median(raw)) > 4
    assert abs(np.median(left)) <= 0.8
