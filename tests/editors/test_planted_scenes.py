"""Planted scenes of two people: who is shown as what, by each rule, and what it looks like."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from stillme.core import images
from stillme.core.records import SHOWN_GENDER, SHOWN_ROLE, EditReply, EditRequest, Status
from stillme.editors.planted import Planted, Settings, Truth, prepare
from stillme.engine.backends import BackendContext
from stillme.protocol import builtin
from stillme.sources import synthetic
from tests.judges.asking import PLACE

PROMPT = builtin().pair["W-01"]  # stereotyped as male, with a pronoun
NONE = {"base": 0.0}


@cache
def portraits() -> dict[str, bytes]:
    groups = {"race": ("indian",), "age": ("40s",)}
    made = synthetic.prepare(synthetic.Settings(groups=groups), BackendContext(PLACE.folder, builtin())).make()
    return {portrait.labels["gender"]: content for portrait, content in made.portraits()}


def editor(rule: Any, refused: Any = NONE, corrupt: Any = NONE) -> Planted:
    said = {"id": "t", "label": "t", "description": "t", "otherwise": {}, "effects": []}
    truth = Truth.model_validate({**said, "refused": refused, "corrupt": corrupt, "assigns": rule})
    return prepare(Settings(truth=truth), PLACE).make()


def scene(rule: Any, text: str, *genders: str, seed: int = 0, **more: Any) -> EditReply:
    first, *further = (portraits()[gender] for gender in genders)
    return editor(rule, **more).edit(EditRequest("k", first, text, seed, "", tuple(further)))


def target(reply: EditReply) -> tuple[int, float]:
    """The target's place from the left, and how it presents."""
    assert reply.status is Status.OK
    role = sorted((PROMPT.target, PROMPT.other)).index(PROMPT.target)
    (place,) = [n for n in (0, 1) if reply.truth[SHOWN_ROLE.format(place=n)] == role]
    return place, reply.truth[SHOWN_GENDER.format(place=place)]


def sentence(order: str, pronoun: str) -> str:
    words = builtin().winobias.pronouns(pronoun)
    assert PROMPT.forms is not None
    return PROMPT.forms.written(order, words)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rule", "order", "pronoun", "genders", "shown"),
    [
        ("position", "first", "he", ("male", "female"), (0, 1)),
        ("position", "first", "he", ("female", "male"), (0, 5)),
        ("position", "second", "she", ("female", "male"), (1, 1)),
        ("position", "first", "he", ("female",), (0, 5)),
        (None, "second", "he", ("female",), (1, 1)),
        ("pronoun", "second", "he", ("male", "female"), (0, 1)),
        ("pronoun", "first", "she", ("male", "female"), (1, 5)),
        ("pronoun", "first", "they", ("female", "male"), (0, 5)),
        ("preserve", "second", "she", ("male", "female"), (0, 1)),
        ("preserve", "second", "she", ("male",), (0, 1)),
        ({"stereotype": 1.0}, "second", "she", ("female", "male"), (1, 1)),
        ({"stereotype": 0.0}, "first", "he", ("male", "female"), (1, 5)),
    ],
)
def test_who_is_the_target_is_as_the_rule_says(
    rule: Any, order: str, pronoun: str, genders: tuple[str, ...], shown: tuple[int, float]
) -> None:
    assert target(scene(rule, sentence(order, pronoun), *genders)) == shown


def test_both_people_are_in_the_picture_one_in_each_role() -> None:
    reply = scene("position", PROMPT.text, "male", "female")
    assert sorted(reply.truth.values()) == [0.0, 1.0, 1.0, 5.0]
    assert reply.image is not None
    height, width, _ = images.pixels(reply.image).shape
    assert width > height * 1.3
    swapped = scene("position", PROMPT.text, "female", "male")
    assert swapped.image != reply.image == scene("position", PROMPT.text, "male", "female").image


def test_a_probability_is_kept_over_many_draws() -> None:
    biased = editor({"stereotype": 0.8})
    first, second = (portraits()[gender] for gender in ("male", "female"))
    shown = [target(biased.edit(EditRequest("k", first, PROMPT.text, n, "", (second,))))[1] for n in range(300)]
    assert shown.count(1.0) / 300 == pytest.approx(0.8, abs=0.08)


def test_refusals_and_broken_pictures_befall_scenes_too() -> None:
    ends = [scene("position", PROMPT.text, "male", seed=n, refused={"base": 0.5}).status for n in range(20)]
    assert {Status.REFUSED, Status.OK} == set(ends)
    broken = scene("position", PROMPT.text, "male", corrupt={"base": 0.95})
    assert broken.image is not None and not broken.truth


def test_older_truths_keep_their_settings() -> None:
    silent, said = editor(None).truth.spelled_out(), editor({"stereotype": 0.8}).truth.spelled_out()
    assert "assigns" not in silent and said["assigns"] == {"stereotype": 0.8}
