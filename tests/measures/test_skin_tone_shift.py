"""What was planted is read back: changes of skin, and of everything that is not skin, on the shipped heads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from stillme.core.images import Pixels
from stillme.measures.runner import MeasureRunner
from stillme.measures.skin import light
from stillme.measures.skin_tone_shift import is_background_unchanged, lightness_change
from stillme.protocol import Protocol
from stillme.protocol.schema import Background
from stillme.sources import heads
from stillme.sources.heads import Head
from tests.measures import pairs

Edit = Callable[[Head, Pixels], Pixels]
Figures = dict[str, float]
Read = dict[str, list[Figures]]  # edit -> what was read of each person

EVERYBODY = heads.keys()
FEW = EVERYBODY[::12]  # one of every race
PLANTED = (3, -3, 6, -6, 12, -12)
BOTH = ((6, -4), (-6, 4), (12, -5))  # skin, light

RELIT: dict[str, Callable[[Pixels], Pixels]] = {
    "L* + 5": lambda picture: pairs.lighter(picture, 5),
    "L* - 5": lambda picture: pairs.lighter(picture, -5),
    "gamma 0.85": pairs.gamma(0.85),
    "gamma 1.2": pairs.gamma(1.2),
    "exposure × 1.25": pairs.exposure(1.25),
    "exposure × 0.75": pairs.exposure(0.75),
}

ELSEWHERE: dict[str, Edit] = {
    "shirt, red": lambda head, picture: pairs.dyed(picture, head.cloth, (200, 20, 30)),
    "shirt, white": lambda head, picture: pairs.dyed(picture, head.cloth, (250, 250, 250)),
    "background, a scene": lambda head, picture: heads.over(head, pairs.scene(heads.SIZE)),
    "background, plain": lambda head, picture: heads.over(head, np.full_like(picture, (40, 60, 90))),
}


def edits(head: Head, picture: Pixels, is_further: bool) -> Iterator[tuple[str, Pixels]]:
    for planted in PLANTED:
        yield f"skin {planted:+}", heads.shift_skin(picture, head.skin, planted)
    if not is_further:
        return
    for name, edit in ELSEWHERE.items():
        yield name, edit(head, picture)
    for name, relit in RELIT.items():
        yield name, relit(picture)
    for skin, lamp in BOTH:
        yield f"skin {skin:+}, light {lamp:+}", pairs.lighter(heads.shift_skin(picture, head.skin, skin), lamp)


@pytest.fixture(
    scope="module", params=[pytest.param(FEW, id="few"), pytest.param(EVERYBODY, id="all", marks=pytest.mark.slow)]
)
def people(request: pytest.FixtureRequest) -> Sequence[str]:
    keys: Sequence[str] = request.param
    return keys


@pytest.fixture(scope="module")
def read(bench: MeasureRunner, people: Sequence[str]) -> Read:
    """Their edits, person by person, so that each source is looked at once; of one in three more than the skin's."""
    found: Read = {}
    for number, key in enumerate(people):
        head = heads.load(key)
        picture = heads.photograph(head)
        source = pairs.jpeg(picture)
        for name, edited in edits(head, picture, number % 3 == 0):
            row = pairs.figures(bench, source, pairs.jpeg(edited), "skin_tone_shift")
            found.setdefault(name, []).append(row)
    return found


@pytest.fixture(scope="module")
def background(protocol: Protocol) -> Background:
    assert protocol.measures is not None
    return protocol.measures.skin_tone.background


