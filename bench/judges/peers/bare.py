"""A bare aiohttp loop that splices bodies and keeps nothing: what this machine allows at best."""

from __future__ import annotations

import asyncio
import base64
import importlib
import json
from pathlib import Path
from typing import Any

from meter import Meter, Task, is_valid  # type: ignore[import-not-found]


def pieces(schema: dict[str, Any]) -> list[bytes]:
    """The body, cut where text and pictures go in."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,@@"}}
    content: list[Any] = [{"type": "text", "text": "@@"}, picture, picture]
    form = {"type": "json_schema", "json_schema": {"name": "judgement", "strict": True, "schema": schema}}
    asked = {"model": "loopback", "messages": [{"role": "user", "content": content}], "response_format": form}
    return json.dumps(asked).encode().split(b"@@")


async def main(task: Task) -> None:
    aiohttp: Any = importlib.import_module("aiohttp")
    schema, jobs = task.schema, task.jobs()
    first, second, third, last = pieces(schema)
    axes = list(schema["properties"]["scores"]["properties"])

    def body(job: dict[str, str]) -> bytes:
        source, edited = (base64.b64encode(Path(job[name]).read_bytes()) for name in ("source", "edited"))
        return b"".join((first, json.dumps(job["text"])[1:-1].encode(), second, source, third, edited, last))

    async def caller(session: Any) -> int:
        answered = 0
        for job in jobs:
            async with session.post(f"{task.url}/chat/completions", data=body(job)) as response:
                said = json.loads(await response.read())
            answered += is_valid(said["choices"][0]["message"]["content"], axes)
        return answered

    meter = Meter()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=task.concurrency)) as session:
        meter.tell(sum(await asyncio.gather(*(caller(session) for _ in range(task.concurrency)))))


asyncio.run(main(Task.told()))
