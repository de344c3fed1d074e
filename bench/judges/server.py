"""A loopback service in a process of its own that speaks OpenAI's and Gemini's wire formats, live and in batches.

    with serving(Switches(latency_s=0.02, refused=0.01)) as server:
        …  # base_url: server.openai_url, server.gemini_url
        rows = server.journal()

Every request leaves a row in the journal when it is answered: what was asked (a hash of the body), how it ended,
whether a service would have billed it, when it came and went, and how many were under way. Just enough HTTP: a
service is another machine, so this one must not take our cores.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import hashlib
import json
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import orjson

from bench.judges.saying import GEMINI, OPENAI, Dialect, Saying, answer
from bench.judges.shelf import Asked, Given, Shelf, query
from bench.judges.switches import FIRST_TIME, Fate, Switches

ROOT = Path(__file__).resolve().parents[2]
AT_ONCE = 0.002  # seconds until a call is turned away
PIECE = 1 << 18
REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 411: "Length Required", 429: "Too Many Requests"}


# Seen from outside


class Server:
    """The service as its users see it. `path`: the journal, a line a row."""

    def __init__(self, process: subprocess.Popen[str], port: int, path: Path) -> None:
        self.process, self.port, self.path = process, port, path

    @property
    def openai_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def gemini_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1beta"

    def journal(self, what: str | None = None) -> list[dict[str, Any]]:
        """What was asked so far: calls, uploads, batches, lines, listings, downloads."""
        rows = [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]
        return [row for row in rows if what is None or row["what"] == what]

    def turn(self, **switches: Any) -> None:
        """Changes switches from here on."""
        asked = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/switches", json.dumps(switches).encode(), method="POST"
        )
        with urllib.request.urlopen(asked, timeout=10):
            pass

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


@contextmanager
def serving(switches: Switches | None = None, journal: Path | None = None) -> Iterator[Server]:
    """A service for as long as the block lasts. Its journal stays where `journal` says, if that is said."""
    with tempfile.TemporaryDirectory() as folder:
        path = journal or Path(folder) / "journal.jsonl"
        path.touch()
        options = json.dumps(asdict(switches or Switches()))
        told = ["--options", options, "--journal", str(path.resolve())]
        command = [sys.executable, "-m", "bench.judges.server", *told]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as child:
            assert child.stdout is not None
            try:
                server = Server(child, int(child.stdout.readline()), path)
                yield server
            finally:
                child.terminate()


# Inside


class Service:
    """What it does with what it is asked."""

    def __init__(self, switches: Switches, journal: Path) -> None:
        self.switches = switches
        self.shelf = Shelf(self.in_batch, self.note)
        self.under_way = 0
        self.tokens, self.filled = switches.per_second or 0.0, time.monotonic()
        self.plain: dict[str, bytes] = {}  # dialect -> everybody's answer
        self._met: set[str] = set()
        self._journal = journal.open("ab", buffering=0)

    def note(self, what: str, provider: str, **row: Any) -> None:
        self._journal.write(orjson.dumps({"what": what, "provider": provider, "at": time.time(), **row}) + b"\n")

    def decide(self, dialect: Dialect, body: bytes) -> tuple[str, Fate, Saying]:
        """A live call: the body's name, its fate, and what is said."""
        asked = orjson.loads(body)
        name = named(asked)
        fate = Fate.RATE_LIMITED if self.is_too_fast() else self._fate(name)
        content = answer(dialect.schema(asked), f"{self.switches.seed}:{name}")
        return name, fate, dialect.says(fate, content, self.switches.retry_after_s)

    def _fate(self, name: str) -> Fate:
        fate = self.switches.fate(name)
        if fate in FIRST_TIME and name in self._met:
            return Fate.OK
        self._met.add(name)
        return fate

    def in_batch(self, dialect: Dialect, asked: Mapping[str, Any], batch: str) -> Saying | None:
        """One line of a batch; None where it expires. What befalls connections does not befall lines."""
        name = named(asked)
        fate = self.switches.fate(name)
        expired = self.switches.expires(name)
        if fate in FIRST_TIME - {Fate.MALFORMED} or (fate is Fate.MALFORMED and name in self._met):
            fate = Fate.OK
        if not expired:
            self._met.add(name)
            fate = Fate.MALFORMED if self.switches.spoils(name) else fate
        said = dialect.says(fate, answer(dialect.schema(asked), f"{self.switches.seed}:{name}"), None)
        outcome = "expired" if expired else fate.value
        self.note("line", dialect.name, batch=batch, body=name, outcome=outcome, paid=said.paid and not expired)
        return None if expired else said

    def is_too_fast(self) -> bool:
        """Whether the limit is reached; a call that is turned away does not count."""
        rate = self.switches.per_second
        if not rate:
            return False
        now = time.monotonic()
        self.tokens, self.filled = min(rate, self.tokens + (now - self.filled) * rate), now
        if self.tokens < 1:
            return True
        self.tokens -= 1
        return False

    def limits(self) -> dict[str, str]:
        """The limit, what is left of it, and when all of it will be there again."""
        rate = self.switches.per_second
        if not (rate and self.switches.headers):
            return {}
        return {
            "x-ratelimit-limit-requests": f"{rate:g}",
            "x-ratelimit-remaining-requests": f"{int(self.tokens)}",
            "x-ratelimit-reset-requests": f"{(rate - self.tokens) / rate * 1000:.0f}ms",
        }


