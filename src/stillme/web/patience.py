"""How long a server waits for a request to arrive: slow or silent clients must not keep others out.

A request has so many seconds to arrive whole, head and body, and more as long as it comes on: pictures are large.
Where very many are awaited at once, the one that has been awaited longest goes first: honest ones arrive at once,
so it is never theirs for long.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol as Base
else:
    from uvicorn.protocols.http.auto import AutoHTTPProtocol as Base

SECONDS = 30.0  # that a request may take, however little of it comes
RATE = 4_000.0  # bytes that bring it a second more
MOST = 512  # requests that are awaited at once
FILES = 65_536  # connections and files of a process, as far as the system allows


class Patience(Base):
    """A connection that is given up when its request does not come."""

    _timer: asyncio.TimerHandle | None = None
    _until = 0.0  # by the loop's clock
    _answered: object = None  # the last request that arrived whole
    _awaited: dict[Patience, None] = {}  # noqa: RUF012 (of all connections, the longest awaited first)

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await()

    def data_received(self, data: bytes) -> None:
        if self._timer is None:
            self._await()
        self._until += len(data) / RATE
        super().data_received(data)
        if self.cycle is not None and self.cycle is not self._answered and not self.cycle.more_body:
            self._answered = self.cycle
            self._stop()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def _await(self) -> None:
        self._until = self.loop.time() + SECONDS
        self._timer = self.loop.call_at(self._until, self._look)
        self._awaited[self] = None
        if len(self._awaited) > MOST:
            next(iter(self._awaited))._give_up()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._awaited.pop(self, None)

    def _look(self) -> None:
        if self._until > self.loop.time():
            self._timer = self.loop.call_at(self._until, self._look)
        else:
            self._give_up()

    def _give_up(self) -> None:
        self._stop()
        self.transport.abort()


def allow_many() -> None:
    """As many open connections as the system allows: its usual 1,024 are soon used up."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(hard, FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
