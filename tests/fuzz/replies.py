"""What services answer: editors, judges, batches. Whatever comes ends as a reply with a status, or as a sentence.

An input is an answer as it stands on the wire: a status, headers, an empty line, the body.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from multidict import CIMultiDict

from stillme.core.errors import SetupError
from stillme.core.records import EditReply, EditRequest, Exchange, Status
from stillme.editors import bfl
from stillme.editors import gemini as gemini_editor
from stillme.editors import openai as openai_editor
from stillme.engine.backends import BackendContext
from stillme.engine.http import Client, HttpRequest, HttpResponse, RemoteError, parse_retry_after
from stillme.judges import gemini, openai
from stillme.judges.depiction_form import PeopleForm
from stillme.judges.feature_form import FeatureForm
from stillme.judges.vlm import NetworkJudge
from stillme.protocol import builtin
from tests.editors.providers import b64, png
from tests.fuzz.damage import Input, as_json, bytes_of, json_of, tree
from tests.fuzz.target import Feed, Target, sentence
from tests.judges.asking import AXES, PROTOCOL, USAGE_METADATA, answered, completion

ADDRESS = "http://127.0.0.1:9/v1"
KEY, SECRET = "STILLME_FUZZ_KEY", "sk-fuzz-0123456789abcdef"
STATUSES = (
    200,
    200,
    200,
    200,
    201,
    204,
    302,
    400,
    401,
    402,
    403,
    404,
    408,
    413,
    422,
    429,
    500,
    501,
    503,
    529,
    999,
)
HEADERS = ("Retry-After", "retry-after-ms", "x-request-id", "Content-Type", "x-ratelimit-reset-requests")
SAID = (
    *(
        "5",
        "-1",
        "nan",
        "inf",
        "1e400",
        "",
        " ",
        "Wed, 21 Oct 2026 07:28:00 GMT",
        "Wed, 21 Oct 99999 07:28:00 +99999999",
    ),
    *(
        "Mon, 01 Jan 0001 00:00:00 +2359",
        "application/json",
        "text/html",
        "image/png",
        "1s",
        "6m0s",
        "9" * 400,
        SECRET,
    ),
)
PLACE = BackendContext(Path(), PROTOCOL, KEY)
ERRORS: tuple[Any, ...] = (
    {"error": {"message": f"no: {SECRET}", "type": "invalid_request_error", "code": "moderation_blocked"}},
    {"error": {"code": 429, "message": "m", "status": "RESOURCE_EXHAUSTED", "details": [{"retryDelay": "3s"}]}},
    {"detail": [{"loc": ["a"], "msg": "b"}]},
    {"error": {"code": "insufficient_quota", "stillme": {"status": "oom"}}},
    {"error": {"error": {"error": {"message": "deep"}}}},
)
MADE = {
    "data": [{"b64_json": b64(png())}],
    "usage": {"input_tokens_details": {"text_tokens": 4, "image_tokens": 9}, "output_tokens": 7},
}
OURS = {
    **MADE,
    "stillme": {"made": {"device": "cpu"}, "notes": {"a": 1}, "extras": {"x": b64(png(2))}, "settings": "s"},
}
CANDIDATE = {
    "content": {"parts": [{"text": "Here."}, {"inlineData": {"data": b64(png())}}]},
    "finishReason": "STOP",
}
SHOWN = {"candidates": [CANDIDATE], "usageMetadata": USAGE_METADATA, "modelVersion": "v", "responseId": "r"}
BLOCKED = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT", "blockReasonMessage": "m"}}
LED_ASTRAY = (
    "file:///etc/passwd",
    "http://169.254.169.254/latest",
    "http://[",
    f"{ADDRESS}:99999999/x",
    "https://a.b:x/",
)
READY = {"id": "n", "status": "Ready", "result": {"sample": f"{ADDRESS}/x.png", "seed": 4}, "cost": 4.0}
MODERATED = {"status": "Content Moderated", "details": {"Moderation Reasons": ["a"]}}
TASK = {"id": "n", "polling_url": f"{ADDRESS}/get_result?id=n", "cost": 4}


def wire(body: Input, json_only: bool = False) -> Input:
    """Answers with a status, some headers and a body."""
    errors = json_of(*ERRORS)

    def made(chance: random.Random) -> bytes:
        status = chance.choice(STATUSES)
        headers = {"Content-Type": "application/json"}
        while chance.random() < 0.3:
            headers[chance.choice(HEADERS)] = chance.choice(SAID)
        content = errors(chance) if status >= 300 and chance.random() < 0.8 else body(chance)
        head = "".join(f"{name}: {value}\n" for name, value in headers.items())
        return f"{status}\n{head}\n".encode() + content

    return made


def parsed(content: bytes) -> tuple[int, CIMultiDict[str], bytes]:
    head, _, body = content.partition(b"\n\n")
    status, *lines = head.decode("utf-8", "replace").split("\n")
    pairs = [line.partition(": ")[::2] for line in lines]
    return int(status), CIMultiDict(pairs), body


class Canned(Client):
    """A client whose every attempt comes to the answer at hand; reading it is all real."""

    given: tuple[int, CIMultiDict[str], bytes] = (200, CIMultiDict(), b"")

    async def _attempt(self, call: HttpRequest, sent: Any, seconds: float) -> HttpResponse | RemoteError:
        status, headers, body = self.given
        kind = headers.get("Content-Type", "").partition(";")[0].strip() or "application/octet-stream"
        response: Any = SimpleNamespace(status=status, headers=headers, content_type=kind, reason="")
        return self._understood(call, response, body, 0.01)


def canned(editor: Any) -> Canned:
    """Puts a canned client into a backend, with everything that its own was made with; none rests for another's sake."""
    own = editor.client
    made = Canned(own.base, own.limits, own._secrets, own._hosts, own._hopeless, own._waits)
    editor.client = made
    return made


