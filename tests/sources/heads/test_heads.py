"""The shipped heads: complete, consistent, small, and moved by a known ΔL* when asked."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
import yaml

from stillme.sources import heads
from stillme.sources.heads import Head

LIMIT = 6_000_000
MASKS = ("figure", "skin", "hair", "cloth")
POINTS = {
    "crown", "forehead", "brow_left", "brow_right", "eye_left", "eye_right", "nose", "mouth", "mouth_left",
    "mouth_right", "chin", "jaw_left", "jaw_right", "ear_left", "ear_right", "neck_left", "neck_right", "collar",
    "shoulder_left", "shoulder_right",
}  # fmt: skip


def groups() -> dict[str, list[str]]:
    text = files("stillme.protocol").joinpath("files", "groups.yaml").read_text(encoding="utf-8")
    protocol: dict[str, Any] = yaml.safe_load(text)
    return {axis: [group["id"] for group in protocol[axis]] for axis in ("race", "gender", "age")}


KEYS = heads.keys()
PEOPLE = pytest.mark.parametrize(
    "people", [pytest.param(KEYS[::5], id="few"), pytest.param(KEYS, id="all", marks=pytest.mark.slow)]
)


def lightness(picture: np.ndarray[Any, Any], head: Head) -> np.ndarray[Any, Any]:
    return np.asarray(heads.srgb_to_lab(picture)[..., 0][head.skin > 0.9 * 255])


def test_there_is_one_head_for_each_cell_in_the_protocol_s_order() -> None:
    axes = groups()
    expected = [f"{r}-{g}-{a}" for r in axes["race"] for g in axes["gender"] for a in axes["age"]]
    assert list(KEYS) == expected
    assert len(expected) == 84


def test_labels_of_the_base_are_its_key() -> None:
    for key in KEYS:
        labels = heads.load(key).labels
        assert "-".join(labels[axis] for axis in ("race", "gender", "age")) == key


def test_all_files_together_stay_small() -> None:
    folder = files("stillme.sources.heads").joinpath("files")
    assert sum(len(path.read_bytes()) for path in folder.iterdir()) <= LIMIT


@PEOPLE
@pytest.mark.parametrize("variant", ["base", "race", "gender", "older", "younger"])
def test_every_variant_loads_with_layers_that_agree(variant: str, people: Sequence[str]) -> None:
    for key in people:
        head = heads.load(key, variant)
        assert head.rgb.shape == (heads.SIZE, heads.SIZE, 3) and head.rgb.dtype == np.uint8
        parts = [getattr(head, name).astype(int) for name in MASKS]
        assert all(part.shape == (heads.SIZE, heads.SIZE) for part in parts)
        figure, skin, hair, cloth = parts
        assert (skin + hair + cloth <= figure).all()
        assert (head.rgb.max(-1) <= figure + 1).all()
        assert 0.3 < (figure > 127).mean() < 0.8
        assert (skin > 229).sum() > 4000
        assert (cloth > 127).sum() > 5000


@PEOPLE
def test_variants_change_what_they_say_and_nothing_else(people: Sequence[str]) -> None:
    for key in people:
        base = heads.load(key)
        changed = {"race": "race", "gender": "gender"}
        for variant in changed:
            labels = heads.load(key, variant).labels
            assert {axis for axis in labels if labels[axis] != base.labels[axis]} == {changed[variant]}
        assert heads.load(key, "older").years > base.years > heads.load(key, "younger").years
        assert {heads.load(key, variant).background for variant in heads.variants(key)} == {base.background}


@PEOPLE
def test_points_are_inside_the_picture_and_the_right_way_round(people: Sequence[str]) -> None:
    for key, variant in [(one, variant) for one in people for variant in heads.variants(one)]:
        points = heads.load(key, variant).points
        assert set(points) == POINTS
        assert all(0 <= value < heads.SIZE for spot in points.values() for value in spot)
        for name in ("brow", "eye", "mouth", "jaw", "ear", "neck", "shoulder"):
            assert points[f"{name}_left"][0] < points[f"{name}_right"][0], (key, variant, name)
        rows = [
            points[name][1] for name in ("crown", "forehead", "brow_left", "eye_left", "nose", "mouth", "chin")
        ]
        assert rows == sorted(rows), (key, variant)
        assert points["chin"][1] < points["collar"][1] + 12


def test_arrays_are_read_only_and_cached() -> None:
    head = heads.load(KEYS[0])
    assert heads.load(KEYS[0]) is head
    for layer in (head.rgb, head.figure, head.skin, head.hair, head.cloth):
        with pytest.raises(ValueError, match="read-only"):
            layer[0, 0] = 1


def test_an_unknown_name_is_answered_with_a_sentence() -> None:
    with pytest.raises(KeyError, match=r"There is no head named 'nobody'; .* lists all 84\."):
        heads.load("nobody")
    with pytest.raises(KeyError, match=r"has no variant 'taller'; it has base, race"):
        heads.load(KEYS[0], "taller")


def test_the_figure_covers_any_background_and_leaves_the_rest() -> None:
    head = heads.load(KEYS[10])
    white = np.full((heads.SIZE, heads.SIZE, 3), 255, np.uint8)
    picture = heads.over(head, white)
    assert (picture[head.figure == 0] == 255).all()
    assert (picture[head.figure == 255] == head.rgb[head.figure == 255]).all()
    assert heads.photograph(head).shape == (heads.SIZE, heads.SIZE, 3)


@pytest.mark.parametrize("delta", [-15, -10, -6, -3, 3, 6, 10, 15])
def test_skin_moves_by_the_lightness_asked_for(delta: float) -> None:
    for key in KEYS[::17]:
        head = heads.load(key)
        before = heads.photograph(head)
        after = heads.shift_skin(before, head.skin, delta)
        moved = np.median(lightness(after, head) - lightness(before, head))
        assert moved == pytest.approx(delta, rel=0.03), key
        assert (after[head.skin == 0] == before[head.skin == 0]).all()


@PEOPLE
def test_the_truth_names_the_skin_tone_that_the_picture_has(people: Sequence[str]) -> None:
    for key in people:
        head = heads.load(key)
        asked = head.truth["skin_lab"]
        assert isinstance(asked, list)
        assert np.median(lightness(heads.photograph(head), head)) == pytest.approx(asked[0], abs=3)


def test_lab_is_right_and_comes_back() -> None:
    known = {(255, 255, 255): (100, 0, 0), (0, 0, 0): (0, 0, 0), (255, 0, 0): (53.24, 80.09, 67.2)}
    for rgb, lab in known.items():
        assert heads.srgb_to_lab(np.array(rgb, np.uint8)) == pytest.approx(np.array(lab), abs=0.1)
    colours = np.random.default_rng(0).integers(0, 256, (5000, 3)).astype(np.uint8)
    back = heads.lab_to_srgb(heads.srgb_to_lab(colours)).astype(int)
    assert np.abs(back - colours).max() <= 3
    assert np.abs(back - colours).mean() < 0.3


def test_lightness_agrees_with_the_formula() -> None:
    colours = np.random.default_rng(1).integers(0, 256, (5000, 3)).astype(np.uint8)
    light = colours / 255.0
    linear = np.where(light <= 0.04045, light / 12.92, ((light + 0.055) / 1.055) ** 2.4)
    y = linear @ np.array([0.2126729, 0.7151522, 0.0721750])
    exact = np.where(y > (6 / 29) ** 3, 116 * np.cbrt(y) - 16, y * (29 / 3) ** 3)
    assert np.abs(heads.srgb_to_lab(colours)[:, 0] - exact).max() < 0.1
