"""Serve an app from this process until Ctrl-C, and give up requests that do not arrive.

A request has some seconds to arrive whole, head and body, and more as long as it comes on: images are large.
Where very many are awaited at once, the one that has been awaited longest goes first: honest ones arrive at once,
so it is never theirs for long. Slow or silent clients must not keep others out.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.applications import Starlette

from stillme.core.errors import SetupError
from stillme.web.middleware import EVERYWHERE

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol as Base
else:
    from uvicorn.protocols.http.auto import AutoHTTPProtocol as Base

ARRIVAL_S = 30.0  # that a request may take, however little of it comes
BYTES_PER_SECOND = 4_000.0  # bytes that bring it a second more; a client that drips sends fewer
MAX_AWAITED = 512  # requests at once; above it the longest awaited is given up
MAX_OPEN_FILES = 65_536  # connections and files of a process, as far as the system allows

Say = Callable[[str], None]


def address(host: str, port: int) -> str:
    """The URL of a server that listens there."""
    name = socket.gethostname() if host in EVERYWHERE else host
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


def listen(host: str, port: int) -> socket.socket:
    """Take the socket before anything is printed about it; port 0 takes any that is free."""
    allow_many()
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise SetupError(
            f"The tool cannot listen on {host}, port {port}: {error.strerror}.",
            "Give another --port, or stop what listens there.",
        ) from None
    return listener


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def run(app: Starlette, bound: socket.socket, host: str, greeting: Iterable[str], say: Say) -> None:
    """Print the greeting, and serve until Ctrl-C. No access log: addresses can carry keys."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="off",
        http=RequestTimeoutMiddleware,
        timeout_graceful_shutdown=3,
    )
    try:
        for line in (*warning(host), *greeting):
            say(line)
        uvicorn.Server(config).run(sockets=[bound])
    except KeyboardInterrupt:
        pass
    finally:
        bound.close()


def warning(host: str) -> Iterator[str]:
    """A warning where others can reach the server."""
    if not is_loopback(host):
        yield (
            f"Listening on {host}: others on the network can reach this, and nothing is encrypted on its way,"
            " neither links nor portraits. Put it behind a proxy with TLS, or use --host 127.0.0.1 with an SSH"
            " tunnel."
        )


# Slow requests


class RequestTimeoutMiddleware(Base):
    """An HTTP connection that is closed when its request does not arrive in time."""

    _timer: asyncio.TimerHandle | None = None
    _until = 0.0  # by the loop's clock
    _answered: object = None  # the last request that arrived whole
    _awaited: dict[RequestTimeoutMiddleware, None] = {}  # noqa: RUF012 (of all connections, the longest awaited first)

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await()

    def data_received(self, data: bytes) -> None:
        if self._timer is None:
            self._await()
        self._until += len(data) / BYTES_PER_SECOND
        super().data_received(data)
        if self.cycle is not None and self.cycle is not self._answered and not self.cycle.more_body:
            self._answered = self.cycle
            self._stop()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def _await(self) -> None:
        self._until = self.loop.time() + ARRIVAL_S
        self._timer = self.loop.call_at(self._until, self._check)
        self._awaited[self] = None
        if len(self._awaited) > MAX_AWAITED:
            next(iter(self._awaited))._give_up()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._awaited.pop(self, None)

    def _check(self) -> None:
        if self._until > self.loop.time():
            self._timer = self.loop.call_at(self._until, self._check)
        else:
            self._give_up()

    def _give_up(self) -> None:
        self._stop()
        self.transport.abort()


def allow_many() -> None:
    """Raise the limit of open connections as far as the system allows: its usual 1,024 are soon used up."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
