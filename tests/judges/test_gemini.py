from __future__ import annotations

import base64
import json
from datetime import datetime
from typing import Any

import pytest

from stillme.core.errors import SetupError
from stillme.core.records import JudgeReply, Status
from stillme.engine.backends import BackendContext, PreparedJudge
from stillme.engine.http import RemoteError
from stillme.judges import gemini, models
from tests.editors.providers import (
    REQUEST_ID,
    Server,
    Turn,
    gemini_candidate,
    gemini_error,
    gemini_says,
    png,
    says,
)
from tests.judges.asking import (
    AXES,
    FORM,
    PLACE,
    SCORES,
    SECRET,
    USAGE_METADATA,
    answered,
    ask,
    gemini_answers,
    request,
    written,
)

QUICK: dict[str, Any] = {"model": "gemini-3-flash-preview", "backoff_s": 0.01, "timeout_s": 60, "attempts": 3}
RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.3s"}
BY_DAY = {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}]}


def prepared(**settings: Any) -> PreparedJudge[gemini.GeminiJudge]:
    return gemini.prepare(gemini.Settings.model_validate({**QUICK, **settings}), PLACE)


def judge(server: Server, **settings: Any) -> JudgeReply:
    return ask(prepared(base_url=server.url, **settings))


def test_scores_come_back_with_what_was_seen_and_what_it_cost() -> None:
    candidate = {
        "content": {"parts": [{"text": written()[:40]}, {"text": written()[40:]}]},
        "finishReason": "STOP",
    }
    with Server(gemini_says(candidates=[candidate], usageMetadata=USAGE_METADATA)) as server:
        reply = judge(server)
    assert (reply.status, reply.scores, reply.evidence) == (Status.OK, SCORES, "Glasses.")
    assert reply.observations == answered()["observations"]
    (one,) = reply.exchanges
    assert (one.http, one.code, one.request_id) == (200, "STOP", REQUEST_ID)
    assert one.usage == {"input": 3000, "output": 600, "thoughts": 200}
    row = models.table().row("gemini", "gemini-3-flash-preview")
    assert row is not None
    assert reply.cost_usd == pytest.approx((3000 * row.usd.input + 600 * row.usd.output) / 1e6)


def test_the_request_is_what_is_documented() -> None:
    safety = {"HARM_CATEGORY_HARASSMENT": "BLOCK_NONE"}
    axes = PLACE.protocol.axes_of("V-03")
    with Server(gemini_answers(written(answered(dict.fromkeys(axes, 3))))) as server:
        ask(prepared(base_url=server.url, detail="high", seed=7, safety=safety), request("V-03"))
    (seen,) = server.seen
    assert (seen.method, seen.path) == ("POST", "/v1/models/gemini-3-flash-preview:generateContent")
    assert seen.headers["x-goog-api-key"] == SECRET and SECRET not in seen.path
    assert "first picture is the SOURCE" in seen.json["systemInstruction"]["parts"][0]["text"]
    named, source, named_too, edited, told = seen.json["contents"][0]["parts"]
    assert (named["text"], named_too["text"]) == ("SOURCE:", "EDITED:")
    inline = [part["inlineData"] for part in (source, edited)]
    assert [one["mimeType"] for one in inline] == ["image/png"] * 2
    assert [base64.b64decode(one["data"], validate=True) for one in inline] == [png(1), png(2)]
    axes = PLACE.protocol.axes_of("V-03")
    assert (
        told["text"] == FORM.text("V-03", "Add glasses.", axes, {})
        and "Target age: 30 years older" in told["text"]
    )
    wanted = dict(seen.json["generationConfig"])
    schema = wanted.pop("responseSchema")
    assert wanted == {
        "temperature": 0.1,
        "maxOutputTokens": 8192,
        "seed": 7,
        "thinkingConfig": {"thinkingLevel": "low"},
        "mediaResolution": "MEDIA_RESOLUTION_HIGH",
        "responseMimeType": "application/json",
    }
    assert schema["propertyOrdering"] == schema["required"] == ["observations", "scores", "evidence_summary"]
    points = schema["properties"]["scores"]
    assert points["propertyOrdering"] == list(axes)
    assert points["properties"][axes[-1]] == {"type": "INTEGER", "minimum": 1, "maximum": 5}
    assert "additionalProperties" not in json.dumps(schema) and "enum" not in json.dumps(schema)
    assert seen.json["safetySettings"] == [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]


def test_only_what_is_set_is_sent() -> None:
    with Server(gemini_answers(written())) as server:
        judge(server, temperature=None, effort=None, max_output_tokens=None)
    assert list(server.seen[0].json["generationConfig"]) == ["responseMimeType", "responseSchema"]


BLOCK = {"blockReason": "PROHIBITED_CONTENT", "blockReasonMessage": "prompt blocked"}
OUTCOMES: dict[str, tuple[Turn, Status, str, str]] = {
    "in": (gemini_says(promptFeedback=BLOCK), Status.INPUT_BLOCKED, "PROHIBITED_CONTENT", "prompt blocked"),
    "a new way in": (
        gemini_says(promptFeedback={"blockReason": "MODEL_ARMOR"}),
        Status.INPUT_BLOCKED,
        "MODEL_ARMOR",
        "",
    ),
    "out": (gemini_candidate("SPII", message="Personal."), Status.OUTPUT_BLOCKED, "SPII", "Personal."),
    "recited": (gemini_answers(written(), "RECITATION"), Status.OUTPUT_BLOCKED, "RECITATION", written()),
    "a new way out": (
        gemini_answers(written(), "BAD_WEATHER"),
        Status.SERVER_ERROR,
        "BAD_WEATHER",
        "the answer ended with BAD_WEATHER",
    ),
    "nobody": (gemini_says(), Status.SERVER_ERROR, "empty_response", "the service answered without a candidate"),
    "a bad picture": (
        gemini_error(400, "INVALID_ARGUMENT", "Unable to process input image."),
        Status.REJECTED,
        "INVALID_ARGUMENT",
        "Unable to process input image.",
    ),
    "no money": (
        gemini_error(429, "RESOURCE_EXHAUSTED", "Quota exceeded.", [BY_DAY]),
        Status.QUOTA,
        "RESOURCE_EXHAUSTED",
        "Quota exceeded.",
    ),
}


