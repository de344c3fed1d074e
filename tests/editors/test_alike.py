"""What holds for every hosted editor: failures, limits, wrong keys, and which settings make another picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillme.core.errors import SetupError
from stillme.core.records import Status
from stillme.ledger.run import settings_hash
from tests.editors.asking import BFL, GEMINI, KEY, OPENAI, SECRET, Hosted
from tests.editors.providers import (
    Server,
    Turn,
    broken_json,
    cut,
    endless,
    gemini_error,
    late,
    openai_error,
    page,
    says,
)

EVERY = (OPENAI, GEMINI, BFL)
each = pytest.mark.parametrize("hosted", EVERY, ids=lambda hosted: hosted.kind)

DAILY = [{"violations": [{"quotaId": "GenerateRequestsPerDayPerProject"}]}]
# how it failed: what is said, the status and the code that it has, how often it is asked for
FAILURES: Mapping[str, Mapping[str, tuple[Turn, Status, str, int]]] = {
    "openai": {
        "another 400": (
            openai_error(400, "invalid_value", "e", "Invalid: '7x7'."),
            Status.REJECTED,
            "invalid_value",
            1,
        ),
        "a code nobody knows": (
            openai_error(400, "not_liked", "e", "We do not."),
            Status.REJECTED,
            "not_liked",
            1,
        ),
        "rate limit": (
            openai_error(429, "rate_limit_exceeded", "requests", "Rate limit reached", retry_after_ms="1"),
            Status.RATE_LIMITED,
            "rate_limit_exceeded",
            3,
        ),
        "quota": (openai_error(429, "insufficient_quota", "e", "Exceeded"), Status.QUOTA, "insufficient_quota", 1),
        "500": (openai_error(500, None, "server_error", "boom"), Status.SERVER_ERROR, "server_error", 3),
        "blocked, says a 500": (
            openai_error(500, "moderation_blocked", "server_error", "the filter is down"),
            Status.SERVER_ERROR,
            "moderation_blocked",
            3,
        ),
        "empty data": (says(200, {"created": 1, "data": []}), Status.SERVER_ERROR, "empty_response", 1),
        "no data": (says(200, ["what?"]), Status.SERVER_ERROR, "empty_response", 1),
        "no base64": (says(200, {"data": [{"b64_json": "§§§"}]}), Status.SERVER_ERROR, "empty_response", 1),
    },
    "gemini": {
        "rate limit": (
            gemini_error(429, "RESOURCE_EXHAUSTED", "too many", Retry_After="0"),
            Status.RATE_LIMITED,
            "RESOURCE_EXHAUSTED",
            3,
        ),
        "quota of the day": (
            gemini_error(429, "RESOURCE_EXHAUSTED", "too many", DAILY),
            Status.QUOTA,
            "RESOURCE_EXHAUSTED",
            1,
        ),
        "overloaded": (gemini_error(503, "UNAVAILABLE", "overloaded"), Status.SERVER_ERROR, "UNAVAILABLE", 3),
        "bad request": (gemini_error(400, "INVALID_ARGUMENT", "no"), Status.REJECTED, "INVALID_ARGUMENT", 1),
    },
    "bfl": {
        "no credits": (says(402, {"detail": "Insufficient credits"}), Status.QUOTA, "402", 1),
        "too many": (says(429, {"detail": "24 tasks"}, Retry_After="0"), Status.RATE_LIMITED, "429", 3),
        "bad field": (says(422, {"detail": [{"loc": ["body", "width"]}]}), Status.REJECTED, "422", 1),
        "500": (says(500, {}), Status.SERVER_ERROR, "500", 3),
        "nowhere to ask": (says(200, {"id": "task-1"}), Status.SERVER_ERROR, "empty_response", 1),
    },
}
ANYWHERE: Mapping[str, tuple[Turn, Status, str, int]] = {
    "page": (page(), Status.SERVER_ERROR, "200", 1),
    "half": (broken_json(), Status.SERVER_ERROR, "200", 1),
    "cut": (cut(), Status.NETWORK, "", 3),
}


@pytest.mark.parametrize(
    ("hosted", "failure"),
    [
        pytest.param(hosted, failure, id=f"{hosted.kind}: {name}")
        for hosted in EVERY
        for name, failure in {**FAILURES[hosted.kind], **ANYWHERE}.items()
    ],
)
def test_a_failure_is_never_a_refusal(hosted: Hosted, failure: tuple[Turn, Status, str, int]) -> None:
    turn, status, code, asked = failure
    with Server(turn) as server:
        reply = hosted.edit(server)
    assert (reply.status, reply.code) == (status, code)
    assert not reply.status.stage and reply.image is None and reply.detail
    assert len(server.seen) == asked
    if hosted is OPENAI:
        assert reply.cost_usd == 0


@each
def test_too_late_and_too_large(hosted: Hosted) -> None:
    with Server(late(60, says(200, {}))) as server:
        assert hosted.edit(server, timeout_s=0.2).status is Status.TIMEOUT
    with Server(endless(50_000_001, announced=hosted is not GEMINI)) as server:
        reply = hosted.edit(server)
    assert reply.status is Status.SERVER_ERROR and "larger than 50,000,000 bytes" in reply.detail


INVALID = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]
WRONG = [
    *(
        (OPENAI, openai_error(code, "x", "e", f"No. {SECRET}"), step)
        for code, step in ((401, KEY), (404, "retired"))
    ),
    (OPENAI, openai_error(403, "x", "e", "No."), KEY),
    (GEMINI, gemini_error(400, "INVALID_ARGUMENT", "API key not valid.", INVALID), KEY),
    (GEMINI, gemini_error(400, "FAILED_PRECONDITION", "User location is not supported for the API use."), KEY),
    (GEMINI, gemini_error(403, "PERMISSION_DENIED", "no"), KEY),
    (GEMINI, gemini_error(404, "NOT_FOUND", "models/x is not found"), "retired"),
    *((BFL, says(code, {"detail": "No."}), step) for code, step in ((401, KEY), (403, KEY), (404, "retired"))),
]


@pytest.mark.parametrize(("hosted", "turn", "step"), WRONG)
def test_a_wrong_key_or_a_retired_model_ends_the_run_with_a_sentence(
    hosted: Hosted, turn: Turn, step: str
) -> None:
    name = {"openai": "openai", "gemini": "Gemini", "bfl": "Black Forest Labs"}[hosted.kind]
    with Server(turn) as server:
        with pytest.raises(SetupError, match=rf"{name} answered 40\d .*'{hosted.quick['model']}'") as caught:
            hosted.edit(server)
    assert step in caught.value.next_step and SECRET not in str(caught.value)


OTHER_PIXELS: Mapping[str, Mapping[str, Any]] = {
    "openai": {
        "model": "gpt-image-3",
        "size": "512x512",
        "quality": "low",
        "input_fidelity": "high",
        "background": "opaque",
        "output_format": "webp",
        "extra": {"user": "me"},
        "configuration": {"gpu": "h100"},
    },
    "gemini": {
        "model": "gemini-4",
        "aspect_ratio": "1:1",
        "image_size": "2K",
        "temperature": 0.5,
        "safety": {"A": "B"},
        "sends_seed": False,
    },
    "bfl": {
        "model": "flux-2-max",
        "width": 512,
        "height": 512,
        "safety_tolerance": 3,
        "output_format": "jpeg",
        "steps": 20,
        "guidance": 3.5,
        "extra": {"prompt_upsampling": True},
    },
}
LIMITS = ("timeout_s", "connect_s", "deadline_s", "attempts", "backoff_s", "concurrency", "requests_per_minute")
SAME_PIXELS: Mapping[str, Any] = {
    "base_url": "https://api.eu.bfl.ai/v1",
    **dict.fromkeys(LIMITS, 9),
    "starts_at": 2,
    "tokens_per_minute": 1000.0,
    "most_bytes": 9,
    "trust_env": True,
    "most_images": 4,
}
FURTHER: Mapping[str, set[str]] = {  # of the wire, or tested with the service that it belongs to
    "openai": {"service", "sends_seed", "controls"},
    "gemini": set(),
    "bfl": {"poll_s"},
}


def hashed(hosted: Hosted, **settings: Any) -> str:
    return settings_hash("editor", hosted.prepared(**settings).effective)


@each
@given(data=st.data())
def test_what_changes_pixels_changes_the_key_and_nothing_else_does(hosted: Hosted, data: st.DataObject) -> None:
    pixels = OTHER_PIXELS[hosted.kind]
    other = data.draw(st.sets(st.sampled_from(sorted(pixels)), min_size=1))
    aside = {name: SAME_PIXELS[name] for name in data.draw(st.sets(st.sampled_from(sorted(SAME_PIXELS))))}
    assert hashed(hosted, **aside) == hashed(hosted)
    assert hashed(hosted, **aside, **{name: pixels[name] for name in other}) != hashed(hosted)


@each
def test_every_setting_is_in_one_of_the_two(hosted: Hosted) -> None:
    known = set(OTHER_PIXELS[hosted.kind]) | set(SAME_PIXELS) | FURTHER[hosted.kind]
    assert set(hosted.module.Settings.model_fields) == known


def test_how_often_an_edit_is_asked_after_changes_no_key() -> None:
    assert hashed(BFL, poll_s=9) == hashed(BFL)


def test_services_are_never_pooled() -> None:
    services = ("openai", "vllm-omni", "sglang", "stillme", "other")
    url = {"base_url": "https://served.example/v1"}
    assert len({hashed(OPENAI, **url, service=one) for one in services}) == len(services)
    assert hashed(OPENAI, **url, service="other", sends_seed=False) != hashed(OPENAI, **url, service="other")