def storable(reply: EditReply) -> None:
    """What an edit's row is made of can be kept, and holds no key."""
    for text in (reply.detail, reply.code, reply.request_id, *reply.notes, *reply.notes.values()):
        assert isinstance(text, str), text
        text.encode()
        assert SECRET not in text
    json.dumps(reply.environment)
    assert math.isfinite(reply.cost_usd) and reply.cost_usd >= 0
    assert (reply.image is not None) == (reply.status is Status.OK)
    assert all(isinstance(one, bytes) for one in reply.extras.values())


def _editor(make: Any, settings: Any, body: Input) -> Any:
    def prepare(folder: Path, stack: ExitStack) -> tuple[Input, Feed]:
        os.environ[KEY] = SECRET
        editor = make(settings, KEY)
        request = EditRequest("key", png(), "Add glasses.", 7)

        def feed(content: bytes) -> None:
            canned(editor).given = parsed(content)
            with sentence(SetupError):
                storable(asyncio.run(editor.edit(request)))

        return wire(body), feed

    return prepare


ONCE = {"attempts": 1, "base_url": ADDRESS, "deadline_s": 0.005, "poll_s": 0.002}


def _once(**more: Any) -> dict[str, Any]:
    return {**{name: value for name, value in ONCE.items() if name != "poll_s"}, **more}


def _openai_editor(service: str) -> Any:
    settings = openai_editor.Settings(model="m", service=service, **_once())
    return _editor(openai_editor.OpenaiEditor, settings, json_of(OURS if service == "stillme" else MADE, MADE))


def _gemini_editor() -> Any:
    settings = gemini_editor.Settings(model="m", **_once())
    return _editor(gemini_editor.GeminiEditor, settings, json_of(SHOWN, BLOCKED))


def _bfl(folder: Path, stack: ExitStack) -> tuple[Input, Feed]:
    """Three answers one after another; the input is the one that is damaged, and where."""
    os.environ[KEY] = SECRET
    editor = bfl.BflEditor(bfl.Settings(model="m", **ONCE), KEY)
    request = EditRequest("key", png(), "Add glasses.", 7)
    good = [CIMultiDict({"Content-Type": "application/json"})] * 2 + [CIMultiDict({"Content-Type": "image/png"})]
    bodies = (as_json(TASK), as_json(READY), png())

    def feed(content: bytes) -> None:
        place = content[0] % 3
        turns = [(200, head, body) for head, body in zip(good, bodies, strict=True)]
        turns[place] = parsed(content[1:])
        seen, client = iter(turns), canned(editor)

        async def next_turn(call: HttpRequest, sent: Any, seconds: float) -> HttpResponse | RemoteError:
            client.given = next(seen, turns[place])
            return await Canned._attempt(client, call, sent, seconds)

        client._attempt = next_turn  # type: ignore[method-assign]
        with sentence(SetupError):
            storable(asyncio.run(editor.edit(request)))

    tasks = [TASK, *({**TASK, "polling_url": url} for url in LED_ASTRAY)]
    ends = [READY, MODERATED, *({**READY, "result": {"sample": url}} for url in LED_ASTRAY)]
    parts = wire(json_of(*tasks)), wire(json_of(*ends)), wire(bytes_of(png()))

    def made(chance: random.Random) -> bytes:
        place = chance.randrange(3)
        return bytes([place]) + parts[place](chance)

    return made, feed


# Judges


def kept(one: Exchange) -> None:
    for text in (one.detail, one.code, one.evidence, *one.observations.values(), *one.scores):
        text.encode()
        assert SECRET not in text
    assert SECRET.encode() not in one.raw
    assert math.isfinite(one.cost_usd) and one.cost_usd >= 0
    assert all(type(count) is int and count >= 0 for count in one.usage.values())
    assert all(value in range(1, 6) for value in one.scores.values())


def _judge(make: Any, model: str, envelope: Any) -> Any:
    def prepare(folder: Path, stack: ExitStack) -> tuple[Input, Feed]:
        os.environ[KEY] = SECRET
        judge: NetworkJudge = make.prepare(make.Settings(model=model, **_once()), PLACE).make()

        async def ask() -> list[Exchange]:
            call = HttpRequest("POST", "x", json={})
            return await judge.send(call, AXES)

        def feed(content: bytes) -> None:
            canned(judge).given = parsed(content)
            with sentence(SetupError):
                for one in asyncio.run(ask()):
                    kept(one)

        text = json.dumps(answered())
        body = json_of(envelope(text), envelope(f"```json\n{text}\n```"), envelope("no"))
        return wire(body), feed

    return prepare


