"""Black Forest Labs' hosted FLUX.2 models: an edit is submitted, polled, and downloaded.

Only the address that the service itself gives is polled, and only within its own domain. FLUX.2-dev is not
offered there: what is hosted is another model. Model ids come from the audit.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal
from urllib.parse import quote

from pydantic import Field, model_validator

from stillme.core.records import EditReply, EditRequest, Status
from stillme.editors import hosted
from stillme.engine import hosted as hosting
from stillme.engine.backends import BackendContext, PreparedEditor
from stillme.engine.http import Client, ClientConfig, HttpRequest, HttpResponse, RemoteError, Url, origin

VERSION = 1  # raise when the same settings ask for something else
SERVICE = "bfl"
DOMAIN = "bfl.ai"
MAX_IMAGES = 8
MAX_IN_FLIGHT = 24  # edits that the service accepts from one customer at a time
USD_PER_CREDIT = 0.01
_BLOCKED = {"Request Moderated": Status.INPUT_BLOCKED, "Content Moderated": Status.OUTPUT_BLOCKED}
_POLICY = "content_policy_violation"
_FILES = ("image/", "application/octet-stream", "binary/octet-stream")  # the content is checked later
_WAITING = ("Pending", "Queued", "Processing", "Reasoning", "Preparing", "Generating")


class Settings(ClientConfig):
    """poll_s: between two requests whether an edit is ready. extra: further fields of the body."""

    model: str = Field(min_length=1)
    base_url: Url = f"https://api.{DOMAIN}/v1"
    concurrency: int = Field(default=16, ge=1, le=MAX_IN_FLIGHT)
    poll_s: float = Field(default=1.0, gt=0)
    width: int | None = Field(default=None, ge=64, multiple_of=16)
    height: int | None = Field(default=None, ge=64, multiple_of=16)
    safety_tolerance: int | None = Field(default=None, ge=0, le=6)
    output_format: Literal["png", "jpeg", "webp"] = "png"
    steps: int | None = Field(default=None, ge=1)
    guidance: float | None = Field(default=None, ge=0)
    extra: dict[str, bool | int | float | str] = Field(default_factory=dict)
    most_images: int = Field(default=MAX_IMAGES, ge=1, le=MAX_IMAGES)

    @model_validator(mode="after")
    def _fits(self) -> Settings:
        reserved = {name for name in self.extra if name in _RESERVED or name.startswith("input_image")}
        if reserved:
            raise ValueError(
                f"extra: {', '.join(sorted(reserved))} is set by stillme; use the setting of that name"
            )
        return self


_FIELDS = ("width", "height", "safety_tolerance", "output_format", "steps", "guidance")
_RESERVED = ("prompt", "seed", *_FIELDS)


def prepare(settings: Settings, context: BackendContext) -> PreparedEditor[BflEditor]:
    hosting.check_key(context.key_env, "Black Forest Labs", settings.base_url)
    priced = hosted.price_row(SERVICE, settings.model)
    return PreparedEditor(
        effective={"backend": "bfl", "version": VERSION, **hosting.relevant(settings, "most_images", "poll_s")},
        **hosting.remote_fields(settings, hosted.price(priced)),
        make=lambda: BflEditor(settings, context.key_env),
        description=f"{settings.model}, asked of Black Forest Labs by HTTP.",
        seconds=15,
        most_images=settings.most_images,
    )


class BflEditor:
    """One model."""

    def __init__(self, settings: Settings, key_env: str | None) -> None:
        self.settings = settings
        self.key_env = key_env
        self.price = hosted.price_row(SERVICE, settings.model)
        key = hosting.key(key_env)
        scheme, host, _ = origin(settings.base_url)
        is_bfl = scheme == "https" and (host == DOMAIN or host.endswith(f".{DOMAIN}"))
        secrets = {"x-key": key} if key else {}
        self.client = Client(settings.base_url, settings, secrets, (DOMAIN,) if is_bfl else ())

    async def edit(self, request: EditRequest) -> EditReply:
        path = quote(self.settings.model, safe="")
        try:
            submitted = await self.client.call(HttpRequest("POST", path, json=build_body(self.settings, request)))
        except RemoteError as error:
            hosting.raise_if_hopeless(error, "Black Forest Labs", self.settings.model, self.key_env)
            return hosted.failed(error)
        task = submitted.json if isinstance(submitted.json, dict) else {}
        try:
            reply = await self._collect(task, submitted)
        except RemoteError as error:  # the edit was accepted: whatever goes wrong now concerns this one alone
            kind = Status.SERVER_ERROR if error.kind in (Status.REJECTED, Status.QUOTA) else error.kind
            request_id = str(task.get("id") or error.request_id)
            reply = replace(hosted.failed(error, kind=kind), request_id=request_id)
        if reply.status is Status.OK or reply.status.stage:  # what is moderated is not charged for
            return reply
        return replace(reply, cost_usd=_reported_usd(task) or 0.0)

    async def close(self) -> None:
        await self.client.close()

    async def _collect(self, task: Mapping[str, Any], submitted: HttpResponse) -> EditReply:
        request_id, url = str(task.get("id") or ""), task.get("polling_url")
        notes = hosted.earlier_attempts(submitted.attempts)
        if not isinstance(url, str) or not url:
            detail = "the service took the edit and did not say where to ask after it"
            return EditReply(Status.SERVER_ERROR, detail=detail, code="empty_response", request_id=request_id)
        state = await self._wait(url)
        if state is None:
            detail = f"not ready after {self.settings.deadline_s:g} s"
            return EditReply(Status.TIMEOUT, detail=detail, request_id=request_id, notes=notes)
        result = state.get("result")
        result = result if isinstance(result, dict) else {}
        link = result.get("sample")
        if state.get("status") != "Ready" or not isinstance(link, str):
            return _failed(state, request_id, notes)
        # without the key: the link is signed
        image = (await self.client.call(HttpRequest("GET", link, accepts=_FILES, keyless=True, paced=False))).body
        if result.get("seed") is not None:
            notes = {**notes, "seed": str(result["seed"])}
        cost_usd = self.charged_usd(task, state)
        return EditReply(Status.OK, image, cost_usd=cost_usd, request_id=request_id, notes=notes)

    def charged_usd(self, *bodies: Mapping[str, Any]) -> float:
        """The cost that the service reported; else the expected cost."""
        reported = _reported_usd(*bodies)
        return hosted.expected_usd(self.price) if reported is None else reported

    async def _wait(self, url: str) -> Mapping[str, Any] | None:
        """The service's state of the edit once it has ended; None if that takes too long."""
        ends = time.monotonic() + self.settings.deadline_s
        while time.monotonic() < ends:
            answer = await self.client.call(HttpRequest("GET", url, paced=False))
            state = answer.json if isinstance(answer.json, dict) else {}
            if state.get("status") not in _WAITING:
                return state
            await asyncio.sleep(self.settings.poll_s)
        return None


