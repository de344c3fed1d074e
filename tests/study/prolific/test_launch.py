"""Whoever comes from Prolific is who they say, or does not get in."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stillme.study.db.people import Launch, RefusedError
from stillme.study.prolific import launch
from stillme.study.prolific.client import Prolific, ProlificError
from stillme.study.prolific.launch import PAUSE, Door, Keyring
from stillme.study.rehearsal.fake import signing
from stillme.study.rehearsal.fake.app import Fault
from tests.study.prolific.stage import PUBLIC, Stage

Query = dict[str, str]


def query(stage: Stage, found: dict[str, Any], **changed: Any) -> Query:
    return {
        "PROLIFIC_PID": found["participant"],
        "STUDY_ID": found["study_id"],
        "SESSION_ID": found["id"],
        "prolific_token": signing.token(stage.world, found, **changed),
    }


def enter(stage: Stage, entry: Any, asked: Query, now: Callable[[], float] | None = None) -> Launch:
    async def inner(client: Prolific) -> Launch:
        return await Door(entry, PUBLIC, stage.store, client, now or stage.clock).launched(asked)

    return stage.run(inner)


def someone(stage: Stage) -> dict[str, Any]:
    stage.publish()
    return stage.world.arrive(stage.study)


@pytest.mark.parametrize("entry", ["signed", "prolific", "plain"])
def test_a_launch_that_is_right_gets_in(stage: Stage, entry: str) -> None:
    found = someone(stage)
    assert enter(stage, entry, query(stage, found)) == Launch(found["participant"], found["study_id"], found["id"])


def test_the_fakes_link_carries_what_prolific_puts_into_it(stage: Stage) -> None:
    found = someone(stage)
    url = signing.launch_url(stage.world, found)
    assert url.startswith(f"{PUBLIC}/p/start?PROLIFIC_PID={found['participant']}&STUDY_ID={found['study_id']}")
    assert f"&SESSION_ID={found['id']}&prolific_token=" in url


@pytest.mark.parametrize("name", ["PROLIFIC_PID", "SESSION_ID", "STUDY_ID"])
@pytest.mark.parametrize("entry", ["signed", "prolific"])
def test_nobody_gets_in_under_another_name(stage: Stage, entry: str, name: str) -> None:
    mine, other = someone(stage), stage.world.arrive(stage.study)
    stolen = {"PROLIFIC_PID": other["participant"], "SESSION_ID": other["id"], "STUDY_ID": "0" * 24}[name]
    with pytest.raises(RefusedError, match="not valid"):
        enter(stage, entry, {**query(stage, mine), name: stolen})


@pytest.mark.parametrize("name", ["PROLIFIC_PID", "SESSION_ID", "STUDY_ID"])
def test_a_link_that_is_no_link_is_refused_without_asking_anybody(stage: Stage, name: str) -> None:
    for value in ("", "../../studies", "a b", "{{%PROLIFIC_PID%}}", "x" * 200, "<script>"):
        asked = {"PROLIFIC_PID": "a", "STUDY_ID": "b", "SESSION_ID": "c", name: value}
        with pytest.raises(RefusedError, match="not complete"):
            enter(stage, "prolific", asked)
    assert stage.options.log == []


def test_a_signed_study_wants_the_signature(stage: Stage) -> None:
    asked = query(stage, someone(stage))
    for token in ("", "a.b.c", "x" * 100_000, asked["prolific_token"][:-4] + "AAAA"):
        with pytest.raises(RefusedError, match="not valid"):
            enter(stage, "signed", {**asked, "prolific_token": token})


@pytest.mark.parametrize(
    "changed",
    [
        {"iss": "https://www.prolific.example"},
        {"aud": "elsewhere.example.org"},
        {"sub": "0" * 24},
        {"exp": 1_000},
        {"iat": 99_999_999_999},
        {"prolific": None},
        {"prolific": {}},
        {"exp": None},
    ],
)
def test_a_signature_for_something_else_does_not_count(stage: Stage, changed: dict[str, Any]) -> None:
    found = someone(stage)
    asked = query(stage, found, **changed)
    with pytest.raises(RefusedError, match="not valid"):
        enter(stage, "signed", asked)


def _segment(found: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(found).encode()).rstrip(b"=").decode()


def test_unsigned_and_otherwise_signed_launches_are_refused(stage: Stage) -> None:
    """alg none; the public key taken for a shared secret; a key of the attacker's own under a known name."""
    found = someone(stage)
    asked = query(stage, found)
    header, claims, _ = asked["prolific_token"].split(".")
    kid, said = (
        signing.name(stage.world.key),
        jwt.decode(asked["prolific_token"], options={"verify_signature": False}),
    )
    unsigned = f"{_segment({'alg': 'none', 'kid': kid})}.{claims}."
    private = serialization.load_pem_private_key(stage.world.key.encode(), None)
    public = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    shared = f"{_segment({'alg': 'HS256', 'kid': kid})}.{claims}"
    mac = hmac.new(public, shared.encode(), hashlib.sha256).digest()
    confused = f"{shared}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"
    own = jwt.encode(said, signing.make_key(), algorithm="RS256", headers={"kid": kid})
    for token in (unsigned, confused, own, f"{header}.{claims}."):
        with pytest.raises(RefusedError, match="not valid"):
            enter(stage, "signed", {**asked, "prolific_token": token})


