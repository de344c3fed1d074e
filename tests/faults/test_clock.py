"""Clocks that jump: no negative durations, nothing in another order, nobody loses a seat or has to wait."""

from __future__ import annotations

import asyncio
import datetime as dates
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from stillme.ledger.run import LEDGER
from stillme.study.rehearsal.bots import MANNERS, Bot
from stillme.study.rehearsal.rehearse import Process
from tests.conftest import dump_audit
from tests.faults.faulty import rows, stillme
from tests.study import bundles

HOUR = 3600.0
EVERY = 0.2  # seconds between jumps of a run


@dataclass(frozen=True)
class Jumps:
    """Shifts what this process takes for the time of day: as a file says, or by turns. What goes evenly, and what
    the kernel notes of files, stays."""

    told: Path | None = None

    def __call__(self) -> None:
        real, even = time.time, time.monotonic

        def shift() -> float:
            if self.told is not None:
                return float(self.told.read_text() or 0) if self.told.exists() else 0.0
            return (-HOUR, 0.0, HOUR, 24 * HOUR)[int(even() / EVERY) % 4]

        class Shifted(dates.datetime):
            @classmethod
            def now(cls, tz: dates.tzinfo | None = None) -> Shifted:
                return cls.fromtimestamp(real() + shift(), tz)

        time.time = lambda: real() + shift()
        for name, module in list(sys.modules.items()):
            if name.startswith("stillme") and getattr(module, "datetime", None) is dates.datetime:
                module.datetime = Shifted  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_run_whose_clock_jumps_ends_like_any_other(
    audited: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    dump_audit(tmp_path / "audit.yaml")
    stillme(tmp_path, "run", tmp_path / "audit.yaml", first=Jumps()).check()
    assert rows(tmp_path / "run") == rows(audited / "run")
    with closing(sqlite3.connect(tmp_path / "run" / LEDGER)) as connection:
        started = [at for (at,) in connection.execute("SELECT started FROM attempt ORDER BY id")]
        shortest, longest = connection.execute("SELECT min(seconds), max(seconds) FROM attempt").fetchone()
    backwards = sum(later < earlier for earlier, later in pairwise(started))
    assert 0 <= shortest <= longest < HOUR / 2
    assert backwards, "the clock did not jump"
    stillme(tmp_path, "status", tmp_path / "run").check()
    stillme(tmp_path, "run", tmp_path / "audit.yaml").check()
    assert rows(tmp_path / "run") == rows(audited / "run")
    record_property(
        "a clock that jumps", f"{len(started)} calls, {backwards} begun before the one before, 0 below 0 s"
    )


@pytest.fixture
def study(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """A study that is served by a process whose clock this test sets."""
    bundles.write(tmp_path / "bundle", items=4, tasks=1, seats=3, minimum_seconds_item=1)
    told, said = tmp_path / "shift", tmp_path / "served"
    words = ("study", "serve", str(tmp_path / "bundle"), "--data", str(tmp_path / "data"), "--lease", "1")
    served = Process((__name__, str(told), *words), "Listening on", said).start()
    yield served.port, told
    served.kill()
    assert "Traceback" not in said.read_text(encoding="utf-8")


@pytest.mark.parametrize("jump", [-HOUR, 24 * HOUR])
@pytest.mark.slow
def test_raters_do_not_notice_that_the_servers_clock_is_set(
    tmp_path: Path, study: tuple[int, Path], jump: float
) -> None:
    port, told = study

    async def rate(number: int) -> str:
        link = f"/p/start?PROLIFIC_PID=rater{number}&STUDY_ID=s&SESSION_ID=v{number}"
        manner = MANNERS["honest"]
        return (await Bot(f"http://127.0.0.1:{port}", link, f"rater{number}", manner, "clock").run()).end

    async def visit() -> list[str]:
        async with asyncio.timeout(120):
            raters = [asyncio.create_task(rate(number)) for number in range(3)]
            while len(operations(tmp_path)) < 4:
                await asyncio.sleep(0.05)
            told.write_text(str(jump))
            return await asyncio.gather(*raters)

    began = time.monotonic()
    assert asyncio.run(visit()) == ["complete"] * 3
    assert time.monotonic() - began < HOUR / 2, "somebody was asked to look an hour longer"
    with closing(sqlite3.connect(tmp_path / "data/study.db")) as connection:
        sat = connection.execute("SELECT began, ended, state FROM sitting").fetchall()
        opened = connection.execute("SELECT opened, done FROM opening").fetchall()
    assert [state for _, _, state in sat] == ["complete"] * 3
    assert all(0 <= ended - started < HOUR / 2 for started, ended, _ in sat)
    assert all(0 <= done - at < HOUR / 2 for at, done in opened)


def operations(folder: Path) -> list[object]:
    with closing(sqlite3.connect(f"file:{folder / 'data/study.db'}?mode=ro", uri=True)) as connection:
        return connection.execute("SELECT id FROM operation").fetchall()


def main(told: str, *words: str) -> None:
    """A command whose clock a file sets."""
    from stillme.cli.main import main as command

    Jumps(Path(told))()
    command(list(words))


if __name__ == "__main__":
    main(*sys.argv[1:])
