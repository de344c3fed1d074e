"""Gemini's batches on the wire: what is sent, and what is made of what comes back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from stillme.core.records import Status
from stillme.engine.http import Client, ClientConfig, RemoteError
from stillme.judges import Batch, State
from stillme.judges.gemini import MAX_BYTES, PIECE, GeminiBatches, name_of_tags, tags_in_name
from tests.judges.shipping import AXES, read
from tests.judges.wire import Wire, through

TAGS = {"run": "4f", "shard": "a1"}
CREATE = "POST /v1beta/models/a-model:batchGenerateContent"


def service(client: Client) -> GeminiBatches:
    return GeminiBatches(client, "models/a-model", read)


def told(state: str, **more: Any) -> dict[str, Any]:
    return {"name": "batches/b1", "metadata": {"state": state, "displayName": name_of_tags(TAGS)}, **more}


def looked_at(said: Any) -> Batch:
    wire = Wire({"GET /v1beta/batches/b1": [said]})
    return through(wire, "/v1beta", lambda client: service(client).look("batches/b1"))


def candidate(scores: Any) -> dict[str, Any]:
    parts = [{"text": json.dumps(scores)}]
    return {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}


def idle() -> GeminiBatches:
    return service(Client("http://127.0.0.1:9/v1beta", ClientConfig()))


def test_a_line_is_the_live_request_under_its_key() -> None:
    body = b'{"contents": [],\r\n "generationConfig": {}}'
    line = idle().line("key", body)
    assert b"\n" not in line
    assert json.loads(line) == {"key": "key", "request": json.loads(body)}


def test_files_stay_below_what_the_service_takes() -> None:
    assert MAX_BYTES < 2 * 10**9
    assert PIECE % (256 * 1024) == 0


def test_a_file_is_uploaded_piece_by_piece(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_bytes(bytes(range(256)) * ((2 * PIECE + 1000) // 256))
    at = "/upload/v1beta/files?upload_id=u1"

    async def begun(request: web.Request) -> web.StreamResponse:
        return web.Response(headers={"X-Goog-Upload-URL": f"http://{request.host}{at}"})

    async def piece(request: web.Request) -> web.StreamResponse:
        if "finalize" in request.headers["X-Goog-Upload-Command"]:
            return web.json_response({"file": {"name": "files/f1"}})
        return web.Response(headers={"X-Goog-Upload-Status": "active"})

    wire = Wire({"POST /upload/v1beta/files": [begun], f"POST {at}": [piece]})
    assert through(wire, "/v1beta", lambda client: service(client).upload(path, "shard")) == "files/f1"
    (_, start, headers), *pieces = wire.asked
    assert json.loads(start) == {"file": {"display_name": "shard"}}
    assert headers["x-goog-upload-command"] == "start"
    assert headers["x-goog-upload-protocol"] == "resumable"
    assert headers["x-goog-upload-header-content-length"] == str(path.stat().st_size)
    assert b"".join(body for _, body, _ in pieces) == path.read_bytes()
    assert [asked["x-goog-upload-offset"] for _, _, asked in pieces] == ["0", str(PIECE), str(2 * PIECE)]
    commands = [asked["x-goog-upload-command"] for _, _, asked in pieces]
    assert commands == ["upload", "upload", "upload, finalize"]


def test_pieces_are_sent_nowhere_else_than_to_the_service(tmp_path: Path) -> None:
    async def begun(request: web.Request) -> web.StreamResponse:
        return web.Response(headers={"X-Goog-Upload-URL": "http://127.0.0.2/elsewhere"})

    path = tmp_path / "calls.jsonl"
    path.write_bytes(b"{}\n")
    wire = Wire({"POST /upload/v1beta/files": [begun]})
    with pytest.raises(RemoteError, match="not followed"):
        through(wire, "/v1beta", lambda client: service(client).upload(path, "shard"))


def test_a_batch_is_made_with_its_tags_in_its_name() -> None:
    wire = Wire({CREATE: [told("BATCH_STATE_PENDING")]})
    made = through(wire, "/v1beta", lambda client: service(client).create("files/f1", TAGS))
    assert (made.id, made.state, dict(made.tags)) == ("batches/b1", State.RUNNING, TAGS)
    (body,) = wire.named(CREATE)
    wanted = {"display_name": "stillme run=4f shard=a1", "input_config": {"file_name": "files/f1"}}
    assert json.loads(body) == {"batch": wanted}


def test_a_batch_is_asked_for_once_when_nobody_knows_whether_it_was_made() -> None:
    async def broken(request: web.Request) -> web.StreamResponse:
        return web.json_response({"error": {"code": 500, "message": "Internal"}}, status=500)

    wire = Wire({CREATE: [broken]})
    with pytest.raises(RemoteError):
        through(wire, "/v1beta", lambda client: service(client).create("files/f1", TAGS))
    assert len(wire.asked) == 1


@pytest.mark.parametrize("kind", ["BATCH_STATE", "JOB_STATE"])
@pytest.mark.parametrize(
    ("state", "wanted"),
    [
        ("PENDING", State.RUNNING),
        ("RUNNING", State.RUNNING),
        ("PAUSED", State.RUNNING),
        ("SUCCEEDED", State.ENDED),
        ("PARTIALLY_SUCCEEDED", State.ENDED),
        ("EXPIRED", State.ENDED),
        ("FAILED", State.FAILED),
        ("CANCELLED", State.FAILED),
    ],
)
def test_how_far_a_batch_is(kind: str, state: str, wanted: State) -> None:
    assert looked_at(told(f"{kind}_{state}")).state is wanted


def test_the_answers_file_is_named_in_either_place() -> None:
    assert looked_at(told("BATCH_STATE_SUCCEEDED", response={"responsesFile": "files/o"})).outputs == ("files/o",)
    inside = told("BATCH_STATE_SUCCEEDED")
    inside["metadata"]["output"] = {"responsesFile": "files/o"}
    assert looked_at(inside).outputs == ("files/o",)


def test_a_batch_that_failed_says_why() -> None:
    batch = looked_at(told("", done=True, error={"code": 3, "message": "The file is not valid."}))
    assert (batch.state, batch.detail) == (State.FAILED, "The file is not valid.")


@pytest.mark.parametrize("said", [[], {}, {"metadata": 3}])
def test_an_answer_that_is_no_batch_is_an_error_and_no_crash(said: Any) -> None:
    with pytest.raises(RemoteError):
        looked_at(said)


def test_all_pages_of_batches_are_read_and_strangers_have_no_tags() -> None:
    stranger = {
        "name": "batches/x",
        "metadata": {"displayName": "run=4f shard=a1", "state": "BATCH_STATE_RUNNING"},
    }
    wire = Wire(
        {
            "GET /v1beta/batches?pageSize=100": [{"operations": [stranger], "nextPageToken": "t"}],
            "GET /v1beta/batches?pageSize=100&pageToken=t": [{"operations": [told("BATCH_STATE_RUNNING")]}],
        }
    )

    async def tags(client: Client) -> list[dict[str, str]]:
        return [dict(batch.tags) async for batch in service(client).every()]

    assert through(wire, "/v1beta", tags) == [{}, TAGS]
    assert tags_in_name(name_of_tags(TAGS)) == TAGS


def test_an_account_without_batches_has_none() -> None:
    async def names(client: Client) -> list[str]:
        return [batch.id async for batch in service(client).every()]

    assert through(Wire({"GET /v1beta/batches?pageSize=100": [{}]}), "/v1beta", names) == []


def test_answers_are_downloaded_from_where_files_are(tmp_path: Path) -> None:
    async def text(request: web.Request) -> web.StreamResponse:
        return web.Response(body=b"{}\n", content_type="application/jsonl")

    wire = Wire({"GET /download/v1beta/files/o:download?alt=media": [text]})
    through(wire, "/v1beta", lambda client: service(client).download("files/o", tmp_path / "answers"))
    assert (tmp_path / "answers").read_bytes() == b"{}\n"


def test_every_line_is_read_by_itself_and_what_is_no_line_is_passed_over(tmp_path: Path) -> None:
    lines = [
        json.dumps({"key": "good", "response": candidate({"first": 2, "second": 5})}),
        json.dumps({"key": "odd", "response": candidate([])}),
        '{"key": "cut", "resp',
        json.dumps({"key": "nobody's", "response": candidate({})}),
        json.dumps({"key": "no", "error": {"code": 3, "message": "Unable to process input image."}}),
        json.dumps({"key": "crowd", "error": {"code": 8, "message": "Resource exhausted."}}),
        json.dumps({"key": "live", "error": {"code": 503, "message": "Overloaded."}}),
        json.dumps({"key": "odder", "error": "gone"}),
    ]
    path = tmp_path / "answers"
    path.write_text("\n".join(lines), encoding="utf-8")
    asked = dict.fromkeys(("good", "odd", "cut", "no", "crowd", "live", "odder"), AXES)
    found = dict(idle().answers(path, asked))
    assert {key: (one.status, one.http) for key, one in found.items()} == {
        "good": (Status.OK, 200),
        "odd": (Status.MALFORMED, 200),
        "no": (Status.REJECTED, 400),
        "crowd": (Status.RATE_LIMITED, 429),
        "live": (Status.SERVER_ERROR, 503),
        "odder": (Status.SERVER_ERROR, 500),
    }
    assert dict(found["good"].scores) == {"first": 2, "second": 5}
