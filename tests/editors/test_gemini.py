from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillme import pipeline
from stillme.core.errors import IncompleteError, SurroundingsError
from stillme.core.records import EditReply, EditRequest, Status
from stillme.editors import gemini, hosted
from stillme.engine.backends import Lane, Place, Prepared
from stillme.engine.progress import Progress
from stillme.ledger import Run
from stillme.ledger.run import settings_hash
from stillme.plan.config import Config
from stillme.protocol import builtin
from tests.editors.asking import ask, request
from tests.editors.providers import (
    REQUEST_ID,
    Server,
    Turn,
    broken_json,
    cut,
    endless,
    gemini_candidate,
    gemini_error,
    gemini_part,
    gemini_says,
    late,
    page,
    png,
    says,
)

Load = Callable[..., Config]
KEY = "STILLME_TEST_KEY"
SECRET = "AIza-test-0123456789"
QUICK: Mapping[str, Any] = {"model": "gemini-3.1-flash-image", "backoff_s": 0.01, "timeout_s": 60, "attempts": 3}
PLACE = Place(Path(), builtin(), KEY)
WORDS = {"text": "I can't edit pictures of real people in that way."}


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, SECRET)


def prepared(**settings: Any) -> Prepared[gemini.GeminiEditor]:
    return gemini.prepare(gemini.Settings.model_validate({**QUICK, **settings}), PLACE)


def edit(server: Server, asked: EditRequest | None = None, **settings: Any) -> EditReply:
    return ask(prepared(base_url=server.url, **settings), asked)


def test_a_picture_comes_back_as_it_is() -> None:
    with Server(gemini_candidate("STOP", {"text": "Here you go."}, gemini_part(png(5)))) as server:
        asked = request(png(1))
        safety = {"HARM_CATEGORY_HARASSMENT": "BLOCK_NONE"}
        reply = edit(server, asked, aspect_ratio="1:1", image_size="1K", temperature=0.0, safety=safety)
    row = hosted.price_row("gemini", QUICK["model"])
    assert row is not None and reply.cost_usd == row.expected
    assert (reply.status, reply.image, reply.detail) == (Status.OK, png(5), "Here you go.")
    assert reply.made == {"model_version": "a-model-001"}
    (seen,) = server.seen
    assert (seen.method, seen.path) == ("POST", "/v1/models/gemini-3.1-flash-image:generateContent")
    assert seen.headers["x-goog-api-key"] == SECRET and SECRET not in seen.path
    parts = seen.json["contents"][0]["parts"]
    assert [base64.b64decode(one["inlineData"]["data"]) for one in parts[:2]] == [asked.image, png(1)]
    assert [one["inlineData"]["mimeType"] for one in parts[:2]] == ["image/jpeg", "image/png"]
    assert parts[2] == {"text": "Add glasses."}
    assert seen.json["generationConfig"] == {
        "responseModalities": ["TEXT", "IMAGE"],
        "imageConfig": {"aspectRatio": "1:1", "imageSize": "1K"},
        "temperature": 0.0,
        "seed": 7,
    }
    assert seen.json["safetySettings"] == [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]


def test_only_what_is_set_is_sent() -> None:
    with Server(gemini_candidate("STOP", gemini_part(png()))) as server:
        edit(server, sends_seed=False)
    assert server.seen[0].json["generationConfig"] == {"responseModalities": ["TEXT", "IMAGE"]}
    assert prepared(sends_seed=False).dropped == {"seed": "sends_seed is off"}


def test_a_picture_made_while_thinking_is_not_the_answer() -> None:
    thought, answer, second = gemini_part(png(1), thought=True), gemini_part(png(2)), gemini_part(png(3))
    with Server(gemini_candidate("STOP", thought, answer, second)) as server:
        reply = edit(server)
    assert reply.image == png(2) and reply.extras == {"picture_2": png(3)}
    with Server(gemini_candidate("STOP", thought, WORDS)) as server:
        assert edit(server).status is Status.REFUSED


