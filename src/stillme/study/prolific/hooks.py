"""Prolific's webhooks: a hint that something changed, taken only if it is signed, fresh and new.

What the hint says is not believed: the submission is read again. An event is noted in the same transaction as its
effect, so one whose handling failed comes again and is handled then.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import json
import os
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection, select
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from stillme.core.atomic import replace_file
from stillme.core.errors import InputError, SetupError, StillmeError, disk
from stillme.engine.http import is_loopback
from stillme.study.db.store import Store, added
from stillme.study.db.tables import hook
from stillme.study.prolific import marks
from stillme.study.prolific.client import ID, Prolific, ProlificError, Submission
from stillme.study.prolific.sync import note

PATH = "/webhooks/prolific"
EVENT = "submission.status.change"
FRESH = 300.0  # seconds
PATIENCE = 12.0  # seconds for which a delivery is kept waiting
LARGEST = 64 * 1024  # bytes
LONGEST_EVENT = 128  # characters
SECRET = "webhook-secret"  # the file in the study's folder  # noqa: S105 (a name, not a password)
VARIABLE = "PROLIFIC_WEBHOOK_SECRET"
Say = Callable[[str], None]


def secret(folder: Path) -> bytes:
    """What Prolific signs with; empty where no webhook was set up."""
    if given := os.environ.get(VARIABLE, "").strip():
        return given.encode()
    try:
        return (folder / SECRET).read_bytes().strip()
    except FileNotFoundError:
        return b""


def keep_secret(folder: Path, value: str) -> None:
    """Only its owner may read it; a file that is there is whole."""
    path = folder / SECRET
    with disk(path):
        replace_file(path, value.encode(), private=True)


def signature(secret: bytes, timestamp: str, body: bytes) -> str:
    return base64.b64encode(hmac.new(secret, timestamp.encode() + body, hashlib.sha256).digest()).decode()


def is_genuine(secret: bytes, headers: Mapping[str, str], body: bytes, now: float) -> bool:
    """Whether Prolific signed these very bytes, within the last five minutes."""
    timestamp, given = (
        headers.get("x-prolific-request-timestamp", ""),
        headers.get("x-prolific-request-signature", ""),
    )
    try:
        raw = base64.b64decode(given, validate=True)
    except (binascii.Error, ValueError):
        return False
    if not secret or not raw or not timestamp.isascii() or len(timestamp) > 64:
        return False
    expected = hmac.new(secret, timestamp.encode() + body, hashlib.sha256).digest()
    if not hmac.compare_digest(expected, raw):
        return False
    at = moment(timestamp)
    return at is not None and abs(now - at) <= FRESH


def moment(text: str) -> float | None:
    """Seconds since 1970, of a number (seconds or milliseconds) or an ISO date."""
    try:
        number = float(text)
        return number / 1000 if number > 1e11 else number
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


async def handle(
    store: Store, client: Prolific, secret: bytes, headers: Mapping[str, str], body: bytes, now: float
) -> tuple[int, str]:
    """A delivery: the status to answer with, and a word. `headers`: with lower-case names."""
    if not is_genuine(secret, headers, body, now):
        return 401, "not signed"
    event = headers.get("x-event-id", "")
    if not event or len(event) > LONGEST_EVENT:
        return 400, "no event id"
    submission = _about(body)
    if await store.read(lambda connection: _is_known(connection, event)):
        return 200, "known"
    found = None
    if submission:
        try:
            async with asyncio.timeout(PATIENCE):
                found = await client.submission(submission)
        except TimeoutError:
            return 503, "try again"
        except ProlificError as error:
            if error.status_code != 404:
                return 503, "try again"
    return await store.write(lambda connection: _taken(connection, event, found, now))


def _about(body: bytes) -> str:
    """The submission that an event is about; empty: about something else."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(said, dict) or said.get("event_type") != EVENT:
        return ""
    found = str(said.get("resource_id", ""))
    return found if ID.fullmatch(found) else ""


def _is_known(connection: Connection, event: str) -> bool:
    return connection.scalar(select(hook.c.at).where(hook.c.event == event)) is not None


def _taken(connection: Connection, event: str, found: Submission | None, now: float) -> tuple[int, str]:
    if not added(connection, hook, {"event": event, "at": now}):
        return 200, "known"
    if found is not None and found.study == marks.get(connection, marks.STUDY):
        note(connection, found, now)
        return 200, "taken"
    return 200, "not ours"


def routes(
    store: Store, client: Prolific, secret: Callable[[], bytes], clock: Callable[[], float] = time.time
) -> list[Route]:
    """The open door for webhooks: no session, no Origin; the signature is all. `secret` is asked every time."""

    async def receive(request: Request) -> Response:
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > LARGEST:
                return JSONResponse({"said": "too large"}, 413)
        now = clock()
        try:
            status, said = await handle(store, client, secret(), request.headers, bytes(body), now)
        except StillmeError:
            status, said = 503, "try again"
        return JSONResponse({"said": said}, status)

    return [Route(PATH, receive, methods=["POST"])]


async def subscribe(store: Store, client: Prolific, folder: Path, public: str, workspace: str, say: Say) -> None:
    """Has Prolific tell us of changes: secret, subscription, confirmation. Each may have been done before."""
    if not public.startswith("https://") and not is_loopback(public):
        said = "Prolific only tells an address with https."
        raise InputError(said, "Publish the study first, or give --public https://….")
    workspace = workspace or await only_workspace(client)
    target = public.rstrip("/") + PATH
    if not secret(folder):
        keep_secret(folder, await _secret(client, workspace))
        say("The webhook's secret is in the study's folder; a server that is running takes it up by itself.")
    found = [one for one in await client.subscriptions(workspace) if is_same(one, target)]
    if any(one.get("is_enabled") for one in found):
        say(f"Prolific tells {target} already.")
        return
    subscription, proof = await client.subscribe(workspace, EVENT, target)
    await client.confirm(subscription, proof)
    await store.write(lambda connection: marks.put(connection, marks.WORKSPACE, workspace))
    say(f"Prolific tells {target} of every change of a submission from now on.")


def is_same(one: Mapping[str, object], target: str) -> bool:
    return one.get("target_url") == target and one.get("event_type") == EVENT


async def only_workspace(client: Prolific) -> str:
    found = [str(one.get("id")) for one in await client.workspaces()]
    if len(found) != 1:
        said = f"This token can use {len(found)} workspaces."
        raise SetupError(said, f"Say which with --workspace: {', '.join(found) or 'none'}.")
    return found[0]


async def _secret(client: Prolific, workspace: str) -> str:
    """The one that the workspace has: a new one would silence whatever else listens to it."""
    known = [str(one["value"]) for one in await client.hook_secrets(workspace) if one.get("value")]
    value = known[0] if known else str((await client.create_hook_secret(workspace)).get("value") or "")
    if not value:
        raise SetupError("Prolific did not tell the webhook's secret.", f"Copy it from Prolific into {VARIABLE}.")
    return value
