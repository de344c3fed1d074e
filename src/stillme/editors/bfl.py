"""Black Forest Labs' hosted FLUX.2 models: an edit is handed in, asked after, and fetched.

Only the address that the service itself gives is asked after, and only within its own domain. FLUX.2-dev is not
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
from stillme.engine.http import Answer, Call, Client, Limits, RemoteError, Url, origin

VERSION = 1  # raise when the same settings ask for something else
SERVICE = "bfl"
DOMAIN = "bfl.ai"
MOST_IMAGES = 8
MOST_IN_FLIGHT = 24  # edits that the service takes from one customer at a time
USD_A_CREDIT = 0.01
_BLOCKED = {"Request Moderated": Status.INPUT_BLOCKED, "Content Moderated": Status.OUTPUT_BLOCKED}
_POLICY = "content_policy_violation"
_FILES = ("image/", "application/octet-stream", "binary/octet-stream")  # what came is looked at later
_WAITING = ("Pending", "Queued", "Processing", "Reasoning", "Preparing", "Generating")


class Settings(Limits):
    """poll_s: between two questions whether an edit is ready. extra: further fields of the body."""

    model: str = Field(min_length=1)
    base_url: Url = f"https://api.{DOMAIN}/v1"
    concurrency: int = Field(default=16, ge=1, le=MOST_IN_FLIGHT)
    poll_s: float = Field(default=1.0, gt=0)
    width: int | None = Field(default=None, ge=64, multiple_of=16)
    height: int | None = Field(default=None, ge=64, multiple_of=16)
    safety_tolerance: int | None = Field(default=None, ge=0, le=6)
    output_format: Literal["png", "jpeg", "webp"] = "png"
    steps: int | None = Field(default=None, ge=1)
    guidance: float | None = Field(default=None, ge=0)
    extra: dict[str, bool | int | float | str] = Field(default_factory=dict)
    most_images: int = Field(default=MOST_IMAGES, ge=1, le=MOST_IMAGES)

    @model_validator(mode="after")
    def _fits(self) -> Settings:
        taken = {name for name in self.extra if name in _OURS or name.startswith("input_image")}
        if taken:
            raise ValueError(f"extra: {', '.join(sorted(taken))} is set by stillme; use the setting of that name")
        return self


_FIELDS = ("width", "height", "safety_tolerance", "output_format", "steps", "guidance")
_OURS = ("prompt", "seed", *_FIELDS)


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
        self.settings, self.key_env = settings, key_env
        self.priced = hosted.price_row(SERVICE, settings.model)
        key = hosting.key(key_env)
        secrets = {"x-key": key} if key else {}
        hosts = (DOMAIN,) if _is_theirs(settings.base_url) else ()
        self.client = Client(settings.base_url, settings, secrets, hosts)

    async def edit(self, request: EditRequest) -> EditReply:
        try:
            handed_in = await self._hand_in(request)
        except RemoteError as error:
            hosting.raise_if_hopeless(error, "Black Forest Labs", self.settings.model, self.key_env)
            return hosted.failed(error)
        task = handed_in.json if isinstance(handed_in.json, dict) else {}
        reply = await self._collected(task, handed_in)
        if reply.status is Status.OK or reply.status.stage:  # what is moderated is not charged for
            return reply
        return replace(reply, cost_usd=_told_usd(task) or 0.0)

    async def close(self) -> None:
        await self.client.close()

    async def _hand_in(self, request: EditRequest) -> Answer:
        path = quote(self.settings.model, safe="")
        return await self.client.call(Call("POST", path, json=question(self.settings, request)))

    async def _collected(self, task: Mapping[str, Any], handed_in: Answer) -> EditReply:
        """What came of an edit that was taken. Whatever goes wrong now is the trouble of this one alone."""
        try:
            return await self._collect(task, handed_in)
        except RemoteError as error:
            kind = Status.SERVER_ERROR if error.kind in (Status.REJECTED, Status.QUOTA) else error.kind
            return replace(hosted.failed(error, kind=kind), request_id=str(task.get("id") or error.request_id))

    async def _collect(self, task: Mapping[str, Any], handed_in: Answer) -> EditReply:
        number, url = str(task.get("id") or ""), task.get("polling_url")
        notes = hosted.tried(handed_in.attempts)
        if not isinstance(url, str) or not url:
            said = "the service took the edit and did not say where to ask after it"
            return EditReply(Status.SERVER_ERROR, detail=said, code="empty_response", request_id=number)
        ended = await self._wait(url)
        if ended is None:
            said = f"not ready after {self.settings.deadline_s:g} s"
            return EditReply(Status.TIMEOUT, detail=said, request_id=number, notes=notes)
        result = ended.get("result")
        made = result if isinstance(result, dict) else {}
        link = made.get("sample")
        if ended.get("status") != "Ready" or not isinstance(link, str):
            return _ended(ended, number, notes)
        image = await self._fetch(link)
        noted = notes if made.get("seed") is None else {**notes, "seed": str(made["seed"])}
        return EditReply(Status.OK, image, cost_usd=self._cost(task, ended), request_id=number, notes=noted)

    async def _wait(self, url: str) -> Mapping[str, Any] | None:
        """What the service says once the edit has ended; None if that takes too long."""
        ends = time.monotonic() + self.settings.deadline_s
        while time.monotonic() < ends:
            answer = await self.client.call(Call("GET", url, paced=False))
            said = answer.json if isinstance(answer.json, dict) else {}
            if said.get("status") not in _WAITING:
                return said
            await asyncio.sleep(self.settings.poll_s)
        return None

    async def _fetch(self, link: str) -> bytes:
        """The picture, without the key: the link is signed."""
        return (await self.client.call(Call("GET", link, accepts=_FILES, keyless=True, paced=False))).body

    def _cost(self, *told: Mapping[str, Any]) -> float:
        """What the service says it took; else what is expected."""
        said = _told_usd(*told)
        return hosted.expected_usd(self.priced) if said is None else said


def question(settings: Settings, request: EditRequest) -> dict[str, Any]:
    """The body: the sentence, the pictures by number, and what is set."""
    encoded = [base64.b64encode(one).decode() for one in (request.image, *request.references)]
    pictures = {f"input_image_{n}" if n > 1 else "input_image": text for n, text in enumerate(encoded, 1)}
    given = {name: getattr(settings, name) for name in _FIELDS if getattr(settings, name) is not None}
    return {"prompt": request.instruction, **pictures, "seed": request.seed, **given, **settings.extra}


def _ended(said: Mapping[str, Any], number: str, notes: Mapping[str, str]) -> EditReply:
    """Moderated on one side or the other, or failed in a way that the service has a word for."""
    status = str(said.get("status") or "")
    details = said.get("details")
    if status not in _BLOCKED and _POLICY in (said.get("error"), _error(details)):
        notes = {**notes, "stage": "not told by the service; counted as input"}
        return EditReply(
            Status.INPUT_BLOCKED, detail=_words(details), code=_POLICY, request_id=number, notes=notes
        )
    kind = _BLOCKED.get(status, Status.SERVER_ERROR)
    detail = _words(details) or ("" if status else "the service did not say how the edit ended")
    return EditReply(kind, detail=detail, code=status or "empty_response", request_id=number, notes=notes)


def _told_usd(*told: Mapping[str, Any]) -> float | None:
    """The credits that the service named first; None where it named none."""
    said = next((one["cost"] for one in told if _is_cost(one.get("cost"))), None)
    return None if said is None else round(said * USD_A_CREDIT, 8)


def _is_cost(value: Any) -> bool:
    """Nothing is paid back, and nobody pays without end."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9


def _error(details: Any) -> Any:
    return details.get("error") if isinstance(details, dict) else None


def _words(details: Any) -> str:
    """The reasons as they were given."""
    if isinstance(details, dict):
        reasons = details.get("Moderation Reasons")
        return ", ".join(map(str, reasons)) if isinstance(reasons, list) else json.dumps(details, sort_keys=True)
    return str(details or "")


def _is_theirs(url: str) -> bool:
    scheme, host, _ = origin(url)
    return scheme == "https" and (host == DOMAIN or host.endswith(f".{DOMAIN}"))
