"""Delivers webhooks as Prolific does: signed, at least once, again after a failure, and sometimes twice."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from urllib.parse import urlsplit

from stillme.engine.http import Client, ClientConfig, HttpRequest, RemoteError
from stillme.study.rehearsal.fake.world import Found, World

TRIES = 13
BEAT = 0.05  # seconds between two looks for something to send
LONGEST_PAUSE = 30.0  # seconds
LIMITS = ClientConfig(timeout_s=10, deadline_s=10, attempts=1, concurrency=8)


def signed(secret: str, event: Found, at: int) -> tuple[bytes, dict[str, str]]:
    """(body, headers) of one delivery."""
    body = json.dumps(event["body"]).encode()
    mac = hmac.new(secret.encode(), str(at).encode() + body, hashlib.sha256).digest()
    headers = {
        "X-Prolific-Request-Signature": base64.b64encode(mac).decode(),
        "X-Prolific-Request-Timestamp": str(at),
        "X-Event-ID": event["id"],
        "X-Timestamp": str(at),
    }
    return body, headers


class Courier:
    """Sends what has to be told, until it is stopped."""

    def __init__(self, world: World, twice: bool) -> None:
        self._world, self._twice = world, twice
        self._clients: dict[str, Client] = {}
        self._due: dict[str, float] = {}

    async def run(self) -> None:
        try:
            while True:
                await asyncio.gather(*(self._send(one) for one in self._ready()))
                await asyncio.sleep(BEAT)
        finally:
            for client in self._clients.values():
                await client.close()

    def _ready(self) -> list[Found]:
        now = self._world.clock()
        return [one for one in self._world.events if self._due.get(one["id"], 0) <= now]

    async def _send(self, event: Found) -> None:
        event["tries"] += 1
        is_taken = await self._post(event)
        if is_taken and self._twice:
            await self._post(event)
        if is_taken or event["tries"] >= TRIES:
            self._world.events.remove(event)
            self._world.save()
        else:
            self._due[event["id"]] = self._world.clock() + min(LONGEST_PAUSE, 0.2 * 2 ** event["tries"])

    async def _post(self, event: Found) -> bool:
        target = urlsplit(event["target"])
        base = f"{target.scheme}://{target.netloc}"
        client = self._clients.setdefault(base, Client(base, LIMITS))
        body, headers = signed(self._world.secret, event, int(self._world.clock()))
        try:
            await client.call(
                HttpRequest("POST", target.path, body=body, headers=headers, accepts=("",), once=True)
            )
        except RemoteError:
            return False
        return True
