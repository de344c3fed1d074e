from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from stillme import pipeline
from stillme.core.errors import ConfigIssuesError, IncompleteError, SetupError
from stillme.core.records import EditRequest, Status
from stillme.editors import hosted, openai
from stillme.engine.backends import BackendContext, ExecutionMode
from stillme.engine.progress import Progress
from stillme.plan.config import Config
from stillme.protocol import builtin
from tests.editors.asking import KEY, OPENAI, SECRET, request, rows
from tests.editors.providers import (
    REQUEST_ID,
    Server,
    Turn,
    b64,
    openai_blocked,
    openai_error,
    openai_picture,
    png,
    says,
)

Load = Callable[..., Config]
prepared, edit = OPENAI.prepared, OPENAI.edit


def test_a_picture_comes_back_as_it_is() -> None:
    with Server(openai_picture(png(5))) as server:
        asked = request()
        reply = edit(server, asked, size="1024x1024", quality="high")
    assert (reply.status, reply.image, reply.request_id) == (Status.OK, png(5), REQUEST_ID)
    (seen,) = server.seen
    assert (seen.method, seen.path) == ("POST", "/v1/images/edits")
    assert seen.form["image"] == [asked.image]
    assert seen.word("prompt") == "Add glasses." and seen.word("model") == "gpt-image-2"
    assert (
        seen.word("size") == "1024x1024" and seen.word("quality") == "high" and seen.word("output_format") == "png"
    )
    assert "seed" not in seen.form and "response_format" not in seen.form
    assert seen.headers["Authorization"] == f"Bearer {SECRET}"


def test_the_cost_is_computed_from_what_the_service_counted() -> None:
    row = hosted.price_row("openai", "gpt-image-2")
    assert row is not None
    with Server(openai_picture()) as server:
        reply = edit(server)
    tokens = row.tokens
    assert reply.cost_usd == pytest.approx(
        (10 * tokens["text"] + 290 * tokens["image"] + 4000 * tokens["output"]) / 1e6
    )


def test_what_was_counted_is_paid_for_without_a_picture_too() -> None:
    with Server(openai_picture(), openai_picture(data=[])) as server:
        whole, empty = edit(server), edit(server)
    assert (empty.status, empty.image) == (Status.SERVER_ERROR, None)
    assert empty.cost_usd == whole.cost_usd > 0


def test_counts_that_are_none_are_not_counted() -> None:
    """Below zero they would give back what other edits cost."""
    usage = {"output_tokens": -5, "input_tokens_details": {"text_tokens": True, "image_tokens": 290}}
    assert openai.count_tokens(usage) == {"image": 290.0}


def test_a_model_without_a_price_has_none() -> None:
    assert prepared(model="tomorrows-model").price is None
    assert prepared(model="tomorrows-model").price_usd == 0
    price = prepared().price
    assert price is not None and price.low <= price.expected <= price.high and price.date == hosted.prices().date


@pytest.mark.parametrize(("stage", "status"), [("input", Status.INPUT_BLOCKED), ("output", Status.OUTPUT_BLOCKED)])
def test_a_refusal_is_data_and_asked_for_once(stage: str, status: Status) -> None:
    with Server(openai_blocked(stage)) as server:
        reply = edit(server)
    assert (reply.status, reply.status.stage, reply.code) == (status, stage, "moderation_blocked")
    assert reply.request_id == REQUEST_ID and reply.cost_usd == 0
    assert "rejected by the safety system" in reply.detail
    assert '"sexual"' in reply.notes["moderation"]
    assert len(server.seen) == 1


def test_a_refusal_stays_one_under_another_status() -> None:
    with Server(openai_error(403, "content_policy_violation", "invalid_request_error", "no")) as server:
        assert edit(server).status is Status.INPUT_BLOCKED


def test_a_refusal_of_unknown_stage_says_so() -> None:
    with Server(openai_blocked(None)) as server:
        reply = edit(server)
    assert reply.status is Status.INPUT_BLOCKED
    assert reply.notes["stage"] == "not told by the service; counted as input"


RATE = openai_error(429, "rate_limit_exceeded", "requests", "Rate limit reached", retry_after_ms="1")