BLOCK = {"blockReason": "PROHIBITED_CONTENT", "blockReasonMessage": "prompt blocked"}
OUTCOMES: dict[str, tuple[Turn, Status, str, str]] = {
    "in": (gemini_says(promptFeedback=BLOCK), Status.INPUT_BLOCKED, "PROHIBITED_CONTENT", "prompt blocked"),
    "out": (
        gemini_candidate("IMAGE_SAFETY", message="Unable to show it."),
        Status.OUTPUT_BLOCKED,
        "IMAGE_SAFETY",
        "Unable to show it.",
    ),
    "words": (gemini_candidate("STOP", WORDS), Status.REFUSED, "STOP", WORDS["text"]),
    "a new way in": (
        gemini_says(promptFeedback={"blockReason": "BAD_WEATHER"}),
        Status.SERVER_ERROR,
        "BAD_WEATHER",
        "",
    ),
    "a new way out": (
        gemini_candidate("IMAGE_SOMETHING_NEW"),
        Status.SERVER_ERROR,
        "IMAGE_SOMETHING_NEW",
        "the service answered without a picture",
    ),
    "a new way out, in words": (
        gemini_candidate("IMAGE_SOMETHING_NEW", WORDS),
        Status.SERVER_ERROR,
        "IMAGE_SOMETHING_NEW",
        WORDS["text"],
    ),
    "no image": (
        gemini_candidate("NO_IMAGE"),
        Status.SERVER_ERROR,
        "NO_IMAGE",
        "the service answered without a picture",
    ),
    "nothing": (gemini_says(), Status.SERVER_ERROR, "empty_response", "the service answered without a picture"),
    "nonsense": (says(200, [1]), Status.SERVER_ERROR, "empty_response", "the service answered without a picture"),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_success_without_a_picture(name: str) -> None:
    turn, status, code, detail = OUTCOMES[name]
    with Server(turn) as server:
        reply = edit(server)
    assert (reply.status, reply.code, reply.detail) == (status, code, detail)
    assert reply.image is None and reply.cost_usd == 0
    assert reply.request_id == REQUEST_ID
    assert len(server.seen) == 1, "neither a refusal nor an empty answer is asked for twice"


DAILY = [{"violations": [{"quotaId": "GenerateRequestsPerDayPerProject"}]}]
FAILURES: dict[str, tuple[Turn, Status, str, int]] = {
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
    "page": (page(), Status.SERVER_ERROR, "200", 1),
    "half": (broken_json(), Status.SERVER_ERROR, "200", 1),
    "cut": (cut(), Status.NETWORK, "", 3),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_is_never_a_refusal(name: str) -> None:
    turn, status, code, asked = FAILURES[name]
    with Server(turn) as server:
        reply = edit(server)
    assert (reply.status, reply.code) == (status, code)
    assert not reply.status.stage and reply.detail
    assert len(server.seen) == asked


def test_too_late_and_too_large() -> None:
    with Server(late(60, gemini_says())) as server:
        assert edit(server, timeout_s=0.2).status is Status.TIMEOUT
    with Server(endless(50_000_001, announced=False)) as server:
        assert "larger than 50,000,000 bytes" in edit(server).detail


INVALID = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]


@pytest.mark.parametrize(
    "turn",
    [
        gemini_error(400, "INVALID_ARGUMENT", "API key not valid.", INVALID),
        gemini_error(400, "FAILED_PRECONDITION", "User location is not supported for the API use."),
        gemini_error(403, "PERMISSION_DENIED", "no"),
        gemini_error(404, "NOT_FOUND", "models/x is not found"),
    ],
)
def test_a_wrong_key_or_a_retired_model_ends_the_run_with_a_sentence(turn: Turn) -> None:
    with Server(turn) as server:
        with pytest.raises(
            SurroundingsError, match=r"Gemini answered 40\d for the model 'gemini-3.1-flash-image'"
        ):
            edit(server)


def test_what_a_plan_needs_to_know() -> None:
    one = prepared(concurrency=5)
    assert one.lane is Lane.REMOTE and one.concurrency == 5 and one.most_images == 14
    assert one.price is not None and one.price_usd == one.price.expected
    assert one.dropped == {} and "wish" in one.caveats[0]


OTHER_PIXELS: Mapping[str, Any] = {
    "model": "gemini-4",
    "aspect_ratio": "1:1",
    "image_size": "2K",
    "temperature": 0.5,
    "safety": {"A": "B"},
    "sends_seed": False,
}
SAME_PIXELS: Mapping[str, Any] = {
    "base_url": "https://elsewhere.example/v1",
    "timeout_s": 9,
    "connect_s": 9,
    "deadline_s": 9,
    "attempts": 9,
    "backoff_s": 9,
    "concurrency": 9,
    "requests_per_minute": 9,
    "starts_at": 2,
    "tokens_per_minute": 1000.0,
    "most_bytes": 9,
    "trust_env": True,
    "most_images": 9,
}


def hashed(**settings: Any) -> str:
    return settings_hash("editor", prepared(**settings).effective)


@given(st.sets(st.sampled_from(sorted(OTHER_PIXELS)), min_size=1), st.sets(st.sampled_from(sorted(SAME_PIXELS))))
def test_what_changes_pixels_changes_the_key_and_nothing_else_does(other: set[str], same: set[str]) -> None:
    aside = {name: SAME_PIXELS[name] for name in same}
    assert hashed(**aside) == hashed()
    assert hashed(**aside, **{name: OTHER_PIXELS[name] for name in other}) != hashed()


def test_every_setting_is_in_one_of_the_two() -> None:
    assert set(gemini.Settings.model_fields) == set(OTHER_PIXELS) | set(SAME_PIXELS)


def test_what_lands_in_the_ledger(load_audit: Load) -> None:
    turns = OUTCOMES["in"][0], OUTCOMES["words"][0], OUTCOMES["a new way out"][0]
    groups = {"race": ["white"], "gender": ["female"], "age": ["20s"]}
    with Server(*turns) as server:
        settings = {**QUICK, "base_url": server.url, "concurrency": 1}
        config = load_audit(
            sources=[{"id": "heads", "kind": "synthetic", "settings": {"groups": groups}}],
            editors=[{"id": "hosted", "kind": "gemini", "key_env": KEY, "settings": settings}],
            judges=[],
        )
        with pytest.raises(IncompleteError, match="edits missing: 1"):
            pipeline.run(config, Progress())
    with Run.look(config.run) as seen:
        edits = seen.query("SELECT status, detail FROM edit ORDER BY status")
        attempts = seen.query("SELECT status, code FROM attempt ORDER BY status")
    assert [tuple(row) for row in edits] == [("input_blocked", "prompt blocked"), ("refused", WORDS["text"])]
    assert [tuple(row) for row in attempts] == [
        ("input_blocked", "PROHIBITED_CONTENT"),
        ("refused", "STOP"),
        ("server_error", "IMAGE_SOMETHING_NEW"),
    ]
