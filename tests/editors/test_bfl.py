from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from stillme import pipeline
from stillme.core.errors import SurroundingsError
from stillme.core.records import EditReply, EditRequest, Status
from stillme.editors import bfl as backend
from stillme.editors import hosted
from stillme.engine.backends import Lane, Place, Prepared
from stillme.engine.progress import Progress
from stillme.ledger import Run
from stillme.ledger.run import settings_hash
from stillme.plan.config import Config
from stillme.protocol import builtin
from tests.editors.asking import ask, request
from tests.editors.providers import Server, Turn, bfl, cut, endless, late, page, png, says

Load = Callable[..., Config]
KEY = "STILLME_TEST_KEY"
SECRET = "bfl-test-0123456789"
QUICK: Mapping[str, Any] = {
    "model": "flux-2-pro",
    "backoff_s": 0.01,
    "timeout_s": 60,
    "attempts": 3,
    "poll_s": 0.01,
}
PLACE = Place(Path(), builtin(), KEY)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, SECRET)


def prepared(**settings: Any) -> Prepared[backend.BflEditor]:
    return backend.prepare(backend.Settings.model_validate({**QUICK, **settings}), PLACE)


def edit(server: Server, asked: EditRequest | None = None, **settings: Any) -> EditReply:
    return ask(prepared(base_url=server.url, **settings), asked)


def test_an_edit_is_handed_in_asked_after_and_fetched() -> None:
    waiting = {"status": "Pending"}
    with Server(bfl(waiting, waiting, {"status": "Ready"}, image=png(5))) as server:
        asked = request(png(1))
        reply = edit(server, asked, safety_tolerance=2, extra={"prompt_upsampling": False})
    assert (reply.status, reply.image, reply.request_id) == (Status.OK, png(5), "task-1")
    assert reply.cost_usd == pytest.approx(0.045), "4.5 credits of a cent"
    assert reply.notes == {"seed": "42"}
    handed_in, *polls, fetched = server.seen
    assert (handed_in.method, handed_in.path) == ("POST", "/v1/flux-2-pro")
    assert [base64.b64decode(handed_in.json.pop(name)) for name in ("input_image", "input_image_2")] == [
        asked.image,
        png(1),
    ]
    assert handed_in.json == {
        "prompt": "Add glasses.",
        "seed": 7,
        "safety_tolerance": 2,
        "output_format": "png",
        "prompt_upsampling": False,
    }
    assert [one.path for one in polls] == ["/v1/get_result?id=task-1"] * 3
    assert all(one.headers["x-key"] == SECRET for one in (handed_in, *polls))
    assert SECRET not in str(fetched.headers), "a signed link needs no key"


def test_a_cost_that_is_not_told_is_the_expected_one() -> None:
    row = hosted.price_row("bfl", "flux-2-pro")
    with Server(bfl(cost=None)) as server:
        assert row is not None and edit(server).cost_usd == row.expected


