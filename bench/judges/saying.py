"""What the loopback services say: answers and errors as OpenAI and Gemini write them.

An answer is made up after the schema in the request, so that any form of questions gets a valid one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from bench.judges.switches import Fate, drawn

MODEL = "loopback-vlm"
WORDS = "The outline and the eyes are as before; the colours are a little warmer."
NO = "I'm sorry, but I can't help with that."
TOKENS_IN, TOKENS_OUT = 1850, 190
MOST_LISTED = 3  # things in a list that is made up


@dataclass(frozen=True)
class Saying:
    """An answer: its status, its content, further headers, and whether it is billed."""

    http: int
    said: Any
    headers: Mapping[str, str]
    paid: bool = False

    @property
    def body(self) -> bytes:
        return orjson.dumps(self.said)


class Dialect(Protocol):
    """One service's wire format."""

    name: str

    def schema(self, asked: Mapping[str, Any]) -> Mapping[str, Any]: ...

    def says(self, fate: Fate, content: str, wait_s: float | None) -> Saying: ...


class Openai:
    """Chat completions."""

    name = "openai"

    def schema(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        wanted = asked.get("response_format", {}).get("json_schema", {}).get("schema", {})
        assert isinstance(wanted, Mapping)
        return wanted

    def says(self, fate: Fate, content: str, wait_s: float | None) -> Saying:
        match fate:
            case Fate.REFUSED:
                return self._completion(None, refusal=NO)
            case Fate.OUTPUT_BLOCKED:
                return self._completion("", "content_filter")
            case Fate.TRUNCATED:
                return self._completion(half(content), "length")
            case Fate.MALFORMED | Fate.MALFORMED_ALWAYS:
                return self._completion(half(content))
            case Fate.INPUT_BLOCKED:
                return self._error(400, "content_policy_violation", "The safety system rejected your request.")
            case Fate.REJECTED:
                return self._error(400, "invalid_value", "The image could not be read.")
            case Fate.QUOTA:
                return self._error(429, "insufficient_quota", "You exceeded your current quota.")
            case Fate.SERVER_ERROR:
                return self._error(500, "server_error", "The server had an error.")
            case Fate.RATE_LIMITED:
                said = self._error(429, "rate_limit_exceeded", "Rate limit reached for requests.")
                return Saying(said.http, said.said, {} if wait_s is None else waiting(wait_s))
            case _:
                return self._completion(content)

    def _completion(self, content: str | None, ended: str = "stop", refusal: str | None = None) -> Saying:
        message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": refusal, "annotations": []}
        said = {
            "id": "chatcmpl-loopback",
            "object": "chat.completion",
            "created": 1763200000,
            "model": MODEL,
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": ended}],
            "usage": {
                "prompt_tokens": TOKENS_IN,
                "completion_tokens": TOKENS_OUT,
                "total_tokens": TOKENS_IN + TOKENS_OUT,
                "prompt_tokens_details": {"cached_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": 0},
            },
        }
        return Saying(200, said, {}, paid=True)

    def _error(self, http: int, code: str, message: str) -> Saying:
        kind = "invalid_request_error" if http == 400 else code
        return Saying(http, {"error": {"message": message, "type": kind, "param": None, "code": code}}, {})


class Gemini:
    """generateContent. A block on the way in is a success without an answer."""

    name = "gemini"

    def schema(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        settings = asked.get("generationConfig") or asked.get("generation_config") or {}
        names = ("responseJsonSchema", "responseSchema", "response_json_schema", "response_schema")
        return next((settings[name] for name in names if settings.get(name)), {})

    def says(self, fate: Fate, content: str, wait_s: float | None) -> Saying:
        match fate:
            case Fate.REFUSED:
                return self._candidate(NO)
            case Fate.OUTPUT_BLOCKED:
                return self._candidate("", "SAFETY")
            case Fate.TRUNCATED:
                return self._candidate(half(content), "MAX_TOKENS")
            case Fate.MALFORMED | Fate.MALFORMED_ALWAYS:
                return self._candidate(half(content))
            case Fate.INPUT_BLOCKED:
                used = {"promptTokenCount": TOKENS_IN, "totalTokenCount": TOKENS_IN}
                return Saying(200, {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": used}, {})
            case Fate.REJECTED:
                return self._error(400, "INVALID_ARGUMENT", "Unable to process input image.")
            case Fate.QUOTA:
                broken = {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}]}
                return self._error(429, "RESOURCE_EXHAUSTED", "Quota exceeded.", QuotaFailure=broken)
            case Fate.SERVER_ERROR:
                return self._error(500, "INTERNAL", "An internal error has occurred.")
            case Fate.RATE_LIMITED:
                wait = {} if wait_s is None else {"RetryInfo": {"retryDelay": f"{wait_s:g}s"}}
                return self._error(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted.", **wait)
            case _:
                return self._candidate(content)

    def _candidate(self, text: str, ended: str = "STOP") -> Saying:
        spoken = {"content": {"role": "model", "parts": [{"text": text}]}} if text else {}
        said = {
            "candidates": [{**spoken, "finishReason": ended, "index": 0}],
            "usageMetadata": {
                "promptTokenCount": TOKENS_IN,
                "candidatesTokenCount": TOKENS_OUT,
                "totalTokenCount": TOKENS_IN + TOKENS_OUT,
            },
            "modelVersion": MODEL,
            "responseId": "loopback",
        }
        return Saying(200, said, {}, paid=True)

    def _error(self, http: int, status: str, message: str, **details: Mapping[str, Any]) -> Saying:
        listed = [{"@type": f"type.googleapis.com/google.rpc.{name}", **one} for name, one in details.items()]
        error = {"code": http, "message": message, "status": status, **({"details": listed} if listed else {})}
        return Saying(http, {"error": error}, {})


OPENAI, GEMINI = Openai(), Gemini()


def answer(schema: Mapping[str, Any], name: str) -> str:
    """An answer that the schema allows; the same for the same body."""
    return orjson.dumps(made_up(schema, name)).decode()


def made_up(schema: Mapping[str, Any], name: str, place: str = "") -> Any:
    if "enum" in schema:
        return schema["enum"][int(drawn(name, place) * len(schema["enum"]))]
    if "anyOf" in schema:
        return made_up(schema["anyOf"][0], name, place)
    kind = schema.get("type", "object")
    match str(kind[0] if isinstance(kind, list) else kind).lower():
        case "object":
            inner = schema.get("properties", {})
            return {key: made_up(one, name, f"{place}/{key}") for key, one in inner.items()}
        case "array":
            one, many = schema.get("items", {"type": "string"}), 1 + int(drawn(name, f"{place}#") * MOST_LISTED)
            return [made_up(one, name, f"{place}/{number}") for number in range(many)]
        case "integer" | "number":
            least, most = int(schema.get("minimum", 1)), int(schema.get("maximum", 5))
            return least + math.floor(drawn(name, place) * (most - least + 1))
        case "boolean":
            return drawn(name, place) < 0.5
        case _:
            return WORDS


def half(content: str) -> str:
    return content[: len(content) // 2]


def waiting(seconds: float) -> dict[str, str]:
    """As OpenAI says it: in thousandths, where it is less than a second."""
    return {"retry-after-ms": f"{seconds * 1000:g}"} if seconds < 1 else {"retry-after": f"{seconds:g}"}
