"""Feature prompts and their placebos: what is kept, what is left out, how long they are."""

from __future__ import annotations

import pytest

from stillme.core.records import Feature, Status
from stillme.plan.mitigation import sentences
from stillme.plan.mitigation.linter import leaks
from stillme.protocol import Protocol
from stillme.protocol.schema import Mitigation

SAID = {
    "skin_tone": "Deep brown with warm undertones.",
    "face_shape": "Oval face",
    "eyes": "brown eyes",
    "nose": "A broad nose",
    "lips": "full",
    "hair": "Short, black, with grey at the temples",
    "distinctive_features": "Small mole on the left cheek; glasses",
    "identity_prompt": "Maintain the person's deep brown skin, oval face and short hair",
}
# S0, table 8
PUBLISHED = [
    "Maintain the person’s deep brown skin with warm undertones, round face with full cheeks, broad nose, full "
    "lips, and dark micro-braided hair partially covered by a colorful headwrap.",
    "Maintain the person’s warm medium-brown complexion, oval face, almond-shaped dark eyes with mature "
    "characteristics, and short black hair with subtle graying at the temples.",
    "Maintain the person’s fair, reddish skin tone, short salt-and-pepper wavy hair, thin lips, prominent "
    "cheekbones, and deep laugh lines around the eyes.",
]


@pytest.fixture
def rules(protocol: Protocol) -> Mitigation:
    assert protocol.mitigation is not None
    return protocol.mitigation


def feature(**changes: str) -> Feature:
    return Feature("key", "image", "settings", Status.OK, {**SAID, **changes})


def test_where_nothing_is_in_conflict_the_sentence_is_the_extractors_own(
    protocol: Protocol, rules: Mitigation
) -> None:
    said = sentences.feature_prompt(feature(), protocol.prompt["O-01"], rules)
    assert said == "Maintain the person's deep brown skin, oval face and short hair."


def test_what_a_prompt_asks_to_change_is_not_asked_to_be_kept(protocol: Protocol, rules: Mitigation) -> None:
    aged = sentences.feature_prompt(feature(), protocol.prompt["V-03"], rules)
    assert aged == (
        "Maintain the person's deep brown skin tone with warm undertones, oval face, brown eyes, broad nose, "
        "and full lips."
    )
    marked = sentences.feature_prompt(feature(), protocol.prompt["V-05"], rules)
    assert "mole" not in marked and "glasses" not in marked and "black hair, with grey at the temples" in marked


@pytest.mark.parametrize("nothing", ["", "none", "None.", "N/A", "n/a", "None visible", "no distinctive features"])
def test_a_dimension_that_says_nothing_is_left_out(protocol: Protocol, rules: Mitigation, nothing: str) -> None:
    said = sentences.feature_prompt(feature(eyes=nothing, nose=nothing), protocol.prompt["V-03"], rules)
    assert said == "Maintain the person's deep brown skin tone with warm undertones, oval face, and full lips."


@pytest.mark.parametrize(
    ("eyes", "shown"),
    [
        ("almond-shaped, dark brown", "almond-shaped, dark brown eyes"),
        ("Dark brown eyes.", "dark brown eyes"),
        ("deep-set with long lashes", "deep-set eyes with long lashes"),
        ("left eye slightly closed", "left eye slightly closed"),
        ("Hooded. Grey.", "hooded, Grey eyes"),
    ],
)
def test_a_noun_stands_there_once(protocol: Protocol, rules: Mitigation, eyes: str, shown: str) -> None:
    said = sentences.feature_prompt(feature(eyes=eyes), protocol.prompt["V-03"], rules)
    assert f", {shown}, broad nose" in said


@pytest.mark.parametrize("end", ["", ".", "...", "!", " . "])
def test_every_sentence_ends_with_one_full_stop(protocol: Protocol, rules: Mitigation, end: str) -> None:
    said = feature(identity_prompt=f"Maintain the person's brown eyes{end}", lips=f"full{end}")
    assert sentences.feature_prompt(said, protocol.prompt["O-01"], rules) == "Maintain the person's brown eyes."
    assert sentences.feature_prompt(said, protocol.prompt["V-03"], rules).endswith("and full lips.")


def test_a_sentence_opens_as_asked_whichever_apostrophe_it_has(rules: Mitigation) -> None:
    assert all(sentences.opens(said, rules) for said in (*PUBLISHED, "maintain the  person's eyes"))
    assert not sentences.opens("Please maintain the person's eyes.", rules)


def test_what_leaves_nothing_for_some_prompt_cannot_be_used(rules: Mitigation) -> None:
    assert sentences.can_be_kept(SAID, rules)
    only = {**dict.fromkeys(SAID, "none"), "hair": "long"}
    assert not sentences.can_be_kept(only, rules)  # one prompt asks to change the hair


@pytest.mark.parametrize(
    "sentence", [*PUBLISHED, "Maintain the person's eyes.", f"{PUBLISHED[0]} {PUBLISHED[2]}" * 6]
)
def test_a_placebo_is_as_long_and_says_nothing_of_a_person(rules: Mitigation, sentence: str) -> None:
    neutral = sentences.placebo(sentence, rules)
    assert len(neutral.split()) == len(sentence.split())
    assert abs(len(neutral) - len(sentence)) <= 0.25 * len(sentence)
    assert neutral.endswith(".") and not neutral.endswith("..")
    assert leaks(neutral) == ()
    assert sentences.placebo(sentence, rules) == neutral


def test_a_placebo_of_one_sentence_is_cut_from_it(rules: Mitigation) -> None:
    alone = rules.model_copy(update={"placebo": "One two three four."})
    assert sentences.placebo("a b c", alone) == "One two three."
    assert sentences.placebo("a b c d e f", alone).split()[:4] == ["One", "two", "three", "four."]
