"""The server warns where others can reach it. A large request that comes on is awaited; one that drips is not: over
real sockets, by a clock that tests move."""

from __future__ import annotations

import asyncio

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from uvicorn.server import ServerState

from stillme.web import server
from stillme.web.server import RequestTimeoutMiddleware

SIZE, PIECE, PAUSE = 6_000, 500, 0.1  # 5,000 bytes a second


class Loop(asyncio.SelectorEventLoop):
    """Its time stands still until a test moves it."""

    now = 0.0

    def time(self) -> float:
        return self.now


async def counted(request: Request) -> PlainTextResponse:
    return PlainTextResponse(str(len(await request.body())))


async def answered(piece: int) -> bytes:
    """What a client hears that sends its body piece by piece; nothing where it is given up."""
    config = uvicorn.Config(Starlette(routes=[Route("/", counted, methods=["POST"])]), lifespan="off")
    config.load()
    came: list[int] = []
    ended = asyncio.Event()

    class Watched(RequestTimeoutMiddleware):
        def data_received(self, data: bytes) -> None:
            came.append(len(data))
            super().data_received(data)

        def connection_lost(self, exc: Exception | None) -> None:
            ended.set()
            super().connection_lost(exc)

    loop, sent = asyncio.get_running_loop(), 0
    assert isinstance(loop, Loop)
    server = await loop.create_server(lambda: Watched(config, ServerState(), {}), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    pieces = [f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {SIZE}\r\n\r\n".encode()]
    for one in pieces + [b"x" * piece] * (SIZE // PIECE):
        writer.write(one)
        sent += len(one)
        while sum(came) < sent and not ended.is_set():
            await asyncio.sleep(0)
        loop.now += PAUSE
    heard = b"" if ended.is_set() else await reader.read(1000) if sent > SIZE else b"still awaited"
    writer.close()
    server.close()
    await ended.wait()
    return heard


@pytest.mark.parametrize(("piece", "said"), [(PIECE, str(SIZE)), (1, "")], ids=["comes on", "drips"])
def test_a_body_takes_as_long_as_it_comes_on(monkeypatch: pytest.MonkeyPatch, piece: int, said: str) -> None:
    monkeypatch.setattr(server, "ARRIVAL_S", 0.5)
    monkeypatch.setattr(server, "BYTES_PER_SECOND", 1_000.0)
    with asyncio.Runner(loop_factory=Loop) as runner:
        heard = runner.run(answered(piece)).decode()
    assert heard.endswith(said) and bool(heard) is bool(said)


@pytest.mark.parametrize(("host", "warned"), [("0.0.0.0", True), ("127.0.0.1", False)])
def test_a_host_that_others_reach_is_said_to_be_unencrypted(host: str, warned: bool) -> None:
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        if text == "hello":
            raise KeyboardInterrupt  # as Ctrl-C would, before the first request

    server.run(Starlette(), server.listen("127.0.0.1", 0), host, ["hello"], say)
    assert said[-1] == "hello" and ("nothing is encrypted" in said[0]) is warned
