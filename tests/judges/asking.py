"""How tests ask a judge behind a network, and what services say to it, in the bodies that they document."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from stillme.core.records import JudgeReply, JudgeRequest
from stillme.engine.backends import BackendContext, PreparedJudge
from stillme.judges.form import DriftForm
from stillme.protocol import builtin
from tests.editors.providers import Turn, gemini_candidate, png, says

PROTOCOL = builtin()
FORM = DriftForm(PROTOCOL)
KEY = "STILLME_TEST_KEY"
SECRET = "sk-test-0123456789"
PLACE = BackendContext(Path(), PROTOCOL, KEY)
AXES = PROTOCOL.axes_of("O-01")
SCORES = dict(zip(AXES, (4, 3, 1, 2, 5), strict=True))


def answered(scores: Any = None, **changes: Any) -> dict[str, Any]:
    """What a good judge writes."""
    seen = {name: f"{name} as it looks" for name in FORM.observations}
    whole = {"observations": seen, "scores": SCORES if scores is None else scores, "evidence_summary": "Glasses."}
    return {**whole, **changes}


def written(said: Any = None) -> str:
    return said if isinstance(said, str) else json.dumps(said or answered())


def request(prompt: str = "O-01", **more: Any) -> JudgeRequest:
    told = {"axes": PROTOCOL.axes_of(prompt), "instruction": "Add glasses.", **more}
    return JudgeRequest("key", png(1), png(2), prompt=prompt, **told)


def ask(prepared: PreparedJudge[Any], asked: JudgeRequest | None = None) -> JudgeReply:
    async def call() -> JudgeReply:
        judge = prepared.make()
        try:
            reply: JudgeReply = await judge.judge(asked or request())
            return reply
        finally:
            await judge.close()

    return asyncio.run(call())


USAGE = {
    "prompt_tokens": 2000,
    "completion_tokens": 700,
    "prompt_tokens_details": {"cached_tokens": 1000},
    "completion_tokens_details": {"reasoning_tokens": 300},
}
USAGE_METADATA = {"promptTokenCount": 3000, "candidatesTokenCount": 400, "thoughtsTokenCount": 200}


def completion(
    content: str | None, finish: str | None = "stop", refusal: str | None = None, usage: Any = USAGE
) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, "refusal": refusal}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}


def openai_says(*told: Any, **more: Any) -> Turn:
    return says(200, completion(*told, **more))


def gemini_answers(text: str, finish: str = "STOP") -> Turn:
    return gemini_candidate(finish, {"text": "Let me think.", "thought": True}, {"text": text})
