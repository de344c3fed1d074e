"""Gemini's image models, over plain HTTP (`generateContent`).

A refusal comes as a success without a picture: input blocked, output blocked, or a refusal in words. Unknown
reasons are failures, with the reason kept. Model ids come from the audit.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from pydantic import Field

from stillme.core.records import EditReply, EditRequest, Status
from stillme.editors import hosted
from stillme.engine import hosted as hosting
from stillme.engine.backends import BackendContext, PreparedEditor
from stillme.engine.http import Client, ClientConfig, HttpRequest, HttpResponse, RemoteError, Url

VERSION = 1  # raise when the same settings ask for something else
SERVICE = "gemini"
MAX_IMAGES = 14
_INPUT_BLOCKED_REASONS = (
    "SAFETY",
    "OTHER",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "IMAGE_SAFETY",
    "MODEL_ARMOR",
    "JAILBREAK",
)
_OUTPUT_BLOCKED_REASONS = (
    "SAFETY",
    "IMAGE_SAFETY",
    "PROHIBITED_CONTENT",
    "IMAGE_PROHIBITED_CONTENT",
    "BLOCKLIST",
    "SPII",
    "RECITATION",
    "IMAGE_RECITATION",
)
_OK_REASONS = ("STOP", "")


class Settings(ClientConfig):
    """safety: harm category -> threshold, as the API names them."""

    model: str = Field(min_length=1)
    base_url: Url = "https://generativelanguage.googleapis.com/v1"
    aspect_ratio: str | None = None
    image_size: str | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    safety: dict[str, str] = Field(default_factory=dict)
    sends_seed: bool = True
    most_images: int = Field(default=MAX_IMAGES, ge=1, le=MAX_IMAGES)


def prepare(settings: Settings, context: BackendContext) -> PreparedEditor[GeminiEditor]:
    hosting.check_key(context.key_env, "Gemini", settings.base_url)
    priced = hosted.price_row(SERVICE, settings.model)
    return PreparedEditor(
        effective={"backend": "gemini", "version": VERSION, **hosting.relevant(settings, "most_images")},
        **hosting.remote_fields(settings, hosted.price(priced)),
        make=lambda: GeminiEditor(settings, context.key_env),
        description=f"{settings.model}, asked of Google by HTTP.",
        seconds=15,
        most_images=settings.most_images,
        dropped={} if settings.sends_seed else {"seed": "sends_seed is off"},
        caveats=("Gemini takes the seed as a wish: the same seed may give another picture.",),
    )


class GeminiEditor:
    """One model."""

    def __init__(self, settings: Settings, key_env: str | None) -> None:
        self.settings = settings
        self.key_env = key_env
        self.price = hosted.price_row(SERVICE, settings.model)
        key = hosting.key(key_env)
        secrets = {"x-goog-api-key": key} if key else {}
        self.client = Client(settings.base_url, settings, secrets, hopeless=is_quota)

    async def edit(self, request: EditRequest) -> EditReply:
        path = f"models/{quote(self.settings.model, safe='')}:generateContent"
        try:
            answer = await self.client.call(HttpRequest("POST", path, json=build_body(self.settings, request)))
        except RemoteError as error:
            return self._failed(error)
        return self._parse_answer(answer)

    async def close(self) -> None:
        await self.client.close()

    def _parse_answer(self, answer: HttpResponse) -> EditReply:
        body = answer.json if isinstance(answer.json, dict) else {}
        request_id = answer.request_id or str(body.get("responseId") or "")
        feedback = body.get("promptFeedback")
        if isinstance(feedback, dict) and feedback.get("blockReason"):
            reason, detail = str(feedback["blockReason"]), str(feedback.get("blockReasonMessage") or "")
            status = Status.INPUT_BLOCKED if reason in _INPUT_BLOCKED_REASONS else Status.SERVER_ERROR
            return EditReply(status, detail=detail, code=reason, request_id=request_id)
        candidates = body.get("candidates")
        first = candidates[0] if isinstance(candidates, list) and candidates else None
        candidate = first if isinstance(first, dict) else {}
        parts = _answer_parts(candidate)
        text = " ".join(str(part["text"]).strip() for part in parts if part.get("text"))
        inline = (part.get("inlineData") for part in parts)
        contents = [hosted.picture(data.get("data")) for data in inline if isinstance(data, dict)]
        pictures = [content for content in contents if content is not None]
        if not pictures:
            return _without_picture(candidate, text, request_id)
        return EditReply(
            Status.OK,
            pictures[0],
            text,
            cost_usd=hosted.expected_usd(self.price),
            request_id=request_id,
            environment={"model_version": body["modelVersion"]} if body.get("modelVersion") else {},
            notes=hosted.earlier_attempts(answer.attempts),
            extras={f"picture_{n}": content for n, content in enumerate(pictures[1:], 2)},
        )

    def _failed(self, error: RemoteError) -> EditReply:
        code = str(hosting.inner(error.said).get("status") or "")
        # Both come as a 400, and every call would end like it. The second: an unsupported country, no billing.
        if "API_KEY_INVALID" in str(error.said) or code == "FAILED_PRECONDITION":
            error.status_code = 401
        if is_quota(error):
            return hosted.failed(error, code, Status.QUOTA)
        hosting.raise_if_hopeless(error, "Gemini", self.settings.model, self.key_env)
        return hosted.failed(error, code)


def build_body(settings: Settings, request: EditRequest) -> dict[str, Any]:
    """The body: the pictures, then the instruction."""
    parts: list[dict[str, Any]] = [
        {"inlineData": {"mimeType": hosted.media_type(picture), "data": base64.b64encode(picture).decode()}}
        for picture in (request.image, *request.references)
    ]
    image_config = {"aspectRatio": settings.aspect_ratio, "imageSize": settings.image_size}
    parameters: dict[str, Any] = {
        "responseModalities": ["TEXT", "IMAGE"],
        "imageConfig": {name: value for name, value in image_config.items() if value} or None,
        "temperature": settings.temperature,
        "seed": request.seed if settings.sends_seed else None,
    }
    body: dict[str, Any] = {
        "contents": [{"role": "user", "parts": [*parts, {"text": request.instruction}]}],
        "generationConfig": {name: value for name, value in parameters.items() if value is not None},
    }
    if settings.safety:
        rules = settings.safety.items()
        body["safetySettings"] = [{"category": harm, "threshold": limit} for harm, limit in rules]
    return body


def _answer_parts(candidate: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The parts of the answer; those made while thinking are left out."""
    content = candidate.get("content")
    parts = content.get("parts") if isinstance(content, dict) else None
    rows = parts if isinstance(parts, list) else []
    return [part for part in rows if isinstance(part, dict) and not part.get("thought")]


def _without_picture(candidate: Mapping[str, Any], text: str, request_id: str) -> EditReply:
    """Output blocked, words instead of a picture, or no reason at all: then the next run tries again."""
    reason = str(candidate.get("finishReason") or "")
    detail = str(candidate.get("finishMessage") or text)
    if reason in _OUTPUT_BLOCKED_REASONS:
        return EditReply(Status.OUTPUT_BLOCKED, detail=detail, code=reason, request_id=request_id)
    if reason in _OK_REASONS and text:
        return EditReply(Status.REFUSED, detail=text, code=reason, request_id=request_id)
    detail = detail or "the service answered without a picture"
    return EditReply(Status.SERVER_ERROR, detail=detail, code=reason or "empty_response", request_id=request_id)


def is_quota(error: RemoteError) -> bool:
    """A limit by the day, or no money: waiting a minute does not help."""
    details = hosting.inner(error.said).get("details")
    return error.kind is Status.QUOTA or (error.status_code == 429 and "PerDay" in str(details))
