"""Editors behind the HTTP server: in this process for what is refused, in one of its own for the whole way."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from stillme.core import images
from stillme.core.errors import InputError, SetupError
from stillme.core.records import EditReply, EditRequest, Status
from stillme.editors import openai, server
from stillme.editors.server import EditorWorker
from stillme.engine.backends import BackendContext, ExecutionMode, PreparedEditor
from stillme.plan import config
from stillme.protocol import builtin
from stillme.sources import heads
from stillme.sources.heads import signature
from stillme.web.middleware import Hosts
from tests.conftest import Write

ROOT = Path(__file__).parent.parent.parent
MADE = {"device": "none", "threads": 1}


class Scripted:
    """An editor that does what its instruction says."""

    def edit(self, request: EditRequest) -> EditReply:
        words = request.instruction
        if words == "die":
            os._exit(3)
        if words == "hang":
            time.sleep(60)
        if words == "lack":
            raise SetupError("There is no disk.", "Buy one.")
        if words == "fail":
            raise ValueError("no")
        if words in [status.value for status in Status if status is not Status.OK]:
            return EditReply(Status(words), detail=f"ended as {words}", code="theirs")
        notes = {
            "seen": f"{request.seed} {len(request.references)} {request.control}",
            "process": str(os.getpid()),
        }
        return EditReply(Status.OK, request.image, environment=MADE, notes=notes, extras={"first": request.image})


def broken() -> Scripted:
    raise SetupError("The weights are gone.", "Fetch them.")


CALL = {"num_inference_steps": 28, "true_cfg_scale": 6.0, "negative_prompt": " ", "thinking": False}


def prepared(recipe: Any = Scripted, **more: Any) -> PreparedEditor[Any]:
    effective = {"backend": "scripted", "call": CALL}
    return PreparedEditor(
        effective=effective,
        inputs={},
        make=Scripted,
        factory=recipe,
        mode=ExecutionMode.MODEL,
        most_images=2,
        **more,
    )


@pytest.fixture(scope="module")
def desk() -> Iterator[EditorWorker]:
    made = EditorWorker("scripted", prepared(controls=("vae_round_trip",)))
    yield made
    made.close()


@pytest.fixture
def client(desk: EditorWorker) -> TestClient:
    return TestClient(server.app(desk, Hosts.of("127.0.0.1")), "http://127.0.0.1", raise_server_exceptions=False)


def picture() -> bytes:
    return images.encode(heads.photograph(heads.load("black-female-40s")), comment=signature("black-female-40s"))


FILE = ("p.jpg", b"a picture", "image/jpeg")


def ask(client: TestClient, words: str = "go", files: Any = (("image", FILE),), **fields: str) -> Any:
    return client.post("/v1/images/edits", data={"prompt": words, **fields}, files=list(files))


def error(answer: Any) -> dict[str, Any]:
    found: dict[str, Any] = answer.json()["error"]
    return found


def test_an_edit_comes_back_with_how_it_was_made(client: TestClient, desk: EditorWorker) -> None:
    files = (("image[]", FILE), ("image[]", ("q.png", b"another", "image/png")))
    answer = ask(client, files=files, seed="7", n="1", size="auto", model="scripted", user="me")
    said = answer.json()
    assert answer.status_code == 200 and answer.headers["x-request-id"]
    assert base64.b64decode(said["data"][0]["b64_json"]) == b"a picture"
    told = said["stillme"]
    assert told["made"] == MADE and told["settings"] == desk.settings
    assert told["notes"]["seen"] == "7 1 " and told["notes"]["process"] != str(os.getpid())
    assert base64.b64decode(told["extras"]["first"]) == b"a picture"


def test_the_editor_is_loaded_once(client: TestClient) -> None:
    seen = {ask(client).json()["stillme"]["notes"]["process"] for _ in range(3)}
    assert len(seen) == 1


def test_a_setting_is_taken_only_as_the_server_has_it(client: TestClient, desk: EditorWorker) -> None:
    same = {"num_inference_steps": "28", "true_cfg_scale": "6", "negative_prompt": " ", "thinking": "False"}
    assert ask(client, **same, settings=desk.settings[:16]).status_code == 200
    for name, value in (("num_inference_steps", "50"), ("true_cfg_scale", "x"), ("negative_prompt", "")):
        refused = ask(client, **{name: value})
        assert refused.status_code == 400 and "started with" in error(refused)["message"], name
    assert "not a setting" in error(ask(client, guidance_scale="1"))["message"]
    assert "not 0000000000000000" in error(ask(client, settings="0" * 16))["message"]
    assert ask(client, settings=desk.settings[:4]).status_code == 400


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"n": "2"}, "only 1"),
        ({"model": "other"}, "has the model scripted"),
        ({"seed": "x"}, "whole number"),
        ({"seed": str(2**64)}, "whole number"),
        ({"response_format": "url"}, "only b64_json"),
        ({"size": "1024x1024"}, "only auto"),
        ({"control": "crop"}, "does not make"),
        ({"words": ""}, "prompt is missing"),
    ],
)
def test_what_cannot_be_done_is_said(client: TestClient, fields: dict[str, str], said: str) -> None:
    answer = ask(client, **fields)
    assert answer.status_code == 400 and said in error(answer)["message"]
    assert error(answer)["type"] == "invalid_request_error"


def test_too_many_or_no_pictures_are_refused(client: TestClient) -> None:
    assert "3 pictures" in error(ask(client, files=[("image[]", FILE)] * 3))["message"]
    assert "0 pictures" in error(ask(client, files=[("mask", FILE)]))["message"]
    assert client.post("/v1/images/edits", json={}).status_code == 415
    broken_form = {"content-type": "multipart/form-data"}
    assert client.post("/v1/images/edits", content=b"x", headers=broken_form).status_code == 400


def test_a_control_needs_no_words(client: TestClient) -> None:
    for words in ({}, {"prompt": ""}):
        fields = {**words, "control": "vae_round_trip"}
        answer = client.post("/v1/images/edits", data=fields, files=[("image", FILE)])
        assert answer.json()["stillme"]["notes"]["seen"] == "0 0 vae_round_trip"


def test_a_body_above_the_limit_is_not_read(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_REQUEST_BYTES", 1000)
    answer = ask(client, files=[("image", ("p.jpg", b"x" * 5000, "image/jpeg"))])
    assert answer.status_code == 413 and "1,000 bytes" in error(answer)["message"]
    assert error(answer)["stillme"] == {"status": "rejected"}


@pytest.mark.parametrize(
    ("words", "status", "code"),
    [
        ("rejected", 400, "theirs"),
        ("refused", 400, "theirs"),
        ("input_blocked", 400, "moderation_blocked"),
        ("output_blocked", 400, "moderation_blocked"),
        ("corrupt", 422, "theirs"),
        ("crashed", 500, "theirs"),
        ("timeout", 504, "theirs"),
    ],
)
def test_how_an_edit_ended_is_told(client: TestClient, words: str, status: int, code: str) -> None:
    answer = ask(client, words)
    assert (answer.status_code, error(answer)["code"]) == (status, code)
    assert error(answer)["stillme"] == {"status": words}
    if "blocked" in words:
        assert error(answer)["moderation_details"]["moderation_stage"] == words.split("_")[0]


def test_a_bug_a_death_and_a_lack_are_answers(client: TestClient) -> None:
    assert ask(client, "fail").status_code == 500
    dead = ask(client, "die")
    assert dead.status_code == 500 and "process ended" in error(dead)["message"]
    lacking = ask(client, "lack")
    assert lacking.status_code == 503 and error(lacking)["message"] == "There is no disk. Buy one."
    assert ask(client).status_code == 200


def test_an_edit_that_hangs_is_ended(
    client: TestClient, desk: EditorWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as hasty:
        hasty.setattr(desk, "prepared", replace(desk.prepared, deadline=0.1))
        hung = ask(client, "hang")
    assert hung.status_code == 504 and "its process was ended" in error(hung)["message"]
    assert ask(client).status_code == 200


def test_health_says_what_is_served_and_whether_it_can(client: TestClient, desk: EditorWorker) -> None:
    ask(client)
    said = client.get("/health").json()
    assert said["loaded"] is True and said["settings"] == desk.settings and said["effective"]["call"] == CALL
    assert client.get("/v1/models").json()["data"][0]["id"] == "scripted"
    lost = EditorWorker("lost", prepared(broken))
    ailing = TestClient(server.app(lost, Hosts.of("127.0.0.1")), "http://127.0.0.1", raise_server_exceptions=False)
    assert "weights are gone" in error(ask(ailing))["message"]
    assert ailing.get("/health").status_code == 503
    lost.close()


def test_web_pages_and_strangers_are_not_served(client: TestClient, desk: EditorWorker) -> None:
    assert client.get("/health", headers={"Origin": "http://evil.example"}).status_code == 403
    assert client.get("/health", headers={"Host": "evil.example"}).status_code == 403
    locked = TestClient(server.app(desk, Hosts.of("0.0.0.0"), "secret"), "http://gpu.example")
    assert locked.get("/health").status_code == 401
    assert locked.get("/health", headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert locked.get("/health", headers={"Authorization": "Bearer secret"}).status_code == 200


def test_when_too_many_wait_the_next_is_told_to_come_back(client: TestClient, desk: EditorWorker) -> None:
    desk.waiting = server.MAX_WAITING
    try:
        answer = ask(client)
    finally:
        desk.waiting = 0
    assert answer.status_code == 429 and answer.headers["retry-after"] == "5"


def test_only_an_editor_of_the_audit_that_is_not_remote_is_served(
    write_audit: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = {"base_url": "http://127.0.0.1:1/v1", "model": "m", "service": "other"}
    rows = [
        {"id": "even", "kind": "planted", "settings": {"truth": "even"}},
        {"id": "far", "kind": "openai", "settings": local},
    ]
    loaded = config.load(write_audit(editors=rows))
    with pytest.raises(InputError, match="'odd' is not an editor of this audit; known: even, far"):
        server.serve(loaded, "odd")
    with pytest.raises(InputError, match="already"):
        server.serve(loaded, "far")
    monkeypatch.delenv(server.KEY_ENV, raising=False)
    with pytest.raises(InputError, match=r"anybody on the network.*export STILLME_KEY"):
        server.serve(loaded, "even", "0.0.0.0", 0)


@pytest.fixture
def address(write_audit: Write) -> Iterator[tuple[str, str]]:
    """A planted editor, served by the command in a process of its own: its address, and its settings."""
    command = [sys.executable, "-m", "stillme", "editors", "serve", str(write_audit()), "even", "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        base = lines[0].split(" at ")[1].strip().removesuffix("/images/edits")
        yield base, lines[1].split("extra: {settings: ")[1].split("}")[0]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


def test_the_whole_way_gives_the_same_bytes_as_the_editor_here(address: tuple[str, str]) -> None:
    base, server = address
    protocol = builtin()
    request = EditRequest("k", picture(), protocol.prompt["O-01"].text, 3)
    served = {"service": "stillme", "base_url": base, "model": "even", "extra": {"settings": server}}
    there = asyncio.run(_edited(served, request))
    module = __import__("stillme.editors.planted", fromlist=["x"])
    here = module.prepare(module.Settings(truth="even"), BackendContext(Path(), protocol)).make().edit(request)
    assert there.status is Status.OK and there.image == here.image
    with pytest.raises(SetupError, match="started anew"):
        asyncio.run(_edited({**served, "extra": {"settings": "0" * 16}}, request))


async def _edited(settings: dict[str, Any], request: EditRequest) -> EditReply:
    editor = openai.prepare(openai.Settings(**settings), BackendContext(Path(), builtin())).make()
    try:
        return await editor.edit(request)
    finally:
        await editor.close()
