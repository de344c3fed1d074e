"""A service that allows a hundred calls a second is asked about so many: hardly a request is sent in vain."""

from __future__ import annotations

import asyncio

import pytest
from bench.judges.server import Server, serving
from bench.judges.switches import Switches

from stillme.engine.http import Answer, Call, Client, Limits, RemoteError
from stillme.engine.pacing import duration
from tests.judges.test_server import gemini, openai

CALLS = 1000
PER_SECOND = 100
WASTED = 0.03
TRIES = 3  # other work on the machine delays calls, and late calls come in crowds: the calmest try counts
LIMITS = Limits(concurrency=64, starts_at=16, attempts=8)


def told_in_the_body(error: RemoteError) -> float | None:
    """As Gemini says it."""
    told = error.said["error"].get("details", []) if isinstance(error.said, dict) else []
    return next((duration(one["retryDelay"]) for one in told if "retryDelay" in one), None)


async def storm(server: Server, provider: str) -> list[Answer]:
    """All calls at once; raises where one is not answered."""
    base = server.openai_url if provider == "openai" else server.gemini_url
    path = "chat/completions" if provider == "openai" else "models/m:generateContent"
    body = openai if provider == "openai" else gemini
    client = Client(base, LIMITS, waits=told_in_the_body)
    try:
        calls = (client.call(Call("POST", path, json=body(number))) for number in range(CALLS))
        return await asyncio.gather(*calls)
    finally:
        await client.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("provider", "switches"),
    [
        pytest.param("openai", Switches(headers=True, retry_after_s=1), id="limits in headers"),
        pytest.param("openai", Switches(retry_after_s=1), id="Retry-After"),
        pytest.param("openai", Switches(retry_after_s=0.2), id="retry-after-ms"),
        pytest.param("gemini", Switches(retry_after_s=1), id="RetryInfo"),
        pytest.param("gemini", Switches(), id="nothing said"),
    ],
)
def test_few_requests_are_sent_in_vain(provider: str, switches: Switches) -> None:
    told: list[str] = []
    while len(told) < TRIES:
        wasted, asked, seconds = weathered(provider, switches)
        if wasted <= WASTED * asked and seconds < 1.5 * CALLS / PER_SECOND:
            return
        told.append(f"{wasted} of {asked} requests were sent in vain in {seconds:.1f} s")
    pytest.fail("; ".join(told))


def weathered(provider: str, switches: Switches) -> tuple[int, int, float]:
    """How many requests were turned away, how many were sent, and how long it took."""
    with serving(Switches(**{**vars(switches), "latency_s": 0.2, "per_second": PER_SECOND})) as server:
        answers = asyncio.run(storm(server, provider))
        rows = server.journal("call")
    assert len(answers) == CALLS
    assert sum(row["http"] == 200 for row in rows) == CALLS, "every call is answered once"
    wasted = sum(row["http"] == 429 for row in rows)
    return wasted, len(rows), rows[-1]["answered"] - rows[0]["arrived"]
