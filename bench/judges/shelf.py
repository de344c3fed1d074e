"""Files and batches of the loopback services, as OpenAI and Gemini offer them.

A batch is answered when it is made and shown as ended later: it is paid for whether or not anybody looks.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

import orjson

from bench.judges.saying import GEMINI, OPENAI, Dialect, Saying
from bench.judges.switches import Switches

JSONL = "application/jsonl"


@dataclass(frozen=True)
class Asked:
    """A request as it arrived."""

    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)


@dataclass(frozen=True)
class Given:
    """What is sent back; without content where the connection is to break instead."""

    body: bytes | None
    headers: Mapping[str, str] = field(default_factory=dict)
    http: int = 200
    kind: str = "application/json"


@dataclass(frozen=True)
class Made:
    """A batch. `tags`: OpenAI's metadata, or Gemini's display name."""

    id: str
    dialect: Dialect
    tags: Any
    file: str
    created: float
    fails: bool
    whole: bool  # every line was answered
    output: str
    errors: str


Answering = Callable[[Dialect, Mapping[str, Any], str], Saying | None]
Noting = Callable[..., None]


class Shelf:
    """What was uploaded, and what was made of it. `answering`: one line's answer, None where it expires."""

    def __init__(self, answering: Answering, noting: Noting) -> None:
        self.files: dict[str, bytes] = {}
        self.batches: list[Made] = []
        self.names: dict[str, str] = {}  # of Gemini's uploads that have begun
        self._answering, self._noting = answering, noting
        self._routes: tuple[tuple[str, str, Callable[..., Given]], ...] = (
            ("POST", r"/v1/files", self._openai_upload),
            ("GET", r"/v1/files/([\w-]+)/content", self._download),
            ("POST", r"/v1/batches", self._openai_create),
            ("GET", r"/v1/batches", self._openai_every),
            ("GET", r"/v1/batches/([\w-]+)", self._look),
            ("POST", r"/upload/v1beta/files", self._gemini_upload),
            ("PUT", r"/upload/v1beta/files", self._gemini_upload),
            ("GET", r"(?:/download)?/v1beta/files/([\w-]+):download", self._download),
            ("POST", r"/v1beta/models/[^/]+:batchGenerateContent", self._gemini_create),
            ("GET", r"/v1beta/batches", self._gemini_every),
            ("GET", r"/v1beta/batches/([\w-]+)", self._look),
        )

    def answer(self, asked: Asked, switches: Switches) -> Given | None:
        """None where the address is no one's."""
        for method, pattern, made in self._routes:
            found = re.fullmatch(pattern, asked.path)
            if found and method == asked.method:
                return made(asked, switches, *found.groups())
        return None

    # Files

    def _put(self, dialect: Dialect, content: bytes, name: str) -> str:
        number = f"{dialect.name}-file-{len(self.files)}"
        self.files[number] = content
        sha = hashlib.sha256(content).hexdigest()
        self._noting("upload", dialect.name, file=number, sha=sha, bytes=len(content), name=name)
        return number

    def _openai_upload(self, asked: Asked, switches: Switches) -> Given:
        fields = dict(parts(asked))
        name, content = fields["file"]
        assert fields["purpose"][1] == b"batch", "the file is not for a batch"
        number = self._put(OPENAI, content, name)
        told = {"id": number, "object": "file", "bytes": len(content), "created_at": int(time.time())}
        return _json({**told, "filename": name, "purpose": "batch"})

    def _gemini_upload(self, asked: Asked, switches: Switches) -> Given:
        """In two steps, by the resumable protocol: begin, then everything at once."""
        if "upload_id" not in asked.query:
            told = (asked.json if asked.body else {}).get("file", {})
            number = f"u{len(self.names)}"
            self.names[number] = str(told.get("displayName") or told.get("display_name") or "")
            return _json(
                {}, {"x-goog-upload-url": f"http://{asked.headers['host']}{asked.path}?upload_id={number}"}
            )
        (number,) = asked.query["upload_id"]
        file = self._put(GEMINI, asked.body, self.names[number])
        told = {"name": f"files/{file}", "displayName": self.names[number], "sizeBytes": str(len(asked.body))}
        return _json({"file": {**told, "state": "ACTIVE"}}, {"x-goog-upload-status": "final"})

    def _download(self, asked: Asked, switches: Switches, number: str) -> Given:
        if number not in self.files:
            return _json({"error": {"message": f"No such file: {number}", "code": 404}}, http=404)
        self._noting("download", number.split("-")[0], file=number)
        return Given(self.files[number], kind=JSONL)

    # Batches

    def _openai_create(self, asked: Asked, switches: Switches) -> Given:
        wanted = asked.json
        assert wanted["endpoint"] == "/v1/chat/completions"
        assert wanted["completion_window"] == "24h"
        return self._make(OPENAI, wanted["input_file_id"], wanted.get("metadata") or {}, switches)

    def _gemini_create(self, asked: Asked, switches: Switches) -> Given:
        wanted = asked.json["batch"]
        source = wanted.get("inputConfig") or wanted["input_config"]
        file = source.get("fileName") or source["file_name"]
        name = wanted.get("displayName") or wanted.get("display_name") or ""
        return self._make(GEMINI, file.removeprefix("files/"), name, switches)

    def _make(self, dialect: Dialect, file: str, tags: Any, switches: Switches) -> Given:
        number = f"{dialect.name}-batch-{len(self.batches)}"
        unheard = len(self.batches) < switches.creations_unheard
        fails = len(self.batches) < switches.batches_fail
        sha = hashlib.sha256(self.files[file]).hexdigest()
        self._noting("batch", dialect.name, batch=number, tags=tags, file=file, sha=sha, heard=not unheard)
        output, errors, whole = b"", b"", True
        if not fails:
            output, errors, whole = self._answers(dialect, self.files[file], number)
        self.files[f"{number}-output"], self.files[f"{number}-errors"] = output, errors
        made = Made(
            number,
            dialect,
            tags,
            file,
            time.time(),
            fails,
            whole,
            f"{number}-output" if output else "",
            f"{number}-errors" if errors else "",
        )
        self.batches.append(made)
        return Given(None) if unheard else _json(told(made, switches))

    def _answers(self, dialect: Dialect, content: bytes, batch: str) -> tuple[bytes, bytes, bool]:
        """The output's lines, the errors' lines, and whether each line has an answer."""
        output: list[bytes] = []
        errors: list[bytes] = []
        whole = True
        for key, asked in lines(dialect, content):
            said = self._answering(dialect, asked, batch)
            whole = whole and said is not None
            written = line(dialect, key, said)
            if written:
                (output if dialect is GEMINI or (said and said.http == 200) else errors).append(written)
        return b"".join(output), b"".join(errors), whole

    def _look(self, asked: Asked, switches: Switches, number: str) -> Given:
        found = next((one for one in self.batches if one.id == number), None)
        if found is None:
            return _json({"error": {"message": f"No such batch: {number}", "code": 404}}, http=404)
        return _json(told(found, switches))

    def _openai_every(self, asked: Asked, switches: Switches) -> Given:
        after = asked.query.get("after", [""])[0]
        page, more = self._page(OPENAI, after, switches)
        shown = [told(one, switches) for one in page]
        last = page[-1].id if page else None
        return _json({"object": "list", "data": shown, "last_id": last, "has_more": more})

    def _gemini_every(self, asked: Asked, switches: Switches) -> Given:
        page, more = self._page(GEMINI, asked.query.get("pageToken", [""])[0], switches)
        shown = {"operations": [told(one, switches) for one in page]} if page else {}
        return _json({**shown, "nextPageToken": page[-1].id} if more else shown)

    def _page(self, dialect: Dialect, after: str, switches: Switches) -> tuple[list[Made], bool]:
        """Newest first, a page at a time."""
        self._noting("listing", dialect.name, after=after)
        every = [one for one in reversed(self.batches) if one.dialect is dialect]
        start = next((n for n, one in enumerate(every, 1) if one.id == after), 0)
        return every[start : start + switches.page], len(every) > start + switches.page


