from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from stillme import pipeline
from stillme.core.records import Status
from stillme.editors import hosted
from stillme.editors.bfl import BflEditor
from stillme.engine.backends import ExecutionMode
from stillme.engine.progress import Progress
from stillme.plan.config import Config
from tests.editors.asking import BFL, SECRET, request, rows
from tests.editors.providers import Server, Turn, bfl, cut, png, says

Load = Callable[..., Config]
prepared, edit = BFL.prepared, BFL.edit


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


def test_an_edit_that_is_not_ready_in_time_is_paid_for() -> None:
    with Server(bfl({"status": "Pending"})) as server:
        reply = edit(server, deadline_s=0.2)
    assert (reply.status, reply.detail) == (Status.TIMEOUT, "not ready after 0.2 s")
    assert reply.request_id == "task-1" and reply.cost_usd == 0.045


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
    def may(editor: BflEditor, url: str) -> bool:
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


def test_what_a_plan_needs_to_know() -> None:
    one = prepared()
    assert one.mode is ExecutionMode.REMOTE and one.concurrency == 16 and one.most_images == 8
    assert one.price is not None and one.dropped == {}
    with pytest.raises(ValidationError, match="concurrency"):
        prepared(concurrency=25)  # the service takes 24


@pytest.mark.parametrize("name", ["prompt", "seed", "input_image", "input_image_2", "width"])
def test_extra_fields_do_not_replace_what_is_asked(name: str) -> None:
    with pytest.raises(ValidationError, match=f"extra: {name} is set by stillme"):
        prepared(extra={name: 1})


def test_what_lands_in_the_ledger(load_audit: Load) -> None:
    polls = ({"status": "Ready"}, OUTCOMES["in"][0], OUTCOMES["out"][0])
    with Server(bfl(*polls)) as server:
        config = BFL.audit(load_audit, server)
        pipeline.run(config, Progress())
    attempts = rows(config, "SELECT status, code, request_id, cost_usd FROM attempt ORDER BY status")
    assert attempts == [
        ("input_blocked", "Request Moderated", "task-1", 0.0),
        ("ok", "", "task-1", 0.045),
        ("output_blocked", "Content Moderated", "task-1", 0.0),
    ]
    assert rows(config, "SELECT notes FROM making") == [('{"seed":"42"}',)]
