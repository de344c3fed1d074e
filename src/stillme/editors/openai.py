"""Editors that speak OpenAI's images-edit form: OpenAI itself, vLLM-Omni, SGLang, and `stillme editors serve`.

What a server makes depends on its own kernels, schedulers and quantisation, so `service` and `configuration` are
part of the settings that every key holds: a served result is never pooled with one made in this process. The
address is not part of them. Model ids come from the audit; none is known here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, TypeGuard

from pydantic import Field, StringConstraints, model_validator

from stillme.core.errors import SurroundingsError
from stillme.core.records import EditReply, EditRequest, Status
from stillme.editors import hosted
from stillme.engine import hosted as hosting
from stillme.engine.backends import BackendContext, PreparedEditor
from stillme.engine.http import Answer, Call, Client, Limits, Part, RemoteError, Url

VERSION = 1  # raise when the same settings ask for something else
OPENAI, OURS = "openai", "stillme"
MOST_IMAGES = 16
_BLOCKED = ("moderation_blocked", "content_policy_violation", "image_content_policy_violation")
_STAGES = {"input": Status.INPUT_BLOCKED, "output": Status.OUTPUT_BLOCKED}
_QUOTA = ("insufficient_quota", "billing_hard_limit_reached")
_FIELDS = ("size", "quality", "input_fidelity", "background", "output_format")

_AT_OPENAI: Mapping[str, Any] = {"sends_seed": False, "output_format": "png", "most_images": MOST_IMAGES}
_SERVED: Mapping[str, Any] = {"sends_seed": True, "most_images": 1, "timeout_s": 1800, "deadline_s": 3600}
_SERVED_BY_US = {**_SERVED, "concurrency": 2}  # it makes one edit at a time; the next one waits there

Words = Annotated[str, StringConstraints(strip_whitespace=False)]  # a negative prompt may be one space
Value = bool | int | float | Words


class Settings(Limits):
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
    most_images: int | None = Field(default=None, ge=1, le=MOST_IMAGES)
    controls: tuple[str, ...] = ()  # negative controls that the editor behind our own server makes

    @model_validator(mode="before")
    @classmethod
    def _by_service(cls, data: Any) -> Any:
        """What depends on the service is settled once, so that a run keeps it spelled out."""
        if not isinstance(data, dict):
            return data
        service = data.get("service", OPENAI)
        usual = _AT_OPENAI if service == OPENAI else _SERVED_BY_US if service == OURS else _SERVED
        return {**data, **{name: value for name, value in usual.items() if data.get(name) is None}}

    @model_validator(mode="after")
    def _fits(self) -> Settings:
        taken = {"model", "prompt", "image", "image[]", "n", "seed", *_FIELDS} & set(self.extra)
        if taken:
            raise ValueError(f"extra: {', '.join(sorted(taken))} is set by stillme; use the setting of that name")
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
    takes_none = settings.service == OPENAI
    return {"seed": "OpenAI's image models take none" if takes_none else "sends_seed is off"}


class OpenaiEditor:
    """One model of one service."""

    def __init__(self, settings: Settings, key_env: str | None) -> None:
        self.settings, self.key_env = settings, key_env
        self.priced = hosted.price_row(settings.service, settings.model)
        key = hosting.key(key_env)
        secrets = {"Authorization": f"Bearer {key}"} if key else {}
        self.client = Client(settings.base_url, settings, secrets, hopeless=_is_hopeless)

    async def edit(self, request: EditRequest) -> EditReply:
        form = list(fields(self.settings, request))
        try:
            answer = await self.client.call(Call("POST", "images/edits", form=form))
        except RemoteError as error:
            return self._failed(error)
        return self._made(answer)

    async def close(self) -> None:
        await self.client.close()

    def _made(self, answer: Answer) -> EditReply:
        said = answer.json if isinstance(answer.json, dict) else {}
        data = said.get("data")
        first = data[0] if isinstance(data, list) and data and isinstance(data[0], dict) else {}
        image = hosted.picture(first.get("b64_json"))
        tokens = counted(said.get("usage"))
        if image is None:
            return replace(_empty(answer, first), cost_usd=hosted.cost_usd(self.priced, tokens) if tokens else 0.0)
        told = _told(said) if self.settings.service == OURS else {}
        return EditReply(
            Status.OK,
            image,
            cost_usd=hosted.cost_usd(self.priced, tokens),
            request_id=answer.request_id,
            made=told.get("made", {}),
            notes={**told.get("notes", {}), **hosted.tried(answer.attempts)},
            extras=told.get("extras", {}),
        )

    def _failed(self, error: RemoteError) -> EditReply:
        said = hosting.inner(error.said)
        code = str(said.get("code") or said.get("type") or "")
        if self.settings.service == OURS:
            return self._ended(error, code, said.get("stillme"))
        if code in _BLOCKED and 400 <= error.status_code < 500:
            return _blocked(error, code, said.get("moderation_details"))
        if is_quota(error):
            return hosted.failed(error, code, Status.QUOTA)
        hosting.raise_if_hopeless(error, self.settings.service, self.settings.model, self.key_env)
        return hosted.failed(error, code)

    def _ended(self, error: RemoteError, code: str, told: Any) -> EditReply:
        """Our own server says how an edit ended in our words; what it does not take, it takes from nobody."""
        status = told.get("status") if isinstance(told, dict) else None
        if status in list(Status):
            return hosted.failed(error, code, Status(status))
        hosting.raise_if_hopeless(error, "The server", self.settings.model, self.key_env)
        if error.kind is Status.REJECTED:
            raise SurroundingsError(
                f"The server at {self.settings.base_url} does not take the edits of this audit: {error.message}",
                "Mend the editor's settings or start the server with those that they name, then run again.",
            )
        return hosted.failed(error, code)


def fields(settings: Settings, request: EditRequest) -> Iterator[Part]:
    """The form, in the order in which the pictures are meant."""
    pictures = (request.image, *request.references)
    name = "image" if len(pictures) == 1 else "image[]"
    for number, content in enumerate(pictures, 1):
        kind = hosted.media_type(content)
        yield Part(name, content, f"{number}.{kind.rsplit('/', 1)[1]}", kind)
    values: dict[str, Any] = {"model": settings.model, "prompt": request.instruction, "n": 1}
    values |= {name: getattr(settings, name) for name in _FIELDS if getattr(settings, name) is not None}
    values |= {"seed": request.seed} if settings.sends_seed else {}
    values |= {"control": request.control} if request.control else {}
    values |= {"response_format": "b64_json"} if settings.service not in (OPENAI, OURS) else {}
    for name, value in {**values, **settings.extra}.items():
        yield Part(name, value if isinstance(value, str) else json.dumps(value))


def is_quota(error: RemoteError) -> bool:
    """What is paid for is used up: waiting does not help."""
    said = hosting.inner(error.said)
    return error.kind is Status.QUOTA or said.get("code") in _QUOTA or said.get("type") in _QUOTA


def _is_hopeless(error: RemoteError) -> bool:
    """A quota, or the word of our own server, which has tried already."""
    return is_quota(error) or "stillme" in hosting.inner(error.said)


def counted(usage: Any) -> dict[str, float]:
    """Tokens by kind, as the service counted them."""
    if not isinstance(usage, dict):
        return {}
    details = _mapping(usage.get("input_tokens_details"))
    every = {
        "text": details.get("text_tokens"),
        "image": details.get("image_tokens"),
        "output": usage.get("output_tokens"),
    }
    return {kind: float(count) for kind, count in every.items() if _is_count(count)}


def _is_count(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _blocked(error: RemoteError, code: str, details: Any) -> EditReply:
    """A refusal, on the side that the service names; where it names none, counted on the way in and noted."""
    told = details if isinstance(details, dict) else {}
    stage = told.get("moderation_stage")
    notes = {"moderation": json.dumps(told, sort_keys=True)} if told else {}
    if stage not in _STAGES:
        notes["stage"] = "not told by the service; counted as input"
    status = _STAGES.get(str(stage), Status.INPUT_BLOCKED)
    return EditReply(status, detail=error.message, code=code, request_id=error.request_id, notes=notes)


def _empty(answer: Answer, first: Mapping[str, Any]) -> EditReply:
    """A success without a picture is a failure of the service, to be tried again on the next run."""
    said = "the service answered without a picture"
    if first.get("url"):
        said = "the service answered with a link, which is not followed; set it up to answer with b64_json"
    return EditReply(Status.SERVER_ERROR, detail=said, code="empty_response", request_id=answer.request_id)


def _told(said: Mapping[str, Any]) -> dict[str, Any]:
    """What our own server says of how an edit was made."""
    told = said.get("stillme")
    if not isinstance(told, dict):
        return {}
    made, notes, pictures = (_mapping(told.get(name)) for name in ("made", "notes", "extras"))
    extras = {name: hosted.picture(text) for name, text in pictures.items()}
    settings = {"served_settings": told["settings"]} if told.get("settings") else {}
    return {
        "made": {**made, **settings},
        "notes": {name: str(value) for name, value in notes.items()},
        "extras": {name: content for name, content in extras.items() if content is not None},
    }


def _mapping(given: Any) -> Mapping[str, Any]:
    return given if isinstance(given, dict) else {}
