"""A service of one's own for a test of a wire format: real HTTP on loopback, and what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from aiohttp import web
from aiohttp.test_utils import TestServer

from stillme.engine.http import Client, ClientConfig

Said = TypeVar("Said")
SECRETS = {"Authorization": "Bearer sk-secret"}


async def unknown(request: web.Request) -> web.StreamResponse:
    return web.json_response({"error": {"message": "not found"}}, status=404)


@dataclass
class Wire:
    """`says`: method and path (with the query) -> what is said, one after the other, the last for ever."""

    says: dict[str, list[Any]]
    asked: list[tuple[str, bytes, dict[str, str]]] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        name = f"{request.method} {request.path_qs}"
        self.asked.append((name, await request.read(), {k.lower(): v for k, v in request.headers.items()}))
        left = self.says.get(name) or [unknown]
        said = left.pop(0) if len(left) > 1 else left[0]
        if not callable(said):
            return web.json_response(said)
        answer: web.StreamResponse = await said(request)
        return answer

    def named(self, name: str) -> list[bytes]:
        return [body for asked, body, _ in self.asked if asked == name]


def through(wire: Wire, path: str, do: Callable[[Client], Awaitable[Said]]) -> Said:
    """Runs `do` with a client of the service."""

    async def run() -> Said:
        app = web.Application(client_max_size=1 << 28)
        app.router.add_route("*", "/{path:.*}", wire.answer)
        async with TestServer(app) as server:
            client = Client(f"http://127.0.0.1:{server.port}{path}", ClientConfig(backoff_s=0.01), SECRETS)
            try:
                return await do(client)
            finally:
                await client.close()

    return asyncio.run(run())
