"""An HTTP server for any editor, in the form of OpenAI's image edits.

An editor that needs a separate environment is served from there, and an audit calls it through `kind: openai`
with this server's `base_url`. The server edits with the settings that it was started with: a request with other
settings is rejected, so that no edit is taken for something else. One edit at a time, in a separate process.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import math
import os
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.datastructures import FormData, MutableHeaders, UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from stillme.core.errors import InputError, StillmeError
from stillme.core.records import EditReply, EditRequest, Status
from stillme.core.yaml import unknown
from stillme.engine.backends import PreparedEditor, require_packages
from stillme.engine.processes import ProcessPool
from stillme.ledger.run import settings_hash
from stillme.web.middleware import Hosts, SecurityHeadersMiddleware, set_security_headers
from stillme.web.server import address, is_loopback, listen, run

MAX_REQUEST_BYTES = 64 << 20
MAX_WAITING = 32  # requests; each has its pictures in memory
MAX_FIELDS = 64
PORT = 8100
LOOPBACK = "127.0.0.1"
KEY_ENV = "STILLME_KEY"
PACKAGES = ("uvicorn", "python_multipart")
HASH_CHARS = 16  # of the settings' hash; a caller that sends them gets these settings or an error

# Fields of OpenAI's form that are no settings of an editor -> accepted values; None: any value, ignored.
_FORM_FIELDS: Mapping[str, tuple[str, ...] | None] = {
    "n": ("1",),
    "size": ("auto",),
    "response_format": ("b64_json",),
    "output_format": ("png",),
    "user": None,
}
_REQUEST_FIELDS = ("prompt", "seed", "model", "control", "settings")

_HTTP_STATUS = {
    Status.REJECTED: (400, "invalid_request_error"),
    Status.REFUSED: (400, "image_generation_user_error"),
    Status.INPUT_BLOCKED: (400, "image_generation_user_error"),
    Status.OUTPUT_BLOCKED: (400, "image_generation_user_error"),
    Status.CORRUPT: (422, "server_error"),
    Status.TIMEOUT: (504, "server_error"),
}


class Rows(Protocol):
    """The part of an audit's configuration that is needed here: its editors, prepared."""

    @property
    def editors(self) -> Mapping[str, PreparedEditor[Any]]: ...


def serve(
    config: Rows,
    row: str,
    host: str = LOOPBACK,
    port: int = PORT,
    key_env: str = KEY_ENV,
) -> None:
    """Serve one editor of an audit until Ctrl-C. Callers must send the key in `key_env`, if it is set."""
    require_packages(PACKAGES, "Serving")
    prepared = select_editor(config, row)
    key = os.environ.get(key_env, "")
    if not key and not is_loopback(host):
        raise InputError(
            f"On {host} anybody on the network could use this editor.",
            f"Set a key that callers have to send (export {key_env}=…), or listen on {LOOPBACK} and use a tunnel.",
        )
    require_packages(prepared.requires, f"The editor '{row}'")
    bound = listen(host, port)
    desk = EditorWorker(row, prepared)
    greeting = _greeting(desk, address(host, bound.getsockname()[1]))
    try:
        run(app(desk, Hosts.of(host), key), bound, host, greeting, partial(print, flush=True))
    finally:
        desk.close()


def select_editor(config: Rows, row: str) -> PreparedEditor[Any]:
    """The prepared editor of this name, if it can be served."""
    if row not in config.editors:
        raise InputError(unknown(row, "editor of this audit", config.editors) + ".")
    prepared = config.editors[row]
    if prepared.is_remote or prepared.factory is None:
        raise InputError(f"'{row}' is asked over a network already; there is nothing to serve.")
    return prepared


def _greeting(desk: EditorWorker, url: str) -> Sequence[str]:
    return (
        f"Serving {desk.row} at {url}/v1/images/edits",
        f"In the audit: {{id: …, kind: openai, settings: {{service: stillme, base_url: {url}/v1,"
        f" model: {desk.row}, extra: {{settings: {desk.settings[:HASH_CHARS]}}}}}}}",
        f"It is being loaded; {url}/health says when it is. Ctrl-C ends it.",
    )


