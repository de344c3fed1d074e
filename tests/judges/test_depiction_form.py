"""The form on who is shown in an edit: what is asked, what is sent, how it is read, and the simulated judge of it."""

from __future__ import annotations

import asyncio
import base64
import json
import random
from typing import Any

import pytest

from stillme.core.records import PEOPLE, SHOWN_GENDER, SHOWN_ROLE, Depicted, JudgeReply, JudgeRequest, Status
from stillme.judges import ParsedAnswer, ParseError, gemini, openai
from stillme.judges.depiction_form import GENDER, MAX_PEOPLE, NEITHER, PRESENTATIONS, UNCLEAR, PeopleForm
from stillme.judges.planted import UNREADABLE, Planted, Settings
from tests.editors.providers import Server, Turn, png
from tests.judges.asking import PLACE, PROTOCOL, gemini_answers, openai_says

PAIR = PROTOCOL.pair["W-24"]
ROLES = tuple(sorted((PAIR.target, PAIR.other)))
FORM = PeopleForm(PROTOCOL)


def person(role: Any = ROLES[0], gender: Any = PRESENTATIONS[0], **more: Any) -> dict[str, Any]:
    return {"description": "Stands there.", "role": role, "gender_presentation": gender, **more}


def said(*people: Any, **changes: Any) -> str:
    return json.dumps({"people": list(people), "evidence_summary": "Two people.", **changes})


def read(text: str) -> tuple[Depicted, ...]:
    found = FORM.read(text, ROLES)
    assert isinstance(found, ParsedAnswer), found
    assert not found.scores and not found.features
    return found.people


def test_everybody_is_read_in_their_order() -> None:
    people = read(said(person(ROLES[1], PRESENTATIONS[4]), person(NEITHER, PRESENTATIONS[2]), person(UNCLEAR)))
    assert [(one.role, one.gender) for one in people] == [(ROLES[1], 5), (NEITHER, 3), (UNCLEAR, 1)]
    assert people[0].note == "Stands there."


def test_unclear_is_no_middle_and_nobody_is_an_answer() -> None:
    assert [one.gender for one in read(said(person(gender=UNCLEAR), person(gender=PRESENTATIONS[2])))] == [None, 3]
    assert read(said()) == ()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (said(person("astronaut")), "role is 'astronaut', none of"),
        (said(person(gender="male")), "gender_presentation is 'male', none of"),
        (said(person(gender=3)), "gender_presentation is 3"),
        (said(person(gender=None)), "gender_presentation is None"),
        (said(person(gender=["unclear"])), "gender_presentation is a list"),
        (said(person(age="30s")), "which was not asked for"),
        (said({"role": ROLES[0], GENDER: UNCLEAR}), "lacks description"),
        (said("a nurse"), "a person is 'a nurse', not an object"),
        (said(people={}), "people is an object, not a list"),
        (said(*[person()] * (MAX_PEOPLE + 1)), f"more than {MAX_PEOPLE}"),
        (said(evidence_summary=3), "evidence_summary is 3"),
        (json.dumps({"people": []}), "lacks evidence_summary"),
        ('{"people": [], "people": [], "evidence_summary": ""}', "stands there twice"),
        ("Two people, I think.", "no JSON object"),
    ],
)
def test_what_is_not_the_form_is_not_read(text: str, why: str) -> None:
    found = FORM.read(text, ROLES)
    assert isinstance(found, ParseError) and why in found.message


def test_the_schema_allows_what_can_be_read_and_nothing_else() -> None:
    one = FORM.schema(ROLES)["properties"]["people"]["items"]
    assert one["additionalProperties"] is False and set(one["required"]) == set(one["properties"])
    for role in one["properties"]["role"]["enum"]:
        for gender in one["properties"]["gender_presentation"]["enum"]:
            assert read(said(person(role, gender)))
    described = list(one["properties"])
    assert described[0] == "description", "described before it is decided"


def test_the_words_say_nothing_of_the_sentence() -> None:
    texts = {FORM.text(PAIR.id, text, ROLES, {}) for _, _, text in PROTOCOL.winobias.sentences(PAIR)}
    (told,) = texts
    assert f'"{ROLES[0]}" and "{ROLES[1]}"' in told and "investigating" not in told
    assert all(f'"{word}"' in told for word in (*ROLES, NEITHER, UNCLEAR)) and "{" + "{" not in told
    assert not {"he", "she", "stereotype"} & set(told.lower().replace(".", " ").split())


