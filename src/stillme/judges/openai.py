"""Judges that speak OpenAI's chat completions: OpenAI itself; by `base_url` vLLM, Ollama, OpenRouter and others.

What a server of one's own answers depends on its quantisation and kernels, so `service` and `configuration` are
part of every key; the address is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

from pydantic import Field, model_validator

from stillme.core.records import Status
from stillme.engine import hosted
from stillme.engine.backends import BackendContext, PreparedJudge
from stillme.engine.http import Url
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
OPENAI = "openai"
HOME = "https://api.openai.com/v1"
ENDPOINT = "/v1/chat/completions"  # as batches name it
_BLOCKED = (
    "content_policy_violation",
    "invalid_prompt",
    "moderation_blocked",
    "image_content_policy_violation",
    "content_filter",
)
_QUOTA = ("insufficient_quota", "billing_hard_limit_reached")
_NOT_TAKEN = ("unsupported_parameter", "unsupported_value", "unknown_parameter")
_NAMES = {"temperature": "temperature", "effort": "reasoning_effort", "seed": "seed", "detail": "detail"}
_LENGTHS = ("max_tokens", "max_completion_tokens")
_OURS = ("model", "messages", "response_format", "stream", "n", *_LENGTHS, *_NAMES.values())


class Settings(models.Settings):
    """extra: further fields of the body. configuration: facts of a server that change scores, in free words.

    structured: how the answer is held to its form. `none` leaves it to the words of the form.
    """

    service: Literal["openai", "other"] = "openai"
    base_url: Url = HOME
    detail: Literal["low", "high", "auto"] | None = None
    structured: Literal["json_schema", "json_object", "none"] = "json_schema"
    extra: dict[str, Any] = Field(default_factory=dict)
    configuration: dict[str, bool | int | float | str] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _by_service(cls, data: Any) -> Any:
        return models.usual(data, isinstance(data, dict) and data.get("service", OPENAI) == OPENAI, HOME)

    @model_validator(mode="after")
    def _fits(self) -> Settings:
        taken = sorted(set(_OURS) & set(self.extra))
        if taken:
            raise ValueError(f"extra: {', '.join(taken)} is set by stillme; use the setting that it belongs to")
        if self.service != OPENAI and self.base_url == HOME:
            raise ValueError("base_url: say where the server listens, e.g. http://127.0.0.1:8000/v1")
        if self.service != OPENAI and self.mode == "batch":
            raise ValueError(f"mode: only the service '{OPENAI}' takes batches; leave it out")
        return self


def prepare(settings: Settings, context: BackendContext) -> PreparedJudge[OpenaiJudge]:
    if settings.service == OPENAI:
        hosted.check_key(context.key_env, "OpenAI", settings.base_url)
    terms = models.settled(settings, settings.service)
    said: dict[str, Any] = {"backend": "openai", "version": VERSION, "service": settings.service}
    said |= {"structured": settings.structured, "extra": settings.extra, "configuration": settings.configuration}
    who = "OpenAI" if settings.service == OPENAI else "a server in OpenAI's form"
    return prepared(settings, context, said, terms, partial(OpenaiJudge, settings, context.key_env, terms), who)


class OpenaiJudge(NetworkJudge):
    """One model of one service."""

    def __init__(self, settings: Settings, key_env: str | None, terms: Terms, form: Form) -> None:
        is_openai = settings.service == OPENAI
        names = {**_NAMES, "max_output_tokens": "max_completion_tokens" if is_openai else "max_tokens"}
        who = "OpenAI" if is_openai else "The server"
        wire = Wire(who, settings.base_url, "chat/completions", "Authorization", names, b";base64,")
        super().__init__(settings, wire, key_env, form, terms)
        self.settings = settings

    @property
    def batches(self) -> Batches | None:
        from stillme.judges.openai_batches import OpenaiBatches

        if self.settings.service != OPENAI:
            return None
        return OpenaiBatches(self.client, ENDPOINT, partial(self.read, share=self.terms.batch_share))

    def request(self, text: str, schema: Mapping[str, Any], pictures: Pictures) -> dict[str, Any]:
        """First the pictures, each under its name, then the form."""
        parts: list[Mapping[str, Any]] = []
        for name, picture in zip(self.titles, pictures, strict=True):
            parts += [{"type": "text", "text": name}, picture]
        sent = {self.wire.names[name]: value for name, value in self.terms.sent.items() if name != "detail"}
        asked = {
            "model": self.settings.model,
            "messages": [
                {"role": "system", "content": self.form.system},
                {"role": "user", "content": [*parts, {"type": "text", "text": text}]},
            ],
            **sent,
            **self.settings.extra,
        }
        return asked | self._structured(schema)

    def _structured(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        kind = self.settings.structured
        if kind == "none":
            return {}
        held: dict[str, Any] = {"type": kind}
        if kind == "json_schema":
            held["json_schema"] = {"name": "judgement", "strict": True, "schema": schema}
        return {"response_format": held}

    def content(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """With what a server was started with, which its body does not say."""
        held = super().content(asked)
        return {**held, "configuration": self.settings.configuration} if self.settings.configuration else held

    def named(self, picture: str) -> Mapping[str, Any]:
        return self._picture(picture)

    def marked(self, mark: str) -> Mapping[str, Any]:
        return self._picture(f"data:{mark}")

    def _picture(self, url: str) -> Mapping[str, Any]:
        detail = {"detail": self.terms.sent["detail"]} if "detail" in self.terms.sent else {}
        return {"type": "image_url", "image_url": {"url": url, **detail}}

    def heard(self, said: Mapping[str, Any], axes: tuple[str, ...]) -> Heard:
        choice = first(said.get("choices"))
        told = choice.get("message")
        answer = told if isinstance(told, dict) else {}
        ended, refusal, text = str(choice.get("finish_reason") or ""), answer.get("refusal"), answer.get("content")
        if not choice:
            return Heard(Status.SERVER_ERROR, "the service answered without a choice", "empty_response")
        if refusal:
            return Heard(Status.REFUSED, str(refusal), "refusal")
        if ended == "content_filter":
            return Heard(Status.OUTPUT_BLOCKED, str(text or ""), ended)
        if ended == "length":
            return Heard(Status.TRUNCATED, "the answer stopped at the longest that was allowed", ended)
        if not isinstance(text, str) or not text.strip():
            return Heard(Status.MALFORMED, "the answer holds no text", ended)
        return understood(self.form.read(text, axes), ended)

    def failed(self, http: int, said: Any) -> Said:
        told, words = hosted.inner(said), message(said)
        code = str(told.get("code") or told.get("type") or "")
        if code in _BLOCKED or _is_flagged(told):
            return Said(Status.INPUT_BLOCKED, words, code)
        if http == 402 or {code, str(told.get("type"))} & set(_QUOTA):
            return Said(Status.QUOTA, words, code)
        if parameter := self._not_taken(http, told, code, words):
            return Said(Status.REJECTED, words, code, parameter)
        return Said(status_of(_status(http, told)), words, code, hopeless=http in hosted.UNDECIDED)

    def _not_taken(self, http: int, told: Mapping[str, Any], code: str, words: str) -> str:
        """By the field that names it; where there is none, by the words."""
        named = str(told.get("param") or "")
        ours = next((name for name in self.terms.sent if self.wire.names[name] == named), "")
        if ours and http in (400, 422):
            return ours
        return self.unsupported(http, words) if code in _NOT_TAKEN or self.settings.service != OPENAI else ""

    def counted(self, said: Mapping[str, Any]) -> dict[str, int]:
        """Thoughts are part of the completion here."""
        usage = said.get("usage")
        told = usage if isinstance(usage, dict) else {}
        read, written = told.get("prompt_tokens_details"), told.get("completion_tokens_details")
        return whole(
            input=told.get("prompt_tokens"),
            cached=read.get("cached_tokens") if isinstance(read, dict) else None,
            output=told.get("completion_tokens"),
            thoughts=written.get("reasoning_tokens") if isinstance(written, dict) else None,
        )

    def told_cost(self, said: Mapping[str, Any]) -> float | None:
        """OpenRouter says what a call cost; it is taken where no price is set."""
        usage = said.get("usage")
        cost = usage.get("cost") if isinstance(usage, dict) and self.terms.usd is None else None
        return float(cost) if isinstance(cost, int | float) and 0 <= cost < 1000 else None


def _is_flagged(told: Mapping[str, Any]) -> bool:
    """OpenRouter's word for an input that moderation stopped."""
    more = told.get("metadata")
    return isinstance(more, dict) and "flagged_input" in more


def _status(http: int, told: Mapping[str, Any]) -> int:
    """Of an error that comes as a success: the status that it names."""
    code = told.get("code")
    return code if http < 400 and type(code) is int and 400 <= code < 600 else http