def told(made: Made, switches: Switches) -> dict[str, Any]:
    ended = time.time() >= made.created + switches.batch_after_s
    return _openai_batch(made, ended) if made.dialect is OPENAI else _gemini_batch(made, ended)


def _openai_batch(made: Made, ended: bool) -> dict[str, Any]:
    end = "failed" if made.fails else "completed" if made.whole else "expired"
    errors = {"object": "list", "data": [{"code": "invalid_file", "message": "The file is not valid.", "line": 1}]}
    return {
        "id": made.id,
        "object": "batch",
        "endpoint": "/v1/chat/completions",
        "errors": errors if ended and made.fails else None,
        "input_file_id": made.file,
        "completion_window": "24h",
        "status": end if ended else "in_progress",
        "output_file_id": made.output or None if ended else None,
        "error_file_id": made.errors or None if ended else None,
        "created_at": int(made.created),
        "metadata": made.tags,
    }


def _gemini_batch(made: Made, ended: bool) -> dict[str, Any]:
    state = f"BATCH_STATE_{'FAILED' if made.fails else 'SUCCEEDED'}" if ended else "BATCH_STATE_RUNNING"
    kind = "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch"
    output = {"responsesFile": f"files/{made.output}"} if ended and made.output else {}
    metadata = {
        "@type": kind,
        "name": f"batches/{made.id}",
        "displayName": made.tags,
        "inputConfig": {"fileName": f"files/{made.file}"},
        "state": state,
        **({"output": output} if output else {}),
    }
    end: dict[str, Any] = {"done": True, "response": {"@type": kind, **output}} if ended else {}
    if ended and made.fails:
        end = {"done": True, "error": {"code": 3, "message": "The file is not valid."}}
    return {"name": f"batches/{made.id}", "metadata": metadata, **end}


