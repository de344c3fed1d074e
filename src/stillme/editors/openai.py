"""Editors that speak OpenAI's images-edit form: OpenAI itself, vLLM-Omni, SGLang, and `stillme editors serve`.

A server's results depend on its kernels, schedulers and quantisation, so `service` and `configuration` are part
of the settings in every key: a served result is never pooled with one made in this process. The address is not
part of them. Model ids come from the audit; none is known here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeGuard

from pydantic import Field, StringConstraints, model_validator

from stillme.core.errors import SetupError
from stillme.core.records import EditReply, EditRequest, Status
from stillme.editors import hosted
from stillme.engine import hosted as hosting
from stillme.engine.backends import BackendContext, PreparedEditor
from stillme.engine.http import Client, ClientConfig, HttpRequest, HttpResponse, MultipartField, RemoteError, Url

VERSION = 1  # raise when the same settings ask for something else
OPENAI, OURS = "openai", "stillme"
MAX_IMAGES = 16
_BLOCKED_CODES = ("moderation_blocked", "content_policy_violation", "image_content_policy_violation")
_STAGES = {"input": Status.INPUT_BLOCKED, "output": Status.OUTPUT_BLOCKED}
_QUOTA_CODES = ("insufficient_quota", "billing_hard_limit_reached")
_FIELDS = ("size", "quality", "input_fidelity", "background", "output_format")

_AT_OPENAI: Mapping[str, Any] = {"sends_seed": False, "output_format": "png", "most_images": MAX_IMAGES}
_SERVED: Mapping[str, Any] = {"sends_seed": True, "most_images": 1, "timeout_s": 1800, "deadline_s": 3600}
_SERVED_BY_US = {**_SERVED, "concurrency": 2}  # it makes one edit at a time; the next one waits there

Words = Annotated[str, StringConstraints(strip_whitespace=False)]  # a negative prompt may be one space
Value = bool | int | float | Words


class Settings(ClientConfig):
    """extra: further form fields. configuration: facts of a server that change pixels, in free words.

    sends_seed: by default to every service but OpenAI, whose image models take none.
    """

    model: str = Field(min_length=1)
    service: Literal["openai", "vllm-omni", "sglang", "stillme", "other"] = "openai"
    base_url: Url = "https://api.openai.com/v1"
    size: str | None = None
    quality: str | None = None
    input_fidelity: Literal["low", "high"] | None = None
    background: str | None = None
    output_format: Literal["png", "jpeg", "webp"] | None = None  # OpenAI is asked for png
    sends_seed: bool | None = None
    extra: dict[str, Value] = Field(default_factory=dict)
    configuration: dict[str, Value] = Field(default_factory=dict)
    most_images: int | None = Field(default=None, ge=1, le=MAX_IMAGES)
    controls: tuple[str, ...] = ()  # negative controls that the editor behind our own server makes

    @model_validator(mode="before")
    @classmethod
    def _by_service(cls, data: Any) -> Any:
        """Resolve defaults that depend on the service, so that a run has them spelled out."""
        if not isinstance(data, dict):
            return data
        service = data.get("service", OPENAI)
        defaults = _AT_OPENAI if service == OPENAI else _SERVED_BY_US if service == OURS else _SERVED
        return {**data, **{name: value for name, value in defaults.items() if data.get(name) is None}}

    @model_validator(mode="after")
    def _fits(self) -> Settings:
        reserved = {"model", "prompt", "image", "image[]", "n", "seed", *_FIELDS} & set(self.extra)
        if reserved:
            raise ValueError(
                f"extra: {', '.join(sorted(reserved))} is set by stillme; use the setting of that name"
            )
        if self.service == OPENAI and self.sends_seed:
            raise ValueError("sends_seed: OpenAI's image models take no seed")
        if self.service != OURS and self.controls:
            raise ValueError(f"controls: only an editor behind a server of the kind '{OURS}' makes them")
        if self.service != OPENAI and self.base_url == Settings.model_fields["base_url"].default:
            raise ValueError(
                f"base_url: say where the {self.service} server listens, e.g. http://127.0.0.1:8000/v1"
            )
        return self


def prepare(settings: Settings, context: BackendContext) -> PreparedEditor[OpenaiEditor]:
    if settings.service == OPENAI:
        hosting.check_key(context.key_env, "OpenAI", settings.base_url)
    priced = hosted.price_row(settings.service, settings.model)
    named = hosting.relevant(settings, "most_images", "controls")
    return PreparedEditor(
        effective={"backend": "openai", "version": VERSION, **named},
        **hosting.remote_fields(settings, hosted.price(priced)),
        make=lambda: OpenaiEditor(settings, context.key_env),
        description=f"{settings.model}, asked of {settings.service} by HTTP.",
        seconds=20,
        most_images=settings.most_images or 1,
        dropped=_dropped(settings),
        controls=settings.controls,
    )


def _dropped(settings: Settings) -> dict[str, str]:
    if settings.sends_seed:
        return {}
    is_openai = settings.service == OPENAI
    return {"seed": "OpenAI's image models take none" if is_openai else "sends_seed is off"}


class OpenaiEditor:
    """One model of one service."""

    def __init__(self, settings: Settings, key_env: str | None) -> None:
        self.settings = settings
        self.key_env = key_env
        self.price = hosted.price_row(settings.service, settings.model)
        key = hosting.key(key_env)
        secrets = {"Authorization": f"Bearer {key}"} if key else {}
        self.client = Client(settings.base_url, settings, secrets, hopeless=_is_hopeless)

    async def edit(self, request: EditRequest) -> EditReply:
        form = list(fields(self.settings, request))
        try:
            answer = await self.client.call(HttpRequest("POST", "images/edits", form=form))
        except RemoteError as error:
            return self._failed(error)
        return self._parse_answer(answer)

    async def close(self) -> None:
        await self.client.close()

    def _parse_answer(self, answer: HttpResponse) -> EditReply:
        body = answer.json if isinstance(answer.json, dict) else {}
        data = body.get("data")
        first = data[0] if isinstance(data, list) and data and isinstance(data[0], dict) else {}
        image = hosted.picture(first.get("b64_json"))
        tokens = count_tokens(body.get("usage"))
        if image is None:  # a failure of the service: the next run tries again
            detail = "the service answered without a picture"
            if first.get("url"):
                detail = (
                    "the service answered with a link, which is not followed; set it up to answer with b64_json"
                )
            return EditReply(
                Status.SERVER_ERROR,
                detail=detail,
                cost_usd=hosted.cost_usd(self.price, tokens) if tokens else 0.0,
                code="empty_response",
                request_id=answer.request_id,
            )
        details = _stillme_details(body) if self.settings.service == OURS else {}
        return EditReply(
            Status.OK,
            image,
            cost_usd=hosted.cost_usd(self.price, tokens),
            request_id=answer.request_id,
            environment=details.get("made", {}),
            notes={**details.get("notes", {}), **hosted.earlier_attempts(answer.attempts)},
            extras=details.get("extras", {}),
        )

    def _failed(self, error: RemoteError) -> EditReply:
        body = hosting.inner(error.said)
        code = str(body.get("code") or body.get("type") or "")
        if self.settings.service == OURS:
            return self._failed_at_stillme(error, code, body.get("stillme"))
        if code in _BLOCKED_CODES and 400 <= error.status_code < 500:
            return _blocked(error, code, body.get("moderation_details"))
        if is_quota(error):
            return hosted.failed(error, code, Status.QUOTA)
        hosting.raise_if_hopeless(error, self.settings.service, self.settings.model, self.key_env)
        return hosted.failed(error, code)

    def _failed_at_stillme(self, error: RemoteError, code: str, details: Any) -> EditReply:
        """stillme's own server names the status of an edit; any other rejection would concern every edit."""
        status = details.get("status") if isinstance(details, dict) else None
        if status in list(Status):
            return hosted.failed(error, code, Status(status))
        hosting.raise_if_hopeless(error, "The server", self.settings.model, self.key_env)
        if error.kind is Status.REJECTED:
            raise SetupError(
                f"The server at {self.settings.base_url} does not take the edits of this audit: {error.message}",
                "Mend the editor's settings or start the server with those that they name, then run again.",
            )
        return hosted.failed(error, code)


