"""SIGKILL at random points: what was done is kept, and the resumed run equals the undisturbed one."""

from __future__ import annotations

import hashlib
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from stillme.ledger.run import LEDGER
from tests import preloaded
from tests.conftest import audit_data, dump_audit
from tests.faults import faulty
from tests.faults.faulty import often

GRID = {
    "sources": [
        {
            "id": "heads",
            "kind": "synthetic",
            "settings": {"groups": {"race": ["white", "black", "indian"], "age": ["20s", "60s"]}},
        }
    ],
    "experiments": {"diagnose": {"prompts": ["O-01", "V-02", "V-03"]}, "controls": {"kinds": ["re_encode"]}},
    "measures": [{"id": "skin", "kind": "skin_tone_shift"}],
}


def start(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "stillme", "run", str(folder / "audit.yaml")]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def finish(folder: Path) -> None:
    _, errors = (process := start(folder)).communicate(timeout=300)
    assert process.returncode == 0, errors.decode()


def rows_done(folder: Path) -> int:
    """How many edits, measurements and verdicts are on disk; 0 while there is no ledger yet."""
    try:
        connection = sqlite3.connect(f"file:{folder / 'run' / LEDGER}?mode=ro", uri=True)
        try:
            return int(
                connection.execute(
                    "SELECT (SELECT count(*) FROM edit) + (SELECT count(*) FROM verdict)"
                    " + (SELECT count(*) FROM measurement)"
                ).fetchone()[0]
            )
        finally:
            connection.close()
    except sqlite3.Error:
        return 0


def kill_early(folder: Path, delay: float) -> None:
    process = start(folder)
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def kill_at(folder: Path, rows: float, delay: float) -> None:
    running = preloaded.start(["run", str(folder / "audit.yaml")], folder / "said")
    deadline = time.monotonic() + 120
    while not running.is_over and rows_done(folder) < rows and time.monotonic() < deadline:
        time.sleep(0.005)
    time.sleep(delay)
    running.kill()


def files(folder: Path) -> dict[str, str]:
    objects = folder / "run/objects"
    paths = [path for path in objects.rglob("*") if path.is_file()]
    return {str(path.relative_to(objects)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def report(folder: Path) -> str:
    """The report without the times at which this run was made."""
    text = (folder / "run/report.html").read_text(encoding="utf-8")
    return re.sub(r"20\d\d-\d\d-\d\dT[\d:.]+\+00:00", "TIME", text)


@often(3, 20)
def test_killed_often_and_still_the_same(
    tmp_path: Path, times: int, record_property: Callable[[str, object], None]
) -> None:
    """Three kills: one while it edits, one while it measures, one while it judges."""
    calm, rough = tmp_path / "calm", tmp_path / "rough"
    grid = GRID if times > 3 else {**GRID, "sources": audit_data()["sources"]}
    for folder in (calm, rough):
        folder.mkdir()
        dump_audit(folder / "audit.yaml", **grid)
    finish(calm)
    total = rows_done(calm)
    assert total > 90
    chance = random.Random(20)
    early = times // 5
    points = [(part + chance.random()) * total / (times - early) for part in range(times - early)]
    for _ in range(early):  # while the run is being made
        kill_early(rough, chance.uniform(0, 1.2))
    for rows in points:
        kill_at(rough, rows, chance.uniform(0, 0.03))
    finish(rough)
    assert faulty.rows(rough / "run") == faulty.rows(calm / "run")
    assert files(rough) == files(calm)
    assert report(rough) == report(calm)
    assert list((rough / "run/objects/aside").iterdir()) == []
    with closing(sqlite3.connect(rough / "run" / LEDGER)) as connection:
        recorded = connection.execute("SELECT count(*) FROM attempt").fetchone()[0]
        measured = connection.execute("SELECT count(*) FROM measurement").fetchone()[0]
    assert measured > 20
    assert recorded == total - measured, "every attempt that was recorded ended in a row"
    record_property("edit, measure, judge killed", f"{times} times (seed 20): {total} rows, 0 lost, 0 invented")
