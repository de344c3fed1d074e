"""The ledger beside two plain ways of keeping results: JSONL with fsync, and SQLite with one commit a row.

    python -m bench.ledger [--rows 20000] [--keys 1000000]

Prints durable appends per second, the time to read all keys back in a new process (what a resume does first), and
how the memory grows. A record is a judge's verdict of about 700 bytes with its attempt and scores.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

import psutil

from bench import figures
from bench.figures import Row
from stillme.core.records import Attempt, Edit, Status, Verdict, digest
from stillme.ledger import Run
from stillme.ledger.run import now
from stillme.protocol import builtin

EVIDENCE = "source has a broad nose with a rounded tip; edited has a narrower bridge. " * 8
TARGET_APPENDS = 10_000
TARGET_SCAN = 5.0
FLAT = 1.1  # of the memory after a tenth
SHOWS = "Durable appends of a judge's verdict, what a resume reads first, and memory while appending."
DOES_NOT_SHOW = (
    "another disk: the peers wait for every flush, so their rates, and the ratio, hang on it "
    "(3.5 on a quick disk, 20 on a busy one).",
    "several writers: a run has one.",
    "an equal effort: ours writes three rows an append (verdict, scores, attempt), the peers one.",
)


def verdict(number: int, settings: str) -> tuple[Verdict, Attempt]:
    key = digest("bench", number=number)
    scores = dict.fromkeys(builtin().axes_of("O-01"), 3)
    return (
        Verdict(key, "edit", "judge", settings, Status.OK, scores, EVIDENCE),
        Attempt(key, Status.OK, now(), 1.0, 0.001),
    )


def ours(folder: Path, rows: int) -> float:
    """Durable appends through the run's one writer: groups form by themselves while 256 wait for their commit."""
    with Run.open_for_writing(folder, builtin()) as run:
        settings = run.add_settings("judge", {"bench": True})
        run.add_edit(Edit("edit", Status.OK, None), Attempt("edit", Status.OK, now(), 0.0), None).result()
        records = [verdict(number, settings) for number in range(rows)]
        waiting: deque[Future[None]] = deque()
        started = time.perf_counter()
        for one, attempt in records:
            waiting.append(run.add_verdict(one, attempt))
            if len(waiting) == 256:
                waiting.popleft().result()
        for answer in waiting:
            answer.result()
        return rows / (time.perf_counter() - started)


def jsonl(folder: Path, rows: int) -> float:
    """One line a record, flushed to disk each time."""
    folder.mkdir()
    started = time.perf_counter()
    with (folder / "ledger.jsonl").open("w") as file:
        for number in range(rows):
            file.write(json.dumps(plain(number)) + "\n")
            file.flush()
            os.fsync(file.fileno())
    return rows / (time.perf_counter() - started)


def commit_each(folder: Path, rows: int) -> float:
    """The same SQLite settings as ours, one commit a record."""
    folder.mkdir()
    connection = sqlite3.connect(folder / "ledger.sqlite", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE verdict (key TEXT PRIMARY KEY, record TEXT)")
    started = time.perf_counter()
    for number in range(rows):
        record = plain(number)
        connection.execute("INSERT INTO verdict VALUES (?, ?)", (record["key"], json.dumps(record)))
    seconds = time.perf_counter() - started
    connection.close()
    return rows / seconds


def plain(number: int) -> dict[str, object]:
    one, _ = verdict(number, "settings")
    return {"key": one.key, "judge": one.judge, "scores": dict(one.scores), "evidence": one.evidence}


def fill(folder: Path, keys: int) -> None:
    """A run with many verdicts, made quickly: the scan is what is measured."""
    with Run.open_for_writing(folder, builtin()) as run:
        settings = run.add_settings("judge", {"bench": True})
        run.add_edit(Edit("edit", Status.OK, None), Attempt("edit", Status.OK, now(), 0.0), None).result()
        rows = ((digest("bench", number=n), "edit", "judge", settings, "ok", EVIDENCE, "") for n in range(keys))
        run.connection.execute("BEGIN")
        columns = "key, edit, judge, settings, status, evidence, detail"
        run.connection.executemany(f"INSERT INTO verdict ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        run.connection.execute("COMMIT")


def scan(folder: Path) -> tuple[float, float, int]:
    """Seconds and MB of reading every key, in a new process."""
    code = (
        "import sys, time, resource; from pathlib import Path; from stillme.ledger import Run\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; started = time.perf_counter()\n"
        "with Run.open_readonly(Path(sys.argv[1])) as run: found = run.keys('verdict')\n"
        "print(time.perf_counter() - started,"
        " (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024, len(found))"
    )
    out = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True)
    seconds, megabytes, count = out.stdout.split()
    return float(seconds), float(megabytes), int(count)


def growth(folder: Path, rows: int) -> tuple[float, float]:
    """Memory after the first and after the last tenth of many appends."""
    process = psutil.Process()
    with Run.open_for_writing(folder, builtin()) as run:
        settings = run.add_settings("judge", {"bench": True})
        run.add_edit(Edit("edit", Status.OK, None), Attempt("edit", Status.OK, now(), 0.0), None).result()
        early = 0.0
        answer: Future[None] | None = None
        for number in range(rows):
            answer = run.add_verdict(*verdict(number, settings))
            if number == rows // 10:
                early = process.memory_info().rss / 1e6
        if answer is not None:
            answer.result()
        return early, process.memory_info().rss / 1e6


def rows(
    speeds: dict[str, float], keys: int, seconds: float, megabytes: float, memory: tuple[float, float]
) -> Iterator[Row]:
    (_, first), *peers = speeds.items()
    for label, speed in peers:
        yield figures.rate("durable appends", first, "a second", label, speed).at_least(TARGET_APPENDS)
    yield figures.cost(f"scan of {keys:,} keys", seconds, "s").at_most(TARGET_SCAN)
    yield figures.cost(f"memory of the scan of {keys:,} keys", megabytes, "MB")
    yield figures.cost(
        "memory at the end of the appends, over that after a tenth", memory[1] / memory[0], ""
    ).at_most(FLAT)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--keys", type=int, default=1_000_000)
    given = parser.parse_args()
    ways: dict[str, tuple[Callable[[Path, int], float], int]] = {
        "stillme ledger, groups": (ours, given.rows),
        "JSONL, fsync each": (jsonl, given.rows // 10),
        "SQLite, commit each": (commit_each, given.rows // 10),
    }
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        folder = Path(name)
        speeds = {label: way(folder / str(n), rows) for n, (label, (way, rows)) in enumerate(ways.items())}
        fill(folder / "many", given.keys)
        seconds, megabytes, count = scan(folder / "many")
        early, late = growth(folder / "growth", given.rows * 5)
    first = next(iter(speeds.values()))
    print(f"{'durable appends':<26}{'per second':>12}{'ours is':>12}")
    for label, speed in speeds.items():
        print(f"{label:<26}{speed:>12,.0f}{first / speed:>11.1f}×")
    print(f"resume scan of {count:,} keys: {seconds:.2f} s, {megabytes:.0f} MB")
    print(f"memory while appending {given.rows * 5:,}: {early:.0f} MB after a tenth, {late:.0f} MB at the end")
    figures.write("ledger", rows(speeds, count, seconds, megabytes, (early, late)), SHOWS, DOES_NOT_SHOW)
    met = first >= TARGET_APPENDS and seconds <= TARGET_SCAN * max(1.0, given.keys / 1_000_000)
    print("targets met" if met else f"targets missed: {TARGET_APPENDS:,} appends/s, scan within {TARGET_SCAN:g} s")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
