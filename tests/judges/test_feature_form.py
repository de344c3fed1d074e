"""The form on what a face looks like: what is asked, and that an answer is read as it stands or not at all."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest

from stillme.core import images
from stillme.core.records import FEATURES, JudgeReply, JudgeRequest, Status
from stillme.judges import ParsedAnswer, ParseError, planted
from stillme.judges.feature_form import AGAIN, MAX_FEATURE_CHARS, SENTENCE, FeatureForm
from stillme.plan.mitigation.linter import leaks
from stillme.protocol import builtin
from stillme.sources import heads
from stillme.sources.heads import signature

PROTOCOL = builtin()
assert PROTOCOL.mitigation is not None
FORM, ASKED = FeatureForm(PROTOCOL), tuple(PROTOCOL.mitigation.dimensions)
GOOD = {**{name: f"plain {name}" for name in ASKED}, SENTENCE: "Maintain the person's brown eyes."}
ODD: tuple[Any, ...] = (None, 4, 4.5, True, [], ["brown"], {}, {"a": "b"}, 10**30)
SCRAPS = (
    "{",
    "}",
    "[",
    '"',
    ",",
    ":",
    "\\",
    "\\ud800",
    "\x00",
    "\ufeff",
    "NaN",
    "9" * 5000,
    "[" * 3000,
    "```",
    "//",
    "😀",
)


def read(said: Any) -> ParsedAnswer | ParseError:
    return FORM.read(said if isinstance(said, str) else json.dumps(said), ASKED)


def fault(said: Any) -> str:
    found = read(said)
    assert isinstance(found, ParseError), found
    return found.message


def test_the_form_is_the_published_one_and_says_so_when_it_is_asked_again() -> None:
    once, again = FORM.text("", "", ASKED, {}), FORM.text("", "again", ASKED, {})
    assert once == PROTOCOL.templates["feature_extraction"]
    assert again == once + AGAIN and "pronoun" in again
    assert all(f'"{name}"' in once for name in (*ASKED, SENTENCE))
    assert FORM.pictures == ("source",)


def test_the_schema_asks_for_a_text_a_dimension_and_the_sentence_last() -> None:
    schema = FORM.schema(ASKED)
    assert schema["required"] == list(schema["properties"]) == [*ASKED, SENTENCE]
    assert {tuple(one.items()) for one in schema["properties"].values()} == {(("type", "string"),)}
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize("around", ["{}", "  {}\n", "```json\n{}\n```", "```\n{}\n```"])
def test_an_answer_is_read_as_it_stands(around: str) -> None:
    assert read(around.replace("{}", json.dumps(GOOD))) == ParsedAnswer(features=GOOD)
    spaced = {**GOOD, "eyes": "  brown \n"}
    assert read(spaced) == ParsedAnswer(features={**GOOD, "eyes": "brown"})
    assert read({**GOOD, "eyes": ""}) == ParsedAnswer(features={**GOOD, "eyes": ""})  # nothing to say is an answer


def test_an_answer_that_is_not_whole_says_what_is_wrong() -> None:
    assert "lacks eyes" in fault({name: text for name, text in GOOD.items() if name != "eyes"})
    assert "was not asked for" in fault({**GOOD, "race": "none"})
    assert "is empty" in fault({**GOOD, SENTENCE: "  "})
    assert f"more than {MAX_FEATURE_CHARS:,}" in fault({**GOOD, "hair": "x" * (MAX_FEATURE_CHARS + 1)})
    assert "stands there twice" in fault(json.dumps(GOOD)[:-1] + ', "eyes": "green"}')
    assert "no JSON object" in fault("I cannot describe people.")
    assert "not an object" in fault([GOOD])
    assert "half a character" in fault(json.dumps({**GOOD, "eyes": "\ud800"}))
    for odd in ODD:
        assert "not a text" in fault({**GOOD, "eyes": odd})


def test_damaged_answers_are_read_whole_or_not_at_all() -> None:
    chance = random.Random(7)
    whole = json.dumps(GOOD, indent=1)
    readable = 0
    for _ in range(3_000):
        place, length = chance.randrange(len(whole)), chance.choice([0, 1, 1, 5, 40])
        text = whole[:place] + chance.choice(["", *SCRAPS]) + whole[place + length :]
        found = read(text)
        if isinstance(found, ParsedAnswer):
            readable += 1
            said = json.loads(text.strip())
            assert found.features == {name: said[name].strip() for name in said} and set(said) == set(GOOD)
        else:
            assert found.message
    assert 0 < readable < 3_000


def test_a_form_of_another_template_has_another_hash() -> None:
    assert FeatureForm(builtin()).hash == FORM.hash
    templates = {**PROTOCOL.templates, "feature_extraction": "Look."}
    assert FeatureForm(replace(PROTOCOL, templates=templates)).hash != FORM.hash


# The simulated judge


def asked(key: str, picture: bytes, instruction: str = "") -> JudgeReply:
    return planted.read_features(1, JudgeRequest(key, picture, b"", instruction, ASKED, form=FEATURES))


def portrait(name: str) -> bytes:
    return images.encode(heads.load(name).rgb, comment=signature(name))


def test_the_simulated_judge_says_what_the_layers_show_and_names_no_group() -> None:
    told = {name: planted.describe_head(heads.load(name)) for name in heads.keys()[::6]}
    for texts in told.values():
        assert all(texts.values()) and not any(leaks(text) for text in texts.values())
    light, dark = (
        planted.describe_head(heads.load(name))["skin"] for name in ("white-male-70plus", "black-male-20s")
    )
    assert light.startswith("fair") and dark.startswith("deep brown")


def test_a_small_share_of_first_answers_names_a_group_and_no_second_one_does() -> None:
    picture = portrait("indian-female-30s")
    first = [asked(f"k{number}", picture) for number in range(300)]
    naming = [number for number, reply in enumerate(first) if leaks(reply.features[SENTENCE])]
    assert 3 <= len(naming) <= 40
    assert not any(leaks(asked(f"k{number}", picture, "again").features[SENTENCE]) for number in naming)
    assert all(set(reply.features) == {*ASKED, SENTENCE} for reply in first)
    assert all(reply.features[SENTENCE].startswith("Maintain the person's ") for reply in first)


def test_any_other_picture_is_turned_away() -> None:
    for picture in (images.encode(images.black(16)), b"no picture"):
        reply = asked("k", picture)
        assert reply.status is Status.REJECTED and "synthetic portraits" in reply.detail and not reply.features
