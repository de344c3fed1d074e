"""Gemini's image models, over plain HTTP (`generateContent`).

A refusal comes as a success without a picture: blocked on the way in, stopped on the way out, or said in words.
Reasons that are not known here are failures, with the reason kept. Model ids come from the audit.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from pydantic import Field

from stillme.core.records import EditReply, EditRequest, Status
from stillme.editors import hosted
from stillme.engine import hosted as hosting
from stillme.engine.backends import BackendContext, PreparedEditor
from stillme.engine.http import Answer, Call, Client, Limits, RemoteError, Url

VERSION = 1  # raise when the same settings ask for something else
SERVICE = "gemini"
MOST_IMAGES = 14
_ON_THE_WAY_IN = ("SAFETY", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "IMAGE_SAFETY", "MODEL_ARMOR", "JAILBREAK")
_ON_THE_WAY_OUT = (
    "SAFETY",
    "IMAGE_SAFETY",
    "PROHIBITED_CONTENT",
    "IMAGE_PROHIBITED_CONTENT",
    "BLOCKLIST",
    "SPII",
    "RECITATION",
    "IMAGE_RECITATION",
)
_ENDED_WELL = ("STOP", "")


class Settings(Limits):
    """safety: harm category -> threshold, as the API names them."""

    model: str = Field(min_length=1)
    base_url: Url = "https://generativelanguage.googleapis.com/v1"
    aspect_ratio: str | None = None
    image_size: str | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    safety: dict[str, str] = Field(default_factory=dict)
    sends_seed: bool = True
    most_images: int = Field(default=MOST_IMAGES, ge=1, le=MOST_IMAGES)


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
        self.settings, self.key_env = settings, key_env
        self.priced = hosted.price_row(SERVICE, settings.model)
        key = hosting.key(key_env)
        secrets = {"x-goog-api-key": key} if key else {}
        self.client = Client(settings.base_url, settings, secrets, hopeless=is_quota)

    async def edit(self, request: EditRequest) -> EditReply:
        path = f"models/{quote(self.settings.model, safe='')}:generateContent"
        try:
            answer = await self.client.call(Call("POST", path, json=question(self.settings, request)))
        except RemoteError as error:
            return self._failed(error)
        return self._understood(answer)

    async def close(self) -> None:
        await self.client.close()

    def _understood(self, answer: Answer) -> EditReply:
        said = answer.json if isinstance(answer.json, dict) else {}
        number = answer.request_id or str(said.get("responseId") or "")
        feedback = said.get("promptFeedback")
        if isinstance(feedback, dict) and feedback.get("blockReason"):
            return _blocked(feedback, number)
        first = _first(said.get("candidates"))
        shown = list(pictures(first))
        if not shown:
            return _without_picture(first, number)
        return EditReply(
            Status.OK,
            shown[0],
            words(first),
            cost_usd=hosted.expected_usd(self.priced),
            request_id=number,
            made={"model_version": said["modelVersion"]} if said.get("modelVersion") else {},
            notes=hosted.tried(answer.attempts),
            extras={f"picture_{n}": content for n, content in enumerate(shown[1:], 2)},
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


def question(settings: Settings, request: EditRequest) -> dict[str, Any]:
    """The body: the pictures, then the sentence."""
    parts: list[dict[str, Any]] = [
        {"inlineData": {"mimeType": hosted.media_type(one), "data": base64.b64encode(one).decode()}}
        for one in (request.image, *request.references)
    ]
    shape = {"aspectRatio": settings.aspect_ratio, "imageSize": settings.image_size}
    wanted: dict[str, Any] = {
        "responseModalities": ["TEXT", "IMAGE"],
        "imageConfig": {name: value for name, value in shape.items() if value} or None,
        "temperature": settings.temperature,
        "seed": request.seed if settings.sends_seed else None,
    }
    asked: dict[str, Any] = {
        "contents": [{"role": "user", "parts": [*parts, {"text": request.instruction}]}],
        "generationConfig": {name: value for name, value in wanted.items() if value is not None},
    }
    if settings.safety:
        rules = settings.safety.items()
        asked["safetySettings"] = [{"category": harm, "threshold": limit} for harm, limit in rules]
    return asked


def pictures(candidate: Mapping[str, Any]) -> Iterator[bytes]:
    """The pictures that are meant as the answer; those made while thinking are not."""
    for part in _parts(candidate):
        inline = part.get("inlineData")
        found = hosted.picture(inline.get("data")) if isinstance(inline, dict) else None
        if found is not None:
            yield found


def words(candidate: Mapping[str, Any]) -> str:
    return " ".join(str(part["text"]).strip() for part in _parts(candidate) if part.get("text"))


def _first(candidates: Any) -> Mapping[str, Any]:
    first = candidates[0] if isinstance(candidates, list) and candidates else None
    return first if isinstance(first, dict) else {}


def _parts(candidate: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = candidate.get("content")
    parts = content.get("parts") if isinstance(content, dict) else None
    every = parts if isinstance(parts, list) else []
    return [part for part in every if isinstance(part, dict) and not part.get("thought")]


def _blocked(feedback: Mapping[str, Any], number: str) -> EditReply:
    reason, said = str(feedback["blockReason"]), str(feedback.get("blockReasonMessage") or "")
    status = Status.INPUT_BLOCKED if reason in _ON_THE_WAY_IN else Status.SERVER_ERROR
    return EditReply(status, detail=said, code=reason, request_id=number)


def _without_picture(candidate: Mapping[str, Any], number: str) -> EditReply:
    """Stopped on the way out, words instead, or nothing that says why: then it is tried again on the next run."""
    reason, said = str(candidate.get("finishReason") or ""), words(candidate)
    why = str(candidate.get("finishMessage") or said)
    if reason in _ON_THE_WAY_OUT:
        return EditReply(Status.OUTPUT_BLOCKED, detail=why, code=reason, request_id=number)
    if reason in _ENDED_WELL and said:
        return EditReply(Status.REFUSED, detail=said, code=reason, request_id=number)
    nothing = why or "the service answered without a picture"
    return EditReply(Status.SERVER_ERROR, detail=nothing, code=reason or "empty_response", request_id=number)


def is_quota(error: RemoteError) -> bool:
    """A limit by the day, or no money: waiting a minute does not help."""
    details = hosting.inner(error.said).get("details")
    return error.kind is Status.QUOTA or (error.status_code == 429 and "PerDay" in str(details))
