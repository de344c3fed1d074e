"""The openai SDK as its pages show it: AsyncOpenAI, so many calls at a time, the answer checked."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

from meter import Meter, Task, is_valid, picture  # type: ignore[import-not-found]


def question(job: dict[str, str], schema: dict[str, Any]) -> dict[str, Any]:
    content = [
        {"type": "text", "text": "SOURCE:"},
        {"type": "image_url", "image_url": {"url": picture(job["source"])}},
        {"type": "text", "text": "EDITED:"},
        {"type": "image_url", "image_url": {"url": picture(job["edited"])}},
        {"type": "text", "text": job["text"]},
    ]
    form = {"type": "json_schema", "json_schema": {"name": "judgement", "strict": True, "schema": schema}}
    return {"model": "loopback", "messages": [{"role": "user", "content": content}], "response_format": form}


async def main(task: Task) -> None:
    client = importlib.import_module("openai").AsyncOpenAI(base_url=task.url, api_key="none", max_retries=5)
    schema, jobs = task.schema, task.jobs()
    axes = list(schema["properties"]["scores"]["properties"])

    async def caller() -> int:
        answered = 0
        for job in jobs:
            answer = await client.chat.completions.create(**question(job, schema))
            answered += is_valid(answer.choices[0].message.content, axes)
        return answered

    meter = Meter()
    meter.tell(sum(await asyncio.gather(*(caller() for _ in range(task.concurrency)))))
    await client.close()


asyncio.run(main(Task.told()))