class Line(asyncio.BufferedProtocol):
    """One connection: HTTP/1.1 with keep-alive, one request at a time."""

    arriving = bytearray(PIECE)  # read and used up within one turn of the loop, so all connections share it

    def __init__(self, service: Service) -> None:
        self.service = service
        self.head, self.body, self.left = b"", bytearray(), -1
        self.unanswered = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        self.service.under_way -= self.unanswered

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.arriving

    def buffer_updated(self, count: int) -> None:
        if self.left >= 0:
            self._more(count)
            return
        self.head += bytes(memoryview(self.arriving)[:count])
        head, end, begun = self.head.partition(b"\r\n\r\n")
        if end:
            self.head = b""
            self._begin(head, begun)

    def _begin(self, head: bytes, begun: bytes) -> None:
        first, *rest = head.decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in rest)
        self.headers = {name.lower(): value.strip() for name, _, value in pairs}
        self.method, self.target, _ = first.split(" ")
        self.dialect: Dialect = GEMINI if self.target.startswith("/v1beta") else OPENAI
        if "chunked" in self.headers.get("transfer-encoding", ""):
            self.send(Given(b"{}", http=411))
            return
        if "100-continue" in self.headers.get("expect", ""):
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self.kept = self.dialect.name not in self.service.plain
        self.body = bytearray(begun)
        self.left = int(self.headers.get("content-length", 0)) - len(begun)
        self._ended()

    def _more(self, count: int) -> None:
        self.left -= count
        if self.kept:
            self.body += memoryview(self.arriving)[:count]
        self._ended()

    def _ended(self) -> None:
        if self.left > 0:
            return
        self.left, body, self.body = -1, bytes(self.body), bytearray()
        if not self.kept:
            self._call_plainly()
        elif self.target.endswith(("/chat/completions", ":generateContent")):
            self._call(body)
        elif self.target == "/switches":
            self.service.switches = replace(self.service.switches, **orjson.loads(body))
            self.send(Given(b"{}"))
        else:
            path, asked = query(self.target)
            found = self.service.shelf.answer(
                Asked(self.method, path, asked, self.headers, body), self.service.switches
            )
            self.send(found or Given(b'{"error": {"message": "not found", "code": 404}}', http=404))

    def _call(self, body: bytes) -> None:
        """One live call: decided now, answered later."""
        name, fate, said = self.service.decide(self.dialect, body)
        row = self._arrived(name, fate.value, said.http, said.paid)
        if fate is Fate.TIMEOUT:
            self.service.note("call", self.dialect.name, **{**row, "paid": False}, answered=None, heard=False)
            return
        headers = {**said.headers, **self.service.limits()}
        given = Given(None if fate is Fate.CUT else said.body, headers, said.http)
        row["paid"] = said.paid and given.body is not None
        if self.service.switches.plain:
            self.service.plain[self.dialect.name] = written(given)
        delay = AT_ONCE if said.http == 429 else self.service.switches.latency_s
        asyncio.get_running_loop().call_later(delay, self._answer, written(given), row)

    def _call_plainly(self) -> None:
        row = self._arrived("", Fate.OK.value, 200, True)
        content = self.service.plain[self.dialect.name]
        asyncio.get_running_loop().call_later(self.service.switches.latency_s, self._answer, content, row)

    def _arrived(self, name: str, outcome: str, http: int, paid: bool) -> dict[str, Any]:
        self.service.under_way += 1
        self.unanswered += 1
        told = {"body": name, "outcome": outcome, "http": http, "paid": paid}
        return {**told, "arrived": time.time(), "in_flight": self.service.under_way}

    def _answer(self, content: bytes, row: dict[str, Any]) -> None:
        """Whoever is gone by now has been billed all the same."""
        heard = not self.transport.is_closing()
        if heard:
            self.service.under_way -= 1
            self.unanswered -= 1
        self.service.note("call", self.dialect.name, **row, answered=time.time(), heard=heard and bool(content))
        self._write(content)

    def send(self, given: Given) -> None:
        self._write(written(given))

    def _write(self, content: bytes) -> None:
        if not content:
            self.transport.abort()
        elif not self.transport.is_closing():
            self.transport.write(content)


def named(asked: Any) -> str:
    """A body's name: the same however it is spelled, live or in a batch."""
    return hashlib.sha256(orjson.dumps(asked, option=orjson.OPT_SORT_KEYS)).hexdigest()


def written(given: Given) -> bytes:
    if given.body is None:
        return b""
    headers = {"content-type": given.kind, "content-length": str(len(given.body)), "x-request-id": "req_loopback"}
    lines = [f"{name}: {value}" for name, value in {**headers, **given.headers}.items()]
    first = f"HTTP/1.1 {given.http} {REASONS.get(given.http, 'Error')}"
    return "\r\n".join([first, *lines, "", ""]).encode() + given.body


async def listen(service: Service) -> None:
    """Until it is told to end, or whoever started it is gone."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    server = await loop.create_server(functools.partial(Line, service), "127.0.0.1", 0, backlog=2048)
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    loop.add_reader(sys.stdin.fileno(), ended.set)
    print(server.sockets[0].getsockname()[1], flush=True)
    await ended.wait()
    server.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--options", default="{}", help="switches, as JSON")
    parser.add_argument("--journal", type=Path, required=True)
    chosen = parser.parse_args()
    asyncio.run(listen(Service(Switches(**json.loads(chosen.options)), chosen.journal)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
