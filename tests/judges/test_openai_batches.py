"""OpenAI's batches on the wire: what is sent, and what is made of what comes back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from stillme.core.records import Status
from stillme.engine.http import Client, ClientConfig, RemoteError
from stillme.judges import Batch, State
from stillme.judges.openai import MAX_BYTES, MAX_REQUESTS, OpenaiBatches
from tests.judges.shipping import AXES, read
from tests.judges.wire import Wire, through

ENDPOINT = "/v1/chat/completions"


def service(client: Client) -> OpenaiBatches:
    return OpenaiBatches(client, ENDPOINT, read)


def told(status: str, **more: Any) -> dict[str, Any]:
    return {"id": "batch_1", "object": "batch", "status": status, "metadata": {"run": "r"}, "errors": None, **more}


def looked_at(said: Any) -> Batch:
    wire = Wire({"GET /v1/batches/batch_1": [said]})
    return through(wire, "/v1", lambda client: service(client).look("batch_1"))


def completion(scores: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"content": json.dumps(scores)}, "finish_reason": "stop"}]}


def test_a_line_is_the_live_request_under_its_key() -> None:
    body = b'{"model": "m",\n "messages": [{"content": "a \\n b"}]}'
    line = OpenaiBatches(Client("http://127.0.0.1:9/v1", ClientConfig()), ENDPOINT, read).line("key", body)
    assert b"\n" not in line
    wanted = {"custom_id": "key", "method": "POST", "url": ENDPOINT, "body": json.loads(body)}
    assert json.loads(line) == wanted


def test_files_stay_below_what_the_service_takes() -> None:
    assert MAX_BYTES < 200 * 10**6
    assert MAX_REQUESTS == 50_000


def test_a_file_is_uploaded_for_batches(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_bytes(b'{"custom_id":"a"}\n' * 200_000)
    wire = Wire({"POST /v1/files": [{"id": "file-1", "object": "file"}]})
    assert through(wire, "/v1", lambda client: service(client).upload(path, "shard")) == "file-1"
    ((_, body, headers),) = wire.asked
    assert b'name="purpose"\r\n\r\nbatch\r\n' in body
    assert b'filename="shard.jsonl"' in body
    assert path.read_bytes() in body
    assert headers["content-length"] == str(len(body))


def test_a_batch_is_made_with_its_tags() -> None:
    wire = Wire({"POST /v1/batches": [told("validating")]})
    made = through(wire, "/v1", lambda client: service(client).create("file-1", {"run": "r", "shard": "s"}))
    assert (made.id, made.state) == ("batch_1", State.RUNNING)
    (body,) = wire.named("POST /v1/batches")
    assert json.loads(body) == {
        "input_file_id": "file-1",
        "endpoint": ENDPOINT,
        "completion_window": "24h",
        "metadata": {"run": "r", "shard": "s"},
    }


async def broken(request: web.Request) -> web.StreamResponse:
    return web.json_response({"error": {"message": "The server had an error."}}, status=503)


async def crowded(request: web.Request) -> web.StreamResponse:
    return web.json_response({"error": {"message": "Slow down."}}, status=429, headers={"retry-after-ms": "10"})


async def used_up(request: web.Request) -> web.StreamResponse:
    said = {"message": "You exceeded your current quota.", "code": "insufficient_quota"}
    return web.json_response({"error": said}, status=429)


def test_a_batch_is_asked_for_once_when_nobody_knows_whether_it_was_made() -> None:
    wire = Wire({"POST /v1/batches": [broken]})
    with pytest.raises(RemoteError, match="The server had an error") as caught:
        through(wire, "/v1", lambda client: service(client).create("file-1", {}))
    assert caught.value.retryable
    assert len(wire.asked) == 1


def test_a_batch_that_was_turned_away_is_asked_for_again() -> None:
    wire = Wire({"POST /v1/batches": [crowded, told("validating")]})
    assert through(wire, "/v1", lambda client: service(client).create("file-1", {})).id == "batch_1"
    assert len(wire.asked) == 2


def test_an_account_that_is_used_up_is_told_as_that() -> None:
    wire = Wire({"POST /v1/batches": [used_up]})
    with pytest.raises(RemoteError) as caught:
        through(wire, "/v1", lambda client: service(client).create("file-1", {}))
    assert caught.value.kind is Status.QUOTA
    assert not caught.value.retryable


@pytest.mark.parametrize(
    ("said", "state", "outputs"),
    [
        (told("validating"), State.RUNNING, ()),
        (told("in_progress"), State.RUNNING, ()),
        (told("finalizing"), State.RUNNING, ()),
        (told("cancelling"), State.RUNNING, ()),
        (told("a word of tomorrow"), State.RUNNING, ()),
        (told("completed", output_file_id="o", error_file_id=None), State.ENDED, ("o",)),
        (told("completed", output_file_id=None, error_file_id="e"), State.ENDED, ("e",)),
        (told("expired", output_file_id="o", error_file_id="e"), State.ENDED, ("o", "e")),
        (told("expired"), State.ENDED, ()),
        (told("cancelled", output_file_id="o"), State.FAILED, ("o",)),
        (told("failed"), State.FAILED, ()),
    ],
)
def test_how_far_a_batch_is(said: Any, state: State, outputs: tuple[str, ...]) -> None:
    batch = looked_at(said)
    assert (batch.state, batch.outputs, dict(batch.tags)) == (state, outputs, {"run": "r"})


def test_a_batch_that_failed_says_why() -> None:
    errors = {"data": [{"code": "invalid_model", "message": "This model takes no batches."}]}
    assert looked_at(told("failed", errors=errors)).detail == "This model takes no batches."
    assert looked_at(told("cancelled")).detail == "it was cancelled"


def test_a_service_that_has_too_much_under_way_is_full_and_has_not_failed() -> None:
    errors = {"data": [{"code": "token_limit_exceeded", "message": "Enqueued token limit reached."}]}
    assert looked_at(told("failed", errors=errors)).state is State.FULL


@pytest.mark.parametrize("said", [[], {}, {"id": 7}, "a word"])
def test_an_answer_that_is_no_batch_is_an_error_and_no_crash(said: Any) -> None:
    with pytest.raises(RemoteError):
        looked_at(said)


def test_all_pages_of_batches_are_read() -> None:
    def page(*names: str, more: bool) -> dict[str, Any]:
        return {
            "data": [{"id": name, "status": "completed", "metadata": None} for name in names],
            "has_more": more,
        }

    wire = Wire(
        {
            "GET /v1/batches?limit=100": [page("c", "b", more=True)],
            "GET /v1/batches?limit=100&after=b": [page("a", more=False)],
        }
    )

    async def names(client: Client) -> list[str]:
        return [batch.id async for batch in service(client).every()]

    assert through(wire, "/v1", names) == ["c", "b", "a"]


def test_a_download_is_whole_or_not_there(tmp_path: Path) -> None:
    async def text(request: web.Request) -> web.StreamResponse:
        return web.Response(body=b'{"custom_id": "a"}\n', content_type="application/octet-stream")

    async def half(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.content_length = 1000
        await response.prepare(request)
        await response.write(b'{"custom_id"')
        assert request.transport is not None
        request.transport.abort()
        return response

    path = tmp_path / "answers"
    with pytest.raises(RemoteError):
        through(
            Wire({"GET /v1/files/o/content": [half]}), "/v1", lambda client: service(client).download("o", path)
        )
    assert not path.exists()
    through(Wire({"GET /v1/files/o/content": [text]}), "/v1", lambda client: service(client).download("o", path))
    assert path.read_bytes() == b'{"custom_id": "a"}\n'


def test_every_line_is_read_by_itself_and_what_is_no_line_is_passed_over(tmp_path: Path) -> None:
    def answered(key: str, code: int, body: Any) -> dict[str, Any]:
        response = {"status_code": code, "request_id": f"req_{key}", "body": body}
        return {"custom_id": key, "response": response, "error": None}

    expired = {"code": "batch_expired", "message": "This request could not be executed in time."}
    lines = [
        json.dumps(answered("good", 200, completion({"first": 2, "second": 5}))),
        json.dumps(answered("odd", 200, completion({"first": 2}))),
        '{"custom_id": "cut", "response": {"sta',
        "",
        "[1, 2]",
        json.dumps(answered("nobody's", 200, completion({}))),
        json.dumps(answered("no", 400, {"error": {"message": "no"}})),
        json.dumps({"custom_id": "late", "response": None, "error": expired}),
        json.dumps({"custom_id": "gone", "response": None, "error": {"code": "server_error", "message": "oh"}}),
        json.dumps({"custom_id": "bare"}),
        json.dumps({"custom_id": ["a"], "response": 3}),
    ]
    path = tmp_path / "answers"
    path.write_text("\n".join(lines), encoding="utf-8")
    asked = dict.fromkeys(("good", "odd", "cut", "no", "late", "gone", "bare"), AXES)
    wire = OpenaiBatches(Client("http://127.0.0.1:9/v1", ClientConfig()), ENDPOINT, read)
    found = dict(wire.answers(path, asked))
    assert {key: one.status for key, one in found.items()} == {
        "good": Status.OK,
        "odd": Status.MALFORMED,
        "no": Status.REJECTED,
        "late": Status.TIMEOUT,
        "gone": Status.SERVER_ERROR,
        "bare": Status.SERVER_ERROR,
    }
    assert dict(found["good"].scores) == {"first": 2, "second": 5}
    assert found["good"].request_id == "req_good"
    assert json.loads(found["good"].raw) == completion({"first": 2, "second": 5})
    assert found["late"].code == "batch_expired"