class EditorWorker:
    """The editor in its process, and the one thread that calls it."""

    def __init__(self, row: str, prepared: PreparedEditor[Any]) -> None:
        assert prepared.factory is not None
        self.row = row
        self.prepared = prepared
        self.settings = settings_hash("editor", prepared.effective)
        self.call: Mapping[str, Any] = prepared.effective.get("call", {})
        self.loaded = False
        self.failure = ""
        self.waiting = 0
        self._process = ProcessPool({row: partial(_create_served_editor, prepared.factory)})
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="editor")
        self._thread.submit(self._load)

    def _load(self) -> None:
        """Load before the first request comes. A failure is reported by /health and to callers."""
        try:
            self.loaded = bool(self._process.ask(self.row, "is_ready", None))
        except Exception as error:
            self.failure = str(error) or type(error).__name__

    async def edit(self, request: EditRequest) -> EditReply:
        if self.waiting >= MAX_WAITING:
            raise HTTPException(429, f"{self.waiting} edits are waiting already.", {"Retry-After": "5"})
        self.waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._edit, request)
        finally:
            self.waiting -= 1

    def _edit(self, request: EditRequest) -> EditReply:
        reply = self._process.editor(self.row, self.prepared.deadline).edit(request)
        self.loaded, self.failure = reply.status not in (Status.TIMEOUT, Status.CRASHED), ""
        return reply

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._process.close()


@dataclass(frozen=True)
class _ServedEditor:
    """An editor that can be loaded before the first edit: `is_ready` answers when it is."""

    editor: Any

    def edit(self, request: EditRequest) -> EditReply:
        reply: EditReply = self.editor.edit(request)
        return reply

    def is_ready(self, _: None) -> bool:
        return True


def _create_served_editor(recipe: Callable[[], Any]) -> _ServedEditor:
    return _ServedEditor(recipe())


def app(desk: EditorWorker, hosts: Hosts, key: str = "") -> Starlette:
    check_access = partial(_check_access, hosts=hosts, key=key)

    async def edits(request: Request) -> Response:
        check_access(request)
        form = await _parse_form(request)
        try:
            edit_request = await _parse_edit_request(form, desk)
        finally:
            await form.close()
        return _edit_response(await desk.edit(edit_request), desk)

    async def models(request: Request) -> Response:
        check_access(request)
        return JSONResponse(
            {"object": "list", "data": [{"id": desk.row, "object": "model", "owned_by": "stillme"}]}
        )

    async def health(request: Request) -> Response:
        check_access(request)
        report = {
            "loaded": desk.loaded,
            "failure": desk.failure,
            "waiting": desk.waiting,
            "editor": desk.row,
            "settings": desk.settings,
            "effective": dict(desk.prepared.effective),
        }
        return JSONResponse(report, 503 if desk.failure else 200)

    return Starlette(
        routes=[
            Route("/v1/images/edits", edits, methods=["POST"]),
            Route("/v1/models", models),
            Route("/health", health),
        ],
        middleware=[Middleware(SecurityHeadersMiddleware)],
        exception_handlers={
            HTTPException: _http_error_response,
            StillmeError: _setup_error_response,
            Exception: _internal_error_response,
        },
    )


def _check_access(request: Request, hosts: Hosts, key: str) -> None:
    """A caller shows the key; without one, no web page may ask in its reader's name."""
    if key:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), key.encode()):
            raise HTTPException(401, "The key is missing or wrong.")
    elif "origin" in request.headers or not hosts.allow(request.headers.get("host", "")):
        raise HTTPException(403, "This server answers programs on its own machine, not web pages.")


async def _parse_form(request: Request) -> FormData:
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise HTTPException(415, "Send multipart/form-data.")
    parser = MultiPartParser(request.headers, _read_limited(request), max_files=MAX_FIELDS, max_fields=MAX_FIELDS)
    try:
        return await parser.parse()
    except _TooLargeError:
        raise HTTPException(413, f"More than {MAX_REQUEST_BYTES:,} bytes are not taken.") from None
    except (MultiPartException, KeyError) as error:
        raise HTTPException(400, f"The form cannot be read: {error}.") from None


class _TooLargeError(MultiPartException):
    """A subclass of the parser's error, so that the parser closes its temporary files."""


async def _read_limited(request: Request) -> AsyncGenerator[bytes, None]:
    """The body; its declared length is not trusted."""
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > MAX_REQUEST_BYTES:
            raise _TooLargeError("too large")
        yield part


async def _parse_edit_request(form: FormData, desk: EditorWorker) -> EditRequest:
    values = [value for name in ("image", "image[]") for value in form.getlist(name)]
    pictures = [await value.read() for value in values if isinstance(value, UploadFile)]
    fields = {name: value for name, value in form.multi_items() if isinstance(value, str)}
    fault = _describe_fault(fields, pictures, desk)
    if fault:
        raise HTTPException(400, fault)
    return EditRequest(
        key=uuid.uuid4().hex,
        image=pictures[0],
        instruction=fields.get("prompt", ""),
        seed=int(fields.get("seed", "0")),
        control=fields.get("control", ""),
        references=tuple(pictures[1:]),
    )