def lines(dialect: Dialect, content: bytes) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """A batch's calls: key and body."""
    for text in content.splitlines():
        one = orjson.loads(text)
        yield (one["custom_id"], one["body"]) if dialect is OPENAI else (one["key"], one["request"])


def line(dialect: Dialect, key: str, said: Saying | None) -> bytes:
    """How one call of a batch ended. Gemini says nothing of those that it did not get to."""
    if dialect is GEMINI:
        return b"" if said is None else orjson.dumps({"key": key, **_gemini_line(said)}) + b"\n"
    one: dict[str, Any] = {"id": f"batch_req_{key[:12]}", "custom_id": key, "response": None, "error": None}
    if said is None:
        one["error"] = {"code": "batch_expired", "message": "This request could not be executed in time."}
    else:
        one["response"] = {"status_code": said.http, "request_id": "req_batch", "body": said.said}
    return orjson.dumps(one) + b"\n"


def _gemini_line(said: Saying) -> dict[str, Any]:
    return {"response": said.said} if said.http == 200 else {"error": said.said["error"]}


def parts(asked: Asked) -> Iterator[tuple[str, tuple[str, bytes]]]:
    """The fields of a form: name, file name, content."""
    boundary = asked.headers["content-type"].partition("boundary=")[2].strip('"').encode()
    for part in asked.body.split(b"--" + boundary)[1:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        words = head.decode()
        name, file = re.search(r'[ ;]name="([^"]*)"', words), re.search(r'filename="([^"]*)"', words)
        assert name is not None
        yield name[1], (file[1] if file else "", content.removesuffix(b"\r\n"))


def query(target: str) -> tuple[str, dict[str, list[str]]]:
    path, _, rest = target.partition("?")
    return path, parse_qs(rest)


def _json(said: Any, headers: Mapping[str, str] | None = None, http: int = 200) -> Given:
    return Given(orjson.dumps(said), headers or {}, http)
