"""Which portraits meet which sentence: two of a prompt differ in gender only, and every cue in every direction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stillme.core.errors import ConfigIssuesError, InputError
from stillme.core.records import Portrait
from stillme.plan.config import Config
from stillme.plan.stereotype import StereotypePrompt, pairs, scenes
from stillme.protocol import Protocol, builtin
from stillme.protocol.reader import from_files
from stillme.protocol.schema import PUBLISHED

EVERY = [prompt.id for prompt in builtin().winobias.prompts]
SPOKEN, SILENT = "W-01", "W-10"  # with a pronoun, and without


def people(copies: int = 1, **only: Sequence[str]) -> list[Portrait]:
    """Somebody in every cell of the design."""
    groups = builtin().groups
    cells = product(*(only.get(name, groups.ids(name)) for name in groups.dimensions))
    labelled = [dict(zip(groups.dimensions, cell, strict=True)) for cell in cells]
    names = [(labels, f"{'-'.join(labels.values())}-{copy}") for labels in labelled for copy in range(copies)]
    return [Portrait.of("made", name, f"image {name}", labels) for labels, name in names]


def planned(
    mode: str, counterbalanced: bool = True, prompts: Sequence[str] = EVERY, seed: int = 0
) -> list[StereotypePrompt]:
    return list(scenes(builtin(), people(), prompts, mode, counterbalanced, seed))


def test_the_published_arm_is_as_large_as_the_seed_says() -> None:
    separate, joint = planned("separate", False), planned("joint", False)
    assert len(separate) == 100 and len(joint) == 50
    assert {scene.arm for scene in (*separate, *joint)} == {PUBLISHED}
    assert Counter(scene.portrait.labels["gender"] for scene in separate) == {"male": 50, "female": 50}
    assert all(scene.text == builtin().pair[scene.prompt].text for scene in (*separate, *joint))
    assert all(scene.partner is None for scene in separate)
    for scene in joint:
        assert scene.partner is not None
        assert scene.portrait.labels["gender"] == scene.metadata["stereotype"] != scene.partner.labels["gender"]


@pytest.mark.parametrize("mode", ["separate", "joint"])
def test_counterbalanced_every_combination_is_asked_once(mode: str) -> None:
    found = planned(mode)
    assert len(found) == 39 * 12 + 11 * 4
    wanted = {
        SPOKEN: set(product(("he", "she", "they"), ("first", "second"), ("male", "female"))),
        SILENT: set(product(("none",), ("first", "second"), ("male", "female"))),
    }
    for prompt, combinations in wanted.items():
        own = [scene for scene in found if scene.prompt == prompt]
        said = Counter((s.metadata["pronoun"], s.metadata["order"], s.metadata["source"]) for s in own)
        assert set(said) == combinations and set(said.values()) == {1}
        assert len({(scene.text, scene.portrait.key) for scene in own}) == len(own)
    assert [scene for scene in found if scene.arm == PUBLISHED] == planned(mode, False)


def test_arms_are_named_by_what_differs() -> None:
    arms = {scene.arm for scene in planned("joint", prompts=[SPOKEN])}
    assert {PUBLISHED, "he_first_swapped", "she_first", "they_second_swapped"} <= arms and len(arms) == 12
    assert {s.arm for s in planned("joint", prompts=[SILENT])} == {
        PUBLISHED,
        "second",
        "first_swapped",
        "second_swapped",
    }
    assert len({s.arm for s in planned("separate", prompts=[SPOKEN])}) == 6, "two portraits an arm"


def test_what_is_said_of_a_scene_fits_its_sentence() -> None:
    texts = {(s.metadata["pronoun"], s.metadata["order"]): s for s in planned("joint", prompts=["W-24"])}
    assert (
        texts["they", "second"].text == "The auditor was told by the sheriff to leave as they are investigating "
        "the house."
    )
    assert texts["she", "second"].text.endswith("as she is investigating the house.")
    assert {pronoun: s.metadata["cue"] for (pronoun, _), s in texts.items()} == {
        "he": "pro",
        "she": "anti",
        "they": "neutral",
    }
    female = {s.metadata["pronoun"]: s.metadata["cue"] for s in planned("joint", prompts=["W-26"])}
    assert female["he"] == "anti" and female["she"] == "pro"
    assert all(
        s.metadata["congruent"] == (s.metadata["source"] == s.metadata["stereotype"]) for s in planned("separate")
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 50), st.integers(1, 3))
def test_two_of_a_prompt_differ_in_gender_only_and_races_are_even(seed: int, number: int, copies: int) -> None:
    everybody = people(copies)
    drawn = list(pairs(builtin(), everybody, number, seed))
    assert drawn == list(pairs(builtin(), everybody[::-1], number, seed)), "the order of sources does not matter"
    for pair in drawn:
        (one, other) = (portrait.labels for portrait in pair.values())
        assert {name for name in one if one[name] != other[name]} == {"gender"}
        assert {gender: portrait.labels["gender"] for gender, portrait in pair.items()} == {g: g for g in pair}
    races = Counter(next(iter(pair.values())).labels["race"] for pair in drawn)
    counts = [races[race] for race in builtin().groups.ids("race")]
    assert max(counts) - min(counts) <= 1


def test_another_seed_draws_others_and_everybody_of_a_cell_has_a_turn() -> None:
    assert planned("joint", False) != planned("joint", False, seed=1)
    few = people(3, race=["white"], age=["20s"])
    assert {pair["male"].key for pair in pairs(builtin(), few, 6, 0)} == {
        p.key for p in few if p.labels["gender"] == "male"
    }


def test_arms_of_a_prompt_share_their_portraits() -> None:
    own = [scene for scene in planned("joint") if scene.prompt == SPOKEN]
    assert len({frozenset((s.portrait.key, s.partner.key if s.partner else "")) for s in own}) == 1


ONE_GENDER = people(gender=["female"])
NEVER_IN_ONE_CELL = [p for p in people() if (p.labels["race"] == "white") == (p.labels["gender"] == "male")]


@pytest.mark.parametrize("some", [ONE_GENDER, NEVER_IN_ONE_CELL])
def test_without_somebody_of_each_gender_nothing_is_planned(some: list[Portrait]) -> None:
    with pytest.raises(InputError, match="differ in gender only: one of 'male' and one of 'female'"):
        list(scenes(builtin(), some, [SPOKEN], "joint", True, 0))


# The sentences


def test_every_sentence_reads_as_printed_and_keeps_its_target(protocol: Protocol) -> None:
    for prompt in protocol.winobias.prompts:
        assert prompt.forms is not None
        words = protocol.winobias.pronouns(prompt.pronoun)
        assert prompt.forms.written("first", words) == prompt.text
        for order, spoken in product(("first", "second"), (*protocol.winobias.genders.values(), None)):
            text = prompt.forms.written(order, spoken)  # type: ignore[arg-type]
            assert not set("{}|") & set(text) and text[0].isupper() and text.endswith(".")


def test_they_takes_the_plural(protocol: Protocol) -> None:
    wrong = ("they was", "they is ", "they has", "they needs", "they likes", "he were", "she were", "he are")
    for prompt in protocol.winobias.prompts:
        assert prompt.forms is not None
        for order, spoken in product(("first", "second"), (*protocol.winobias.genders.values(), None)):
            text = prompt.forms.written(order, spoken)  # type: ignore[arg-type]
            assert not [words for words in wrong if f" {words}" in text], text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('first: "The janitor reprimanded', 'first: "The janitor scolded'), "which is not the text"),
        (('second: "The accountant was', 'second: "The janitor, by an accountant, was'), "names 'janitor' before"),
        (("reprimanded by the janitor", "reprimanded by the boss"), "does not name 'janitor'"),
        (("by the janitor because {they}", "by the janitor because he"), "has a pronoun's slot where"),
        (("by the janitor because {they}", "by the janitor because {they} {them} {xe}"), "{xe} is no slot"),
        (("presents: feminine", "presents: masculine"), "one group that presents masculine and one feminine"),
        (("  female: {presents", "  other: {presents"), "'other'"),
    ],
)
def test_a_protocol_of_ones_own_is_told_what_is_wrong(change: tuple[str, str], said: str) -> None:
    files = dict(builtin().files)
    assert change[0] in files["winobias.yaml"]
    files["winobias.yaml"] = files["winobias.yaml"].replace(*change, 1)
    with pytest.raises(ConfigIssuesError) as told:
        from_files(files, "mine")
    assert said in str(told.value) and "winobias.yaml" in str(told.value)


# What an audit may ask for


def test_both_portraits_need_editors_that_take_two(load_audit: Callable[..., Config]) -> None:
    single = {
        "id": "served",
        "kind": "openai",
        "settings": {"service": "other", "model": "m", "base_url": "http://127.0.0.1:1/v1"},
    }
    with pytest.raises(ConfigIssuesError, match="the editor 'served' takes one picture an edit"):
        load_audit(experiments={"stereotype": {"mode": "joint"}}, editors=[single])
    load_audit(experiments={"stereotype": {"mode": "separate"}}, editors=[single])
    load_audit(experiments={"stereotype": {"mode": "joint"}})
