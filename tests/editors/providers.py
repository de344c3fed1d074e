"""Loopback servers that speak the wire formats of the hosted editors, on real sockets, each in a thread of its own.

A server does one thing after another for what it is asked (`turns`), the last of them for ever, and remembers what
it was sent. The bodies follow what the providers document.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import io
import json
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from aiohttp import web
from PIL import Image

REQUEST_ID = "req_7f3a"


def png(shade: int = 0, side: int = 16) -> bytes:
    """A small picture with something on it."""
    picture = np.zeros((side, side, 3), np.uint8)
    picture[::2] = (200, 30, shade % 256)
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "PNG")
    return buffer.getvalue()


def b64(content: bytes) -> str:
    return base64.b64encode(content).decode()


@dataclass
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    form: dict[str, list[Any]] = field(default_factory=dict)
    json: Any = None
    body: bytes = b""

    def word(self, name: str) -> str:
        (value,) = self.form[name]
        return str(value)


Turn = Callable[[web.Request, Seen], Awaitable[web.StreamResponse]]


class Server:
    """A service at 127.0.0.1, for as long as the block lasts."""

    def __init__(self, *turns: Turn) -> None:
        self.turns = deque(turns)
        self.seen: list[Seen] = []
        self.under_way = self.most_under_way = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Server:
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(60)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.run_until_complete(self._clear())
        self._loop.close()

    async def _clear(self) -> None:
        """Answers that nobody waits for any more end here."""
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _serve(self) -> None:
        self._ended = asyncio.Event()
        app = web.Application(client_max_size=1 << 28)
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.port = int(runner.addresses[0][1])
        self._ready.set()
        await self._ended.wait()
        await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        seen = await arrived(request)
        self.seen.append(seen)
        turn = self.turns.popleft() if len(self.turns) > 1 else self.turns[0]
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            return await turn(request, seen)
        finally:
            self.under_way -= 1


async def arrived(request: web.Request) -> Seen:
    seen = Seen(request.method, request.path_qs, dict(request.headers))
    if request.content_type == "multipart/form-data":
        for name, value in (await request.post()).items():
            seen.form.setdefault(name, []).append(_held(value))
    elif request.can_read_body:
        seen.body = await request.read()
        seen.json = json.loads(seen.body)
    return seen


def _held(value: Any) -> Any:
    if not isinstance(value, web.FileField):
        return value
    with value.file as file:
        return file.read()


# What any service may do


def says(status: int, body: Any, **headers: str) -> Turn:
    async def turn(request: web.Request, seen: Seen) -> web.StreamResponse:
        named = {"x-request-id": REQUEST_ID, **{name.replace("_", "-"): value for name, value in headers.items()}}
        return web.json_response(body, status=status, headers=named)

    return turn


def page(status: int = 200) -> Turn:
    """A page for people, as a proxy in between sends it."""

    async def turn(request: web.Request, seen: Seen) -> web.StreamResponse:
        return web.Response(
            status=status, text="<html>Welcome to the hotel's network</html>", content_type="text/html"
        )

    return turn


def broken_json() -> Turn:
    async def turn(request: web.Request, seen: Seen) -> web.StreamResponse:
        return web.Response(text='{"data": [', content_type="application/json")

    return turn


def late(seconds: float, then: Turn) -> Turn:
    async def turn(request: web.Request, seen: Seen) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return await then(request, seen)

    return turn


def cut(after: bytes = b"") -> Turn:
    """Breaks the connection, before the answer or in the middle of it."""

    async def turn(request: web.Request, seen: Seen) -> web.StreamResponse:
        assert request.transport is not None
        if after:
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
            request.transport.write(head + after)
            await asyncio.sleep(0.05)
        request.transport.abort()
        return web.Response()

    return turn


def endless(size: int, announced: bool) -> Turn:
    """A body of `size` bytes, which the head announces or does not."""

    async def turn(request: web.Request, seen: Seen) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        if announced:
            response.content_length = size
        await response.prepare(request)
        try:
            for _ in range(size // 65536 + 1):
                await response.write(b" " * 65536)
        except ConnectionError:
            pass
        return response

    return turn


def packed(size: int) -> Turn:
    """A body of `size` bytes that travels as a few thousand."""

    async def turn(request: web.Request, seen: Seen) -> web.StreamResponse:
        headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        return web.Response(body=gzip.compress(b" " * size), headers=headers)

    return turn


# OpenAI, and servers in its form


def openai_picture(image: bytes | None = None, **more: Any) -> Turn:
    usage = {
        "input_tokens": 300,
        "output_tokens": 4000,
        "total_tokens": 4300,
        "input_tokens_details": {"image_tokens": 290, "text_tokens": 10},
    }
    return says(200, {"created": 1, "data": [{"b64_json": b64(image or png())}], "usage": usage, **more})


def openai_error(status: int, code: str | None, kind: str, message: str, **more: Any) -> Turn:
    headers = {name: more.pop(name) for name in list(more) if name in ("Retry_After", "retry_after_ms")}
    error = {"message": message, "type": kind, "param": None, "code": code, **more}
    return says(status, {"error": error}, **headers)


def openai_blocked(stage: str | None) -> Turn:
    said = f"Your request was rejected by the safety system. Include the request ID {REQUEST_ID}. safety_violations=[sexual]."
    details = {"moderation_details": {"moderation_stage": stage, "categories": ["sexual"]}} if stage else {}
    return openai_error(400, "moderation_blocked", "image_generation_user_error", said, **details)


# Gemini


def gemini_says(**body: Any) -> Turn:
    told = {"modelVersion": "a-model-001", "responseId": "resp_1", "usageMetadata": {"totalTokenCount": 1590}}
    return says(200, {**told, **body})


def gemini_candidate(finish: str | None, *parts: Mapping[str, Any], message: str = "") -> Turn:
    one: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    one |= {"finishReason": finish} if finish else {}
    one |= {"finishMessage": message} if message else {}
    return gemini_says(candidates=[one])


def gemini_part(image: bytes, **more: Any) -> dict[str, Any]:
    return {"inlineData": {"mimeType": "image/png", "data": b64(image)}, **more}


def gemini_error(status: int, word: str, message: str, details: Any = None, **headers: str) -> Turn:
    error = {"code": status, "message": message, "status": word, "details": details or []}
    return says(status, {"error": error}, **headers)


# Black Forest Labs


def bfl(
    *polls: Mapping[str, Any],
    image: bytes | None = None,
    elsewhere: str = "",
    sample: str = "",
    cost: float | None = 4.5,
) -> Turn:
    """Takes an edit, answers each question after it in turn, hands the picture out."""
    left = deque(polls or ({"status": "Pending"}, {"status": "Ready"}))

    async def turn(request: web.Request, seen: Seen) -> web.StreamResponse:
        here = f"http://{request.headers['Host']}"
        if request.method == "POST":
            told = {"id": "task-1", "polling_url": elsewhere or f"{here}/v1/get_result?id=task-1", "cost": cost}
            return web.json_response(told)
        if request.path.endswith("/get_result"):
            said = {"id": "task-1", "result": None, **(left.popleft() if len(left) > 1 else left[0])}
            if said["status"] == "Ready":
                said["result"] = {"sample": sample or f"{here}/delivery/a.png?sig=signed", "seed": 42}
            return web.Response(text=json.dumps(said), content_type="application/json")
        return web.Response(body=image or png(), content_type="image/png")

    return turn
