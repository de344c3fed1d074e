"""Any editor behind an HTTP server that speaks the form of OpenAI's image edits.

An editor that needs an environment of its own is served from there, and an audit asks it through `kind: openai`
with this server's `base_url`. The server edits with the settings that it was started with: a request that names
others is refused, so that nobody takes an edit for something that it is not. One edit at a time, in a process of
its own.
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
from stillme.engine.processes import Apart
from stillme.ledger.run import settings_hash
from stillme.web import server
from stillme.web.middleware import Dressed, Hosts, set_security_headers

LARGEST = 64 << 20  # bytes of a request
MOST_WAITING = 32  # requests; each holds its pictures in memory
MOST_FIELDS = 64
PORT = 8100
LOOPBACK = "127.0.0.1"
KEY_ENV = "STILLME_KEY"
PACKAGES = ("uvicorn", "python_multipart")
SHOWN = 16  # characters of the settings' hash; a caller that sends them gets these settings or nothing

# Fields of the form that name no setting of an editor; None: any value is taken, and means nothing here.
_FORMAL: Mapping[str, tuple[str, ...] | None] = {
    "n": ("1",),
    "size": ("auto",),
    "response_format": ("b64_json",),
    "output_format": ("png",),
    "user": None,
}
_OURS = ("prompt", "seed", "model", "control", "settings")

_CODES = {
    Status.REJECTED: (400, "invalid_request_error"),
    Status.REFUSED: (400, "image_generation_user_error"),
    Status.INPUT_BLOCKED: (400, "image_generation_user_error"),
    Status.OUTPUT_BLOCKED: (400, "image_generation_user_error"),
    Status.CORRUPT: (422, "server_error"),
    Status.TIMEOUT: (504, "server_error"),
}


class Rows(Protocol):
    """An audit, as far as it is needed here: its editors, prepared."""

    @property
    def editors(self) -> Mapping[str, PreparedEditor[Any]]: ...


def serve(
    config: Rows,
    row: str,
    host: str = LOOPBACK,
    port: int = PORT,
    key_env: str = KEY_ENV,
) -> None:
    """Serves one editor of an audit until Ctrl-C. A key in the variable `key_env` must be sent by callers."""
    require_packages(PACKAGES, "Serving")
    prepared = chosen(config, row)
    key = _key(host, key_env)
    require_packages(prepared.requires, f"The editor '{row}'")
    bound = server.listen(host, port)
    desk = Desk(row, prepared)
    greeting, say = _greeting(desk, host, bound.getsockname()[1]), partial(print, flush=True)
    try:
        server.run(app(desk, Hosts.of(host), key), bound, host, greeting, say)
    finally:
        desk.close()


def chosen(config: Rows, row: str) -> PreparedEditor[Any]:
    if row not in config.editors:
        raise InputError(unknown(row, "editor of this audit", config.editors) + ".")
    prepared = config.editors[row]
    if prepared.is_remote or prepared.factory is None:
        raise InputError(f"'{row}' is asked over a network already; there is nothing to serve.")
    return prepared


def _key(host: str, key_env: str) -> str:
    key = os.environ.get(key_env, "")
    if not key and not server.is_loopback(host):
        raise InputError(
            f"On {host} anybody on the network could use this editor.",
            f"Set a key that callers have to send (export {key_env}=…), or listen on {LOOPBACK} and use a tunnel.",
        )
    return key


def _greeting(desk: Desk, host: str, port: int) -> Sequence[str]:
    where = server.address(host, port)
    return (
        f"Serving {desk.row} at {where}/v1/images/edits",
        f"In the audit: {{id: …, kind: openai, settings: {{service: stillme, base_url: {where}/v1,"
        f" model: {desk.row}, extra: {{settings: {desk.settings[:SHOWN]}}}}}}}",
        f"It is being loaded; {where}/health says when it is. Ctrl-C ends it.",
    )


class Desk:
    """The editor in its process, and the one thread that asks it."""

    def __init__(self, row: str, prepared: PreparedEditor[Any]) -> None:
        assert prepared.factory is not None
        self.row, self.prepared = row, prepared
        self.settings = settings_hash("editor", prepared.effective)
        self.call: Mapping[str, Any] = prepared.effective.get("call", {})
        self.loaded, self.failure, self.waiting = False, "", 0
        self._apart = Apart({row: partial(_ready, prepared.factory)})
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="desk")
        self._thread.submit(self._warm)

    def _warm(self) -> None:
        """Loads before the first request comes. What goes wrong is said by /health and to whoever asks."""
        try:
            self.loaded = bool(self._apart.ask(self.row, "is_ready", None))
        except Exception as error:
            self.failure = str(error) or type(error).__name__

    async def edit(self, request: EditRequest) -> EditReply:
        if self.waiting >= MOST_WAITING:
            raise HTTPException(429, f"{self.waiting} edits are waiting already.", {"Retry-After": "5"})
        self.waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._edit, request)
        finally:
            self.waiting -= 1

    def _edit(self, request: EditRequest) -> EditReply:
        reply = self._apart.editor(self.row, self.prepared.deadline).edit(request)
        self.loaded, self.failure = reply.status not in (Status.TIMEOUT, Status.CRASHED), ""
        return reply

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._apart.close()


@dataclass(frozen=True)
class _Ready:
    """An editor that can be told to be there before it is asked for an edit."""

    editor: Any

    def edit(self, request: EditRequest) -> EditReply:
        reply: EditReply = self.editor.edit(request)
        return reply

    def is_ready(self, _: None) -> bool:
        return True


def _ready(recipe: Callable[[], Any]) -> _Ready:
    return _Ready(recipe())


def app(desk: Desk, hosts: Hosts, key: str = "") -> Starlette:
    door = partial(_refuse_strangers, hosts=hosts, key=key)

    async def edits(request: Request) -> Response:
        door(request)
        form = await _form(request)
        try:
            asked = await _asked(form, desk)
        finally:
            await form.close()
        return _answer(await desk.edit(asked), desk)

    async def models(request: Request) -> Response:
        door(request)
        return JSONResponse(
            {"object": "list", "data": [{"id": desk.row, "object": "model", "owned_by": "stillme"}]}
        )

    async def health(request: Request) -> Response:
        door(request)
        return JSONResponse(_health(desk), 503 if desk.failure else 200)

    return Starlette(
        routes=[
            Route("/v1/images/edits", edits, methods=["POST"]),
            Route("/v1/models", models),
            Route("/health", health),
        ],
        middleware=[Middleware(Dressed)],
        exception_handlers={HTTPException: _refused, StillmeError: _lacking, Exception: _crashed},
    )


def _health(desk: Desk) -> dict[str, Any]:
    return {
        "loaded": desk.loaded,
        "failure": desk.failure,
        "waiting": desk.waiting,
        "editor": desk.row,
        "settings": desk.settings,
        "effective": dict(desk.prepared.effective),
    }


def _refuse_strangers(request: Request, hosts: Hosts, key: str) -> None:
    """A caller shows the key; without one, no web page may ask in its reader's name."""
    if key:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), key.encode()):
            raise HTTPException(401, "The key is missing or wrong.")
    elif "origin" in request.headers or not hosts.allow(request.headers.get("host", "")):
        raise HTTPException(403, "This server answers programs on its own machine, not web pages.")


