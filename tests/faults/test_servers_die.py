"""Services that die, vanish or never were: what failed is a failure and not a refusal, is said in a sentence, and is
asked again by the next run, which ends like one that was never disturbed."""

from __future__ import annotations

import asyncio
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from stillme.ledger.run import LEDGER
from stillme.study.rehearsal.rehearse import Process
from tests.conftest import dump_audit
from tests.editors.providers import Server, openai_picture, png
from tests.faults.faulty import rows, stillme

KEY = "STILLME_TEST_KEY"
SURROUNDINGS = {KEY: "sk-test-0123456789"}
EDITS = 6
QUICK = {"attempts": 2, "backoff_s": 0.01, "timeout_s": 5, "connect_s": 2, "concurrency": 2}


def describe(path: Path, url: str, model: str = "m") -> None:
    people = {"race": ["white", "black"], "gender": ["female"], "age": ["20s"]}
    hosted = {"service": "other", "model": model, "base_url": url, **QUICK}
    dump_audit(
        path,
        sources=[{"id": "heads", "kind": "synthetic", "settings": {"groups": people}}],
        editors=[{"id": "hosted", "kind": "openai", "key_env": KEY, "settings": hosted}],
        judges=[{"id": "a", "kind": "planted", "role": "primary", "settings": {"noise": 0.2, "draw": 1}}],
    )


def statuses(run: Path) -> list[tuple[str, int]]:
    with closing(sqlite3.connect(run / LEDGER)) as connection:
        return connection.execute(
            "SELECT status, count(*) FROM attempt GROUP BY status ORDER BY status"
        ).fetchall()


@contextmanager
def dying(after: bytes) -> Iterator[str]:
    """A service that answers with some bytes of an answer, and then is gone."""
    ready: list[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = []
    is_up = threading.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(after)
        await writer.drain()
        writer.transport.abort()

    async def serve() -> None:
        made = await asyncio.start_server(answer, "127.0.0.1", 0)
        over = asyncio.Event()
        ready.append((f"http://127.0.0.1:{made.sockets[0].getsockname()[1]}/v1", asyncio.get_running_loop(), over))
        is_up.set()
        await over.wait()
        made.close()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert is_up.wait(10)
    url, loop, over = ready[0]
    try:
        yield url
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()


@contextmanager
def nobody() -> Iterator[str]:
    """An address at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/v1"


@contextmanager
def unknown() -> Iterator[str]:
    """A name that no name server knows, and never will."""
    yield "https://images.example.invalid/v1"


@contextmanager
def untrusted() -> Iterator[str]:
    """Something that does not speak TLS where TLS is asked for."""
    with dying(b"HTTP/1.1 400 Bad Request\r\n\r\n") as url:
        yield url.replace("http://", "https://")


WHOLE = (
    b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n{"data": [{"b64_json": "'
)
FAULTS: dict[str, tuple[Callable[[], Any], str]] = {
    "dies before it answers": (lambda: dying(b""), "the connection failed"),
    "dies within an answer": (lambda: dying(WHOLE), "the connection failed"),
    "refuses connections": (nobody, "the connection failed"),
    "has no address": (unknown, "the connection failed"),
    "cannot be trusted": (untrusted, "no trusted connection"),
}


QUICK_FAULT = "dies within an answer"


@pytest.mark.parametrize(
    "fault",
    [QUICK_FAULT, *(pytest.param(name, marks=pytest.mark.slow) for name in FAULTS if name != QUICK_FAULT)],
)
def test_a_service_that_is_not_there_is_a_failure_and_asked_again(
    tmp_path: Path, fault: str, record_property: Callable[[str, object], None]
) -> None:
    audit, run = tmp_path / "audit.yaml", tmp_path / "run"
    make, words = FAULTS[fault]
    with make() as url:
        describe(audit, url)
        ended = stillme(tmp_path, "run", audit, surroundings=SURROUNDINGS).check(4)
    assert "some calls failed" in ended.said and "run the same command again" in ended.said
    assert statuses(run) == [("network", EDITS)], "a failure, not a refusal"
    assert rows(run)["edit"] == [] and rows(run)["verdict"] == []
    with closing(sqlite3.connect(run / LEDGER)) as connection:
        details = {detail for (detail,) in connection.execute("SELECT detail FROM attempt")}
    assert all(words in detail for detail in details), details
    with Server(openai_picture(png(5))) as server:
        describe(audit, server.url)
        stillme(tmp_path, "run", audit, surroundings=SURROUNDINGS).check()
        assert len(server.seen) == EDITS
    found = rows(run)
    assert {row[1] for row in found["edit"]} == {"ok"} and len(found["edit"]) == len(found["verdict"]) == EDITS
    record_property(f"a service that {fault}", f"{EDITS} failed, {EDITS} made again, 0 refused, 0 lost")


@pytest.mark.slow
def test_a_served_editor_that_is_killed_comes_back(tmp_path: Path) -> None:
    """`stillme editors serve`, killed in the middle of a run."""
    away = tmp_path / "away.yaml"
    dump_audit(away)
    words = ("stillme", "editors", "serve", str(away), "even")
    served = Process(words, "http://", tmp_path / "log").start()
    try:
        audit, run = tmp_path / "audit.yaml", tmp_path / "run"
        describe(audit, f"{served.base}/v1", "even")
        killer = threading.Thread(target=kill_after, args=(served, run, 2))
        killer.start()
        first = stillme(tmp_path, "run", audit, surroundings=SURROUNDINGS)
        killer.join()
        assert first.code in (0, 4), first
        served.start()
        stillme(tmp_path, "run", audit, surroundings=SURROUNDINGS).check()
        assert len(rows(run)["edit"]) == len(rows(run)["verdict"]) == EDITS
        assert all(row[1] == "ok" for row in rows(run)["edit"]), statuses(run)
    finally:
        served.kill()


def kill_after(served: Process, run: Path, edits: int) -> None:
    while True:
        try:
            with closing(sqlite3.connect(f"file:{run / LEDGER}?mode=ro", uri=True)) as connection:
                if connection.execute("SELECT count(*) FROM edit").fetchone()[0] >= edits:
                    break
        except sqlite3.Error:
            pass
    served.kill()
