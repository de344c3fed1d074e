from __future__ import annotations

import base64
from collections.abc import Callable

import pytest

from stillme import pipeline
from stillme.core.errors import IncompleteError
from stillme.core.records import Status
from stillme.editors import hosted
from stillme.engine.backends import ExecutionMode
from stillme.engine.progress import Progress
from stillme.plan.config import Config
from tests.editors.asking import GEMINI, SECRET, request, rows
from tests.editors.providers import REQUEST_ID, Server, Turn, gemini_candidate, gemini_part, gemini_says, png, says

Load = Callable[..., Config]
prepared, edit = GEMINI.prepared, GEMINI.edit
WORDS = {"text": "I can't edit pictures of real people in that way."}


def test_a_picture_comes_back_as_it_is() -> None:
    with Server(gemini_candidate("STOP", {"text": "Here you go."}, gemini_part(png(5)))) as server:
        asked = request(png(1))
        safety = {"HARM_CATEGORY_HARASSMENT": "BLOCK_NONE"}
        reply = edit(server, asked, aspect_ratio="1:1", image_size="1K", temperature=0.0, safety=safety)
    row = hosted.price_row("gemini", "gemini-3.1-flash-image")
    assert row is not None and reply.cost_usd == row.expected
    assert (reply.status, reply.image, reply.detail) == (Status.OK, png(5), "Here you go.")
    assert reply.environment == {"model_version": "a-model-001"}
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


def test_what_a_plan_needs_to_know() -> None:
    one = prepared(concurrency=5)
    assert one.mode is ExecutionMode.REMOTE and one.concurrency == 5 and one.most_images == 14
    assert one.price is not None and one.price_usd == one.price.expected
    assert one.dropped == {} and "wish" in one.caveats[0]


def test_what_lands_in_the_ledger(load_audit: Load) -> None:
    turns = OUTCOMES["in"][0], OUTCOMES["words"][0], OUTCOMES["a new way out"][0]
    with Server(*turns) as server:
        config = GEMINI.audit(load_audit, server)
        with pytest.raises(IncompleteError, match="edits missing: 1"):
            pipeline.run(config, Progress())
    edits = rows(config, "SELECT status, detail FROM edit ORDER BY status")
    assert edits == [("input_blocked", "prompt blocked"), ("refused", WORDS["text"])]
    assert rows(config, "SELECT status, code FROM attempt ORDER BY status") == [
        ("input_blocked", "PROHIBITED_CONTENT"),
        ("refused", "STOP"),
        ("server_error", "IMAGE_SOMETHING_NEW"),
    ]