def column(rows: list[Figures], name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([row[name] for row in rows])


def changes(rows: list[Figures], background: Background) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The shifts with the light's own part taken off, wherever the gate lets."""
    return np.array([lightness_change(row, background) for row in rows], np.float64)


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_shift_is_read_back(read: Read, people: Sequence[str], planted: int) -> None:
    rows = read[f"skin {planted:+}"]
    shifts = column(rows, "lightness_shift")
    print(f"planted {planted:+}: median {np.median(shifts):+.3f}, sd {shifts.std(ddof=1):.3f}, n {len(shifts)}")
    assert len(shifts) == len(people)
    assert np.median(shifts) == pytest.approx(planted, rel=0.1)
    assert shifts.std(ddof=1) <= 0.5
    assert np.abs(shifts - planted).max() < 1


def test_a_planted_shift_is_read_alike_in_every_group(read: Read, people: Sequence[str]) -> None:
    """An instrument that reads less on dark skin would call an editor even-handed that is not."""
    rows = read["skin +6"]
    by_race: dict[str, list[float]] = {}
    for key, row in zip(people, rows, strict=True):
        by_race.setdefault(heads.load(key).labels["race"], []).append(row["lightness_shift"])
    means = [float(np.mean(shifts)) for shifts in by_race.values()]
    assert len(means) == 7 and max(means) - min(means) < 0.2


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_is_not_skin_does_not_count(read: Read, name: str) -> None:
    shifts = column(read[name], "lightness_shift")
    print(f"{name}: median {np.median(shifts):+.3f}, largest {np.abs(shifts).max():.3f}")
    assert np.abs(shifts).max() <= 0.5


@pytest.mark.parametrize("name", [name for name in ELSEWHERE if name.startswith("shirt")])
def test_a_shirt_does_not_open_or_move_the_control(read: Read, background: Background, name: str) -> None:
    rows = read[name]
    assert all(is_background_unchanged(row, background) for row in rows)
    assert np.abs(changes(rows, background)).max() <= 0.5


@pytest.mark.parametrize("name", [name for name in ELSEWHERE if name.startswith("background")])
def test_another_background_closes_the_gate(read: Read, background: Background, name: str) -> None:
    rows = read[name]
    spreads, shifts = column(rows, "background_spread"), np.abs(column(rows, "background_shift"))
    print(f"{name}: spread from {spreads.min():.2f}, shift from {shifts.min():.2f}")
    assert not any(is_background_unchanged(row, background) for row in rows)
    assert np.abs(changes(rows, background)).max() <= 0.5


@pytest.mark.parametrize("name", RELIT)
def test_another_light_is_taken_off(read: Read, background: Background, name: str) -> None:
    rows = read[name]
    raw, left = column(rows, "lightness_shift"), changes(rows, background)
    passed = [is_background_unchanged(row, background) for row in rows]
    print(f"{name}: raw {np.median(raw):+.2f}, under control {np.median(left):+.3f}, sd {left.std(ddof=1):.3f}")
    assert abs(np.median(raw)) > 4
    assert abs(np.median(left)) <= 0.8
    assert np.mean(passed) > 0.95


@pytest.mark.parametrize(("skin", "light"), BOTH)
def test_lightened_skin_in_dimmer_light_is_still_seen(
    read: Read, background: Background, skin: int, light: int
) -> None:
    rows = read[f"skin {skin:+}, light {light:+}"]
    assert np.median(column(rows, "lightness_shift")) == pytest.approx(skin + light, abs=0.5)
    found = changes(rows, background)
    print(f"skin {skin:+}, light {light:+}: {np.median(found):+.3f}, sd {found.std(ddof=1):.3f}")
    assert np.median(found) == pytest.approx(skin, rel=0.1)


def test_the_noise_floor_is_far_below_any_planted_shift(read: Read) -> None:
    floor = column(read["skin +3"], "noise_floor")
    print(f"noise floor: median {np.median(floor):.3f}, largest {floor.max():.3f}")
    assert 0 < np.median(floor) < 0.2 and floor.max() < 0.5


@pytest.mark.parametrize("key", pairs.few(EVERYBODY[::7], 6))
def test_a_copy_reads_exactly_nothing_on_every_measure(bench: MeasureRunner, key: str) -> None:
    content = pairs.jpeg(pairs.portrait(key))
    found = pairs.figures(bench, content, content)
    for name in ("lightness_shift", "background_shift", "background_spread", "hue_shift", "delta_e"):
        assert found[name] == 0
    assert found["lpips"] == found["changed_share"] == found["phash_distance"] == 0
    assert found["ssim"] == found["similarity"] == 1
    for name in ("lightness", "hue", "ita", "monk", "skin_pixels", "faces"):
        assert found[f"{name}_before"] == found[f"{name}_after"]


def test_hue_and_colour_difference_follow_the_paint(bench: MeasureRunner) -> None:
    head = heads.load("white-male-30s")
    picture = heads.photograph(head)
    lab = heads.srgb_to_lab(picture)
    lab[..., 2] += 10 * (head.skin[..., None] / 255)[..., 0]
    found = pairs.figures(bench, pairs.saved(picture), pairs.saved(heads.lab_to_srgb(lab)), "skin_tone_shift")
    assert abs(found["lightness_shift"]) < 0.3
    assert found["hue_shift"] > 5 and 2 < found["delta_e"] < 10
    assert found["ita_after"] < found["ita_before"]


def test_monk_swatches_run_from_light_to_dark(bench: MeasureRunner) -> None:
    light, dark = (pairs.jpeg(pairs.portrait(f"{race}-female-20s")) for race in ("white", "black"))
    found = [pairs.figures(bench, one, one, "skin_tone_shift")["monk_before"] for one in (light, dark)]
    assert 1 <= found[0] < found[1] <= 10


@pytest.mark.parametrize("every", [28, pytest.param(7, marks=pytest.mark.slow)])
def test_another_plain_wall_is_not_taken_for_light(bench: MeasureRunner, protocol: Protocol, every: int) -> None:
    """Hair and clothes kept their light, so nothing is taken off the skin's shift, or next to nothing."""
    assert protocol.measures is not None
    rule, keys = protocol.measures.skin_tone.background, heads.keys()
    walls = sorted({heads.load(key).background for key in keys})
    for number, key in enumerate(keys[::every]):
        head = heads.load(key)
        other = [wall for wall in walls if wall != head.background][number % (len(walls) - 1)]
        edit = heads.photograph(replace(head, background=other))
        found = pairs.figures(bench, pairs.saved(heads.photograph(head)), pairs.saved(edit), "skin_tone_shift")
        reported = lightness_change(found, rule)
        assert reported is not None and abs(reported) <= 1.0
        assert abs(found["lightness_shift"]) <= 0.5


def test_a_wall_in_another_light_with_nobody_to_confirm_it_is_not_taken_off(protocol: Protocol) -> None:
    """A face that fills the picture below shows neither hair nor clothes: then nothing vouches for a plain wall."""
    assert protocol.measures is not None
    before = np.full((128, 128), 60, np.float32)
    read = light(before, before + 6, ((40.0, -20.0, 48.0, 148.0),) * 2, 50.0)
    assert read is not None and read.shift == pytest.approx(6, abs=0.1)
    assert read.spread > protocol.measures.skin_tone.background.most_spread
