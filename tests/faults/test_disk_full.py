"""A full disk: a sentence, nothing half-written, everything paid for kept, and all goes on when there is room again."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stillme.core.errors import SetupError
from stillme.core.records import Adjudication
from stillme.ledger import Run
from stillme.ledger.run import now
from stillme.study.rehearsal.bots import MANNERS, Bot, Told
from stillme.study.rehearsal.rehearse import server
from tests.conftest import audit_data, dump_audit
from tests.faults.faulty import files, mounted, parts, rows, stillme, unmount
from tests.faults.test_damaged_images import THIRD
from tests.study import bundles


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A real disk of 40 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted(folder, "-t", "tmpfs", "-o", "size=40m", "none")
    yield folder
    unmount(folder)


def fill(disk: Path, but: int = 0) -> Path:
    """A file that takes what is left, but for so many bytes."""
    path = disk / "full"
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError as error:
            assert error.errno == errno.ENOSPC
        os.truncate(path, max(0, file.tell() - but))
    return path


def test_a_run_on_a_small_disk(tmp_path: Path, disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=700k", str(disk)], check=True)
    dump_audit(tmp_path / "audit.yaml", run=str(disk / "run"))
    said = stillme(tmp_path, "run", tmp_path / "audit.yaml").check(3).said
    assert "is full" in said and "free some space and run the same command again" in said
    kept = sorted(path.name for path in (disk / "run/objects").rglob("*.jpg"))
    assert kept, "what was done before the disk was full is kept"
    subprocess.run(["mount", "-o", "remount,size=50m", str(disk)], check=True)
    done = stillme(tmp_path, "run", tmp_path / "audit.yaml").check()
    assert len(rows(disk / "run")["edit"]) == 24, done.answer
    assert set(kept) <= {path.name for path in (disk / "run/objects").rglob("*.jpg")}


@pytest.mark.slow
def test_every_writing_command_says_so_and_works_when_there_is_room(
    audited: Path, disk: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    run = disk / "run"
    shutil.copytree(audited / "run", run)
    whole = rows(run)
    dump_audit(tmp_path / "audit.yaml", run=str(run), judges=[*audit_data()["judges"], THIRD])  # type: ignore[misc]
    full = fill(disk)
    kept = files(run)
    build = ("study", "build", run, "--preset", "exp1", "--size", "4", "--tasks", "1", "--raters", "1")
    commands: tuple[tuple[str | Path, ...], ...] = (
        ("run", tmp_path / "audit.yaml"),
        ("report", run, "--only", "html", "--only", "tables"),
        ("export", run),
        ("bundle", run),
        (*build, "--to", disk / "bundle"),
    )
    for words in commands:
        said = stillme(tmp_path, *words).check(3).said
        assert "is full" in said, (words, said)
    full = fill(disk, but=500_000)  # enough for what is computed, not for the tables
    assert "is full" in stillme(tmp_path, *commands[1]).check(3).said
    after = files(run)
    passing = ("lock", "ledger.sqlite-shm", "ledger.sqlite-wal", "ledger.backup.lock")
    assert {name: after.get(name) for name in kept if name not in passing} == {
        name: value for name, value in kept.items() if name not in passing
    }
    assert rows(run) == whole and parts(disk) == []
    full.unlink()
    for words in (commands[0], commands[2], commands[4]):
        stillme(tmp_path, *words).check()
    assert len(rows(run)["verdict"]) == 72
    record_property("disk full", f"{len(commands)} commands said so, 0 rows lost, 0 halves")


def test_a_reviewer_hears_that_nothing_was_saved(audited: Path, disk: Path) -> None:
    run = disk / "run"
    shutil.copytree(audited / "run", run)
    with Run.join(run) as joined:
        (edit, prompt) = joined.query("SELECT edit, prompt FROM trial LIMIT 1")[0]
        decided = Adjudication(edit, prompt, "skin_tone", 3, "anna", "Seen. " * 2_000, now())
        joined.add_adjudication(decided).result()
        full = fill(disk)
        with pytest.raises(SetupError, match="is full"):
            for _ in range(2_000):  # until the log needs room that is not there
                joined.add_adjudication(decided).result()
        saved = len(joined.adjudications())
    full.unlink()
    with Run.join(run) as joined:
        joined.add_adjudication(decided).result()
        assert len(joined.adjudications()) == saved + 1


def test_raters_wait_for_a_disk_and_lose_nothing(
    disk: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    bundles.write(tmp_path / "bundle", items=4, tasks=1, seats=3)
    served = server(tmp_path / "bundle", disk / "data", tmp_path / "log").start()

    async def rate(number: int) -> Told:
        link = f"/p/start?PROLIFIC_PID=rater{number}&STUDY_ID=s&SESSION_ID=v{number}"
        return await Bot(served.base, link, f"rater{number}", MANNERS["honest"], "full").run()

    async def visit() -> list[Told]:
        async with asyncio.timeout(120):
            raters = [asyncio.create_task(rate(number)) for number in range(3)]
            while not operations(disk):
                await asyncio.sleep(0.02)
            full = await asyncio.to_thread(fill, disk)
            await asyncio.sleep(1.0)
            full.unlink()
            return await asyncio.gather(*raters)

    try:
        told = asyncio.run(visit())
    finally:
        served.kill()
    saved = {one.id for rater in told for one in rater.saved if one.id}
    assert [one.end for one in told] == ["complete"] * 3
    assert saved and saved <= operations(disk)
    assert "Traceback" not in served.log.read_text(encoding="utf-8")
    repeated = sum(one.repeated for one in told)
    record_property("study on a full disk", f"{len(saved)} saved, {repeated} sent again, 0 lost")


def operations(disk: Path) -> set[str]:
    with closing(sqlite3.connect(f"file:{disk / 'data/study.db'}?mode=ro", uri=True)) as connection:
        return {id for (id,) in connection.execute("SELECT id FROM operation WHERE refused = ''")}