def test_a_signature_wears_out(stage: Stage) -> None:
    asked = query(stage, someone(stage))
    with pytest.raises(RefusedError, match="not valid any more"):
        enter(stage, "signed", asked, now=lambda: stage.clock() + 2 * signing.LASTS)


def test_people_of_another_study_that_points_here_do_not_get_in(stage: Stage) -> None:
    stage.publish()
    fields = {name: value for name, value in stage.world.studies[stage.study].items() if name != "id"}
    other = stage.world.create(fields)
    stage.world.move_study(other["id"], "PUBLISH")
    found = stage.world.arrive(other["id"])
    for entry in ("signed", "prolific"):
        with pytest.raises(RefusedError, match="not valid"):
            enter(stage, entry, query(stage, found))


@pytest.mark.parametrize("action", ["RETURN", "TIMEOUT"])
def test_whoever_has_left_at_prolific_cannot_come_in(stage: Stage, action: str) -> None:
    found = someone(stage)
    stage.world.move(found["id"], action)
    with pytest.raises(RefusedError, match="has ended on Prolific"):
        enter(stage, "prolific", query(stage, found))


def test_somebody_who_handed_in_can_come_back_to_their_code(stage: Stage) -> None:
    found = someone(stage)
    stage.world.complete(found["id"], "WRONG")
    assert enter(stage, "prolific", query(stage, found)).submission == found["id"]


def test_a_prolific_that_fails_is_said_kindly(stage: Stage) -> None:
    found = someone(stage)
    stage.options.faults.append(Fault("/submissions/", 500, times=9))
    with pytest.raises(RefusedError, match="try again in a minute") as said:
        enter(stage, "prolific", query(stage, found))
    assert said.value.wait == PAUSE


def test_a_new_key_is_found_and_unknown_ones_are_not_asked_for_all_the_time(stage: Stage) -> None:
    found = someone(stage)
    now, looks = [1000.0], [0]

    async def inner(client: Prolific) -> None:
        original = client.launch_keys

        async def counted() -> list[dict[str, Any]]:
            looks[0] += 1
            return await original()

        client.launch_keys = counted  # type: ignore[method-assign]
        ring = Keyring(client, lambda: now[0])
        assert await ring.key(signing.name(stage.world.key)) is not None
        for _ in range(50):
            assert await ring.key("unknown") is None
        assert looks[0] == 1, "somebody who makes up names does not make us ask Prolific"
        stage.world.key = signing.make_key()
        now[0] += PAUSE
        assert await ring.key(signing.name(stage.world.key)) is not None, "a key that was changed is found"
        now[0] += 24 * 3600
        assert await ring.key(signing.name(stage.world.key)) is not None
        assert looks[0] == 3, "after a day they are read again"

    stage.run(inner)
    assert found


def test_people_who_come_while_prolific_is_silent_are_not_told_that_their_link_is_at_fault(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone(self: Prolific) -> None:
        raise ProlificError("Prolific does not answer.", "Try again later.")

    async def inner(client: Prolific) -> None:
        ring = Keyring(client, lambda: 0.0)
        for _ in range(3):
            with pytest.raises(ProlificError):
                await ring.key("anything")

    monkeypatch.setattr(Prolific, "launch_keys", gone)
    stage.run(inner)


def test_one_who_has_waited_long_enough_does_not_spoil_it_for_the_others(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first look at the keys takes longer than anybody waits; whoever comes then, or later, gets in."""
    first, second = someone(stage), someone(stage)

    async def inner(client: Prolific) -> None:
        original, answers, looks = client.launch_keys, asyncio.Event(), [0]

        async def slow() -> list[dict[str, Any]]:
            looks[0] += 1
            await answers.wait()
            return await original()

        client.launch_keys = slow  # type: ignore[method-assign]
        door = Door("signed", PUBLIC, stage.store, client, stage.clock)
        monkeypatch.setattr(launch, "PATIENCE", 0.05)
        for _ in range(2):
            with pytest.raises(RefusedError, match="try again in a minute"):
                await door.launched(query(stage, first))
        monkeypatch.setattr(launch, "PATIENCE", 60.0)
        answers.set()
        for one in (first, second):
            assert (await door.launched(query(stage, one))).submission == one["id"]
        assert looks[0] == 1

    stage.run(inner)


def test_nobody_waits_long_for_a_prolific_that_is_silent(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(self: Prolific, submission: str) -> None:
        await asyncio.sleep(3600)

    asked = query(stage, someone(stage))
    monkeypatch.setattr(Prolific, "submission", silent)
    monkeypatch.setattr(launch, "PATIENCE", 0.05)
    with pytest.raises(RefusedError, match="try again in a minute"):
        enter(stage, "prolific", asked)


@given(st.dictionaries(st.sampled_from(("PROLIFIC_PID", "STUDY_ID", "SESSION_ID", "prolific_token")), st.text()))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_stands_in_a_link_the_answer_is_kind(stage: Stage, asked: Query) -> None:
    known = {"PROLIFIC_PID": "a", "STUDY_ID": "b", "SESSION_ID": "c"}
    if not stage.world.studies:
        stage.publish()
    for mixed in (asked, {**asked, **known, "STUDY_ID": stage.study}):
        with pytest.raises(RefusedError):
            enter(stage, "signed", mixed)
