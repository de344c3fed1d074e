"""The loopback services that judges are tested on: what they say, what they remember."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from bench.judges import server as loopback
from bench.judges.saying import Openai
from bench.judges.server import Server, Service, serving
from bench.judges.switches import Fate, Switches

AXES = ("likeness", "background")
SCHEMA = {
    "type": "object",
    "properties": {
        "observations": {"type": "object", "properties": {axis: {"type": "string"} for axis in AXES}},
        "scores": {
            "type": "object",
            "properties": {axis: {"type": "integer", "enum": [1, 2, 3, 4, 5]} for axis in AXES},
        },
    },
}


def openai(number: int) -> dict[str, Any]:
    form = {"type": "json_schema", "json_schema": {"name": "verdict", "schema": SCHEMA}}
    return {"messages": [{"role": "user", "content": f"pair {number}"}], "response_format": form}


def gemini(number: int) -> dict[str, Any]:
    parts = [{"text": f"pair {number}"}]
    return {"contents": [{"parts": parts}], "generationConfig": {"responseJsonSchema": SCHEMA}}


async def ask(
    session: aiohttp.ClientSession, url: str, body: Any, method: str = "POST"
) -> tuple[int, Any, dict[str, str]]:
    async with session.request(method, url, json=body) as response:
        text = await response.text()
        said = json.loads(text) if response.content_type == "application/json" else text
        return response.status, said, {name.lower(): value for name, value in response.headers.items()}


def within(work: Any) -> Any:
    async def whole() -> Any:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session:
            coroutine: Coroutine[Any, Any, Any] = work(session)
            return await coroutine

    return asyncio.run(whole())


def always(fate: Fate) -> Switches:
    shares: dict[str, Any] = {fate.value: 1.0}
    return Switches(retry_after_s=0.25, **shares)


def chat(server: Server) -> str:
    return f"{server.openai_url}/chat/completions"


def generate(server: Server) -> str:
    return f"{server.gemini_url}/models/m:generateContent"


def test_an_answer_fits_the_schema_and_is_the_same_every_time(tmp_path: Path) -> None:
    async def work(session: aiohttp.ClientSession) -> list[Any]:
        asked = [(chat(server), openai(1)), (chat(server), openai(1)), (generate(server), gemini(1))]
        return [(await ask(session, *one))[1] for one in asked]

    with serving(journal=tmp_path / "journal.jsonl") as server:
        first, again, other = within(work)
    content = json.loads(first["choices"][0]["message"]["content"])
    assert content == json.loads(again["choices"][0]["message"]["content"])
    assert list(content) == ["observations", "scores"]
    assert tuple(content["scores"]) == AXES
    assert all(score in range(1, 6) for score in content["scores"].values())
    assert set(json.loads(other["candidates"][0]["content"]["parts"][0]["text"])["observations"]) == set(AXES)
    rows = server.journal("call")
    assert [row["provider"] for row in rows] == ["openai", "openai", "gemini"]
    assert rows[0]["body"] == rows[1]["body"] != rows[2]["body"]
    assert all(row["paid"] and row["heard"] and row["outcome"] == "ok" for row in rows)


@pytest.mark.parametrize("fate", [fate for fate in Fate if fate not in (Fate.OK, Fate.TIMEOUT, Fate.CUT)])
def test_every_outcome_has_a_switch(fate: Fate) -> None:
    async def work(session: aiohttp.ClientSession) -> list[tuple[int, str]]:
        asked = [(chat(server), openai(1)), (generate(server), gemini(1))]
        answers = [await ask(session, *one) for one in asked]
        return [(http, json.dumps(said)) for http, said, _ in answers]

    with serving(always(fate)) as server:
        (http, said), (gemini_http, gemini_said) = within(work)
        rows = server.journal()
    assert [row["outcome"] for row in rows] == [fate.value] * 2
    expected = {
        Fate.RATE_LIMITED: ("rate_limit_exceeded", '"retryDelay": "0.25s"'),
        Fate.SERVER_ERROR: ("server_error", "INTERNAL"),
        Fate.MALFORMED: ('"stop"', '"STOP"'),
        Fate.MALFORMED_ALWAYS: ('"stop"', '"STOP"'),
        Fate.TRUNCATED: ('"length"', "MAX_TOKENS"),
        Fate.REFUSED: ('"refusal": "I\'m sorry', "can't help"),
        Fate.INPUT_BLOCKED: ("content_policy_violation", "blockReason"),
        Fate.OUTPUT_BLOCKED: ("content_filter", '"SAFETY"'),
        Fate.QUOTA: ("insufficient_quota", "PerDay"),
        Fate.REJECTED: ("invalid_value", "INVALID_ARGUMENT"),
    }[fate]
    assert expected[0] in said
    assert expected[1] in gemini_said
    paid = fate in (Fate.MALFORMED, Fate.MALFORMED_ALWAYS, Fate.TRUNCATED, Fate.REFUSED, Fate.OUTPUT_BLOCKED)
    assert [row["paid"] for row in rows] == [paid, paid]
    assert (http == 200) == paid
    assert (gemini_http == 200) == (paid or fate is Fate.INPUT_BLOCKED)


def test_who_goes_away_unanswered_is_no_longer_under_way(tmp_path: Path) -> None:
    service = Service(Switches(), tmp_path / "journal")
    gone, there = loopback.Line(service), loopback.Line(service)
    for line in (gone, gone, there):
        line._arrived("a body", Fate.TIMEOUT.value, 200, False)
    gone.connection_lost(None)
    assert there._arrived("a body", Fate.OK.value, 200, True)["in_flight"] == 2
    service._journal.close()


def test_shares_are_of_bodies_and_do_not_depend_on_the_order() -> None:
    switches = Switches(refused=0.1, malformed=0.2)
    fates = [switches.fate(str(number)) for number in range(5000)]
    assert fates.count(Fate.REFUSED) == pytest.approx(500, rel=0.15)
    assert fates.count(Fate.MALFORMED) == pytest.approx(1000, rel=0.15)
    assert [switches.fate(str(number)) for number in reversed(range(5000))] == fates[::-1]


def test_a_limit_is_enforced_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(loopback, "time", SimpleNamespace(monotonic=lambda: now))
    service = Service(Switches(per_second=5, headers=True, retry_after_s=2), tmp_path / "journal")
    said = [service.decide(Openai(), json.dumps(openai(number)).encode())[2] for number in range(8)]
    assert [one.http for one in said] == [200] * 5 + [429] * 3
    assert said[5].headers["retry-after"] == "2"
    told = {"limit": "5", "remaining": "0", "reset": "1000ms"}
    assert service.limits() == {f"x-ratelimit-{name}-requests": value for name, value in told.items()}
    now = 0.4
    assert [service.is_too_fast() for _ in range(3)] == [False, False, True], "two more after two fifths"
    service._journal.close()


def test_a_limit_is_told_on_the_wire() -> None:
    with serving(Switches(per_second=5, headers=True)) as server:
        _, _, headers = within(lambda session: ask(session, chat(server), openai(1)))
    assert headers["x-ratelimit-limit-requests"] == "5"


def test_plainly_all_get_the_first_answer() -> None:
    async def work(session: aiohttp.ClientSession) -> list[Any]:
        return [(await ask(session, chat(server), openai(number)))[1] for number in range(3)]

    with serving(Switches(plain=True)) as server:
        first, second, third = within(work)
        assert first == second == third
        assert len(server.journal("call")) == 3