def build_body(settings: Settings, request: EditRequest) -> dict[str, Any]:
    """The body: the instruction, the pictures by number, and the parameters."""
    encoded = [base64.b64encode(picture).decode() for picture in (request.image, *request.references)]
    pictures = {f"input_image_{n}" if n > 1 else "input_image": text for n, text in enumerate(encoded, 1)}
    parameters = {name: getattr(settings, name) for name in _FIELDS if getattr(settings, name) is not None}
    return {"prompt": request.instruction, **pictures, "seed": request.seed, **parameters, **settings.extra}


def _failed(state: Mapping[str, Any], request_id: str, notes: Mapping[str, str]) -> EditReply:
    """Moderated at the input or the output, or failed with the service's own status."""
    status = str(state.get("status") or "")
    details = state.get("details")
    if isinstance(details, dict):
        reasons, error = details.get("Moderation Reasons"), details.get("error")
        text = ", ".join(map(str, reasons)) if isinstance(reasons, list) else json.dumps(details, sort_keys=True)
    else:
        error, text = None, str(details or "")
    if status not in _BLOCKED and _POLICY in (state.get("error"), error):
        notes = {**notes, "stage": "not told by the service; counted as input"}
        return EditReply(Status.INPUT_BLOCKED, detail=text, code=_POLICY, request_id=request_id, notes=notes)
    kind = _BLOCKED.get(status, Status.SERVER_ERROR)
    detail = text or ("" if status else "the service did not say how the edit ended")
    return EditReply(kind, detail=detail, code=status or "empty_response", request_id=request_id, notes=notes)


def _reported_usd(*bodies: Mapping[str, Any]) -> float | None:
    """The credits that the service named first, in USD; None where it named none."""
    for body in bodies:
        cost = body.get("cost")
        if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < 1e9:
            return round(cost * USD_PER_CREDIT, 8)
    return None
