"""Judges that speak OpenAI's chat completions: OpenAI itself; by `base_url` vLLM, Ollama, OpenRouter and others.

A self-hosted server's answers depend on its quantisation and kernels, so `service` and `configuration` are part of
every key; the address is not. Batches (OpenAI only): a file of calls is uploaded, answers come within a day.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from stillme.core.records import Exchange, Status
from stillme.engine import hosted
from stillme.engine.backends import BackendContext, PreparedJudge
from stillme.engine.http import Client, HttpRequest, MultipartField, Url
from stillme.judges import Batch, Batches, Form, State, jsonl, models
from stillme.judges.jsonl import UPLOAD_S, ReadReply
from stillme.judges.models import ModelCapabilities
from stillme.judges.vlm import (
    NetworkJudge,
    ParsedReply,
    Pictures,
    ProviderFormat,
    ServiceError,
    count_fields,
    error_message,
    first_object,
    form_reply,
    prepared,
    status_of,
)

VERSION = 1  # raise when the same settings ask for something else
OPENAI = "openai"
HOME = "https://api.openai.com/v1"
ENDPOINT = "/v1/chat/completions"  # as batches name it
_BLOCKED_CODES = (
    "content_policy_violation",
    "invalid_prompt",
    "moderation_blocked",
    "image_content_policy_violation",
    "content_filter",
)
_QUOTA_CODES = ("insufficient_quota", "billing_hard_limit_reached")
_UNSUPPORTED_CODES = ("unsupported_parameter", "unsupported_value", "unknown_parameter")
_PARAMETER_NAMES = {"temperature": "temperature", "effort": "reasoning_effort", "seed": "seed", "detail": "detail"}
_LENGTH_NAMES = ("max_tokens", "max_completion_tokens")
_RESERVED = ("model", "messages", "response_format", "stream", "n", *_LENGTH_NAMES, *_PARAMETER_NAMES.values())


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
        reserved = sorted(set(_RESERVED) & set(self.extra))
        if reserved:
            raise ValueError(f"extra: {', '.join(reserved)} is set by stillme; use the setting that it belongs to")
        if self.service != OPENAI and self.base_url == HOME:
            raise ValueError("base_url: say where the server listens, e.g. http://127.0.0.1:8000/v1")
        if self.service != OPENAI and self.mode == "batch":
            raise ValueError(f"mode: only the service '{OPENAI}' takes batches; leave it out")
        return self


def prepare(settings: Settings, context: BackendContext) -> PreparedJudge[OpenaiJudge]:
    if settings.service == OPENAI:
        hosted.check_key(context.key_env, "OpenAI", settings.base_url)
    terms = models.resolve_parameters(settings, settings.service)
    said: dict[str, Any] = {"backend": "openai", "version": VERSION, "service": settings.service}
    said |= {"structured": settings.structured, "extra": settings.extra, "configuration": settings.configuration}
    who = "OpenAI" if settings.service == OPENAI else "a server in OpenAI's form"
    return prepared(settings, context, said, terms, partial(OpenaiJudge, settings, context.key_env, terms), who)


class OpenaiJudge(NetworkJudge):
    """One model of one service."""

    def __init__(self, settings: Settings, key_env: str | None, terms: ModelCapabilities, form: Form) -> None:
        is_openai = settings.service == OPENAI
        wire = ProviderFormat(
            service="OpenAI" if is_openai else "The server",
            base_url=settings.base_url,
            path="chat/completions",
            header="Authorization",
            names={
                **_PARAMETER_NAMES,
                "max_output_tokens": "max_completion_tokens" if is_openai else "max_tokens",
            },
            joint=b";base64,",
        )
        super().__init__(settings, wire, key_env, form, terms)
        self.settings = settings

    @property
    def batches(self) -> Batches | None:
        if self.settings.service != OPENAI:
            return None
        return OpenaiBatches(self.client, ENDPOINT, partial(self.read, share=self.terms.batch_share))

    def build_body(self, text: str, schema: Mapping[str, Any], pictures: Pictures) -> dict[str, Any]:
        """First the pictures, each under its name, then the form."""
        parts: list[Mapping[str, Any]] = []
        for title, picture in zip(self.picture_titles, pictures, strict=True):
            parts += [{"type": "text", "text": title}, picture]
        body: dict[str, Any] = {
            "model": self.settings.model,
            "messages": [
                {"role": "system", "content": self.form.system},
                {"role": "user", "content": [*parts, {"type": "text", "text": text}]},
            ],
            **{self.wire.names[name]: value for name, value in self.terms.sent.items() if name != "detail"},
            **self.settings.extra,
        }
        if self.settings.structured != "none":
            body["response_format"] = {"type": self.settings.structured}
        if self.settings.structured == "json_schema":
            body["response_format"]["json_schema"] = {"name": "judgement", "strict": True, "schema": schema}
        return body

    def content(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """With what a server was started with, which its body does not say."""
        content = super().content(body)
        if self.settings.configuration:
            content["configuration"] = self.settings.configuration
        return content

    def stored_picture(self, name: str) -> Mapping[str, Any]:
        return self._image_part(name)

    def sent_picture(self, mark: str) -> Mapping[str, Any]:
        return self._image_part(f"data:{mark}")

    def _image_part(self, url: str) -> Mapping[str, Any]:
        detail = {"detail": self.terms.sent["detail"]} if "detail" in self.terms.sent else {}
        return {"type": "image_url", "image_url": {"url": url, **detail}}

    def parse_reply(self, body: Mapping[str, Any], axes: tuple[str, ...]) -> ParsedReply:
        choice = first_object(body.get("choices"))
        answer = jsonl.part(choice, "message")
        reason, refusal, text = (
            str(choice.get("finish_reason") or ""),
            answer.get("refusal"),
            answer.get("content"),
        )
        if not choice:
            return ParsedReply(Status.SERVER_ERROR, "the service answered without a choice", "empty_response")
        if refusal:
            return ParsedReply(Status.REFUSED, str(refusal), "refusal")
        if reason == "content_filter":
            return ParsedReply(Status.OUTPUT_BLOCKED, str(text or ""), reason)
        if reason == "length":
            return ParsedReply(Status.TRUNCATED, "the answer stopped at the longest that was allowed", reason)
        if not isinstance(text, str) or not text.strip():
            return ParsedReply(Status.MALFORMED, "the answer holds no text", reason)
        return form_reply(self.form.read(text, axes), reason)

    def parse_error(self, http: int, body: Any) -> ServiceError:
        error, message = hosted.inner(body), error_message(body)
        code = str(error.get("code") or error.get("type") or "")
        metadata = error.get("metadata")
        is_flagged = isinstance(metadata, dict) and "flagged_input" in metadata  # OpenRouter's moderation
        if code in _BLOCKED_CODES or is_flagged:
            return ServiceError(Status.INPUT_BLOCKED, message, code)
        if http == 402 or {code, str(error.get("type"))} & set(_QUOTA_CODES):
            return ServiceError(Status.QUOTA, message, code)
        if parameter := self._unsupported(http, error, code, message):
            return ServiceError(Status.REJECTED, message, code, parameter)
        # an error that comes as a success: the status that its code is
        inner = error.get("code")
        status = inner if http < 400 and type(inner) is int and 400 <= inner < 600 else http
        return ServiceError(status_of(status), message, code, hopeless=http in hosted.UNDECIDED)

    def _unsupported(self, http: int, error: Mapping[str, Any], code: str, message: str) -> str:
        """The parameter that is not supported: by the field that names it; where there is none, by the message."""
        field = str(error.get("param") or "")
        parameter = next((name for name in self.terms.sent if self.wire.names[name] == field), "")
        if parameter and http in (400, 422):
            return parameter
        if code in _UNSUPPORTED_CODES or self.settings.service != OPENAI:
            return self.unsupported_parameter(http, message)
        return ""

    def count_tokens(self, body: Mapping[str, Any]) -> dict[str, int]:
        """Thoughts are part of the completion here."""
        usage = jsonl.part(body, "usage")
        return count_fields(
            input=usage.get("prompt_tokens"),
            cached=jsonl.part(usage, "prompt_tokens_details").get("cached_tokens"),
            output=usage.get("completion_tokens"),
            thoughts=jsonl.part(usage, "completion_tokens_details").get("reasoning_tokens"),
        )

    def reported_cost(self, body: Mapping[str, Any]) -> float | None:
        """OpenRouter reports the cost of a call; it is used where no price is set."""
        cost = jsonl.part(body, "usage").get("cost") if self.terms.usd is None else None
        return float(cost) if isinstance(cost, int | float) and 0 <= cost < 1000 else None


WINDOW = "24h"  # the only one that there is
PAGE = 100  # batches per page, the service's maximum
# The service accepts 200 MB, and does not define a megabyte: this is less by either definition.
MAX_BYTES, MAX_REQUESTS = 190_000_000, 50_000
_EXPIRED = "batch_expired"
_CROWDED = "token_limit_exceeded"  # of what may be under way at a time


class OpenaiBatches:
    """`endpoint`: what each line asks, as the service names it."""

    def __init__(
        self,
        client: Client,
        endpoint: str,
        read: ReadReply,
        most_bytes: int = MAX_BYTES,
        most_requests: int = MAX_REQUESTS,
    ) -> None:
        self.client = client
        self.endpoint = endpoint
        self.read = read
        self.most_bytes = most_bytes
        self.most_requests = most_requests

    def line(self, key: str, body: bytes) -> bytes:
        head = jsonl.encode({"custom_id": key, "method": "POST", "url": self.endpoint})
        return b"".join((head[:-1], b',"body":', jsonl.one_line(body), b"}"))

    async def upload(self, path: Path, name: str) -> str:
        form = (
            MultipartField("purpose", "batch"),
            MultipartField("file", path, f"{name}.jsonl", "application/jsonl"),
        )
        call = HttpRequest("POST", "files", form=form, paced=False, repeatable=True, timeout_s=UPLOAD_S)
        return jsonl.require_text(await self._call(call), "id")

    async def create(self, uploaded: str, tags: Mapping[str, str]) -> Batch:
        request = {
            "input_file_id": uploaded,
            "endpoint": self.endpoint,
            "completion_window": WINDOW,
            "metadata": dict(tags),
        }
        return parse_batch(await self._call(HttpRequest("POST", "batches", json=request, paced=False, once=True)))

    async def every(self) -> AsyncIterator[Batch]:
        after = ""
        while True:
            page = await self._call(HttpRequest("GET", f"batches?limit={PAGE}{after}", paced=False))
            batches = [parse_batch(row) for row in page.get("data") or ()]
            for batch in batches:
                yield batch
            if not batches or not page.get("has_more"):
                return
            after = f"&after={batches[-1].id}"

    async def look(self, batch: str) -> Batch:
        return parse_batch(await self._call(HttpRequest("GET", f"batches/{batch}", paced=False)))

    async def download(self, output: str, path: Path) -> None:
        await self.client.download(HttpRequest("GET", f"files/{output}/content", accepts=jsonl.ANY_TYPE), path)

    def answers(self, path: Path, axes: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, Exchange]]:
        for row in jsonl.read_objects(path):
            key = jsonl.text(row, "custom_id")
            if key in axes:
                yield key, self._exchange(row, axes[key])

    def _exchange(self, row: Mapping[str, Any], axes: tuple[str, ...]) -> Exchange:
        error, response = jsonl.part(row, "error"), jsonl.part(row, "response")
        if jsonl.text(error, "code") == _EXPIRED:
            detail = jsonl.text(error, "message")
            return Exchange(Status.TIMEOUT, detail=detail, code=_EXPIRED, raw=jsonl.encode(row))
        status, body = response.get("status_code"), response.get("body")
        if not isinstance(status, int) or not status:
            status, body = 500, {"error": dict(error)}
        exchange = self.read(status, body, jsonl.encode(body), axes)
        return replace(exchange, request_id=jsonl.text(response, "request_id") or exchange.request_id)

    async def _call(self, call: HttpRequest) -> Mapping[str, Any]:
        body = (await jsonl.call_service(self.client, call, self.read)).json
        return body if isinstance(body, Mapping) else {}


def parse_batch(body: Any) -> Batch:
    """A batch from the service's description of it."""
    status, errors = jsonl.text(body, "status"), jsonl.part(body, "errors").get("data")
    errors = errors if isinstance(errors, list) else []
    is_crowded = any(jsonl.text(error, "code") == _CROWDED for error in errors)
    state = {
        "completed": State.ENDED,
        "expired": State.ENDED,
        "cancelled": State.FAILED,  # someone decided that these calls are not made
        "failed": State.FULL if is_crowded else State.FAILED,
    }.get(status, State.RUNNING)
    details = ["it was cancelled"] if status == "cancelled" else []
    for error in errors[:3]:
        details.append(jsonl.text(error, "message") or jsonl.text(error, "code") or "no reason given")
    outputs = (jsonl.text(body, name) for name in ("output_file_id", "error_file_id"))
    return Batch(
        id=jsonl.require_text(body, "id"),
        tags={name: str(value) for name, value in jsonl.part(body, "metadata").items()},
        state=state,
        outputs=tuple(output for output in outputs if output),
        detail="; ".join(details),
    )
