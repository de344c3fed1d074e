"""inspect_ai's model layer, `Model.generate`, without its evaluation around it, which would take longer still."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

from meter import Meter, Task, is_valid, picture  # type: ignore[import-not-found]

models: Any = importlib.import_module("inspect_ai.model")
util: Any = importlib.import_module("inspect_ai.util")


def question(job: dict[str, str]) -> list[Any]:
    content = [
        models.ContentText(text="SOURCE:"),
        models.ContentImage(image=picture(job["source"])),
        models.ContentText(text="EDITED:"),
        models.ContentImage(image=picture(job["edited"])),
        models.ContentText(text=job["text"]),
    ]
    return [models.ChatMessageUser(content=content)]


async def main(task: Task) -> None:
    schema, jobs = task.schema, task.jobs()
    form = models.ResponseSchema(name="judgement", json_schema=util.JSONSchema.model_validate(schema), strict=True)
    settings = models.GenerateConfig(max_connections=task.concurrency, max_retries=5, response_schema=form)
    model = models.get_model("openai-api/loopback/loopback", base_url=task.url, api_key="none", config=settings)
    axes = list(schema["properties"]["scores"]["properties"])

    async def caller() -> int:
        answered = 0
        for job in jobs:
            answered += is_valid((await model.generate(question(job))).completion, axes)
        return answered

    meter = Meter()
    meter.tell(sum(await asyncio.gather(*(caller() for _ in range(task.concurrency)))))


asyncio.run(main(Task.told()))
