"""Backups of a study that is in use, and the way back: nothing that was acknowledged before is missing."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import func, select

from stillme.core.errors import InputError, SetupError
from stillme.study.bundle import Bundle
from stillme.study.db import seats
from stillme.study.db.deal import questions
from stillme.study.db.store import connect
from stillme.study.db.tables import answer
from stillme.study.server.backup import backup, restore
from stillme.study.server.serve import data_folder
from tests.study import bundles
from tests.study.db.test_core import Desk, op
from tests.study.postgres import binaries
from tests.study.running import Running, Visitor

NOW = 1_700_000_000.0


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(f"sqlite:///{tmp_path / 'data' / 'study.db'}", _with(tmp_path / "data"))
    yield made
    made.engine.dispose()


def _with(folder: Path) -> Bundle:
    folder.mkdir()
    return bundles.make()[0]


def quiet(said: str) -> None:
    """Nobody listens."""


class Rater:
    """Answers without a pause, in a thread; `saved`: what the server called saved, as it came."""

    def __init__(self, visitor: Visitor, sat: str) -> None:
        self._visitor = visitor
        self.saved: list[tuple[str, str, int]] = []
        self._over = threading.Event()
        bundle = visitor.server.bundle
        dealt = visitor.server.do(lambda c: seats.sit(c, sat)).deal
        self._fields = [
            (screen.item, field)
            for screen in dealt.screens
            for field, _, _ in questions(bundle, screen)
            if field != "check"
        ]
        self.thread = threading.Thread(target=self._rate, daemon=True)
        self.thread.start()

    def _rate(self) -> None:
        rev = 0
        while not self._over.is_set():
            item, field = self._fields[rev % len(self._fields)]
            rev += 1
            one = {"id": str(uuid4()), "kind": "answer", "item": item, "field": field, "value": "3", "rev": rev}
            token = {"X-Stillme-Token": self._visitor.form_token}
            reply = self._visitor.send("/api/operations", {"operations": [one]}, token)
            assert reply.json["results"][0].get("saved"), reply.text
            self.saved.append((item, field, rev))

    def stop(self) -> None:
        self._over.set()
        self.thread.join(60)


def test_a_backup_of_a_study_in_use_brings_it_back(tmp_path: Path) -> None:
    bundles.write(tmp_path / "study")
    server = Running(tmp_path / "study").start()
    anna = Visitor(server)
    anna.enter("anna", "s-anna")
    rater = Rater(anna, anna.sit())
    while len(rater.saved) < 20 and rater.thread.is_alive():
        time.sleep(0.01)
    acknowledged = list(rater.saved)
    made = backup(server.engine, tmp_path / "backups", NOW, say=quiet)
    during = len(rater.saved)
    while len(rater.saved) < during + 5 and rater.thread.is_alive():
        time.sleep(0.01)
    rater.stop()
    server.process.kill()
    server.stop()

    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(tmp_path / "study", elsewhere / "study")
    data = data_folder(elsewhere / "study")
    shutil.copy(tmp_path / "study-data" / "secret", data / "secret")
    restore(made.path, data, quiet)
    again = Running(elsewhere / "study").start()
    with again.engine.connect() as connection:
        kept = {(row.item, row.field): row.rev for row in connection.execute(select(answer))}
    for item, field, rev in acknowledged:
        assert kept[item, field] >= rev
    assert Visitor(again).get("/healthz").status == 200
    anna.server = again
    page = anna.get("/items/1")
    assert page.status == 200 and "Change the light" in page.text, "who was at work goes on"
    again.stop()


def test_a_backup_is_one_checked_file_with_its_hash(desk: Desk, tmp_path: Path) -> None:
    sat = desk.take(desk.enter("anna"))
    desk.rate(sat, 0)
    said: list[str] = []
    made = backup(desk.engine, tmp_path / "backups", NOW, say=said.append)
    assert made.path.name == "study-20231114T221320Z.db"
    names = sorted(path.name for path in (tmp_path / "backups").iterdir())
    assert names == [made.path.name, f"{made.path.name}.sha256"]
    assert made.path.stat().st_mode & 0o077 == 0, "it holds identities"
    assert (made.path.parent.stat().st_mode & 0o077) == 0
    assert hashlib.sha256(made.path.read_bytes()).hexdigest() == made.sha256
    subprocess.run(["sha256sum", "-c", f"{made.path.name}.sha256"], cwd=made.path.parent, check=True)
    with closing(sqlite3.connect(made.path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "delete"
        assert connection.execute("SELECT count(*) FROM answer").fetchone()[0] == made.answers > 5
    assert f"{made.answers} answers of 1 people, checked" in said[0]
    with pytest.raises(InputError, match="exists already"):
        backup(desk.engine, tmp_path / "backups", NOW, say=quiet)


def test_a_backup_of_a_study_that_is_not_served(desk: Desk, tmp_path: Path) -> None:
    """The companions of the database's file are gone then."""
    desk.enter("anna")
    desk.engine.dispose()
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["study.db"]
    assert backup(connect(str(desk.engine.url)), tmp_path / "backups", NOW, say=quiet).people == 1


