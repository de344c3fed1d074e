"""Gemini as a judge, over plain HTTP (`generateContent`).

A refusal has no field here: a blocked answer comes as a success without an answer, and a refusal in plain words
looks like an answer that is not JSON: it is `malformed`, asked again, and kept word for word. Batches: a file of
calls is uploaded piece by piece, answers are fetched within a day; they have no tags, only a name that holds them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from pydantic import Field, model_validator

from stillme.core.records import Exchange, Status
from stillme.engine import hosted
from stillme.engine.backends import BackendContext, PreparedJudge
from stillme.engine.http import Client, HttpRequest, RemoteError, Url
from stillme.engine.rate_limit import duration
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
SERVICE = "gemini"
HOME = "https://generativelanguage.googleapis.com/v1beta"
_OUTPUT_BLOCKED_REASONS = (
    "SAFETY",
    "PROHIBITED_CONTENT",
    "SPII",
    "RECITATION",
    "BLOCKLIST",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
)
_OK_REASONS = ("STOP", "FINISH_REASON_UNSPECIFIED", "")
_PARAMETER_NAMES = {
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
    terms = models.resolve_parameters(settings, SERVICE)
    said: dict[str, Any] = {"backend": "gemini", "version": VERSION, "safety": settings.safety}
    return prepared(
        settings, context, said, terms, partial(GeminiJudge, settings, context.key_env, terms), "Google"
    )


class GeminiJudge(NetworkJudge):
    """One model."""

    def __init__(self, settings: Settings, key_env: str | None, terms: ModelCapabilities, form: Form) -> None:
        wire = ProviderFormat(
            service="Gemini",
            base_url=settings.base_url,
            path=f"models/{quote(settings.model, safe='')}:generateContent",
            header="x-goog-api-key",
            names=_PARAMETER_NAMES,
            joint=b'","data":"',
        )
        super().__init__(settings, wire, key_env, form, terms)
        self.settings = settings

    @property
    def batches(self) -> Batches | None:
        return GeminiBatches(self.client, self.settings.model, partial(self.read, share=self.terms.batch_share))

    def build_body(self, text: str, schema: Mapping[str, Any], pictures: Pictures) -> dict[str, Any]:
        """First the pictures, each under its name, then the form.

        Of two dialects for the answer's schema the older one: every Gemini model takes it, and it alone fixes the
        order of the fields.
        """
        parts: list[Mapping[str, Any]] = []
        for title, picture in zip(self.picture_titles, pictures, strict=True):
            parts += [{"text": title}, picture]
        structured = {"responseMimeType": "application/json", "responseSchema": dialect(schema)}
        body: dict[str, Any] = {
            "systemInstruction": {"parts": [{"text": self.form.system}]},
            "contents": [{"role": "user", "parts": [*parts, {"text": text}]}],
            "generationConfig": {**self._parameters(), **structured},
        }
        if self.settings.safety:
            rules = self.settings.safety.items()
            body["safetySettings"] = [{"category": harm, "threshold": limit} for harm, limit in rules]
        return body

    def _parameters(self) -> dict[str, Any]:
        sent = dict(self.terms.sent)
        effort, detail = sent.pop("effort", None), sent.pop("detail", None)
        parameters = {self.wire.names[name]: value for name, value in sent.items()}
        if effort:
            parameters["thinkingConfig"] = {"thinkingLevel": effort}
        if detail:
            parameters["mediaResolution"] = f"MEDIA_RESOLUTION_{detail.upper()}"
        return parameters

    def stored_picture(self, name: str) -> Mapping[str, Any]:
        return {"inlineData": {"data": name}}

    def sent_picture(self, mark: str) -> Mapping[str, Any]:
        return {"inlineData": {"mimeType": mark}}

    def parse_reply(self, body: Mapping[str, Any], axes: tuple[str, ...]) -> ParsedReply:
        feedback, candidate = jsonl.part(body, "promptFeedback"), first_object(body.get("candidates"))
        if feedback.get("blockReason"):
            detail = str(feedback.get("blockReasonMessage") or "")
            return ParsedReply(Status.INPUT_BLOCKED, detail, str(feedback["blockReason"]))
        if not candidate:
            return ParsedReply(Status.SERVER_ERROR, "the service answered without a candidate", "empty_response")
        reason, text = str(candidate.get("finishReason") or ""), _answer_text(candidate)
        message = str(candidate.get("finishMessage") or "")
        if reason in _OUTPUT_BLOCKED_REASONS:
            return ParsedReply(Status.OUTPUT_BLOCKED, message or text, reason)
        if reason == "MAX_TOKENS":
            return ParsedReply(Status.TRUNCATED, "the answer stopped at the longest that was allowed", reason)
        if reason not in _OK_REASONS:
            return ParsedReply(Status.SERVER_ERROR, message or f"the answer ended with {reason}", reason)
        if not text.strip():
            return ParsedReply(Status.MALFORMED, "the answer holds no text", reason)
        return form_reply(self.form.read(text, axes), reason)

    def parse_error(self, http: int, body: Any) -> ServiceError:
        error, message = hosted.inner(body), error_message(body)
        code, details = str(error.get("status") or ""), str(error.get("details"))
        if http == 402 or (http == 429 and "PerDay" in details):
            return ServiceError(Status.QUOTA, message, code)
        if "API_KEY_INVALID" in details or code == "FAILED_PRECONDITION":  # both come as a 400
            return ServiceError(Status.SERVER_ERROR, message, code, hopeless=True)
        if parameter := self.unsupported_parameter(http, message):
            return ServiceError(Status.REJECTED, message, code, parameter)
        return ServiceError(status_of(http), message, code, hopeless=http in hosted.UNDECIDED)

    def retry_after_s(self, error: RemoteError) -> float | None:
        """`RetryInfo`, which Google puts into the body."""
        details = hosted.inner(error.said).get("details")
        rows = [detail for detail in details if isinstance(detail, dict)] if isinstance(details, list) else []
        delays = (row.get("retryDelay") for row in rows)
        return next((duration(delay) for delay in delays if isinstance(delay, str)), None)

    def count_tokens(self, body: Mapping[str, Any]) -> dict[str, int]:
        """Thoughts are counted separately here, and paid for as output."""
        usage = jsonl.part(body, "usageMetadata")
        counts = count_fields(
            input=usage.get("promptTokenCount"),
            cached=usage.get("cachedContentTokenCount"),
            output=usage.get("candidatesTokenCount"),
            thoughts=usage.get("thoughtsTokenCount"),
        )
        if "thoughts" in counts:
            counts["output"] = counts.get("output", 0) + counts["thoughts"]
        return counts


def dialect(schema: Mapping[str, Any]) -> dict[str, Any]:
    """JSON Schema in Gemini's form: types in capitals, the order given twice, whole numbers between two bounds.

    There an enum is for texts only, and additionalProperties is refused.
    """
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


def _answer_text(candidate: Mapping[str, Any]) -> str:
    """The answer's text without the thoughts."""
    parts = jsonl.part(candidate, "content").get("parts")
    objects = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    return "".join(
        part["text"] for part in objects if isinstance(part.get("text"), str) and not part.get("thought")
    )


