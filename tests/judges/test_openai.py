from __future__ import annotations

import base64
from typing import Any

import pytest

from stillme.core.errors import SetupError
from stillme.core.records import JudgeReply, Status
from stillme.engine.backends import BackendContext, ExecutionMode, PreparedJudge
from stillme.judges import models, openai
from tests.editors.providers import REQUEST_ID, Server, Turn, broken_json, cut, late, openai_error, page, png, says
from tests.judges.asking import (
    AXES,
    FORM,
    KEY,
    PLACE,
    SCORES,
    SECRET,
    USAGE,
    answered,
    ask,
    completion,
    openai_says,
    request,
    written,
)

QUICK: dict[str, Any] = {"model": "gpt-5-mini", "backoff_s": 0.01, "timeout_s": 60, "attempts": 3}
OWN: dict[str, Any] = {"model": "a-local-one", "service": "other"}


def prepared(**settings: Any) -> PreparedJudge[openai.OpenaiJudge]:
    return openai.prepare(openai.Settings.model_validate({**QUICK, **settings}), PLACE)


def judge(server: Server, **settings: Any) -> JudgeReply:
    return ask(prepared(base_url=server.url, **settings))


def test_scores_come_back_with_what_was_seen_and_what_it_cost() -> None:
    with Server(openai_says(written())) as server:
        reply = judge(server)
    assert (reply.status, reply.scores, reply.evidence) == (Status.OK, SCORES, "Glasses.")
    assert reply.observations == answered()["observations"]
    (one,) = reply.exchanges
    assert (one.http, one.code, one.request_id) == (200, "stop", REQUEST_ID)
    assert one.usage == {"input": 2000, "cached": 1000, "output": 700, "thoughts": 300}
    usd = models.table().row("openai", "gpt-5-mini")
    assert usd is not None and usd.usd.cached is not None
    per_million = 1000 * usd.usd.input + 1000 * usd.usd.cached + 700 * usd.usd.output
    assert one.cost_usd == reply.cost_usd == pytest.approx(per_million / 1e6)
    assert one.started.endswith("+00:00") and one.seconds > 0 and b"chat.completion" in one.raw


def test_the_request_is_what_is_documented() -> None:
    with Server(openai_says(written())) as server:
        ask(prepared(base_url=server.url, detail="high", seed=7))
    (seen,) = server.seen
    assert (seen.method, seen.path) == ("POST", "/v1/chat/completions")
    assert seen.headers["Authorization"] == f"Bearer {SECRET}"
    system, user = seen.json["messages"]
    assert system["role"] == "system" and "first picture is the SOURCE" in system["content"]
    named, source, named_too, edited, told = user["content"]
    assert (named["text"], named_too["text"]) == ("SOURCE:", "EDITED:")
    pictures = [part["image_url"]["url"].removeprefix("data:image/png;base64,") for part in (source, edited)]
    assert [base64.b64decode(one, validate=True) for one in pictures] == [png(1), png(2)]
    assert [part["image_url"]["detail"] for part in (source, edited)] == ["high", "high"]
    assert told["text"] == FORM.text("O-01", "Add glasses.", AXES, {})
    held = seen.json["response_format"]
    assert (held["type"], held["json_schema"]["strict"]) == ("json_schema", True)
    assert held["json_schema"]["schema"] == FORM.schema(AXES)
    assert list(held["json_schema"]["schema"]["properties"])[:2] == ["observations", "scores"]
    plain = {name: value for name, value in seen.json.items() if name not in ("messages", "response_format")}
    assert plain == {"model": "gpt-5-mini", "reasoning_effort": "low", "max_completion_tokens": 8192, "seed": 7}


