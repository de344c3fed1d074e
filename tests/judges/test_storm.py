"""A service that allows a hundred calls a second is asked about so many: hardly a request is sent in vain.

Nothing here waits: the clock jumps to whatever comes next, so that the machine's own speed does not count.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bench.judges import server as loopback
from bench.judges.saying import Dialect, Gemini, Openai
from bench.judges.server import AT_ONCE, Service
from bench.judges.switches import Switches
from multidict import CIMultiDict

from stillme.engine import http
from stillme.engine.http import JSON, Client, ClientConfig, HttpRequest, HttpResponse, RemoteError
from stillme.engine.rate_limit import RateLimiter, duration
from tests.judges.test_server import gemini, openai

CALLS = 1000
PER_SECOND = 100
SENDING = 0.0005  # seconds
WASTED = 0.03
LIMITS = ClientConfig(concurrency=64, starts_at=16, attempts=8)


class Jumping(selectors.DefaultSelector):
    """Lets a loop's clock jump where the loop would wait."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        self.now += timeout or 0.0
        return super().select(None if timeout is None else 0)


class Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.jumping = Jumping()
        super().__init__(self.jumping)

    def time(self) -> float:
        return self.jumping.now


class Line:
    """Asked as a session of aiohttp is, and answered by a service in this process."""

    def __init__(self, service: Service, dialect: Dialect) -> None:
        self.service, self.dialect = service, dialect
        self.codes: list[int] = []
        self._leaving = asyncio.Lock()

    @asynccontextmanager
    async def request(self, method: str, address: str, *, data: bytes, **_: Any) -> AsyncIterator[Any]:
        async with self._leaving:  # one request leaves after the other
            await asyncio.sleep(SENDING)
        said = self.service.decide(self.dialect, data)[2]
        headers = CIMultiDict({**said.headers, **self.service.limits()})
        self.codes.append(said.http)
        await asyncio.sleep(AT_ONCE if said.http == 429 else self.service.switches.latency_s)
        told = {"status": said.http, "headers": headers, "content_type": JSON, "reason": ""}
        yield SimpleNamespace(**told, content_length=len(said.body), read=lambda: asyncio.sleep(0, said.body))

    async def close(self) -> None:
        pass


def told_in_the_body(error: RemoteError) -> float | None:
    """As Gemini says it."""
    told = error.said["error"].get("details", []) if isinstance(error.said, dict) else []
    return next((duration(one["retryDelay"]) for one in told if "retryDelay" in one), None)


async def storm(line: Line, clock: Any, seed: int) -> list[HttpResponse]:
    """All calls at once; raises where one is not answered."""
    client = Client("http://127.0.0.1/v1", LIMITS, waits=told_in_the_body)
    client.pace, client._session, client._random = RateLimiter(None, clock=clock), line, random.Random(seed)  # type: ignore[assignment]
    body = openai if isinstance(line.dialect, Openai) else gemini
    return await asyncio.gather(
        *(client.call(HttpRequest("POST", "x", json=body(number))) for number in range(CALLS))
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("dialect", "switches"),
    [
        pytest.param(Openai(), {"headers": True, "retry_after_s": 1}, id="limits in headers"),
        pytest.param(Openai(), {"retry_after_s": 1}, id="Retry-After"),
        pytest.param(Openai(), {"retry_after_s": 0.2}, id="retry-after-ms"),
        pytest.param(Gemini(), {"retry_after_s": 1}, id="RetryInfo"),
        pytest.param(Gemini(), {}, id="nothing said"),
    ],
)
def test_few_requests_are_sent_in_vain(
    dialect: Dialect, switches: dict[str, Any], seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with asyncio.Runner(loop_factory=Loop) as runner:
        clock = runner.get_loop().time
        for module in (http, loopback):
            monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=clock, time=clock))
        service = Service(Switches(latency_s=0.2, per_second=PER_SECOND, **switches), tmp_path / "journal")
        line = Line(service, dialect)
        answers = runner.run(storm(line, clock, seed))
        service._journal.close()
        seconds = clock()
    assert len(answers) == CALLS == line.codes.count(200), "every call is answered once"
    assert line.codes.count(429) <= WASTED * len(line.codes)
    assert seconds < 1.5 * CALLS / PER_SECOND