REASONS = {"Moderation Reasons": ["Safety Filter", "Face"]}
OUTCOMES: dict[str, tuple[Mapping[str, Any], Status, str, str]] = {
    "in": (
        {"status": "Request Moderated", "details": REASONS},
        Status.INPUT_BLOCKED,
        "Request Moderated",
        "Safety Filter, Face",
    ),
    "out": (
        {"status": "Content Moderated", "details": REASONS},
        Status.OUTPUT_BLOCKED,
        "Content Moderated",
        "Safety Filter, Face",
    ),
    "policy": (
        {"status": "Error", "error": "content_policy_violation", "details": "no"},
        Status.INPUT_BLOCKED,
        "content_policy_violation",
        "no",
    ),
    "error": (
        {"status": "Error", "details": {"error": "internal_error"}},
        Status.SERVER_ERROR,
        "Error",
        '{"error": "internal_error"}',
    ),
    "gone": ({"status": "Task not found"}, Status.SERVER_ERROR, "Task not found", ""),
    "a new word": ({"status": "Under Review"}, Status.SERVER_ERROR, "Under Review", ""),
    "no word": (
        {"status": None},
        Status.SERVER_ERROR,
        "empty_response",
        "the service did not say how the edit ended",
    ),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_how_an_edit_may_end(name: str) -> None:
    said, status, code, detail = OUTCOMES[name]
    with Server(bfl({"status": "Pending"}, said)) as server:
        reply = edit(server)
    assert (reply.status, reply.code, reply.detail) == (status, code, detail)
    assert reply.image is None and reply.request_id == "task-1"
    assert reply.cost_usd == (0 if reply.status.stage else 0.045), "what is moderated is not charged for"
    assert len(server.seen) == 3, "handed in once, asked after twice, never handed in again"
    assert ("stage" in reply.notes) == (name == "policy")


FAILURES: dict[str, tuple[Turn, Status, str, int]] = {
    "no credits": (says(402, {"detail": "Insufficient credits"}), Status.QUOTA, "402", 1),
    "too many": (says(429, {"detail": "24 tasks"}, Retry_After="0"), Status.RATE_LIMITED, "429", 3),
    "bad field": (says(422, {"detail": [{"loc": ["body", "width"]}]}), Status.REJECTED, "422", 1),
    "500": (says(500, {}), Status.SERVER_ERROR, "500", 3),
    "page": (page(), Status.SERVER_ERROR, "200", 1),
    "nowhere to ask": (says(200, {"id": "task-1"}), Status.SERVER_ERROR, "empty_response", 1),
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
    with Server(late(60, bfl())) as server:
        assert edit(server, timeout_s=0.2).status is Status.TIMEOUT
    with Server(bfl({"status": "Pending"})) as server:
        reply = edit(server, deadline_s=0.2)
    assert (reply.status, reply.detail) == (Status.TIMEOUT, "not ready after 0.2 s")
    assert reply.request_id == "task-1" and reply.cost_usd == 0.045, "it was taken, so it is paid for"
    with Server(endless(50_000_001, announced=True)) as server:
        assert "larger than 50,000,000 bytes" in edit(server).detail


READY = bfl({"status": "Ready"})
LOST: dict[str, tuple[tuple[Turn, ...], Status, str]] = {
    "the link is refused": (
        (READY, READY, says(403, {"detail": "signature expired"})),
        Status.SERVER_ERROR,
        "403",
    ),
    "the task is forgotten": ((READY, says(404, {"detail": "not here"})), Status.SERVER_ERROR, "404"),
    "the key is refused": ((READY, says(401, {"detail": "who?"})), Status.SERVER_ERROR, "401"),
    "the line breaks": ((READY, cut()), Status.NETWORK, ""),
    "nowhere to ask": ((says(200, {"id": "task-1", "cost": 4.5}),), Status.SERVER_ERROR, "empty_response"),
}


@pytest.mark.parametrize("name", LOST)
def test_what_goes_wrong_after_an_edit_was_taken_is_its_own_trouble_and_paid_for(name: str) -> None:
    turns, status, code = LOST[name]
    with Server(*turns) as server:
        reply = edit(server)
    assert (reply.status, reply.code, reply.request_id) == (status, code, "task-1")
    assert not reply.status.is_final and reply.cost_usd == 0.045 and reply.detail


def test_a_question_that_goes_unanswered_does_not_lose_the_edit() -> None:
    told = bfl({"status": "Ready"}, image=png(5))
    with Server(told, says(503, {}), cut(), told) as server:
        reply = edit(server)
    assert (reply.status, reply.image) == (Status.OK, png(5))
    assert sum(one.method == "POST" for one in server.seen) == 1


@pytest.mark.parametrize("name", ["elsewhere", "sample"])
@pytest.mark.parametrize("address", ["http://169.254.169.254/latest", "https://bfl.ai.evil.example/x"])
def test_addresses_in_an_answer_do_not_lead_elsewhere(name: str, address: str) -> None:
    named: dict[str, Any] = {name: address}
    with Server(bfl(**named)) as server:
        reply = edit(server)
    assert reply.status is Status.SERVER_ERROR and "not followed" in reply.detail
    assert not reply.status.is_final


def test_the_services_own_hosts_may_be_named() -> None:
    def may(editor: backend.BflEditor, url: str) -> bool:
        return editor.client._may_ask(url)

    async def check() -> None:
        theirs = prepared().make()
        assert may(theirs, "https://api.us1.bfl.ai/v1/get_result?id=1") and may(
            theirs, "https://delivery.bfl.ai/x"
        )
        assert not may(theirs, "http://api.us1.bfl.ai/v1/get_result") and not may(theirs, "https://notbfl.ai/x")
        mine = prepared(base_url="http://127.0.0.1:9/v1").make()
        assert not may(mine, "https://api.bfl.ai/v1"), "a stand-in does not send the key on"

    asyncio.run(check())


@pytest.mark.parametrize("code", [401, 403, 404])
def test_a_wrong_key_or_a_retired_model_ends_the_run_with_a_sentence(code: int) -> None:
    with Server(says(code, {"detail": "Not authenticated"})) as server:
        with pytest.raises(SurroundingsError, match=rf"Black Forest Labs answered {code} .*'flux-2-pro'"):
            edit(server)


def test_what_a_plan_needs_to_know() -> None:
    one = prepared()
    assert one.lane is Lane.REMOTE and one.concurrency == 16 and one.most_images == 8
    assert one.price is not None and one.dropped == {}
    with pytest.raises(ValidationError, match="concurrency"):
        prepared(concurrency=25)  # the service takes 24


@pytest.mark.parametrize("name", ["prompt", "seed", "input_image", "input_image_2", "width"])
def test_extra_fields_do_not_replace_what_is_asked(name: str) -> None:
    with pytest.raises(ValidationError, match=f"extra: {name} is set by stillme"):
        prepared(extra={name: 1})


OTHER_PIXELS: Mapping[str, Any] = {
    "model": "flux-2-max",
    "width": 512,
    "height": 512,
    "safety_tolerance": 3,
    "output_format": "jpeg",
    "steps": 20,
    "guidance": 3.5,
    "extra": {"prompt_upsampling": True},
}
SAME_PIXELS: Mapping[str, Any] = {
    "base_url": "https://api.eu.bfl.ai/v1",
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
    "most_images": 4,
    "poll_s": 9,
}


def hashed(**settings: Any) -> str:
    return settings_hash("editor", prepared(**settings).effective)


@given(st.sets(st.sampled_from(sorted(OTHER_PIXELS)), min_size=1), st.sets(st.sampled_from(sorted(SAME_PIXELS))))
def test_what_changes_pixels_changes_the_key_and_nothing_else_does(other: set[str], same: set[str]) -> None:
    aside = {name: SAME_PIXELS[name] for name in same}
    assert hashed(**aside) == hashed()
    assert hashed(**aside, **{name: OTHER_PIXELS[name] for name in other}) != hashed()


def test_every_setting_is_in_one_of_the_two() -> None:
    assert set(backend.Settings.model_fields) == set(OTHER_PIXELS) | set(SAME_PIXELS)


def test_what_lands_in_the_ledger(load_audit: Load) -> None:
    groups = {"race": ["white"], "gender": ["female"], "age": ["20s"]}
    polls = ({"status": "Ready"}, OUTCOMES["in"][0], OUTCOMES["out"][0])
    with Server(bfl(*polls)) as server:
        settings = {**QUICK, "base_url": server.url, "concurrency": 1}
        config = load_audit(
            sources=[{"id": "heads", "kind": "synthetic", "settings": {"groups": groups}}],
            editors=[{"id": "hosted", "kind": "bfl", "key_env": KEY, "settings": settings}],
            judges=[],
        )
        pipeline.run(config, Progress())
    with Run.look(config.run) as seen:
        attempts = seen.query("SELECT status, code, request_id, cost_usd FROM attempt ORDER BY status")
        notes = seen.query("SELECT notes FROM making")
    assert [tuple(row) for row in attempts] == [
        ("input_blocked", "Request Moderated", "task-1", 0.0),
        ("ok", "", "task-1", 0.045),
        ("output_blocked", "Content Moderated", "task-1", 0.0),
    ]
    assert [row[0] for row in notes] == ['{"seed":"42"}']
