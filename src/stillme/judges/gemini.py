"""Gemini as a judge, over plain HTTP (`generateContent`).

A refusal has no field of its own here: what is blocked comes as a success without an answer, and a refusal in
plain words cannot be told from an answer that is no JSON: it is `malformed`, asked again, and kept word for word.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, TypeGuard
from urllib.parse import quote

from pydantic import Field, model_validator

from stillme.core.records import Status
from stillme.engine import hosted
from stillme.engine.backends import BackendContext, PreparedJudge
from stillme.engine.http import RemoteError, Url
from stillme.engine.rate_limit import duration
from stillme.judges import Batches, Form, models
from stillme.judges.models import Terms
from stillme.judges.vlm import (
    Heard,
    NetworkJudge,
    Pictures,
    Said,
    Wire,
    first,
    message,
    prepared,
    status_of,
    understood,
    whole,
)

VERSION = 1  # raise when the same settings ask for something else
SERVICE = "gemini"
HOME = "https://generativelanguage.googleapis.com/v1beta"
_ON_THE_WAY_OUT = (
    "SAFETY",
    "PROHIBITED_CONTENT",
    "SPII",
    "RECITATION",
    "BLOCKLIST",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
)
_ENDED_WELL = ("STOP", "FINISH_REASON_UNSPECIFIED", "")
_NAMES = {
    "temperature": "temperature",
    "effort": "thinkingLevel",
    "max_output_tokens": "maxOutputTokens",
    "seed": "seed",
    "detail": "mediaResolution",
}


class Settings(models.Settings):
    """safety: harm category -> threshold, as the API names them."""

    base_url: Url = HOME
    detail: Literal["low", "medium", "high"] | None = None
    safety: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _usual(cls, data: Any) -> Any:
        return models.usual(data, True, HOME)


def prepare(settings: Settings, context: BackendContext) -> PreparedJudge[GeminiJudge]:
    hosted.check_key(context.key_env, "Gemini", settings.base_url)
    terms = models.settled(settings, SERVICE)
    said: dict[str, Any] = {"backend": "gemini", "version": VERSION, "safety": settings.safety}
    return prepared(
        settings, context, said, terms, partial(GeminiJudge, settings, context.key_env, terms), "Google"
    )


class GeminiJudge(NetworkJudge):
    """One model."""

    def __init__(self, settings: Settings, key_env: str | None, terms: Terms, form: Form) -> None:
        path = f"models/{quote(settings.model, safe='')}:generateContent"
        wire = Wire("Gemini", settings.base_url, path, "x-goog-api-key", _NAMES, b'","data":"')
        super().__init__(settings, wire, key_env, form, terms)
        self.settings = settings

    @property
    def batches(self) -> Batches | None:
        from stillme.judges.gemini_batches import GeminiBatches

        return GeminiBatches(self.client, self.settings.model, partial(self.read, share=self.terms.batch_share))

    def request(self, text: str, schema: Mapping[str, Any], pictures: Pictures) -> dict[str, Any]:
        """First the pictures, each under its name, then the form."""
        parts: list[Mapping[str, Any]] = []
        for name, picture in zip(self.titles, pictures, strict=True):
            parts += [{"text": name}, picture]
        asked: dict[str, Any] = {
            "systemInstruction": {"parts": [{"text": self.form.system}]},
            "contents": [{"role": "user", "parts": [*parts, {"text": text}]}],
            "generationConfig": {**self._parameters(), **_structured(schema)},
        }
        if self.settings.safety:
            rules = self.settings.safety.items()
            asked["safetySettings"] = [{"category": harm, "threshold": limit} for harm, limit in rules]
        return asked

    def _parameters(self) -> dict[str, Any]:
        sent = dict(self.terms.sent)
        effort, detail = sent.pop("effort", None), sent.pop("detail", None)
        plain = {self.wire.names[name]: value for name, value in sent.items()}
        plain |= {"thinkingConfig": {"thinkingLevel": effort}} if effort else {}
        return plain | ({"mediaResolution": f"MEDIA_RESOLUTION_{detail.upper()}"} if detail else {})

    def named(self, picture: str) -> Mapping[str, Any]:
        return {"inlineData": {"data": picture}}

    def marked(self, mark: str) -> Mapping[str, Any]:
        return {"inlineData": {"mimeType": mark}}

    def heard(self, said: Mapping[str, Any], axes: tuple[str, ...]) -> Heard:
        feedback, candidate = said.get("promptFeedback"), first(said.get("candidates"))
        if isinstance(feedback, dict) and feedback.get("blockReason"):
            told = str(feedback.get("blockReasonMessage") or "")
            return Heard(Status.INPUT_BLOCKED, told, str(feedback["blockReason"]))
        if not candidate:
            return Heard(Status.SERVER_ERROR, "the service answered without a candidate", "empty_response")
        return self._candidate(candidate, axes)

    def _candidate(self, candidate: Mapping[str, Any], axes: tuple[str, ...]) -> Heard:
        ended, text = str(candidate.get("finishReason") or ""), _text(candidate)
        why = str(candidate.get("finishMessage") or "")
        if ended in _ON_THE_WAY_OUT:
            return Heard(Status.OUTPUT_BLOCKED, why or text, ended)
        if ended == "MAX_TOKENS":
            return Heard(Status.TRUNCATED, "the answer stopped at the longest that was allowed", ended)
        if ended not in _ENDED_WELL:
            return Heard(Status.SERVER_ERROR, why or f"the answer ended with {ended}", ended)
        if not text.strip():
            return Heard(Status.MALFORMED, "the answer holds no text", ended)
        return understood(self.form.read(text, axes), ended)

    def failed(self, http: int, said: Any) -> Said:
        told, words = hosted.inner(said), message(said)
        code, details = str(told.get("status") or ""), str(told.get("details"))
        if http == 402 or (http == 429 and "PerDay" in details):
            return Said(Status.QUOTA, words, code)
        if "API_KEY_INVALID" in details or code == "FAILED_PRECONDITION":  # both come as a 400
            return Said(Status.SERVER_ERROR, words, code, hopeless=True)
        if parameter := self.unsupported(http, words):
            return Said(Status.REJECTED, words, code, parameter)
        return Said(status_of(http), words, code, hopeless=http in hosted.UNDECIDED)

    def asks_to_wait(self, error: RemoteError) -> float | None:
        """`RetryInfo`, which Google puts into the body."""
        details = hosted.inner(error.said).get("details")
        told = [one.get("retryDelay") for one in details if isinstance(one, dict)] if _is_list(details) else []
        return next((duration(delay) for delay in told if isinstance(delay, str)), None)

    def counted(self, said: Mapping[str, Any]) -> dict[str, int]:
        """Thoughts are counted apart here, and paid for as output."""
        usage = said.get("usageMetadata")
        told = usage if isinstance(usage, dict) else {}
        counts = whole(
            input=told.get("promptTokenCount"),
            cached=told.get("cachedContentTokenCount"),
            output=told.get("candidatesTokenCount"),
            thoughts=told.get("thoughtsTokenCount"),
        )
        if "thoughts" in counts:
            counts["output"] = counts.get("output", 0) + counts["thoughts"]
        return counts


def _structured(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The older of two dialects: every Gemini model takes it, and it alone fixes the order of the fields."""
    return {"responseMimeType": "application/json", "responseSchema": dialect(schema)}


def dialect(schema: Mapping[str, Any]) -> dict[str, Any]:
    """JSON Schema as Gemini takes it: types in capitals, the order said twice, whole numbers between two bounds,
    because an enum is for texts only and additionalProperties is refused."""
    if "items" in schema:
        return {"type": "ARRAY", "items": dialect(schema["items"])}
    if "properties" in schema:
        order = list(schema["required"])
        fields = {name: dialect(part) for name, part in schema["properties"].items()}
        return {"type": "OBJECT", "properties": fields, "required": order, "propertyOrdering": order}
    kind: dict[str, Any] = {"type": schema["type"].upper()}
    points = schema.get("enum")
    if points and kind["type"] == "STRING":
        return {**kind, "format": "enum", "enum": list(points)}
    return {**kind, "minimum": min(points), "maximum": max(points)} if points else kind


def _text(candidate: Mapping[str, Any]) -> str:
    """The answer's own words; thoughts are none of them."""
    content = candidate.get("content")
    parts = content.get("parts") if isinstance(content, dict) else None
    told = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    return "".join(part["text"] for part in told if isinstance(part.get("text"), str) and not part.get("thought"))


def _is_list(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)