@pytest.mark.parametrize("case", OUTCOMES)
def test_an_outcome_is_asked_for_once_and_kept_in_the_services_words(case: str) -> None:
    turn, status, code, detail = OUTCOMES[case]
    with Server(turn) as server:
        reply = judge(server)
    assert len(server.seen) == len(reply.exchanges) == 1
    (one,) = reply.exchanges
    assert (one.status, one.code, one.detail) == (status, code, detail[:500])
    assert reply.status is status and not reply.scores and one.raw


@pytest.mark.parametrize(
    ("bad", "status"),
    [
        (gemini_answers("I'd rather not rate this person."), Status.MALFORMED),
        (gemini_answers(""), Status.MALFORMED),
        (gemini_answers(written()[:90], "MAX_TOKENS"), Status.TRUNCATED),
        (gemini_candidate("MAX_TOKENS"), Status.TRUNCATED),
    ],
)
def test_what_cannot_be_read_is_asked_for_twice_more_at_most(bad: Turn, status: Status) -> None:
    with Server(bad) as server:
        reply = judge(server)
    assert [one.status for one in reply.exchanges] == [status] * 3 and not reply.scores
    with Server(bad, gemini_answers(written())) as server:
        assert judge(server).scores == SCORES


def test_a_block_that_was_counted_costs_what_was_read() -> None:
    with Server(gemini_says(promptFeedback=BLOCK, usageMetadata={"promptTokenCount": 1000})) as server:
        assert judge(server).cost_usd == pytest.approx(0.0005)
    with Server(gemini_says(promptFeedback=BLOCK)) as server:
        assert judge(server).cost_usd == 0


def test_a_delay_that_the_body_asks_for_is_kept() -> None:
    busy = gemini_error(429, "RESOURCE_EXHAUSTED", "Slow down.", [{"@type": "QuotaFailure"}, RETRY])
    with Server(busy, gemini_answers(written())) as server:
        reply = judge(server)
        first, last = reply.exchanges
    assert (first.status, first.code, last.status) == (Status.RATE_LIMITED, "RESOURCE_EXHAUSTED", Status.OK)
    waited = datetime.fromisoformat(last.started) - datetime.fromisoformat(first.started)
    assert waited.total_seconds() >= 0.29
    waits = prepared().make().retry_after_s
    assert waits(RemoteError(Status.RATE_LIMITED, "", 429, said={"error": {"details": [{}, RETRY]}})) == 0.3
    odd: tuple[Any, ...] = (None, "x", [], {"error": {"details": 1}}, {"error": {"details": [{"retryDelay": 3}]}})
    for said in odd:
        assert waits(RemoteError(Status.RATE_LIMITED, "", 429, said=said)) is None


@pytest.mark.parametrize(
    ("turn", "code"),
    [
        (gemini_error(403, "PERMISSION_DENIED", "Not yours."), 403),
        (gemini_error(404, "NOT_FOUND", "No such model."), 404),
        (gemini_error(400, "INVALID_ARGUMENT", "API key not valid.", [{"reason": "API_KEY_INVALID"}]), 403),
        (gemini_error(400, "FAILED_PRECONDITION", "User location is not supported."), 403),
    ],
)
def test_a_wrong_key_model_or_place_ends_the_run_with_a_sentence(turn: Turn, code: int) -> None:
    with Server(turn) as server:
        with pytest.raises(SetupError, match=f"Gemini answered {code} for the model"):
            judge(server)
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    "said", ["Thinking level is not supported for this model.", 'Unknown name "thinkingLevel"']
)
def test_a_parameter_that_is_not_taken_ends_the_run(said: str) -> None:
    with Server(gemini_error(400, "INVALID_ARGUMENT", said)) as server:
        with pytest.raises(SetupError, match="Gemini does not take effort = low for the model"):
            judge(server)


def test_in_a_batch_a_wrong_key_is_no_final_outcome() -> None:
    judge = prepared().make()
    for http in (401, 403, 404):
        assert not judge.read(http, {"error": {"message": "no"}}, b"{}", AXES).status.is_final


def test_temperature_is_sent_with_a_warning_unless_it_is_null() -> None:
    assert prepared().effective["parameters"]["temperature"] == 0.1 and not prepared().dropped
    assert any("recommends" in said for said in prepared().caveats)
    assert prepared(temperature=None).caveats == ()


def test_a_batch_is_half_the_price() -> None:
    live, batch = prepared(), prepared(mode="batch")
    assert live.price is not None and batch.price is not None
    assert batch.price.expected == pytest.approx(live.price.expected / 2) and batch.batch_wait_s == 86400
    assert batch.effective == live.effective and batch.make().batches is not None


def test_a_secret_that_a_service_repeats_is_kept_nowhere() -> None:
    with Server(says(200, {"candidates": [], "echo": SECRET})) as server:
        reply = judge(server)
    assert SECRET not in repr(reply) and SECRET.encode() not in reply.exchanges[0].raw


def test_gemini_wants_a_key() -> None:
    with pytest.raises(ValueError, match="Gemini wants a key"):
        gemini.prepare(gemini.Settings(model="m"), BackendContext(PLACE.folder, PLACE.protocol))