def test_a_server_of_ones_own_is_asked_without_a_key_and_in_its_words() -> None:
    place = BackendContext(PLACE.folder, PLACE.protocol)
    more = {"structured": "json_object", "extra": {"chat_template_kwargs": {"enable_thinking": False}}}
    with Server(openai_says(written())) as server:
        settings = openai.Settings.model_validate({**OWN, **more, "base_url": server.url, "price": None})
        made = openai.prepare(settings, place)
        assert ask(made).status is Status.OK
    (seen,) = server.seen
    assert "Authorization" not in seen.headers
    assert (seen.json["temperature"], seen.json["max_tokens"]) == (0.1, 2048)
    assert seen.json["response_format"] == {"type": "json_object"}
    assert seen.json["chat_template_kwargs"] == {"enable_thinking": False}
    assert "reasoning_effort" not in seen.json and made.price is None and made.price_usd == 0
    assert settings.starts_at is None and made.make().batches is None
    assert "a-local-one" in made.caveats[0] and "what it costs is not counted" in made.caveats[0]


REFUSED = "I'm sorry, I can't help with judging this person."
OUTCOMES: dict[str, tuple[Turn, Status, str, str]] = {
    "refusal": (openai_says(None, refusal=REFUSED), Status.REFUSED, "refusal", REFUSED),
    "input": (
        openai_error(400, "content_policy_violation", "invalid_request_error", "Your image was flagged."),
        Status.INPUT_BLOCKED,
        "content_policy_violation",
        "Your image was flagged.",
    ),
    "prompt": (
        openai_error(400, "invalid_prompt", "invalid_request_error", "Flagged."),
        Status.INPUT_BLOCKED,
        "invalid_prompt",
        "Flagged.",
    ),
    "flagged elsewhere": (
        says(403, {"error": {"code": 403, "message": "Flagged.", "metadata": {"flagged_input": "…"}}}),
        Status.INPUT_BLOCKED,
        "403",
        "Flagged.",
    ),
    "output": (openai_says("", "content_filter"), Status.OUTPUT_BLOCKED, "content_filter", ""),
    "another 400": (
        openai_error(400, "invalid_image_format", "invalid_request_error", "No such format."),
        Status.REJECTED,
        "invalid_image_format",
        "No such format.",
    ),
    "no choice": (
        says(200, {"choices": [], "usage": None}),
        Status.SERVER_ERROR,
        "empty_response",
        "the service answered without a choice",
    ),
    "an error as a success": (
        says(200, {"error": {"code": 429, "message": "Slow down."}}),
        Status.RATE_LIMITED,
        "429",
        "Slow down.",
    ),
    "no money": (
        openai_error(429, "insufficient_quota", "insufficient_quota", "You exceeded your current quota."),
        Status.QUOTA,
        "insufficient_quota",
        "You exceeded your current quota.",
    ),
    "a hotel": (page(), Status.SERVER_ERROR, "200", "the answer is text/html, not application/json"),
    "not json": (broken_json(), Status.SERVER_ERROR, "200", "the answer is said to be JSON and is not"),
}


@pytest.mark.parametrize("case", OUTCOMES)
def test_an_outcome_is_asked_for_once_and_kept_in_the_services_words(case: str) -> None:
    turn, status, code, detail = OUTCOMES[case]
    with Server(turn) as server:
        reply = judge(server)
    assert len(server.seen) == len(reply.exchanges) == 1
    (one,) = reply.exchanges
    assert (one.status, one.code, one.detail) == (status, code, detail)
    assert reply.status is status and not reply.scores and one.raw


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_crowd_is_waited_for_and_every_attempt_is_kept(status: int) -> None:
    with Server(openai_error(status, None, "server_error", "Busy."), openai_says(written())) as server:
        reply = judge(server)
    first, last = reply.exchanges
    assert (first.http, first.detail, first.cost_usd) == (status, "Busy.", 0)
    assert (first.status, last.status) == (
        Status.RATE_LIMITED if status == 429 else Status.SERVER_ERROR,
        Status.OK,
    )
    assert first.started <= last.started and reply.scores == SCORES