def test_a_link_is_not_followed() -> None:
    with Server(says(200, {"data": [{"url": "http://169.254.169.254/"}]})) as server:
        reply = edit(server)
    assert reply.status is Status.SERVER_ERROR and "not followed" in reply.detail


def test_earlier_attempts_are_told() -> None:
    with Server(RATE, RATE, openai_picture()) as server:
        reply = edit(server)
    assert reply.status is Status.OK
    assert reply.notes == {"earlier_attempts": "2 × rate limited 429"}
    with Server(RATE) as server:
        assert edit(server).detail == "Rate limit reached (after 3 attempts)"


def test_several_pictures_go_in_order() -> None:
    with Server(openai_picture()) as server:
        asked = request(png(1), png(2))
        edit(server, asked)
    assert server.seen[0].form["image[]"] == [asked.image, png(1), png(2)]
    assert prepared().most_images == 16


SERVED: Mapping[str, Any] = {
    "service": "sglang",
    "model": "Qwen/Qwen-Image-Edit-2511",
    "extra": {"num_inference_steps": 40, "true_cfg_scale": 4.0, "negative_prompt": " ", "generator_device": "cpu"},
    "configuration": {"precision": "bf16"},
}


def test_a_server_gets_seed_and_parameters_as_fields() -> None:
    with Server(openai_picture()) as server:
        reply = edit(server, **SERVED)
    (seen,) = server.seen
    sent = {name: seen.word(name) for name in (*SERVED["extra"], "seed", "response_format")}
    assert sent == {
        "num_inference_steps": "40",
        "true_cfg_scale": "4.0",
        "negative_prompt": " ",
        "generator_device": "cpu",
        "seed": "7",
        "response_format": "b64_json",
    }
    assert "output_format" not in seen.form
    assert reply.cost_usd == 0 and not reply.environment


def test_our_own_server_tells_how_an_edit_was_made() -> None:
    told = {
        "settings": "abc",
        "made": {"torch": "2.13"},
        "notes": {"reformat_prompt": "x"},
        "extras": {"first": b64(png(3)), "bad": "§"},
    }
    with Server(openai_picture(stillme=told)) as server:
        ours, others = edit(server, **{**SERVED, "service": "stillme"}), edit(server, **SERVED)
    assert ours.environment == {"torch": "2.13", "served_settings": "abc"} and ours.notes == {
        "reformat_prompt": "x"
    }
    assert ours.extras == {"first": png(3)}
    assert not others.environment and not others.extras, "only our own server is believed"


def ours(code: int, status: str | None, message: str = "it ended") -> Turn:
    told = {"stillme": {"status": status}} if status else {}
    return openai_error(code, status or None, "server_error", message, **told)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (400, "rejected"),
        (400, "refused"),
        (400, "input_blocked"),
        (422, "corrupt"),
        (504, "timeout"),
        (500, "crashed"),
    ],
)
def test_our_own_server_says_how_an_edit_ended_and_is_believed_at_once(code: int, status: str) -> None:
    with Server(ours(code, status)) as server:
        reply = edit(server, **{**SERVED, "service": "stillme"})
    assert (reply.status, reply.detail) == (Status(status), "it ended")
    assert len(server.seen) == 1, "it has tried already"


def test_our_own_server_with_other_settings_ends_the_run_with_a_sentence() -> None:
    with Server(ours(400, None, "settings: this server has a1, not b2")) as server:
        with pytest.raises(SetupError, match="does not take the edits of this audit: settings: this server"):
            edit(server, **{**SERVED, "service": "stillme"})
    with Server(ours(400, "input_blocked")) as server:
        assert edit(server, **SERVED).status is Status.REJECTED, "only our own server is believed"


def test_our_own_server_makes_the_controls_of_its_editor() -> None:
    settings = {**SERVED, "service": "stillme", "controls": ["vae_round_trip"]}
    with Server(openai_picture()) as server:
        edit(server, EditRequest("key", png(), "", 7, control="vae_round_trip"), **settings)
    assert server.seen[0].word("control") == "vae_round_trip"
    one = prepared(**settings, base_url="http://127.0.0.1:1/v1")
    assert one.controls == ("vae_round_trip",) and one.concurrency == 2


