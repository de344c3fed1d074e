from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from stillme import editors, pipeline
from stillme.core.errors import FaultsError, IncompleteError, SurroundingsError
from stillme.core.records import EditReply, EditRequest, Status
from stillme.editors import hosted, openai
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
    b64,
    cut,
    endless,
    late,
    openai_blocked,
    openai_error,
    openai_picture,
    page,
    png,
    says,
)

Load = Callable[..., Config]
KEY = "STILLME_TEST_KEY"
SECRET = "sk-test-0123456789"
QUICK: Mapping[str, Any] = {"model": "gpt-image-2", "backoff_s": 0.01, "timeout_s": 60, "attempts": 3}
PLACE = Place(Path(), builtin(), KEY)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, SECRET)


def prepared(**settings: Any) -> Prepared[openai.OpenaiEditor]:
    return openai.prepare(openai.Settings.model_validate({**QUICK, **settings}), PLACE)


def edit(server: Server, asked: EditRequest | None = None, **settings: Any) -> EditReply:
    return ask(prepared(base_url=server.url, **settings), asked)


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
    assert openai.counted(usage) == {"image": 290.0}


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
FAILURES: dict[str, tuple[Turn, Status, str, int]] = {
    "another 400": (
        openai_error(400, "invalid_value", "invalid_request_error", "Invalid value: '7x7'."),
        Status.REJECTED,
        "invalid_value",
        1,
    ),
    "a code nobody knows": (
        openai_error(400, "face_not_liked", "image_generation_user_error", "We did not like it."),
        Status.REJECTED,
        "face_not_liked",
        1,
    ),
    "rate limit": (RATE, Status.RATE_LIMITED, "rate_limit_exceeded", 3),
    "quota": (
        openai_error(429, "insufficient_quota", "insufficient_quota", "You exceeded your current quota"),
        Status.QUOTA,
        "insufficient_quota",
        1,
    ),
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
    "wrong type": (page(), Status.SERVER_ERROR, "200", 1),
    "cut": (cut(), Status.NETWORK, "", 3),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_is_never_a_refusal(name: str) -> None:
    turn, status, code, asked = FAILURES[name]
    with Server(turn) as server:
        reply = edit(server)
    assert (reply.status, reply.code) == (status, code)
    assert not reply.status.stage and reply.image is None and reply.cost_usd == 0
    assert reply.detail
    assert len(server.seen) == asked


def test_too_late_and_too_large() -> None:
    with Server(late(60, openai_picture())) as server:
        assert edit(server, timeout_s=0.2).status is Status.TIMEOUT
    with Server(endless(50_000_001, announced=True)) as server:
        reply = edit(server)
    assert reply.status is Status.SERVER_ERROR and "larger than 50,000,000 bytes" in reply.detail


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


@pytest.mark.parametrize(("code", "step"), [(401, KEY), (403, KEY), (404, "retired")])
def test_a_wrong_key_or_a_retired_model_ends_the_run_with_a_sentence(code: int, step: str) -> None:
    with Server(openai_error(code, "model_not_found", "invalid_request_error", f"No. {SECRET}")) as server:
        with pytest.raises(SurroundingsError) as caught:
            edit(server)
    assert "'gpt-image-2'" in str(caught.value) and step in caught.value.next_step
    assert SECRET not in str(caught.value)


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
    assert reply.cost_usd == 0 and not reply.made


def test_our_own_server_tells_how_an_edit_was_made() -> None:
    told = {
        "settings": "abc",
        "made": {"torch": "2.13"},
        "notes": {"reformat_prompt": "x"},
        "extras": {"first": b64(png(3)), "bad": "§"},
    }
    with Server(openai_picture(stillme=told)) as server:
        ours, others = edit(server, **{**SERVED, "service": "stillme"}), edit(server, **SERVED)
    assert ours.made == {"torch": "2.13", "served_settings": "abc"} and ours.notes == {"reformat_prompt": "x"}
    assert ours.extras == {"first": png(3)}
    assert not others.made and not others.extras, "only our own server is believed"


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
        with pytest.raises(
            SurroundingsError, match="does not take the edits of this audit: settings: this server"
        ):
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
    async def call(url: str) -> None:
        settings = openai.Settings.model_validate({**QUICK, **SERVED, "base_url": url})
        editor = openai.prepare(settings, Place(Path(), builtin())).make()
        await editor.edit(request())
        await editor.close()

    with Server(openai_picture()) as server:
        asyncio.run(call(server.url))
    assert "Authorization" not in server.seen[0].headers


def test_what_a_plan_needs_to_know() -> None:
    one, served = prepared(concurrency=5), prepared(**SERVED, base_url="http://127.0.0.1:1/v1")
    assert one.lane is Lane.REMOTE and one.concurrency == 5
    assert one.dropped == {"seed": "OpenAI's image models take none"}
    assert served.dropped == {} and served.most_images == 1


OTHER_PIXELS: Mapping[str, Any] = {
    "model": "gpt-image-3",
    "size": "512x512",
    "quality": "low",
    "input_fidelity": "high",
    "background": "opaque",
    "output_format": "webp",
    "extra": {"user": "me"},
    "configuration": {"gpu": "h100"},
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
ASIDE = {"service", "sends_seed", "controls"}  # belong together; tested below


def hashed(**settings: Any) -> str:
    return settings_hash("editor", prepared(**settings).effective)


@given(st.sets(st.sampled_from(sorted(OTHER_PIXELS)), min_size=1), st.sets(st.sampled_from(sorted(SAME_PIXELS))))
def test_what_changes_pixels_changes_the_key_and_nothing_else_does(other: set[str], same: set[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KEY, SECRET)
        aside = {name: SAME_PIXELS[name] for name in same}
        assert hashed(**aside) == hashed()
        assert hashed(**aside, **{name: OTHER_PIXELS[name] for name in other}) != hashed()


def test_every_setting_is_in_one_of_the_two() -> None:
    assert set(openai.Settings.model_fields) == set(OTHER_PIXELS) | set(SAME_PIXELS) | ASIDE


def test_services_are_never_pooled() -> None:
    services = ("openai", "vllm-omni", "sglang", "stillme", "other")
    url = {"base_url": "https://served.example/v1"}
    assert len({hashed(**url, service=one) for one in services}) == len(services)
    assert hashed(**url, service="other", sends_seed=False) != hashed(**url, service="other")


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
        openai.Settings.model_validate({**QUICK, **settings})


def test_a_hosted_editor_without_a_key_is_a_fault_with_its_line(load_audit: Load) -> None:
    row = {"id": "hosted", "kind": "openai", "settings": {"model": "m"}}
    with pytest.raises(FaultsError, match=r"audit.yaml:\d+: editors\[?.*OpenAI wants a key; add key_env"):
        load_audit(editors=[row])
    bare = {**row, "key_env": KEY, "settings": {"model": "m", "base_url": "http://api.example/v1"}}
    with pytest.raises(FaultsError, match="must start with https://"):
        load_audit(editors=[bare])


def audit(load: Load, server: Server, prompts: int = 3, **settings: Any) -> Config:
    """One portrait, some prompts, this editor."""
    groups = {"race": ["white"], "gender": ["female"], "age": ["20s"]}
    row = {"kind": "openai", "key_env": KEY, "settings": {**QUICK, "base_url": server.url, **settings}}
    return load(
        sources=[{"id": "heads", "kind": "synthetic", "settings": {"groups": groups}}],
        experiments={"diagnose": {"prompts": ["O-01", "V-02", "V-03"][:prompts]}},
        editors=[{"id": "hosted", **row}],
        judges=[],
    )


def rows(config: Config, sql: str) -> list[tuple[Any, ...]]:
    with Run.look(config.run) as seen:
        return [tuple(row) for row in seen.query(sql)]


def test_what_lands_in_the_ledger(load_audit: Load) -> None:
    with Server(openai_picture(), openai_blocked("input"), openai_blocked("output")) as server:
        config = audit(load_audit, server, concurrency=1)
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
        config = audit(load_audit, server, concurrency=1, attempts=1)
        with pytest.raises(IncompleteError, match="edits missing: 2"):
            pipeline.run(config, Progress())
        pipeline.run(config, Progress())
    assert len(server.seen) == 5
    ended = rows(config, "SELECT status, count(*) FROM attempt GROUP BY status ORDER BY status")
    assert ended == [("ok", 3), ("server_error", 2)]


def test_a_retired_model_ends_the_run_and_leaves_no_data(load_audit: Load) -> None:
    with Server(openai_error(404, "model_not_found", "invalid_request_error", "It has been shut down.")) as server:
        config = audit(load_audit, server, prompts=1)
        with pytest.raises(SurroundingsError, match="It has been shut down"):
            pipeline.run(config, Progress())
    assert rows(config, "SELECT count(*) FROM edit") == [(0,)]


def test_a_run_that_is_recalled_needs_neither_key_nor_service(
    load_audit: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server(openai_picture()) as server:
        config = audit(load_audit, server, **{**SERVED, "service": "vllm-omni"})
        pipeline.run(config, Progress())
    monkeypatch.delenv(KEY)
    assert pipeline.status(config.run)["edits"] == {"ok": 3}
    assert pipeline.status(config.run)["edits_missing"] == 0


def test_the_editors_are_found_by_name() -> None:
    assert {"openai", "gemini", "bfl"} <= set(editors.BACKENDS)