@pytest.mark.parametrize(
    ("bad", "status"), [(openai_says("Sorry!"), "malformed"), (openai_says(written(), "length"), "truncated")]
)
def test_what_cannot_be_read_is_asked_for_again_and_paid_for_each_time(bad: Turn, status: str) -> None:
    with Server(bad, bad, openai_says(written())) as server:
        reply = judge(server)
    assert [one.status.value for one in reply.exchanges] == [status, status, "ok"]
    assert reply.cost_usd == pytest.approx(3 * reply.exchanges[0].cost_usd) and reply.cost_usd > 0
    assert not reply.exchanges[0].scores


def test_what_cannot_be_read_is_asked_for_twice_more_at_most() -> None:
    with Server(openai_says("Sorry, I can't rate people.")) as server:
        reply = judge(server)
        once = judge(server, reasks=0)
    assert (reply.status, len(reply.exchanges)) == (Status.MALFORMED, 3) and len(once.exchanges) == 1
    assert reply.detail.startswith("the answer is no JSON object") and not reply.scores
    assert all(b"I can't rate people" in one.raw for one in reply.exchanges)


def test_a_late_answer_may_have_been_paid_for() -> None:
    with Server(late(60, openai_says(written())), openai_says(written())) as server:
        reply = judge(server, timeout_s=0.5, attempts=20)
    first, *_, last = reply.exchanges
    assert (first.status, first.detail) == (Status.TIMEOUT, "no answer within 0.5 s; it may have been paid for")
    assert last.status is Status.OK


def test_a_broken_connection_is_kept_too() -> None:
    with Server(cut()) as server:
        reply = judge(server, attempts=2)
    assert [one.status for one in reply.exchanges] == [Status.NETWORK] * 2 and reply.status is Status.NETWORK
    assert not reply.status.is_final


@pytest.mark.parametrize(("status", "step"), [(401, f"key in {KEY}"), (403, f"key in {KEY}"), (404, "base_url")])
def test_a_wrong_key_or_model_ends_the_run_with_a_sentence(status: int, step: str) -> None:
    said = f"Incorrect API key provided: {SECRET}."
    with Server(openai_error(status, "wrong", "invalid_request_error", said)) as server:
        with pytest.raises(SetupError, match=f"OpenAI answered {status} for the model 'gpt-5-mini'") as error:
            judge(server)
    assert step in str(error.value) and SECRET not in str(error.value) and len(server.seen) == 1


def test_a_parameter_that_is_not_taken_ends_the_run_and_is_never_left_out_in_silence() -> None:
    said = "Unsupported value: 'temperature' does not support 0.1 with this model."
    turn = openai_error(400, "unsupported_value", "invalid_request_error", said, param="temperature")
    with Server(turn) as server:
        with pytest.raises(SetupError, match=r"does not take temperature = 0.1 for the model 'new'") as error:
            judge(server, model="new")
    assert "Set temperature to null" in str(error.value) and len(server.seen) == 1


def test_a_parameter_that_a_server_names_in_words_alone_ends_the_run_too() -> None:
    with Server(says(400, {"object": "error", "message": "max_tokens is too large"})) as server:
        with pytest.raises(SetupError, match="does not take max_output_tokens = 2048"):
            judge(server, **OWN)


def test_a_word_that_only_looks_like_a_parameter_ends_no_run() -> None:
    with Server(says(400, {"error": {"message": "Bad image: see the details, reseed."}})) as server:
        assert judge(server, **OWN, detail="low", seed=1).status is Status.REJECTED


def test_temperature_is_dropped_where_everybody_sees_it_or_is_a_fault() -> None:
    made = prepared()
    assert made.dropped == {"temperature": "gpt-5-mini takes no temperature"}
    assert made.effective["parameters"] == {"effort": "low", "max_output_tokens": 8192}
    with pytest.raises(ValueError, match=r"gpt-5-mini takes no temperature\. Set it to null"):
        prepared(on_unsupported="fail")
    assert prepared(on_unsupported="fail", temperature=None).dropped == {}
    assert prepared(model="another").effective["parameters"]["temperature"] == 0.1


