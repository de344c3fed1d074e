"""Batches of Gemini: a file of calls is uploaded piece by piece, answers are fetched within a day.

A batch there has no tags, only a name: they are written into it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

from stillme.core.records import Exchange
from stillme.engine.http import Call, Client
from stillme.judges import Batch, State
from stillme.judges.lines import (
    ANYTHING,
    UPLOAD_S,
    Read,
    answered,
    encoded,
    needed,
    objects,
    one_line,
    part,
    word,
)

PAGE = 100  # batches a page
PIECE = 8 << 20  # bytes at a time; the service wants multiples of 256 KiB
# The service takes 2 GB. Less begins sooner, and fits what a young account may have under way at a time.
MOST_BYTES, MOST_REQUESTS = 200_000_000, 50_000
NAMED = "stillme"  # batches with tags begin with it
_STATES = {
    "SUCCEEDED": State.ENDED,
    "PARTIALLY_SUCCEEDED": State.ENDED,
    "EXPIRED": State.ENDED,
    "FAILED": State.FAILED,
    "CANCELLED": State.FAILED,
}
# What a line of a batch that failed calls 3 is what a live call answers with 400, and so on.
_HTTP = {1: 499, 3: 400, 4: 504, 5: 404, 7: 403, 8: 429, 9: 400, 11: 400, 12: 501, 14: 503, 16: 401}


class GeminiBatches:
    """Batches of one model."""

    def __init__(
        self,
        client: Client,
        model: str,
        read: Read,
        most_bytes: int = MOST_BYTES,
        most_requests: int = MOST_REQUESTS,
    ) -> None:
        self.client, self.model, self.read = client, model.removeprefix("models/"), read
        self.most_bytes, self.most_requests = most_bytes, most_requests

    def line(self, key: str, body: bytes) -> bytes:
        return b"".join((encoded({"key": key})[:-1], b',"request":', one_line(body), b"}"))

    async def upload(self, path: Path, name: str) -> str:
        size = path.stat().st_size
        address = await self._begin(name, size)
        with path.open("rb") as file:
            while True:
                at = file.tell()
                piece = await asyncio.to_thread(file.read, PIECE)
                said = await self._send(address, piece, at, is_last=at + len(piece) >= size)
                if at + len(piece) >= size:
                    return needed(part(said, "file"), "name")

    async def create(self, uploaded: str, tags: Mapping[str, str]) -> Batch:
        wanted = {"batch": {"display_name": written(tags), "input_config": {"file_name": uploaded}}}
        address = f"models/{self.model}:batchGenerateContent"
        return _batch(await self._call(Call("POST", address, json=wanted, paced=False, once=True)))

    async def every(self) -> AsyncIterator[Batch]:
        token = ""
        while True:
            page = await self._call(Call("GET", f"batches?pageSize={PAGE}{token}", paced=False))
            for one in page.get("operations") or ():
                yield _batch(one)
            if not word(page, "nextPageToken"):
                return
            token = f"&pageToken={word(page, 'nextPageToken')}"

    async def look(self, batch: str) -> Batch:
        return _batch(await self._call(Call("GET", batch, paced=False)))

    async def download(self, output: str, path: Path) -> None:
        address = self._beside("download", f"{output}:download?alt=media")
        await self.client.download(Call("GET", address, accepts=ANYTHING), path)

    def answers(self, path: Path, axes: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, Exchange]]:
        for told in objects(path):
            key = word(told, "key")
            if key in axes:
                yield key, self._answer(told, axes[key])

    def _answer(self, told: Mapping[str, Any], axes: tuple[str, ...]) -> Exchange:
        said = told.get("response")
        if isinstance(said, Mapping):
            return self.read(200, said, encoded(said), axes)
        error = {"error": dict(part(told, "error"))}
        return self.read(_status(error["error"].get("code")), error, encoded(error), axes)

    async def _begin(self, name: str, size: int) -> str:
        """Where the pieces go."""
        headers = {
            "X-Goog-Upload-Protocol": "resumable",
            "X-Goog-Upload-Command": "start",
            "X-Goog-Upload-Header-Content-Length": str(size),
            "X-Goog-Upload-Header-Content-Type": "application/jsonl",
        }
        call = Call(
            "POST",
            self._beside("upload", "files"),
            json={"file": {"display_name": name}},
            headers=headers,
            accepts=ANYTHING,
            paced=False,
            repeatable=True,
        )
        told = (await answered(self.client, call, self.read)).headers
        return needed({"upload address": told.get("X-Goog-Upload-URL", "")}, "upload address")

    async def _send(self, address: str, piece: bytes, at: int, is_last: bool) -> Any:
        command = "upload, finalize" if is_last else "upload"
        headers = {"X-Goog-Upload-Command": command, "X-Goog-Upload-Offset": str(at)}
        call = Call(
            "POST",
            address,
            body=piece,
            media_type="application/octet-stream",
            headers=headers,
            accepts=ANYTHING,
            paced=False,
            repeatable=True,
            timeout_s=UPLOAD_S,
        )
        return (await self.client.call(call)).json

    async def _call(self, call: Call) -> Mapping[str, Any]:
        said = (await answered(self.client, call, self.read)).json
        return said if isinstance(said, Mapping) else {}

    def _beside(self, word: str, rest: str) -> str:
        """Files come and go at an address of their own, one word before the version: /upload/v1beta."""
        root, _, version = self.client.base.rpartition("/")
        return f"{root}/{word}/{version}/{rest}"


def written(tags: Mapping[str, str]) -> str:
    """Tags as a name.

    >>> written({"run": "4f", "shard": "a1"})
    'stillme run=4f shard=a1'
    """
    return " ".join([NAMED, *(f"{name}={value}" for name, value in tags.items())])


def tagged(name: str) -> dict[str, str]:
    """The tags in a name; none in a name that somebody else gave.

    >>> tagged("stillme run=4f shard=a1"), tagged("my batch")
    ({'run': '4f', 'shard': 'a1'}, {})
    """
    first, *pairs = name.split(" ")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair) if first == NAMED else {}


def _batch(said: Any) -> Batch:
    metadata, error = part(said, "metadata"), part(said, "error")
    state = _STATES.get(word(metadata, "state").rpartition("_STATE_")[2], State.RUNNING)
    if error and state is State.RUNNING:
        state = State.FAILED
    outputs = (word(part(said, "response"), "responsesFile"), word(part(metadata, "output"), "responsesFile"))
    found = next(filter(None, outputs), "")
    tags = tagged(word(metadata, "displayName"))
    return Batch(needed(said, "name"), tags, state, (found,) if found else (), word(error, "message"))


def _status(code: Any) -> int:
    """The HTTP status of an error that has a code of its own kind, or none."""
    if not isinstance(code, int):
        return 500
    return code if code >= 100 else _HTTP.get(code, 500)