def gemini_envelope(text: str) -> dict[str, Any]:
    parts = [{"text": "Hm.", "thought": True}, {"text": text}]
    return {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}], "usageMetadata": USAGE_METADATA}


def _form(make: Any, good: Any, asked: tuple[str, ...]) -> Any:
    """A form of answers read off a judge's own words."""

    def prepare(folder: Path, stack: ExitStack) -> tuple[Input, Feed]:
        form = make(builtin())

        def feed(content: bytes) -> None:
            form.read(content.decode("utf-8", "replace"), asked)

        return json_of(good), feed

    return prepare


PERSON = {"role": "doctor", "gender_presentation": "female", "confidence": 4}
FEATURES = dict.fromkeys(("skin_tone", "hair", "eyes", "face_shape", "distinctive"), "brown")


def _batches(make: Any, model: str, line: Any) -> Any:
    """A file of answers, a line each."""

    def prepare(folder: Path, stack: ExitStack) -> tuple[Input, Feed]:
        os.environ[KEY] = SECRET
        judge = make.prepare(make.Settings(model=model, base_url=ADDRESS), PLACE).make()
        batches = judge.batches
        folder.mkdir(parents=True, exist_ok=True)
        path, good = folder / "answers.jsonl", as_json(line)

        def feed(content: bytes) -> None:
            path.write_bytes(content)
            for key, one in batches.answers(path, {"k1": AXES, "k2": AXES}):
                assert key in ("k1", "k2")
                kept(one)

        spoiled = bytes_of(good + b"\n" + good.replace(b"k1", b"k2"))

        def made(chance: random.Random) -> bytes:
            if chance.random() < 0.3:
                return spoiled(chance)
            return b"\n".join(as_json(tree(line, chance)) for _ in range(chance.randint(1, 3)))

        return made, feed

    return prepare


def _batch_state(read: Any, good: Mapping[str, Any]) -> Any:
    def prepare(folder: Path, stack: ExitStack) -> tuple[Input, Feed]:
        def feed(content: bytes) -> None:
            try:
                said = json.loads(content)
            except (ValueError, RecursionError):
                return
            with sentence(RemoteError):
                read(said)

        return json_of(good), feed

    return prepare


OPENAI_BATCH = {"id": "b", "status": "failed", "metadata": {"run": "r"}, "output_file_id": "f", "error_file_id": None,
                "errors": {"data": [{"code": "token_limit_exceeded", "message": "m"}]}}  # fmt: skip
GEMINI_BATCH = {"name": "batches/b", "metadata": {"state": "BATCH_STATE_SUCCEEDED", "displayName": "stillme run=1 x=2",
                "output": {"responsesFile": "files/f"}}, "response": {"responsesFile": "files/f"}, "error": {}}  # fmt: skip


def _waiting(folder: Path, stack: ExitStack) -> tuple[Input, Feed]:
    """How long a service asks to wait, in any header."""
    plain = bytes_of(*(said.encode() for said in SAID))

    def feed(content: bytes) -> None:
        text = content.decode("latin-1")
        for name in ("Retry-After", "retry-after-ms"):
            found = parse_retry_after(CIMultiDict({name: text}))
            assert found is None or found >= 0

    return plain, feed


ANSWER = json.dumps(answered())
TARGETS = (
    Target("editor replies: openai", _openai_editor("openai"), 4_500),
    Target("editor replies: our own server", _openai_editor("stillme"), 4_500),
    Target("editor replies: gemini", _gemini_editor(), 4_500),
    Target("editor replies: bfl", _bfl, 4_500),
    Target("judge replies: openai", _judge(openai, "gpt-5-mini", completion), 4_500),
    Target("judge replies: gemini", _judge(gemini, "gemini-3-flash-preview", gemini_envelope), 4_500),
    Target("judge answers: people", _form(PeopleForm, {"people": [PERSON, PERSON]}, ("doctor", "nurse")), 6_000),
    Target("judge answers: features", _form(FeatureForm, FEATURES, ()), 6_000),
    Target(
        "batch files: openai",
        _batches(openai, "gpt-5-mini", {"custom_id": "k1", "response": {"status_code": 200, "body": completion(ANSWER)}}),
        4_000,
    ),
    Target(
        "batch files: gemini",
        _batches(gemini, "gemini-3-flash-preview", {"key": "k1", "response": gemini_envelope(ANSWER)}),
        4_000,
    ),
    Target("batch states: openai", _batch_state(openai.parse_batch, OPENAI_BATCH), 6_000),
    Target("batch states: gemini", _batch_state(gemini.parse_batch, GEMINI_BATCH), 6_000),
    Target("retry headers", _waiting, 8_000),
)  # fmt: skip
