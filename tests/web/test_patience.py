"""A large request that comes on is awaited; one that drips is not. Over real sockets, with a short patience."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from stillme.web import patience
from stillme.web.patience import Patience
from stillme.web.server import listen

SIZE, PIECE, PAUSE = 6_000, 500, 0.1  # 5,000 bytes a second


async def counted(request: Request) -> PlainTextResponse:
    return PlainTextResponse(str(len(await request.body())))


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(patience, "SECONDS", 0.5)
    monkeypatch.setattr(patience, "RATE", 1_000.0)
    app = Starlette(routes=[Route("/", counted, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(app, http=Patience, lifespan="off", log_level="warning"))
    with listen("127.0.0.1", 0) as bound:
        thread = threading.Thread(target=server.run, args=([bound],))
        thread.start()
        yield bound.getsockname()[1]
        server.should_exit = True
        thread.join()


def answer(port: int, piece: int) -> bytes:
    """What a client hears that sends its body piece by piece; nothing where it is given up."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        try:
            connection.sendall(f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {SIZE}\r\n\r\n".encode())
            for _ in range(SIZE // PIECE):
                time.sleep(PAUSE)
                connection.sendall(b"x" * piece)
            return connection.recv(1000)
        except OSError:
            return b""


def test_a_large_body_takes_as_long_as_it_comes_on(port: int) -> None:
    assert answer(port, PIECE).endswith(str(SIZE).encode())


def test_a_body_that_drips_is_given_up(port: int) -> None:
    assert answer(port, 1) == b""
