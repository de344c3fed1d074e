"""Names to write under: whole or not at all, and nothing of the dead stays."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from stillme.core.atomic import (
    new_folder,
    open_replacement,
    remove_stale_parts,
    replace_database,
    replace_file,
    replace_folder,
    temporary_path,
)

DIES = """
import os, signal, sys
from pathlib import Path
from stillme.core.atomic import temporary_path
with temporary_path(Path(sys.argv[1]), folder=sys.argv[2] == "folder") as part:
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_a_killed_process_began_is_cleared_away_by_the_next(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "report [1]"
    died = subprocess.run([sys.executable, "-c", DIES, str(target), kind])
    assert died.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".report [1].") and left.suffix == ".part"
    with temporary_path(target, folder=kind == "folder") as part:
        assert list(tmp_path.iterdir()) == [part]
        remove_stale_parts(target)
        assert part.exists(), "who is at work keeps what they write"
    assert list(tmp_path.iterdir()) == []


def test_what_was_written_stays_under_its_name(tmp_path: Path) -> None:
    with temporary_path(tmp_path / "page.html") as part:
        part.write_text("whole")
        part.replace(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == "whole"
    assert list(tmp_path.iterdir()) == [tmp_path / "page.html"]


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no"), temporary_path(tmp_path / "a", folder=True) as part:
        (part / "half").write_text("x")
        raise ValueError("no")
    assert list(tmp_path.iterdir()) == []


def test_folders_that_are_not_there_have_nothing_to_clear(tmp_path: Path) -> None:
    remove_stale_parts(tmp_path / "nowhere" / "a")


def test_an_error_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    replace_file(path, b"old")
    with pytest.raises(ValueError, match="no"), open_replacement(path) as file:
        file.write(b"half")
        raise ValueError("no")
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("durable", [False, True])
def test_threads_may_replace_the_same_file(tmp_path: Path, durable: bool) -> None:
    contents = [bytes([number]) * 100_000 for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda content: replace_file(tmp_path / "a", content, durable=durable), contents * 5))
    assert (tmp_path / "a").read_bytes() in contents and list(tmp_path.iterdir()) == [tmp_path / "a"]


def test_what_is_private_is_for_its_owner_alone(tmp_path: Path) -> None:
    replace_file(tmp_path / "key", b"secret", private=True)
    with new_folder(tmp_path / "export", private=True) as part:
        (part / "a").write_bytes(b"a")
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("key", "export")]
    assert modes == [0o600, 0o700]


def test_a_new_folder_never_replaces_what_somebody_put_there_meanwhile(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    with new_folder(folder) as part:
        filled(part / "inner", "new")
    assert (folder / "inner/page.txt").read_text() == "new", "an empty one may be there"
    with pytest.raises(OSError, match="not empty"), new_folder(folder) as part:
        filled(part, "other")
    assert names(folder) == {"inner"} and names(tmp_path) == {"out"}


def test_a_database_is_replaced_by_a_copy_of_another_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as source:
        source.execute("PRAGMA journal_mode=WAL")
        source.execute("CREATE TABLE t (x)")
        for _ in range(2):
            source.execute("INSERT INTO t VALUES (1)")
            with replace_database(source, target, private=True) as part:
                assert part.stat().st_mode & 0o777 == 0o600
        with pytest.raises(ValueError, match="damaged"), replace_database(source, target) as part:
            raise ValueError("damaged")
    with closing(sqlite3.connect(target)) as copy:
        assert copy.execute("SELECT count(*) FROM t").fetchone() == (2,)
    assert names(tmp_path) == {"a.db", "copy.db"}


def filled(folder: Path, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "page.txt").write_text(text)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_the_new_folder_takes_the_old_ones_place_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    filled(tmp_path / "report", "old")
    with replace_folder(tmp_path / "report") as aside:
        filled(aside, "new")
        assert (tmp_path / "report/page.txt").read_text() == "old"
    assert (tmp_path / "report/page.txt").read_text() == "new"
    assert names(tmp_path) == {"report"}


def test_a_crash_leaves_the_old_folder_whole(tmp_path: Path) -> None:
    filled(tmp_path / "report", "old")
    with pytest.raises(RuntimeError), replace_folder(tmp_path / "report") as aside:
        filled(aside, "half")
        raise RuntimeError("out of memory")
    assert (tmp_path / "report/page.txt").read_text() == "old"
    assert names(tmp_path) == {"report"}


def test_what_a_crash_between_the_renames_left_is_put_back(tmp_path: Path) -> None:
    filled(tmp_path / ".report.old", "old")
    with pytest.raises(RuntimeError), replace_folder(tmp_path / "report"):
        raise RuntimeError("again")
    assert (tmp_path / "report/page.txt").read_text() == "old"