def request(**more: Any) -> JudgeRequest:
    told = {"form": PEOPLE, "prompt": PAIR.id, **more}
    return JudgeRequest("key", png(1), png(2), PAIR.text, ROLES, **told)


def asked(module: Any, turn: Turn, settings: dict[str, Any]) -> tuple[JudgeReply, Any]:
    """What a service says about people, and the request that it got."""

    async def call(url: str) -> JudgeReply:
        made = module.prepare(module.Settings.model_validate({**settings, "base_url": url}), PLACE)
        judge = made.make_for(PEOPLE)
        try:
            reply: JudgeReply = await judge.judge(request())
            return reply
        finally:
            await judge.close()

    with Server(turn) as server:
        return asyncio.run(call(server.url)), server.seen[0].json


ANSWER = said(person(ROLES[0], "somewhat_feminine"), person(ROLES[1], UNCLEAR))
SEEN = (Depicted(ROLES[0], 4, "Stands there."), Depicted(ROLES[1], None, "Stands there."))


@pytest.mark.parametrize(
    ("module", "turn", "settings"),
    [
        (openai, openai_says(ANSWER), {"model": "gpt-5-mini"}),
        (gemini, gemini_answers(ANSWER), {"model": "gemini-3-flash-preview"}),
    ],
)
def test_a_service_is_shown_the_edit_alone(module: Any, turn: Turn, settings: dict[str, Any]) -> None:
    reply, body = asked(module, turn, settings)
    assert (reply.status, reply.people, reply.scores) == (Status.OK, SEEN, {})
    sent = json.dumps(body)
    assert base64.b64encode(png(2)).decode() in sent and base64.b64encode(png(1)).decode() not in sent
    assert PAIR.text not in sent and "EDITED:" in sent and "SOURCE:" not in sent
    assert all(word in sent for word in (*ROLES, *PRESENTATIONS))


# The simulated one


def planted(*people: tuple[int, float]) -> dict[str, float]:
    places = enumerate(people)
    pairs = [((SHOWN_ROLE.format(place=n), float(r)), (SHOWN_GENDER.format(place=n), g)) for n, (r, g) in places]
    return dict(pair for both in pairs for pair in both)


def test_a_simulated_judge_sees_who_was_planted_and_mistakes_nobody() -> None:
    judge, truth = Planted(Settings(), PROTOCOL), planted((1, 5.0), (0, 1.0))
    replies = [
        judge.judge(JudgeRequest(f"{n}", b"", b"", "", ROLES, planted=truth, form=PEOPLE)) for n in range(2000)
    ]
    assert {tuple(one.role for one in reply.people) for reply in replies} == {(ROLES[1], ROLES[0])}
    first = [reply.people[0].gender for reply in replies]
    assert set(first) == {4, 5, None} and {reply.people[1].gender for reply in replies} == {1, 2, None}
    assert first.count(None) / 2000 == pytest.approx(UNREADABLE, abs=0.01)
    assert replies[:50] == [
        judge.judge(JudgeRequest(f"{n}", b"", b"", "", ROLES, planted=truth, form=PEOPLE)) for n in range(50)
    ]


def test_a_simulated_judge_needs_planted_people() -> None:
    reply = Planted(Settings(), PROTOCOL).judge(request())
    assert reply.status is Status.REJECTED and "planted truth" in reply.detail and not reply.people


def test_answers_of_any_size_are_read_or_refused_in_a_sentence() -> None:
    chance = random.Random(1)
    whole = said(*[person(chance.choice(ROLES), chance.choice(PRESENTATIONS)) for _ in range(MAX_PEOPLE)])
    assert len(read(whole)) == MAX_PEOPLE
    for _ in range(500):
        at = chance.randrange(len(whole))
        changed = whole[:at] + chance.choice('{}[]",:x0') + whole[at + chance.randrange(3) :]
        assert isinstance(FORM.read(changed, ROLES), ParsedAnswer | ParseError)
