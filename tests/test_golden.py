"""The golden run: no difference where nothing changed, and what changed is named by table, row and column."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import load_tool

ROOT = Path(__file__).parents[1]


golden = load_tool("golden")


def recorded(folder: Path, run: str = "aaaa", at: str = "2026-11-18T10:00:00.000+00:00") -> Path:
    """What a recording may hold, a file of each kind."""
    (folder / "run/report/tables").mkdir(parents=True)
    with closing(sqlite3.connect(folder / "run/ledger.sqlite")) as connection:
        connection.executescript(
            f"""CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT); INSERT INTO meta VALUES ('id', '{run}');
            CREATE TABLE score (verdict TEXT PRIMARY KEY, skin_tone INTEGER); INSERT INTO score VALUES ('v1', 3);
            CREATE TABLE attempt (id INTEGER PRIMARY KEY, started TEXT, seconds REAL, status TEXT);
            INSERT INTO attempt VALUES (1, '{at}', 0.{len(at)}, 'ok');"""
        )
    pl.DataFrame({"editor": ["even"], "rate": [0.25]}).write_parquet(folder / "run/report/tables/rates.parquet")
    (folder / "run/report/tables/rates.csv").write_text("editor,rate\neven,0.25\n", encoding="utf-8")
    page = f'<p>Made {at} of {run}: 25 % <a href="x.html">more</a></p><svg><path d="M 0 0 L 25 1"/></svg>'
    (folder / "run/report.html").write_text(page, encoding="utf-8")
    (folder / "run/report/about.json").write_text(f'{{"state": "{run}", "faces": "show"}}', encoding="utf-8")
    (folder / "run/report/face.png").write_bytes(b"picture")
    return folder


def test_times_and_random_ids_are_no_difference(tmp_path: Path) -> None:
    one, two = recorded(tmp_path / "one"), recorded(tmp_path / "two", "bbbb", "2027-01-01T00:00:00+00:00")
    assert list(golden.differences(one, two)) == []


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("run/report.html", "25 %", "26 %", "line 1: Made TIME of RUN: 25 % -> Made TIME of RUN: 26 %"),
        ("run/report.html", "L 25 1", "L 26 1", "line 4: <path d=M 0 0 L 25 1> -> <path d=M 0 0 L 26 1>"),
        ("run/report/tables/rates.csv", "0.25", "0.26", "row 1 (even), column rate: 0.25 -> 0.26"),
        ("run/report/about.json", "show", "blur", '/faces: "show" -> "blur"'),
    ],
)
def test_what_differs_is_named(tmp_path: Path, name: str, old: str, new: str, said: str) -> None:
    one, two = recorded(tmp_path / "one"), recorded(tmp_path / "two")
    content = (two / name).read_bytes()
    (two / name).write_bytes(content.replace(old.encode(), new.encode()))
    assert list(golden.differences(one, two)) == [f"{name}: {said}"]


def test_rows_cells_and_files_are_named(tmp_path: Path) -> None:
    one, two = recorded(tmp_path / "one"), recorded(tmp_path / "two")
    pl.DataFrame({"editor": ["even"], "rate": [0.5]}).write_parquet(two / "run/report/tables/rates.parquet")
    (two / "run/report/face.png").rename(two / "run/report/other.png")
    (one / "run/report/shown.png").write_bytes(b"one")
    (two / "run/report/shown.png").write_bytes(b"two")
    with closing(sqlite3.connect(two / "run/ledger.sqlite")) as connection, connection:
        connection.execute("UPDATE score SET skin_tone = 4")
        connection.execute("INSERT INTO score VALUES ('v2', 1)")
    assert list(golden.differences(one, two)) == [
        "run/ledger.sqlite: table score, row verdict=v1, column skin_tone: 3 -> 4",
        "run/ledger.sqlite: table score, row verdict=v2, column verdict: (nothing) -> v2",
        "run/ledger.sqlite: table score, row verdict=v2, column skin_tone: (nothing) -> 1",
        "run/report/face.png: is no longer written",
        "run/report/other.png: is new",
        "run/report/shown.png: bytes: 7692c3ad3540 -> 3fc4ccfe7458",
        "run/report/tables/rates.parquet: row 1 (even), column rate: 0.25 -> 0.5",
    ]


@pytest.mark.slow
def test_code_that_did_not_change_shows_no_difference(tmp_path: Path) -> None:
    for command in ("record", "compare"):
        words = [sys.executable, str(ROOT / "tools/golden.py"), command, str(tmp_path / "golden")]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "No difference."