PAGE = 100  # batches per page
PIECE = 8 << 20  # bytes at a time; the service wants multiples of 256 KiB
# The service takes 2 GB. Less begins sooner, and fits what a young account may have under way at a time.
MAX_BYTES, MAX_REQUESTS = 200_000_000, 50_000
NAME_PREFIX = "stillme"  # of batches with tags
_STATES = {
    "SUCCEEDED": State.ENDED,
    "PARTIALLY_SUCCEEDED": State.ENDED,
    "EXPIRED": State.ENDED,
    "FAILED": State.FAILED,
    "CANCELLED": State.FAILED,
}
# gRPC status -> HTTP status: a failed line of a batch says 3 where a live call answers with 400, and so on.
_HTTP_STATUS = {1: 499, 3: 400, 4: 504, 5: 404, 7: 403, 8: 429, 9: 400, 11: 400, 12: 501, 14: 503, 16: 401}


class GeminiBatches:
    """Batches of one model."""

    def __init__(
        self,
        client: Client,
        model: str,
        read: ReadReply,
        most_bytes: int = MAX_BYTES,
        most_requests: int = MAX_REQUESTS,
    ) -> None:
        self.client = client
        self.model = model.removeprefix("models/")
        self.read = read
        self.most_bytes = most_bytes
        self.most_requests = most_requests

    def line(self, key: str, body: bytes) -> bytes:
        return b"".join((jsonl.encode({"key": key})[:-1], b',"request":', jsonl.one_line(body), b"}"))

    async def upload(self, path: Path, name: str) -> str:
        size = path.stat().st_size
        address = await self._begin_upload(name, size)
        with path.open("rb") as file:
            while True:
                offset = file.tell()
                piece = await asyncio.to_thread(file.read, PIECE)
                is_last = offset + len(piece) >= size
                reply = await self._send_piece(address, piece, offset, is_last)
                if is_last:
                    return jsonl.require_text(jsonl.part(reply, "file"), "name")

    async def _begin_upload(self, name: str, size: int) -> str:
        """The address that the pieces go to."""
        headers = {
            "X-Goog-Upload-Protocol": "resumable",
            "X-Goog-Upload-Command": "start",
            "X-Goog-Upload-Header-Content-Length": str(size),
            "X-Goog-Upload-Header-Content-Type": "application/jsonl",
        }
        call = HttpRequest(
            "POST",
            self._file_address("upload", "files"),
            json={"file": {"display_name": name}},
            headers=headers,
            accepts=jsonl.ANY_TYPE,
            paced=False,
            repeatable=True,
        )
        address = (await jsonl.call_service(self.client, call, self.read)).headers.get("X-Goog-Upload-URL", "")
        return jsonl.require_text({"upload address": address}, "upload address")

    async def _send_piece(self, address: str, piece: bytes, offset: int, is_last: bool) -> Any:
        command = "upload, finalize" if is_last else "upload"
        call = HttpRequest(
            "POST",
            address,
            body=piece,
            media_type="application/octet-stream",
            headers={"X-Goog-Upload-Command": command, "X-Goog-Upload-Offset": str(offset)},
            accepts=jsonl.ANY_TYPE,
            paced=False,
            repeatable=True,
            timeout_s=UPLOAD_S,
        )
        return (await self.client.call(call)).json

    async def create(self, uploaded: str, tags: Mapping[str, str]) -> Batch:
        request = {"batch": {"display_name": name_of_tags(tags), "input_config": {"file_name": uploaded}}}
        address = f"models/{self.model}:batchGenerateContent"
        return parse_batch(await self._call(HttpRequest("POST", address, json=request, paced=False, once=True)))

    async def every(self) -> AsyncIterator[Batch]:
        token = ""
        while True:
            page = await self._call(HttpRequest("GET", f"batches?pageSize={PAGE}{token}", paced=False))
            for row in page.get("operations") or ():
                yield parse_batch(row)
            if not jsonl.text(page, "nextPageToken"):
                return
            token = f"&pageToken={jsonl.text(page, 'nextPageToken')}"

    async def look(self, batch: str) -> Batch:
        return parse_batch(await self._call(HttpRequest("GET", batch, paced=False)))

    async def download(self, output: str, path: Path) -> None:
        address = self._file_address("download", f"{output}:download?alt=media")
        await self.client.download(HttpRequest("GET", address, accepts=jsonl.ANY_TYPE), path)

    def answers(self, path: Path, axes: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, Exchange]]:
        for row in jsonl.read_objects(path):
            key = jsonl.text(row, "key")
            if key in axes:
                yield key, self._exchange(row, axes[key])

    def _exchange(self, row: Mapping[str, Any], axes: tuple[str, ...]) -> Exchange:
        response = row.get("response")
        if isinstance(response, Mapping):
            return self.read(200, response, jsonl.encode(response), axes)
        error = {"error": dict(jsonl.part(row, "error"))}
        code = error["error"].get("code")
        status = 500 if not isinstance(code, int) else code if code >= 100 else _HTTP_STATUS.get(code, 500)
        return self.read(status, error, jsonl.encode(error), axes)

    async def _call(self, call: HttpRequest) -> Mapping[str, Any]:
        body = (await jsonl.call_service(self.client, call, self.read)).json
        return body if isinstance(body, Mapping) else {}

    def _file_address(self, word: str, rest: str) -> str:
        """Files come and go at a separate address, with one word before the version: /upload/v1beta."""
        root, _, version = self.client.base.rpartition("/")
        return f"{root}/{word}/{version}/{rest}"


