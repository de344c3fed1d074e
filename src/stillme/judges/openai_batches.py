"""Batches of OpenAI and of services in its form: a file of calls is uploaded, answers come within a day."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from stillme.core.records import Exchange, Status
from stillme.engine.http import Call, Client, Part
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

WINDOW = "24h"  # the only one that there is
PAGE = 100  # batches a page, the most that there may be
# The service takes 200 MB, and does not say of how many bytes: this is less by either count.
MOST_BYTES, MOST_REQUESTS = 190_000_000, 50_000
_OVER = ("completed", "expired")  # cancelled is somebody's wish that these calls are not made
_EXPIRED = "batch_expired"
_CROWDED = "token_limit_exceeded"  # of what may be under way at a time


class OpenaiBatches:
    """`endpoint`: what each line asks, as the service names it."""

    def __init__(
        self,
        client: Client,
        endpoint: str,
        read: Read,
        most_bytes: int = MOST_BYTES,
        most_requests: int = MOST_REQUESTS,
    ) -> None:
        self.client, self.endpoint, self.read = client, endpoint, read
        self.most_bytes, self.most_requests = most_bytes, most_requests

    def line(self, key: str, body: bytes) -> bytes:
        head = encoded({"custom_id": key, "method": "POST", "url": self.endpoint})
        return b"".join((head[:-1], b',"body":', one_line(body), b"}"))

    async def upload(self, path: Path, name: str) -> str:
        form = (Part("purpose", "batch"), Part("file", path, f"{name}.jsonl", "application/jsonl"))
        call = Call("POST", "files", form=form, paced=False, repeatable=True, timeout_s=UPLOAD_S)
        return needed(await self._call(call), "id")

    async def create(self, uploaded: str, tags: Mapping[str, str]) -> Batch:
        wanted = {
            "input_file_id": uploaded,
            "endpoint": self.endpoint,
            "completion_window": WINDOW,
            "metadata": dict(tags),
        }
        return _batch(await self._call(Call("POST", "batches", json=wanted, paced=False, once=True)))

    async def every(self) -> AsyncIterator[Batch]:
        after = ""
        while True:
            page = await self._call(Call("GET", f"batches?limit={PAGE}{after}", paced=False))
            listed = [_batch(one) for one in page.get("data") or ()]
            for batch in listed:
                yield batch
            if not listed or not page.get("has_more"):
                return
            after = f"&after={listed[-1].id}"

    async def look(self, batch: str) -> Batch:
        return _batch(await self._call(Call("GET", f"batches/{batch}", paced=False)))

    async def download(self, output: str, path: Path) -> None:
        await self.client.download(Call("GET", f"files/{output}/content", accepts=ANYTHING), path)

    def answers(self, path: Path, axes: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, Exchange]]:
        for told in objects(path):
            key = word(told, "custom_id")
            if key in axes:
                yield key, self._answer(told, axes[key])

    def _answer(self, told: Mapping[str, Any], axes: tuple[str, ...]) -> Exchange:
        error, response = part(told, "error"), part(told, "response")
        if word(error, "code") == _EXPIRED:
            return Exchange(Status.TIMEOUT, detail=word(error, "message"), code=_EXPIRED, raw=encoded(told))
        code, said = response.get("status_code"), response.get("body")
        if not isinstance(code, int) or not code:
            code, said = 500, {"error": dict(error)}
        exchange = self.read(code, said, encoded(said), axes)
        return replace(exchange, request_id=word(response, "request_id") or exchange.request_id)

    async def _call(self, call: Call) -> Mapping[str, Any]:
        said = (await answered(self.client, call, self.read)).json
        return said if isinstance(said, Mapping) else {}


def _batch(said: Any) -> Batch:
    tags = {name: str(value) for name, value in part(said, "metadata").items()}
    outputs = tuple(filter(None, (word(said, name) for name in ("output_file_id", "error_file_id"))))
    return Batch(needed(said, "id"), tags, _state(said), outputs, "; ".join(_errors(said)))


def _state(said: Any) -> State:
    status = word(said, "status")
    if status in _OVER:
        return State.ENDED
    if status == "cancelled":
        return State.FAILED
    if status == "failed":
        return State.FULL if _CROWDED in (word(one, "code") for one in _faults(said)) else State.FAILED
    return State.RUNNING


def _errors(said: Any) -> Iterator[str]:
    if word(said, "status") == "cancelled":
        yield "it was cancelled"
    for one in _faults(said)[:3]:
        yield word(one, "message") or word(one, "code") or "no reason given"


def _faults(said: Any) -> list[Any]:
    found = part(said, "errors").get("data")
    return found if isinstance(found, list) else []