def test_a_server_without_a_key_is_asked_without_one() -> None:
    with Server(openai_picture()) as server:
        edit(server, place=BackendContext(Path(), builtin()), **SERVED)
    assert "Authorization" not in server.seen[0].headers


def test_what_a_plan_needs_to_know() -> None:
    one, served = prepared(concurrency=5), prepared(**SERVED, base_url="http://127.0.0.1:1/v1")
    assert one.mode is ExecutionMode.REMOTE and one.concurrency == 5
    assert one.dropped == {"seed": "OpenAI's image models take none"}
    assert served.dropped == {} and served.most_images == 1


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"sends_seed": True}, "take no seed"),
        ({"extra": {"seed": 3}}, "seed is set by stillme"),
        ({"service": "sglang"}, "say where the sglang server listens"),
        ({"service": "azure"}, "service"),
        ({"controls": ["vae_round_trip"]}, "only an editor behind a server"),
        ({"attempts": 0}, "attempts"),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        OPENAI.settings(**settings)


def test_a_hosted_editor_without_a_key_is_a_fault_with_its_line(load_audit: Load) -> None:
    row = {"id": "hosted", "kind": "openai", "settings": {"model": "m"}}
    with pytest.raises(ConfigIssuesError, match=r"audit.yaml:\d+: editors\[?.*OpenAI wants a key; add key_env"):
        load_audit(editors=[row])
    bare = {**row, "key_env": KEY, "settings": {"model": "m", "base_url": "http://api.example/v1"}}
    with pytest.raises(ConfigIssuesError, match="must start with https://"):
        load_audit(editors=[bare])


def test_what_lands_in_the_ledger(load_audit: Load) -> None:
    with Server(openai_picture(), openai_blocked("input"), openai_blocked("output")) as server:
        config = OPENAI.audit(load_audit, server)
        pipeline.run(config, Progress())
    edits = rows(config, "SELECT status, image IS NOT NULL FROM edit ORDER BY status")
    assert edits == [("input_blocked", 0), ("ok", 1), ("output_blocked", 0)]
    attempts = rows(config, "SELECT status, code, request_id, cost_usd > 0 FROM attempt ORDER BY status")
    assert attempts == [
        ("input_blocked", "moderation_blocked", REQUEST_ID, 0),
        ("ok", "", REQUEST_ID, 1),
        ("output_blocked", "moderation_blocked", REQUEST_ID, 0),
    ]
    with Server(openai_picture()) as server:
        pipeline.run(config, Progress())
    assert not server.seen, "a refusal is final: nothing is asked again"
    for path in (path for path in config.run.rglob("*") if path.is_file()):
        assert SECRET.encode() not in path.read_bytes()


def test_failures_are_tried_again_on_the_next_run(load_audit: Load) -> None:
    broken = openai_error(500, None, "server_error", "boom")
    with Server(broken, broken, openai_picture()) as server:
        config = OPENAI.audit(load_audit, server, attempts=1)
        with pytest.raises(IncompleteError, match="edits missing: 2"):
            pipeline.run(config, Progress())
        pipeline.run(config, Progress())
    assert len(server.seen) == 5
    ended = rows(config, "SELECT status, count(*) FROM attempt GROUP BY status ORDER BY status")
    assert ended == [("ok", 3), ("server_error", 2)]


def test_a_retired_model_ends_the_run_and_leaves_no_data(load_audit: Load) -> None:
    with Server(openai_error(404, "model_not_found", "invalid_request_error", "It has been shut down.")) as server:
        config = OPENAI.audit(load_audit, server, prompts=1)
        with pytest.raises(SetupError, match="It has been shut down"):
            pipeline.run(config, Progress())
    assert rows(config, "SELECT count(*) FROM edit") == [(0,)]


def test_a_run_that_is_recalled_needs_neither_key_nor_service(
    load_audit: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server(openai_picture()) as server:
        config = OPENAI.audit(load_audit, server, **{**SERVED, "service": "vllm-omni"})
        pipeline.run(config, Progress())
    monkeypatch.delenv(KEY)
    assert pipeline.status(config.run)["edits"] == {"ok": 3}
    assert pipeline.status(config.run)["edits_missing"] == 0
