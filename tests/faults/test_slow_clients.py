"""Clients that open connections and send next to nothing: raters are served as if they were not there."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from stillme.study.rehearsal.bots import MANNERS, Bot, Told
from stillme.study.rehearsal.rehearse import Process, server
from stillme.web.server import ARRIVAL_S, MAX_AWAITED
from tests.study import bundles

SILENT, SLOW = 560, 40  # connections
RATERS, ITEMS = 6, 3
HEAD = b"POST /api/operations HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Process]:
    bundles.write(tmp_path / "bundle", items=ITEMS, tasks=RATERS // 3, seats=3)
    study = server(tmp_path / "bundle", tmp_path / "data", tmp_path / "log").start()
    yield study
    study.kill()
    assert "Traceback" not in study.log.read_text(encoding="utf-8")


class Crowd:
    """Half-open connections of both kinds, for as long as the block lasts."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.ends: list[asyncio.Task[None]] = []
        self.closed = 0

    async def __aenter__(self) -> Crowd:
        await asyncio.gather(*(self._open(b"GET / HT") for _ in range(SILENT)))
        await asyncio.gather(*(self._open(HEAD) for _ in range(SLOW)))
        return self

    async def __aexit__(self, *error: object) -> None:
        for end in self.ends:
            end.cancel()
        await asyncio.gather(*self.ends, return_exceptions=True)

    async def _open(self, first: bytes) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(first)
        self.ends.append(asyncio.create_task(self._drip(reader, writer, first == HEAD)))

    async def _drip(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_slow: bool) -> None:
        """One byte a second, until the server has had enough."""
        try:
            while not reader.at_eof():
                with suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(100), 1)
                if is_slow and not reader.at_eof():
                    writer.write(b" ")
        except ConnectionError:
            pass
        finally:
            self.closed += 1
            writer.transport.abort()


async def rate(port: int, number: int) -> Told:
    link = f"/p/start?PROLIFIC_PID=rater{number}&STUDY_ID=s&SESSION_ID=v{number}"
    return await Bot(f"http://127.0.0.1:{port}", link, f"rater{number}", MANNERS["quick"], "slow").run()


@pytest.mark.slow
def test_raters_are_served_beside_clients_that_never_finish(
    served: Process, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    async def storm() -> tuple[list[Told], int, int]:
        async with Crowd(served.port) as crowd:
            told = await asyncio.gather(*(rate(served.port, number) for number in range(RATERS)))
            early = crowd.closed
            async with asyncio.timeout(ARRIVAL_S * 3):  # until the server has given all of them up
                while crowd.closed < SILENT + SLOW:
                    await asyncio.sleep(0.2)
            return list(told), early, crowd.closed

    told, early, closed = asyncio.run(storm())
    assert [one.end for one in told] == ["complete"] * RATERS
    saved = {one.id for rater in told for one in rater.saved if one.id}
    with closing(sqlite3.connect(tmp_path / "data/study.db")) as connection:
        kept = {id for (id,) in connection.execute("SELECT id FROM operation WHERE refused = ''")}
    assert saved and saved <= kept
    assert early >= SILENT + SLOW - MAX_AWAITED, "beyond so many, the longest awaited goes"
    assert closed == SILENT + SLOW
    record_property(
        "slow clients", f"{closed} of {closed} given up, {RATERS} raters complete, 0 of {len(saved)} lost"
    )
