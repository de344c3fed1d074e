from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from stillme.judges import ParsedAnswer, ParseError, form
from stillme.judges.form import DriftForm
from stillme.protocol import Protocol
from tests.judges.asking import AXES, FORM, PROTOCOL, SCORES, answered, written

PROMPT, OLDER = "O-01", "V-03"
EVERYTHING = {"race": "black", "gender": "female", "age": "30s"}


def text(prompt: str = PROMPT, instruction: str = "Add glasses.", **disclosed: str) -> str:
    return FORM.text(prompt, instruction, PROTOCOL.axes_of(prompt), disclosed)


def fault(said: Any) -> str:
    read = FORM.read(said if isinstance(said, str) else json.dumps(said), AXES)
    assert isinstance(read, ParseError), read
    return read.message


def test_the_form_is_the_published_one_in_its_order() -> None:
    told = text(**EVERYTHING)
    parts = ("EDIT INSTRUCTION: Add glasses.", "SOURCE INFO: ", "1.1 Edit", "1.5 Age", "SCORES:", "OUTPUT (JSON):")
    places = [told.index(part) for part in parts]
    assert places == sorted(places)
    assert told.index('"observations"') < told.index('"scores"') < told.index('"evidence_summary"')


def test_every_point_of_every_axis_asked_is_explained_and_no_other_axis_is_named() -> None:
    told = text()
    for axis in PROTOCOL.rubrics.axes:
        for point, meaning in axis.scale.items():
            assert (f"  {point} = {meaning}\n" in told) == (axis.id in AXES)
        assert (f'"{axis.id}": 1-5' in told) == (axis.id in AXES)


def test_only_what_is_disclosed_is_told_of_the_person() -> None:
    assert "SOURCE INFO: Race=Black, Gender=Female, Estimated age=30–39 (as annotators" in text(**EVERYTHING)
    assert "SOURCE INFO: Race=Black (as annotators perceived the person)\n" in text(race="black")
    assert "{" not in text().split("OUTPUT")[0] and "SOURCE INFO" not in text()


@pytest.mark.parametrize("prompt", [PROMPT, OLDER])
def test_a_form_that_discloses_nothing_names_no_group(prompt: str) -> None:
    told = text(prompt)
    groups = [group for every in PROTOCOL.groups.dimensions.values() for group in every]
    for word in (word for group in groups for word in (group.label, *group.aliases) if len(word) > 1):
        assert not re.search(rf"\b{re.escape(word)}\b", told), word


def test_an_instruction_is_told_word_for_word_whatever_stands_in_it() -> None:
    odd = 'Write {rubrics} and {race} on the wall, "scores": 1-5, {0} {x!r} \\1 \\g<0>'
    assert f"EDIT INSTRUCTION: {odd}\n" in text(instruction=odd, race="black")


@pytest.mark.parametrize(
    ("age", "target"),
    [
        ("30s", "source 30–39 plus 30 years = 60–69"),
        ("60s", "source 60–69 plus 30 years = 90–95"),
        ("70plus", "source 70+ plus 30 years = 95"),
    ],
)
def test_the_target_age_is_told_in_years_where_the_age_is(age: str, target: str) -> None:
    assert f"  Target age: {target}\n" in text(OLDER, age=age)


def test_the_target_age_is_told_by_looks_where_the_age_is_not() -> None:
    said = "  Target age: 30 years older than the person in the source appears, at most 95\n"
    assert said in text(OLDER) and said in text(OLDER, race="black")
    assert "Target age" not in text(**EVERYTHING)


def test_a_schema_asks_for_what_is_seen_before_it_asks_for_scores() -> None:
    schema = FORM.schema(AXES)
    assert list(schema["properties"]) == schema["required"] == ["observations", "scores", "evidence_summary"]
    seen, points = (schema["properties"][name] for name in ("observations", "scores"))
    assert seen["required"] == list(FORM.observations) and len(FORM.observations) == 5
    assert points["properties"] == {axis: {"type": "integer", "enum": [1, 2, 3, 4, 5]} for axis in AXES}
    assert not any(part["additionalProperties"] for part in (schema, seen, points))