def _describe_fault(fields: Mapping[str, str], pictures: Sequence[bytes], desk: EditorWorker) -> str:
    """What is wrong with a request; empty where nothing is."""
    max_images = desk.prepared.most_images
    if not 1 <= len(pictures) <= max_images:
        return f"{len(pictures)} pictures came as image or image[]; this editor takes 1 to {max_images}."
    if not fields.get("prompt") and not fields.get("control"):
        return "prompt is missing."
    if fields.get("model", desk.row) != desk.row:
        return f"This server has the model {desk.row}, not {fields['model']}."
    settings = fields.get("settings", desk.settings)
    if len(settings) < HASH_CHARS or not desk.settings.startswith(settings):
        return (
            f"settings: this server has {desk.settings[:HASH_CHARS]}, not {settings}; "
            "it was started anew with others."
        )
    if not _is_seed(fields.get("seed", "0")):
        return f"seed: {fields['seed']!r} is not a whole number."
    if fields.get("control") and fields["control"] not in desk.prepared.controls:
        return f"control: this editor does not make {fields['control']!r}."
    faults = (_describe_mismatch(name, value, desk.call) for name, value in fields.items())
    return next((fault for fault in faults if fault), "")


def _is_seed(text: str) -> bool:
    try:
        return -(2**63) <= int(text) < 2**63
    except ValueError:
        return False


def _describe_mismatch(name: str, value: str, call: Mapping[str, Any]) -> str:
    """The fault of a field whose value differs from what the server was started with; empty where it has none."""
    if name in _REQUEST_FIELDS:
        return ""
    if name in _FORM_FIELDS:
        accepted = _FORM_FIELDS[name]
        if accepted is None or value in accepted:
            return ""
        return f"{name}: only {' or '.join(accepted)} is taken, not {value}."
    if name not in call:
        return f"{name} is not a setting of this editor; known: {', '.join(sorted(call)) or 'none'}."
    if _equals(value, call[name]):
        return ""
    return f"{name}: the server was started with {call[name]!r}, not {value!r}; start another one for that."


def _equals(text: str, value: Any) -> bool:
    if isinstance(value, bool):
        return text.casefold() == str(value).casefold()
    if isinstance(value, int | float):
        try:
            return math.isclose(float(text), value, rel_tol=1e-12)
        except ValueError:
            return False
    return text == str(value)


def _edit_response(reply: EditReply, desk: EditorWorker) -> Response:
    if reply.status is not Status.OK or reply.image is None:
        return _failed_edit_response(reply)
    details = {
        "settings": desk.settings,
        "made": dict(reply.environment),
        "notes": dict(reply.notes),
        "extras": {name: _base64(content) for name, content in reply.extras.items()},
    }
    body = {"created": int(time.time()), "data": [{"b64_json": _base64(reply.image)}], "stillme": details}
    return JSONResponse(body, headers=_request_id_header())


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _failed_edit_response(reply: EditReply) -> Response:
    """OpenAI's error object, with stillme's status of the edit in addition."""
    code, kind = _HTTP_STATUS.get(reply.status, (500, "server_error"))
    error: dict[str, Any] = {"code": reply.code or reply.status.value}
    if reply.status in (Status.INPUT_BLOCKED, Status.OUTPUT_BLOCKED):
        error = {"code": "moderation_blocked", "moderation_details": {"moderation_stage": reply.status.stage}}
    return _error_response(code, reply.detail, kind, **error, stillme={"status": reply.status.value})


def _error_response(status: int, message: str, kind: str, **more: Any) -> JSONResponse:
    body = {"error": {"message": message, "type": kind, "param": None, "code": None, **more}}
    return JSONResponse(body, status, headers=_request_id_header())


def _request_id_header() -> dict[str, str]:
    return {"x-request-id": uuid.uuid4().hex}


async def _http_error_response(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = "rate_limit_error" if error.status_code == 429 else "invalid_request_error"
    too_large = {"stillme": {"status": Status.REJECTED.value}} if error.status_code == 413 else {}
    answer = _error_response(
        error.status_code, error.detail, kind, **too_large
    )  # one portrait's fault, not the audit's
    answer.headers.update(error.headers or {})
    return answer


async def _setup_error_response(request: Request, error: Exception) -> Response:
    """Something is missing on this machine: the sentence says what to do."""
    return _error_response(503, str(error), "server_error")


async def _internal_error_response(request: Request, error: Exception) -> Response:
    """This response does not pass the middleware, so the security headers are added here."""
    answer = _error_response(500, str(error) or type(error).__name__, "server_error")
    set_security_headers(MutableHeaders(raw=answer.raw_headers))
    return answer