def fields(settings: Settings, request: EditRequest) -> Iterator[MultipartField]:
    """The form's fields, with the pictures in their order."""
    pictures = (request.image, *request.references)
    name = "image" if len(pictures) == 1 else "image[]"
    for number, content in enumerate(pictures, 1):
        kind = hosted.media_type(content)
        yield MultipartField(name, content, f"{number}.{kind.rsplit('/', 1)[1]}", kind)
    values: dict[str, Any] = {"model": settings.model, "prompt": request.instruction, "n": 1}
    values |= {name: getattr(settings, name) for name in _FIELDS if getattr(settings, name) is not None}
    values |= {"seed": request.seed} if settings.sends_seed else {}
    values |= {"control": request.control} if request.control else {}
    values |= {"response_format": "b64_json"} if settings.service not in (OPENAI, OURS) else {}
    for name, value in {**values, **settings.extra}.items():
        yield MultipartField(name, value if isinstance(value, str) else json.dumps(value))


def is_quota(error: RemoteError) -> bool:
    """The paid quota is used up: waiting does not help."""
    error_body = hosting.inner(error.said)
    return (
        error.kind is Status.QUOTA
        or error_body.get("code") in _QUOTA_CODES
        or error_body.get("type") in _QUOTA_CODES
    )


def _is_hopeless(error: RemoteError) -> bool:
    """A used-up quota, or an error of stillme's own server, which has retried already."""
    return is_quota(error) or "stillme" in hosting.inner(error.said)


def count_tokens(usage: Any) -> dict[str, float]:
    """Tokens by kind, as the service counted them."""
    if not isinstance(usage, dict):
        return {}
    details = _mapping(usage.get("input_tokens_details"))
    counts = {
        "text": details.get("text_tokens"),
        "image": details.get("image_tokens"),
        "output": usage.get("output_tokens"),
    }
    return {kind: float(count) for kind, count in counts.items() if _is_count(count)}


def _is_count(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _blocked(error: RemoteError, code: str, details: Any) -> EditReply:
    """A refusal at the stage that the service names; where it names none, counted as input and noted."""
    moderation = _mapping(details)
    stage = moderation.get("moderation_stage")
    notes = {"moderation": json.dumps(moderation, sort_keys=True)} if moderation else {}
    if stage not in _STAGES:
        notes["stage"] = "not told by the service; counted as input"
    status = _STAGES.get(str(stage), Status.INPUT_BLOCKED)
    return EditReply(status, detail=error.message, code=code, request_id=error.request_id, notes=notes)


def _stillme_details(body: Mapping[str, Any]) -> dict[str, Any]:
    """How an edit was made, from the answer of stillme's own server."""
    details = body.get("stillme")
    if not isinstance(details, dict):
        return {}
    made, notes, pictures = (_mapping(details.get(name)) for name in ("made", "notes", "extras"))
    extras = {name: hosted.picture(text) for name, text in pictures.items()}
    settings = {"served_settings": details["settings"]} if details.get("settings") else {}
    return {
        "made": {**made, **settings},
        "notes": {name: str(value) for name, value in notes.items()},
        "extras": {name: content for name, content in extras.items() if content is not None},
    }


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
