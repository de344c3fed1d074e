"""A run on a disk that may only be read: whoever reads is served, whoever writes hears why not, nothing changes.

A read-only bind mount, as root ignores permissions.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import preloaded
from tests.conftest import dump_audit
from tests.faults.faulty import files, mounted, rows, stillme, unmount
from tests.faults.test_kill import GRID, rows_done
from tests.faults.test_two_processes import until


@pytest.fixture
def locked(audited: Path, tmp_path: Path) -> Iterator[Path]:
    """audit.yaml and its run, as they are, and not to be changed."""
    folder = tmp_path / "locked"
    shutil.copytree(audited, folder)
    for log in folder.glob("run/ledger.sqlite-*"):
        log.unlink()
    yield from read_only(folder)


def read_only(folder: Path) -> Iterator[Path]:
    mounted(folder, "--bind", str(folder))
    try:
        mounted(folder, "-o", "remount,ro,bind")
        yield folder
    finally:
        unmount(folder)


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_reading_works_and_writing_says_why_not(
    locked: Path, tmp_path: Path, every: bool, record_property: Callable[[str, object], None]
) -> None:
    """Every command, or those that take no time."""
    run, before = locked / "run", files(locked)
    aside = tmp_path / "aside"
    aside.mkdir()
    size = ("--size", "4", "--tasks", "1", "--raters", "1")
    reading: tuple[tuple[str | Path, ...], ...] = (
        ("status", run, "--check"),
        ("check", locked / "audit.yaml"),
        ("export", run, "--to", aside / "tables"),
    )
    writing: tuple[tuple[str | Path, ...], ...] = (
        ("run", locked / "audit.yaml"),
        ("export", run),
        ("restore", run),
        ("review", run, "--port", "0"),
    )
    if every:
        reading += (
            ("analyse", run, "--to", aside / "analysis"),
            ("study", "build", run, "--preset", "exp1", *size, "--to", aside / "s"),
        )
        writing += (("report", run), ("analyse", run), ("bundle", run))
    for words in reading:
        stillme(aside, *words).check()
    for words in writing:
        said = stillme(aside, *words).check(3).said
        assert "Read-only file system" in said or "may only be read" in said, (words, said)
    assert files(locked) == before
    record_property(
        "read-only run", f"{len(reading)} reading commands work, {len(writing)} writing ones say why not"
    )


def test_what_a_killed_run_left_in_its_log_can_be_read(tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    folder.mkdir()
    dump_audit(folder / "audit.yaml", **GRID)
    running = preloaded.start(["run", str(folder / "audit.yaml")], tmp_path / "said")
    until(lambda: rows_done(folder) > 5)
    running.kill()
    done = {table: len(found) for table, found in rows(folder / "run", ("edit",)).items()}
    (folder / "run/ledger.sqlite-shm").unlink(missing_ok=True)
    assert (folder / "run/ledger.sqlite-wal").stat().st_size
    for locked in read_only(folder):
        answer = stillme(tmp_path, "status", locked / "run").check().answer
        assert any(
            line.startswith(f"edits  {done['edit']:,} ok") or f" {done['edit']:,} ok" in line
            for line in answer.splitlines()
        )