async def _form(request: Request) -> FormData:
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise HTTPException(415, "Send multipart/form-data.")
    parser = MultiPartParser(request.headers, _limited(request), max_files=MOST_FIELDS, max_fields=MOST_FIELDS)
    try:
        return await parser.parse()
    except _TooLargeError:
        raise HTTPException(413, f"More than {LARGEST:,} bytes are not taken.") from None
    except (MultiPartException, KeyError) as error:
        raise HTTPException(400, f"The form cannot be read: {error}.") from None


class _TooLargeError(MultiPartException):
    """Of the parser's own kind, so that it closes the files that it has begun."""


async def _limited(request: Request) -> AsyncGenerator[bytes, None]:
    """The body; its declared length is not trusted."""
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > LARGEST:
            raise _TooLargeError("too large")
        yield part


async def _asked(form: FormData, desk: Desk) -> EditRequest:
    sent = [one for name in ("image", "image[]") for one in form.getlist(name)]
    pictures = [await one.read() for one in sent if isinstance(one, UploadFile)]
    fields = {name: value for name, value in form.multi_items() if isinstance(value, str)}
    fault = _fault(fields, pictures, desk)
    if fault:
        raise HTTPException(400, fault)
    words, seed, control = fields.get("prompt", ""), int(fields.get("seed", "0")), fields.get("control", "")
    return EditRequest(uuid.uuid4().hex, pictures[0], words, seed, control, tuple(pictures[1:]))


