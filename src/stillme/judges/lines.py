"""What the batch interfaces of services share: files with a JSON object a line, and answers with gaps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from stillme.core.records import Exchange, Status
from stillme.engine.http import Answer, Call, Client, RemoteError

UPLOAD_S = 900.0  # for a whole file, or a piece of one: 200 MB at 1.8 Mbit/s
ANYTHING = ("application/", "text/")  # what a file may be said to be

Read = Callable[[int, Any, bytes, tuple[str, ...]], Exchange]
"""HTTP status, decoded body, body, axes asked -> how a call ended."""


def objects(path: Path) -> Iterator[Mapping[str, Any]]:
    """The objects in a file; lines that hold none are nobody's answer."""
    import orjson

    with path.open("rb") as file:
        for line in file:
            try:
                said = orjson.loads(line)
            except ValueError:
                continue
            if isinstance(said, dict):
                yield said


def encoded(said: Any) -> bytes:
    import orjson

    return orjson.dumps(said)


def one_line(body: bytes) -> bytes:
    """JSON has line ends only between its parts, where a space is as good."""
    return body.replace(b"\r", b" ").replace(b"\n", b" ") if b"\n" in body else body


def part(said: Any, name: str) -> Mapping[str, Any]:
    """An object inside an answer; empty where it is something else."""
    found = said.get(name) if isinstance(said, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def word(said: Any, name: str) -> str:
    found = said.get(name) if isinstance(said, Mapping) else None
    return found if isinstance(found, str) else ""


def needed(said: Any, name: str) -> str:
    """A word without which an answer is none."""
    found = word(said, name)
    if not found:
        raise RemoteError(Status.SERVER_ERROR, f"the service answered without '{name}'", 200)
    return found


async def answered(client: Client, call: Call, read: Read) -> Answer:
    """The answer to a call. An account that is used up looks like a crowd until its body is read."""
    try:
        return await client.call(call)
    except RemoteError as error:
        if read(error.status_code, error.said, error.body, ()).status is Status.QUOTA:
            error.kind, error.retryable = Status.QUOTA, False
        raise