def test_only_our_own_old_backups_are_removed(desk: Desk, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    (folder / "study-of-mine.db").touch()
    for hour in range(5):
        backup(desk.engine, folder, NOW + 3600 * hour, keep=3, say=quiet)
    left = sorted(path.name for path in folder.glob("*.db"))
    assert len(left) == 4 and "study-of-mine.db" in left and "study-20231114T221320Z.db" not in left
    assert len(list(folder.glob("*.sha256"))) == 3


def test_a_restore_replaces_nothing_and_takes_nothing_broken(desk: Desk, tmp_path: Path) -> None:
    desk.enter("anna")
    made = backup(desk.engine, tmp_path / "backups", NOW, say=quiet)
    with pytest.raises(InputError, match="exists already"):
        restore(made.path, tmp_path / "data", quiet)
    said: list[str] = []
    restore(made.path, tmp_path / "new", said.append)
    assert "Put the study's secret beside it" in said[0]
    content = bytearray(made.path.read_bytes())
    content[5000] ^= 1
    made.path.write_bytes(content)
    with pytest.raises(SetupError, match="not what it was"):
        restore(made.path, tmp_path / "other", quiet)
    made.path.with_suffix(".db.sha256").unlink()
    made.path.write_bytes(b"not a database at all, but long enough to be read" * 100)
    with pytest.raises(SetupError, match="not a whole database"):
        restore(made.path, tmp_path / "other", quiet)
    with pytest.raises(InputError, match="no backup at"):
        restore(tmp_path / "none.db", tmp_path / "other", quiet)


def test_a_restore_is_not_put_beside_the_log_of_another_database(desk: Desk, tmp_path: Path) -> None:
    made = backup(desk.engine, tmp_path / "backups", NOW, say=quiet)
    desk.enter("anna")
    (tmp_path / "new").mkdir()
    shutil.copy(tmp_path / "data" / "study.db-wal", tmp_path / "new")  # as after a kill and moving study.db away
    with pytest.raises(InputError, match=r"study\.db-wal exists already.*together"):
        restore(made.path, tmp_path / "new", quiet)
    assert not (tmp_path / "new" / "study.db").exists()


def test_postgresql_is_dumped_and_restored_by_its_own_tools(postgres: str, tmp_path: Path) -> None:
    """As the page about deploying says."""
    found = binaries()
    if found is None or not (found / "pg_dump").exists():
        pytest.skip("pg_dump is not here")
    desk = Desk(postgres, bundles.make()[0])
    sat = desk.take(desk.enter("anna"))
    item = desk.do(lambda c: seats.sit(c, sat)).deal.screens[0].item
    desk.send(sat, op("comment", item, value="kept"))
    with pytest.raises(InputError, match="pg_dump"):
        backup(desk.engine, tmp_path / "backups", NOW, say=quiet)
    desk.engine.dispose()
    plain = postgres.replace("+psycopg", "")
    file, other = tmp_path / "study.dump", plain.rpartition("/")[0] + "/restored"
    for command in (
        ["pg_dump", "--format=custom", f"--file={file}", plain],
        ["createdb", f"--maintenance-db={plain}", "restored"],
        ["pg_restore", "--exit-on-error", "--no-owner", f"--dbname={other}", str(file)],
    ):
        subprocess.run([str(found / command[0]), *command[1:]], check=True, capture_output=True)
    back = Desk(other, desk.bundle)
    assert back.do(lambda c: c.scalar(select(func.count()).select_from(answer))) == 1
    back.rate(sat, 0)
    back.engine.dispose()