def _fault(fields: Mapping[str, str], pictures: Sequence[bytes], desk: Desk) -> str:
    """What is wrong with a request; empty where nothing is."""
    most = desk.prepared.most_images
    if not 1 <= len(pictures) <= most:
        return f"{len(pictures)} pictures came as image or image[]; this editor takes 1 to {most}."
    if not fields.get("prompt") and not fields.get("control"):
        return "prompt is missing."
    if fields.get("model", desk.row) != desk.row:
        return f"This server has the model {desk.row}, not {fields['model']}."
    if len(wanted := fields.get("settings", desk.settings)) < SHOWN or not desk.settings.startswith(wanted):
        return f"settings: this server has {desk.settings[:SHOWN]}, not {wanted}; it was started anew with others."
    if not _is_seed(fields.get("seed", "0")):
        return f"seed: {fields['seed']!r} is not a whole number."
    if fields.get("control") and fields["control"] not in desk.prepared.controls:
        return f"control: this editor does not make {fields['control']!r}."
    return next((said for name, value in fields.items() if (said := _unlike(name, value, desk.call))), "")


def _is_seed(text: str) -> bool:
    try:
        return -(2**63) <= int(text) < 2**63
    except ValueError:
        return False


def _unlike(name: str, value: str, call: Mapping[str, Any]) -> str:
    """Why a field cannot be taken: it asks for something else than the server was started with."""
    if name in _OURS:
        return ""
    if name in _FORMAL:
        taken = _FORMAL[name]
        return (
            "" if taken is None or value in taken else f"{name}: only {' or '.join(taken)} is taken, not {value}."
        )
    if name not in call:
        return f"{name} is not a setting of this editor; known: {', '.join(sorted(call)) or 'none'}."
    if _same(value, call[name]):
        return ""
    return f"{name}: the server was started with {call[name]!r}, not {value!r}; start another one for that."


def _same(text: str, value: Any) -> bool:
    if isinstance(value, bool):
        return text.casefold() == str(value).casefold()
    if isinstance(value, int | float):
        try:
            return math.isclose(float(text), value, rel_tol=1e-12)
        except ValueError:
            return False
    return text == str(value)


def _answer(reply: EditReply, desk: Desk) -> Response:
    if reply.status is not Status.OK or reply.image is None:
        return _failed(reply)
    told = {
        "settings": desk.settings,
        "made": dict(reply.made),
        "notes": dict(reply.notes),
        "extras": {name: _text(content) for name, content in reply.extras.items()},
    }
    body = {"created": int(time.time()), "data": [{"b64_json": _text(reply.image)}], "stillme": told}
    return JSONResponse(body, headers=_numbered())


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _failed(reply: EditReply) -> Response:
    """OpenAI's error object; how the edit ended, in our word, beside it."""
    code, kind = _CODES.get(reply.status, (500, "server_error"))
    error: dict[str, Any] = {"code": reply.code or reply.status.value}
    if reply.status in (Status.INPUT_BLOCKED, Status.OUTPUT_BLOCKED):
        error = {"code": "moderation_blocked", "moderation_details": {"moderation_stage": reply.status.stage}}
    return _error(code, reply.detail, kind, **error, stillme={"status": reply.status.value})


def _error(status: int, message: str, kind: str, **more: Any) -> JSONResponse:
    body = {"error": {"message": message, "type": kind, "param": None, "code": None, **more}}
    return JSONResponse(body, status, headers=_numbered())


def _numbered() -> dict[str, str]:
    return {"x-request-id": uuid.uuid4().hex}


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = "rate_limit_error" if error.status_code == 429 else "invalid_request_error"
    too_large = {"stillme": {"status": Status.REJECTED.value}} if error.status_code == 413 else {}
    answer = _error(error.status_code, error.detail, kind, **too_large)  # one portrait's fault, not the audit's
    answer.headers.update(error.headers or {})
    return answer


async def _lacking(request: Request, error: Exception) -> Response:
    """What the machine lacks is no bug: the sentence says what to do."""
    return _error(503, str(error), "server_error")


async def _crashed(request: Request, error: Exception) -> Response:
    """Answered outside of what dresses answers, so it puts the headers on itself."""
    answer = _error(500, str(error) or type(error).__name__, "server_error")
    set_security_headers(MutableHeaders(raw=answer.raw_headers))
    return answer