def test_a_key_holds_what_is_sent_and_not_how() -> None:
    here = prepared(base_url="http://127.0.0.1:9/v1", concurrency=3, mode="batch", batch_wait_s=5, reasks=1)
    assert here.effective == prepared(temperature=0.7).effective
    for other in ({"effort": "high"}, {"detail": "low"}, {"seed": 1}, {"model": "gpt-5-mini-2025-08-07"}):
        assert prepared(**other).effective != here.effective
    own = {**OWN, "base_url": "http://127.0.0.1:9/v1"}
    assert prepared(**own).effective != prepared(**own, configuration={"quantised": "fp8"}).effective


def test_a_batch_is_half_the_price_and_waits() -> None:
    live, batch = prepared(), prepared(mode="batch", batch_wait_s=60)
    assert live.price is not None and batch.price is not None
    assert batch.price.expected == pytest.approx(live.price.expected / 2)
    assert live.price.low < live.price.expected < live.price.high and live.price.date == models.table().date
    assert (live.batch_wait_s, batch.batch_wait_s) == (None, 60) and live.mode is ExecutionMode.REMOTE
    judge = batch.make()
    said = completion(written())
    assert judge.batches is not None
    half, full = judge.read(200, said, b"{}", AXES, 0.5), judge.read(200, said, b"{}", AXES)
    assert half.status is Status.OK and half.cost_usd == pytest.approx(full.cost_usd / 2)


def test_what_is_not_counted_costs_what_is_expected() -> None:
    with Server(openai_says(written(), usage=None)) as server:
        reply = judge(server)
        told = judge(server, price={"input": 0, "output": 4})
    price = prepared().price
    assert price is not None and reply.cost_usd == price.expected and reply.exchanges[0].usage == {}
    assert told.cost_usd != reply.cost_usd


def test_a_service_that_says_what_it_cost_is_believed_where_no_price_is_set() -> None:
    with Server(openai_says(written(), usage={**USAGE, "cost": 0.0123})) as server:
        assert judge(server, **OWN).cost_usd == 0.0123
        assert judge(server).cost_usd != 0.0123


def test_a_secret_that_a_service_repeats_is_kept_nowhere() -> None:
    told = {**completion(written()), "echo": f"Bearer {SECRET}"}
    with Server(openai_error(500, None, "x", f"key {SECRET} broke"), says(200, told)) as server:
        reply = judge(server)
    assert reply.status is Status.OK and SECRET not in repr(reply)
    assert not any(SECRET.encode() in one.raw for one in reply.exchanges)


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"service": "other"}, "base_url: say where the server listens"),
        ({**OWN, "base_url": "http://127.0.0.1:9/v1", "mode": "batch"}, "only the service 'openai' takes batches"),
        ({"extra": {"temperature": 1}}, "extra: temperature is set by stillme"),
        ({"base_url": "http://example.org/v1"}, "must start with https://"),
    ],
)
def test_settings_that_do_not_fit_are_faults(settings: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        prepared(**settings)


def test_a_hosted_service_is_started_gently_and_wants_a_key() -> None:
    assert (openai.Settings(model="m").starts_at, openai.Settings(model="m").effort) == (models.STARTS_AT, "low")
    assert openai.Settings.model_validate({"model": "m", "effort": None}).effort is None
    with pytest.raises(ValueError, match="OpenAI wants a key"):
        openai.prepare(openai.Settings(model="m"), BackendContext(PLACE.folder, PLACE.protocol))


def test_nothing_of_the_person_is_sent_unless_it_is_disclosed() -> None:
    with Server(openai_says(written())) as server:
        ask(prepared(base_url=server.url), request(disclosed={"race": "black"}))
        ask(prepared(base_url=server.url), request())
    told, untold = (str(seen.json["messages"][1]["content"][-1]) for seen in server.seen)
    assert "Race=Black" in told and "Female" not in told
    assert "Black" not in untold and "SOURCE INFO" not in untold