def name_of_tags(tags: Mapping[str, str]) -> str:
    """Tags as a batch's name.

    >>> name_of_tags({"run": "4f", "shard": "a1"})
    'stillme run=4f shard=a1'
    """
    return " ".join([NAME_PREFIX, *(f"{name}={value}" for name, value in tags.items())])


def tags_in_name(name: str) -> dict[str, str]:
    """The tags in a batch's name; none in a name that stillme did not give.

    >>> tags_in_name("stillme run=4f shard=a1"), tags_in_name("my batch")
    ({'run': '4f', 'shard': 'a1'}, {})
    """
    prefix, *pairs = name.split(" ")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair) if prefix == NAME_PREFIX else {}


def parse_batch(body: Any) -> Batch:
    """A batch from the service's description of it."""
    metadata, error = jsonl.part(body, "metadata"), jsonl.part(body, "error")
    state = _STATES.get(jsonl.text(metadata, "state").rpartition("_STATE_")[2], State.RUNNING)
    if error and state is State.RUNNING:
        state = State.FAILED
    outputs = (
        jsonl.text(jsonl.part(body, "response"), "responsesFile"),
        jsonl.text(jsonl.part(metadata, "output"), "responsesFile"),
    )
    return Batch(
        id=jsonl.require_text(body, "name"),
        tags=tags_in_name(jsonl.text(metadata, "displayName")),
        state=state,
        outputs=next(((output,) for output in outputs if output), ()),
        detail=jsonl.text(error, "message"),
    )
