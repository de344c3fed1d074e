"""JSON from services: files with one object per line, as batches use them, and replies that may lack fields."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from stillme.core.records import Exchange, Status
from stillme.engine.http import Client, HttpRequest, HttpResponse, RemoteError

UPLOAD_S = 900.0  # for a whole file, or a piece of one: 200 MB at 1.8 Mbit/s
ANY_TYPE = ("application/", "text/")  # media types that a downloaded file may have

ReadReply = Callable[[int, Any, bytes, tuple[str, ...]], Exchange]
"""HTTP status, decoded body, body, requested axes -> how a call ended."""


def read_objects(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the objects in a file; lines without one are skipped, and their calls stay without an answer."""
    import orjson

    with path.open("rb") as file:
        for line in file:
            try:
                row = orjson.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict):
                yield row


def encode(value: Any) -> bytes:
    import orjson

    return orjson.dumps(value)


def one_line(body: bytes) -> bytes:
    """JSON has line ends only between its parts, where a space is as good."""
    return body.replace(b"\r", b" ").replace(b"\n", b" ") if b"\n" in body else body


def part(body: Any, name: str) -> Mapping[str, Any]:
    """An object inside a reply; empty where it is something else."""
    value = body.get(name) if isinstance(body, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def text(body: Any, name: str) -> str:
    """A text inside a reply; empty where it is something else."""
    value = body.get(name) if isinstance(body, Mapping) else None
    return value if isinstance(value, str) else ""


def require_text(body: Any, name: str) -> str:
    """A text without which a reply is of no use."""
    value = text(body, name)
    if not value:
        raise RemoteError(Status.SERVER_ERROR, f"the service answered without '{name}'", 200)
    return value


async def call_service(client: Client, call: HttpRequest, read: ReadReply) -> HttpResponse:
    """The answer to a call. A used-up quota looks like rate limiting until the body is read."""
    try:
        return await client.call(call)
    except RemoteError as error:
        if read(error.status_code, error.said, error.body, ()).status is Status.QUOTA:
            error.kind, error.retryable = Status.QUOTA, False
        raise
