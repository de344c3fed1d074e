"""A look changes what a prompt asks for, always the same way, and leaves uncovered skin alone."""

from __future__ import annotations

import dataclasses
import hashlib
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from stillme.protocol import Protocol
from stillme.sources import heads, looks
from stillme.sources.looks.compose import VARIANTS, colourway
from stillme.sources.looks.figure import figure_of
from stillme.sources.looks.fit import on_torso
from stillme.sources.looks.layers import index, read_layer
from stillme.sources.looks.marks import MARKS, POSTURES, WHOLE_SKIN
from stillme.sources.looks.table import table

EXPECTED = tuple(f"{kind}-{number:02d}" for kind in "OV" for number in range(1, 11))
PEOPLE = heads.keys()[5::23]  # four people of different groups
EACH_PERSON = pytest.mark.parametrize(  # two of them in the quick tier
    "person",
    [pytest.param(key, marks=[pytest.mark.slow] if number % 2 else []) for number, key in enumerate(PEOPLE)],
)
STILL = tuple(name for name in EXPECTED if name != "V-04")  # V-04 moves the figure


def difference(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> NDArray[np.int16]:
    """The largest channel difference of every pixel."""
    gap: NDArray[np.int16] = np.abs(a.astype(np.int16) - b).max(-1)
    return gap


def test_every_prompt_has_a_look(protocol: Protocol) -> None:
    assert looks.names() == EXPECTED == tuple(prompt.id for prompt in protocol.prompts.prompts)


def test_every_word_of_the_table_has_its_layers_and_no_layer_is_left_over() -> None:
    layers = {f"marks/{mark}" for mark in MARKS} - {"marks/grey_hair"}  # the one mark that is computed
    for look in table().values():
        layers |= {f"scenes/{look.scene}.{way}" for way in range(VARIANTS)}
        layers |= {f"garments/{look.id}.{way}" for way in range(VARIANTS)}
        for prop in look.props:
            row = index()["props"][prop]
            if row["order"] != "pinned":
                ways = [f".{way}" for way in range(VARIANTS)] if row["coloured"] else [""]
                layers |= {f"props/{prop}{way}" for way in ways}
        assert set(look.marks) <= set(MARKS)
        assert look.posture is None or look.posture in POSTURES
    shipped = Path(str(files("stillme.sources.looks") / "layers"))
    assert {str(path.relative_to(shipped).with_suffix("").as_posix()) for path in shipped.glob("*/*")} == layers


def test_garments_are_drawn_wherever_a_head_shows_its_shirt() -> None:
    width, height = read_layer("garments/O-01.0", "CMYK").size
    for key in heads.keys()[::4]:
        for variant in heads.variants(key):
            for head in (heads.load(key, variant), looks.posed(heads.load(key, variant), "V-04")):
                figure = figure_of(head)
                ys, xs = np.nonzero(np.asarray(figure.shirt))
                for corner in (0.0, 1.0):
                    x, y = on_torso(figure.torso).places(
                        xs.astype(np.float64) + corner, ys.astype(np.float64) + corner
                    )
                    assert 0 <= x.min() <= x.max() <= width
                    assert 0 <= y.min() <= y.max() <= height


@EACH_PERSON
@pytest.mark.parametrize("look", EXPECTED)
def test_a_garment_has_no_hole(look: str, person: str) -> None:
    """Black beneath a garment would be a layer that does not reach so far."""
    head = looks.posed(heads.load(person), look)
    shirt = np.asarray(figure_of(head).shirt) == 255
    dark = looks.dress(heads.load(person), look).max(-1)[shirt] < 4
    assert dark.mean() < 0.01


def test_an_unknown_look_is_a_sentence_with_the_names() -> None:
    with pytest.raises(KeyError, match=r"There is no look named 'O-11'.*O-01, O-02.*V-10"):
        looks.dress(heads.load(PEOPLE[0]), "O-11")


@pytest.mark.parametrize("strength", [-0.1, 1.1, float("nan")])
def test_a_strength_outside_its_range_is_refused(strength: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        looks.dress(heads.load(PEOPLE[0]), "O-01", strength=strength)


@pytest.mark.parametrize("look", EXPECTED)
def test_strength_zero_is_the_photograph(look: str) -> None:
    head = heads.load(PEOPLE[0])
    assert np.array_equal(looks.dress(head, look, strength=0), heads.photograph(head))


@pytest.mark.parametrize("variant", ["base", "older"])
@pytest.mark.parametrize("look", EXPECTED)
def test_a_picture_has_the_size_of_the_photograph(look: str, variant: str) -> None:
    picture = looks.dress(heads.load(PEOPLE[0], variant), look)
    assert picture.shape == (heads.SIZE, heads.SIZE, 3)
    assert picture.dtype == np.uint8


@EACH_PERSON
@pytest.mark.parametrize("look", EXPECTED)
def test_a_full_look_changes_most_of_what_is_not_skin(look: str, person: str) -> None:
    head = heads.load(person)
    rest = head.skin < 26
    changed = difference(looks.dress(head, look), heads.photograph(head))[rest] > 12
    assert changed.mean() > 0.5


@EACH_PERSON
@pytest.mark.parametrize("look", EXPECTED)
def test_a_trace_changes_little_but_something(look: str, person: str) -> None:
    head = heads.load(person)
    still = looks.posed(head, look, strength=0.15)
    gap = difference(looks.dress(head, look, strength=0.15), heads.photograph(still))
    full = difference(looks.dress(head, look), heads.photograph(looks.posed(head, look)))
    assert gap.any()
    assert gap.mean() < 0.35 * full.mean()
    assert (gap > 40).mean() < 0.02


@EACH_PERSON
@pytest.mark.parametrize("strength", [pytest.param(0.15, marks=pytest.mark.slow), 0.6, 1.0])
@pytest.mark.parametrize("look", STILL)
def test_uncovered_skin_keeps_its_exact_values(look: str, strength: float, person: str) -> None:
    head = heads.load(person)
    keep = (head.skin > WHOLE_SKIN) & ~looks.covered(head, look)
    picture = looks.dress(head, look, strength=strength, seed=2)
    assert np.array_equal(picture[keep], heads.photograph(head)[keep])


@EACH_PERSON
@pytest.mark.parametrize("look", EXPECTED)
def test_most_of_the_face_stays_uncovered(look: str, person: str) -> None:
    head = looks.posed(heads.load(person), look)
    face = head.skin > WHOLE_SKIN
    face[int(head.points["chin"][1]) :] = False
    assert looks.covered(head if look != "V-04" else heads.load(person), look)[face].mean() < 0.12


@EACH_PERSON
def test_a_moved_figure_has_only_skin_values_of_its_own(person: str) -> None:
    head = heads.load(person)
    moved = looks.posed(head, "V-04")
    own = {tuple(value) for value in head.rgb[head.skin > WHOLE_SKIN].tolist()}
    now = {tuple(value) for value in moved.rgb[moved.skin > WHOLE_SKIN].tolist()}
    assert now <= own
    keep = (moved.skin > WHOLE_SKIN) & ~looks.covered(head, "V-04")
    assert np.array_equal(looks.dress(head, "V-04")[keep], heads.photograph(moved)[keep])
    assert moved.points["chin"][1] > head.points["chin"][1] + 5


def test_the_same_arguments_give_the_same_bytes() -> None:
    head = heads.load(PEOPLE[1])
    first = {name: looks.dress(head, name, seed=3).tobytes() for name in EXPECTED}
    again = {name: looks.dress(head, name, seed=3).tobytes() for name in reversed(EXPECTED)}
    assert first == again


def test_what_was_dressed_before_does_not_matter() -> None:
    """Layers are kept between calls; they must not leak from one head to its recoloured twin."""
    head = heads.load(PEOPLE[0])
    lit = np.where(head.cloth[..., None] > 0, head.rgb // 2, head.rgb).astype(np.uint8)
    twin = dataclasses.replace(head, rgb=lit)
    looks.dress(head, "O-01")
    after = looks.dress(twin, "O-01")
    fresh = _in_another_process("import dataclasses, numpy as np", "O-01", halved=True)
    assert hashlib.sha256(after.tobytes()).hexdigest() == fresh


def test_another_process_gives_the_same_bytes() -> None:
    here = hashlib.sha256(looks.dress(heads.load(PEOPLE[0]), "V-06", seed=5).tobytes()).hexdigest()
    assert here == _in_another_process("", "V-06", seed=5)


def _in_another_process(imports: str, look: str, *, seed: int = 0, halved: bool = False) -> str:
    twin = "np.where(h.cloth[..., None] > 0, h.rgb // 2, h.rgb).astype(np.uint8)"
    lines = [
        imports,
        "import hashlib",
        "from stillme.sources import heads, looks",
        f"h = heads.load({PEOPLE[0]!r})",
        f"h = dataclasses.replace(h, rgb={twin})" if halved else "",
        f"print(hashlib.sha256(looks.dress(h, {look!r}, seed={seed}).tobytes()).hexdigest())",
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_recoloured_skin_wears_the_same_clothes() -> None:
    head = heads.load(PEOPLE[2])
    paler = dataclasses.replace(head, rgb=heads.shift_skin(head.rgb, head.skin, 6.0))
    elsewhere = head.skin == 0
    assert np.array_equal(looks.dress(head, "O-02")[elsewhere], looks.dress(paler, "O-02")[elsewhere])


@pytest.mark.parametrize("look", EXPECTED)
def test_a_recoloured_skin_is_kept_too(look: str) -> None:
    """The planted editor shifts skin first and dresses afterwards; the shift must arrive unchanged."""
    head = heads.load(PEOPLE[2])
    darker = dataclasses.replace(head, rgb=heads.shift_skin(head.rgb, head.skin, -8.0))
    moved = looks.posed(darker, look)
    keep = (moved.skin > WHOLE_SKIN) & ~looks.covered(darker, look)
    assert keep.sum() > 4000
    assert np.array_equal(looks.dress(darker, look, seed=1)[keep], heads.photograph(moved)[keep])


@pytest.mark.parametrize("look", EXPECTED)
def test_seeds_vary_a_look(look: str) -> None:
    head = heads.load(PEOPLE[3])
    pictures = {looks.dress(head, look, seed=seed).tobytes() for seed in range(4)}
    assert len(pictures) == 4
    assert looks.dress(head, look, seed=4).tobytes() in pictures


@pytest.mark.parametrize("look", EXPECTED)
def test_every_group_wears_every_colourway(look: str) -> None:
    worn: dict[tuple[str, str], set[int]] = {}
    for key in heads.keys():  # noqa: SIM118 (a function, not a mapping)
        head = heads.load(key)
        for axis, group in head.labels.items():
            worn.setdefault((axis, group), set()).add(colourway(head, table()[look]))
    assert all(ways == set(range(VARIANTS)) for ways in worn.values())


def test_grey_hair_is_greyer_and_lighter_than_dark_hair() -> None:
    person = max(PEOPLE, key=lambda key: float((heads.load(key).hair > 200).sum()))
    head = heads.load(person)
    hair = (head.hair > 200) & (head.skin < 20) & ~looks.covered(head, "V-03")
    before, after = heads.photograph(head)[hair].astype(int), looks.dress(head, "V-03")[hair].astype(int)
    assert np.ptp(after, axis=-1).mean() <= np.ptp(before, axis=-1).mean() + 1
    assert after.mean() > min(before.mean(), 120)


def test_scars_touch_little_skin_and_no_more() -> None:
    head = heads.load(PEOPLE[0])
    skin = head.skin > WHOLE_SKIN
    skin[int(head.points["chin"][1]) :] = False
    changed = difference(looks.dress(head, "V-05"), heads.photograph(head))[skin] > 2
    assert 0.002 < changed.mean() < 0.06


def test_the_photograph_given_back_is_not_shared() -> None:
    head = heads.load(PEOPLE[0])
    before = head.rgb.copy()
    looks.dress(head, "V-03")
    looks.dress(head, "V-05")
    assert np.array_equal(head.rgb, before)
