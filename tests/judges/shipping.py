"""A few calls shipped in batches, as the judging step ships them; and sessions that die on the way.

python -m tests.judges.shipping openai http://127.0.0.1:1234/v1 FOLDER 1

dies once at every point of the way between two things that it does to the world (the ledger, a file, the service),
or at every so many'th, each time in a run of its own, and resumes. Sessions are forked from a process that has everything loaded.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import aiohttp  # noqa: F401  (loaded before anything is forked)
import orjson

from stillme.core.records import Attempt, Exchange, Status
from stillme.engine.http import Client, ClientConfig
from stillme.engine.threads import StopEvent
from stillme.judges import Batch, Batches
from stillme.judges.gemini import GeminiBatches
from stillme.judges.openai import OpenaiBatches
from stillme.ledger import Run
from stillme.ledger.writer import RowInsert
from stillme.protocol import builtin
from stillme.steps import batch

JUDGE = "judge"
AXES = ("first", "second")
DIED = 66
KILLS = 12  # of one run that dies again and again


@dataclass(frozen=True)
class Item:
    """A call as a batch wants it."""

    key: str
    axes: tuple[str, ...]
    form: str  # whose wire format

    def body(self) -> bytes:
        scale = {"type": "integer", "minimum": 1, "maximum": 5}
        schema = {"type": "object", "properties": dict.fromkeys(AXES, scale)}
        if self.form == "gemini":
            asked: dict[str, Any] = {"contents": [{"parts": [{"text": self.key}]}]}
            return orjson.dumps({**asked, "generationConfig": {"responseJsonSchema": schema}})
        asked = {"model": "m", "messages": [{"role": "user", "content": self.key}]}
        return orjson.dumps({**asked, "response_format": {"json_schema": {"schema": schema}}})


def items(form: str, count: int = 4) -> dict[str, Item]:
    return {f"call-{number}": Item(f"call-{number}", AXES, form) for number in range(count)}


def read(http: int, said: Any, raw: bytes, axes: tuple[str, ...]) -> Exchange:
    """How a call ended, in short: what the backends do in full."""
    if http != 200:
        kind = Status.RATE_LIMITED if http == 429 else Status.SERVER_ERROR if http >= 500 else Status.REJECTED
        kind = Status.QUOTA if b"insufficient_quota" in raw else kind
        return Exchange(kind, http=http, raw=raw)
    try:
        choices, candidates = said.get("choices"), said.get("candidates")
        text = choices[0]["message"]["content"] if choices else candidates[0]["content"]["parts"][0]["text"]
        scores = {axis: json.loads(text)[axis] for axis in axes}
    except (ValueError, LookupError, TypeError):
        return Exchange(Status.MALFORMED, http=http, raw=raw, cost_usd=0.001)
    return Exchange(Status.OK, http=http, raw=raw, scores=scores, cost_usd=0.001)


def batches(form: str, url: str, client: Client, most_bytes: int = 10**8, most_requests: int = 2) -> Batches:
    if form == "gemini":
        return GeminiBatches(client, "a-model", read, most_bytes, most_requests)
    return OpenaiBatches(client, "/v1/chat/completions", read, most_bytes, most_requests)


@dataclass
class Session:
    """One process's share of a shipment. `tick` is called between any two things that it does to the world."""

    run: Run
    form: str
    url: str
    wanted: Mapping[str, Item]
    room: int | None = None
    wait_s: float = 120.0
    stop: StopEvent = field(default_factory=StopEvent)
    said: list[str] = field(default_factory=list)
    tick: Callable[[], None] = lambda: None
    most_bytes: int = 10**8
    most_requests: int = 2
    limits: ClientConfig = field(default_factory=lambda: ClientConfig(backoff_s=0.01))

    def ship(self) -> set[str]:
        return asyncio.run(self.shipped())

    async def shipped(self) -> set[str]:
        client = Client(self.url, self.limits, {"Authorization": "Bearer secret"})
        wire = batches(self.form, self.url, client, self.most_bytes, self.most_requests)
        held = cast("Run", Mortal(self.run, self.tick))
        settings = held.add_settings("judge", {"model": "m"})
        try:
            return await batch.ship(
                held,
                JUDGE,
                settings,
                cast("Batches", MortalBatches(wire, self.tick)),
                self.wanted,
                lambda key, exchange: held.append(*_attempt(key, exchange)),
                lambda: self.room,
                self.wait_s,
                self.stop,
                self.said.append,
                folder_of(self.run),
            )
        finally:
            await client.close()