def test_a_protocol_of_ones_own_needs_the_parts_that_judges_are_asked_by(protocol: Protocol) -> None:
    own = replace(protocol, templates={form.TEMPLATE: "EDIT: {prompt}\n"})
    with pytest.raises(ValueError, match=r"lacks \{rubrics\} and lines such as '1\.1"):
        DriftForm(own)


def test_another_wording_is_another_form(protocol: Protocol) -> None:
    told = protocol.templates[form.TEMPLATE].replace("required before scoring", "before scoring")
    assert (
        DriftForm(replace(protocol, templates={form.TEMPLATE: told})).hash != FORM.hash == DriftForm(protocol).hash
    )


@pytest.mark.parametrize("around", ["{}", "\n  {} \n", "```json\n{}\n```", "```\n{}\n```\n"])
def test_an_answer_is_read_with_nothing_but_space_or_one_fence_around_it(around: str) -> None:
    read = FORM.read(around.replace("{}", written()), AXES)
    assert isinstance(read, ParsedAnswer)
    assert read.scores == SCORES and list(read.scores) == list(AXES)
    assert read.evidence == "Glasses." and list(read.observations) == list(FORM.observations)


def test_the_scanned_spelling_of_an_axis_is_taken_once() -> None:
    ((axis, (alias,)),) = ((axis, [alias]) for alias, axis in FORM.aliases.items())
    spelled = {alias if name == axis else name: point for name, point in SCORES.items()}
    read = FORM.read(written(answered(spelled)), AXES)
    assert isinstance(read, ParsedAnswer) and read.scores == SCORES
    assert fault(answered({**SCORES, alias: 3})) == f"'{axis}' stands there twice"
    assert alias not in text() and alias not in json.dumps(FORM.schema(AXES))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (6, "6"),
        (0, "0"),
        (-1, "-1"),
        (4.0, "4.0"),
        ("4", "'4'"),
        ("4/5", "'4/5'"),
        (True, "True"),
        (None, "None"),
        ([4], "a list"),
        ({"score": 4}, "an object"),
        (10**40, "1" + "0" * 40),
    ],
)
def test_a_score_that_is_no_point_of_the_scale_is_no_score(value: Any, shown: str) -> None:
    axis = AXES[0]
    assert fault(answered({**SCORES, axis: value})) == f"{axis} is {shown}, no whole number from 1 to 5"


FAULTS: dict[str, tuple[Any, str]] = {
    "words": ("I cannot judge people.", "the answer is no JSON object: Expecting value at character 0"),
    "cut": (written()[:50], "the answer is no JSON object: "),
    "two": (written() * 2, "the answer is no JSON object: Extra data"),
    "words before": ("Here it is: " + written(), "the answer is no JSON object: "),
    "a list": ([answered()], "the answer is a list, not an object"),
    "nothing seen": (
        {k: v for k, v in answered().items() if k != "observations"},
        "the answer lacks observations",
    ),
    "seen partly": (answered(observations={}), "observations lacks edit_analysis, "),
    "seen no words": (
        answered(observations=dict.fromkeys(FORM.observations, 1)),
        "edit_analysis is 1, not a text",
    ),
    "an axis less": (answered({a: SCORES[a] for a in AXES[1:]}), f"scores lacks {AXES[0]}"),
    "an axis more": (answered({**SCORES, "beauty": 3}), "scores has 'beauty', which was not asked for"),
    "a key more": (answered(total=15), "the answer has 'total', which was not asked for"),
    "scores listed": (answered([4, 3, 1, 1, 3]), "scores is a list, not an object"),
    "twice": (written().replace('"scores"', '"scores": {}, "scores"'), "'scores' stands there twice"),
    "no number": (written().replace(": 4", ": NaN"), "NaN is no number of JSON"),
    "half a character": (written().replace("Glasses", "\\ud83d"), "evidence_summary holds half a character"),
    "deep": ("[" * 100_000, "the answer is nested too deeply"),
    "long": (written().replace(": 4", ": " + "4" * 5000), "the answer holds a number that is too long"),
}


@pytest.mark.parametrize(("said", "why"), FAULTS.values(), ids=FAULTS)
def test_an_answer_that_cannot_be_read_says_why(said: Any, why: str) -> None:
    assert fault(said).startswith(why)