def folder_of(run: Run) -> Path:
    return run.path / "batches"


def files_of(run: Run) -> list[str]:
    return sorted(path.name for path in folder_of(run).rglob("*") if path.is_file())


def _attempt(key: str, exchange: Exchange) -> Iterable[RowInsert]:
    e = exchange
    attempt = Attempt(key, e.status, e.started, e.seconds, e.cost_usd, e.detail, e.code, e.request_id, e.http)
    a = attempt
    told = (a.cost_usd, a.detail, a.code, a.request_id, a.http, "", None)
    return [RowInsert("attempt", (None, a.subject, a.status.value, a.started, a.seconds, *told))]


class Mortal:
    """A run whose holder may die before and after every commit."""

    def __init__(self, run: Run, tick: Callable[[], None]) -> None:
        self._run, self._tick = run, tick

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)

    def append(self, *rows: RowInsert) -> Future[None]:
        self._tick()
        committed = self._run.append(*rows)
        committed.result()
        self._tick()
        return committed


class MortalBatches:
    """A service whose user may die before and after everything that it is asked."""

    def __init__(self, batches: Batches, tick: Callable[[], None]) -> None:
        self._batches, self._tick = batches, tick

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batches, name)

    async def upload(self, path: Path, name: str) -> str:
        return cast("str", await self._asked(self._batches.upload(path, name)))

    async def create(self, uploaded: str, tags: Mapping[str, str]) -> Batch:
        return cast("Batch", await self._asked(self._batches.create(uploaded, tags)))

    async def every(self) -> AsyncIterator[Batch]:
        async for one in self._batches.every():
            yield one

    async def look(self, name: str) -> Batch:
        return cast("Batch", await self._asked(self._batches.look(name)))

    async def download(self, output: str, path: Path) -> None:
        await self._asked(self._batches.download(output, path))

    async def _asked(self, call: Any) -> object:
        self._tick()
        answer: object = await call
        self._tick()
        return answer


# Sessions that die


class Clock:
    """Counts the points of the way and ends the process at one of them, as if it was killed."""

    def __init__(self, dies_at: int) -> None:
        self.dies_at, self.points = dies_at, 0

    def tick(self) -> None:
        self.points += 1
        if self.points == self.dies_at:
            os._exit(DIED)

    def listen(self, folder: Path) -> None:
        """Renaming and removing files of the shipment are points too."""

        def heard(event: str, told: tuple[Any, ...]) -> None:
            if event in ("os.rename", "os.remove") and str(told[0]).startswith(str(folder)):
                self.tick()

        sys.addaudithook(heard)


def missing(run: Run, form: str) -> dict[str, Item]:
    """The calls without a good answer, as the judging step finds them."""
    done = {call for (call,) in run.query("SELECT subject FROM attempt WHERE status = 'ok'")}
    return {key: one for key, one in items(form).items() if key not in done}


def session(form: str, url: str, path: Path, dies_at: int) -> int:
    """In a process of its own: its exit code."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            clock = Clock(dies_at)
            with Run.open_for_writing(path, builtin()) as run:
                clock.listen(folder_of(run))
                left = Session(run, form, url, missing(run, form), tick=clock.tick).ship()
            code = 2 if left else 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(form: str, url: str, folder: str, every: str) -> int:
    builtin()
    point, died = 1, 0
    while (code := session(form, url, Path(folder) / f"dies-at-{point}", point)) == DIED:
        assert session(form, url, Path(folder) / f"dies-at-{point}", 0) == 0
        point, died = point + int(every), died + 1
    assert code == 0, code
    dice = random.Random(6)
    often = Path(folder) / "dies-often"
    kills = sum(session(form, url, often, dice.randint(2, 12)) == DIED for _ in range(KILLS))
    assert session(form, url, often, 0) == 0
    print(json.dumps({"last": point - int(every), "died": died, "kills": kills}))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
