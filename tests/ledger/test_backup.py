"""The copy beside a ledger: when it is made, when it is not, and what can be read where nothing may be written."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from stillme.core import images, lock
from stillme.core.errors import InputError, SetupError
from stillme.core.lock import Lock
from stillme.core.records import Attempt, Edit, Status
from stillme.ledger import Run, backup, database
from stillme.ledger.objects import RemoteObjectStore, Store
from stillme.ledger.run import LEDGER
from stillme.protocol import Protocol

CALL = Attempt("e", Status.OK, "2026-01-01T00:00:00.000+00:00", 0.5, 0.01)


def add(run: Run, key: str) -> None:
    run.add_edit(Edit(key, Status.OK, None), CALL, None).result()


def edits(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT count(*) FROM edit").fetchone()[0])


@pytest.fixture
def ledger(tmp_path: Path, protocol: Protocol) -> Path:
    """Of a run with one edit, and its copy."""
    with Run.open_for_writing(tmp_path / "r", protocol) as run:
        add(run, "e1")
    return tmp_path / "r" / LEDGER


def spoil(path: Path) -> None:
    """Changes what SQLite does not look at."""
    content = path.read_bytes()
    at = content.rindex(b"2026-01-01")
    path.write_bytes(content[:at] + b"1" + content[at + 1 :])


def test_a_copy_is_made_in_the_end_and_when_it_is_asked_for(ledger: Path, protocol: Protocol) -> None:
    assert edits(backup.backup_of(ledger)) == 1
    with Run.open_for_writing(ledger.parent, protocol) as run:
        add(run, "e2")
        run.back_up()
        assert edits(backup.backup_of(ledger)) == 2
    made = backup.backup_of(ledger).stat().st_mtime_ns
    with Run.open_for_writing(ledger.parent, protocol):
        pass
    assert backup.backup_of(ledger).stat().st_mtime_ns == made, "nothing was added, so it is the same"
    with Run.open_readonly(ledger.parent) as seen:
        seen.back_up()


def test_a_copy_is_made_now_and_then(ledger: Path, protocol: Protocol, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup, "INTERVAL_S", 0.01)
    made = threading.Event()
    back_up = backup.back_up

    def noted(ledger: Path) -> bool:
        done = back_up(ledger)
        made.set()
        return done

    monkeypatch.setattr(backup, "back_up", noted)
    with Run.open_for_writing(ledger.parent, protocol) as run:
        add(run, "e2")
        assert made.wait(30)


def test_damage_that_is_found_meanwhile_stops_the_run(
    ledger: Path, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup, "INTERVAL_S", 0.01)
    with (
        pytest.raises(backup.DamagedError, match="row 1 of edit is not what it was"),
        Run.open_for_writing(ledger.parent, protocol) as run,
    ):
        monkeypatch.setattr(
            backup, "rows_differing_from_backup", lambda part, kept: ["row 1 of edit is not what it was"]
        )
        for number in range(100_000):
            add(run, f"n{number}")


def test_a_copy_that_somebody_else_makes_will_do(ledger: Path) -> None:
    with Lock(ledger.parent, backup.LOCK):
        assert not backup.back_up(ledger)
    assert backup.back_up(ledger)


def test_no_room_for_a_copy_is_no_reason_to_stop(
    ledger: Path, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(backup, "replace_file", full)
    with pytest.raises(SetupError, match="is full"):
        backup.back_up(ledger)
    with Run.open_for_writing(ledger.parent, protocol) as run:
        add(run, "e2")
    assert edits(backup.backup_of(ledger)) == 1 and edits(ledger) == 2


def test_a_copy_that_cannot_be_begun_is_said_in_a_sentence(ledger: Path) -> None:
    with pytest.raises(SetupError, match="unable to open database file"):
        backup.copy(ledger, ledger.parent / "nowhere" / "copy")


def test_a_lock_that_was_not_signed_for_want_of_room_is_free_again(
    ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, text: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(SetupError, match="is full"):
            backup.back_up(ledger)
    assert backup.back_up(ledger), "there is room again"


def test_a_disk_without_locks_is_not_taken_for_somebody_else(
    ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(descriptor: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(lock, "take_lock", unknown)
    with (
        pytest.raises(SetupError, match="lock cannot be locked: No locks available") as raised,
        Lock(ledger.parent),
    ):
        pass
    assert "mounted" in raised.value.next_step
    with pytest.raises(SetupError, match="cannot be locked"):
        backup.back_up(ledger)


def test_a_lock_that_cannot_be_made_is_not_taken_for_somebody_else(ledger: Path) -> None:
    (ledger.parent / backup.LOCK).unlink()
    (ledger.parent / backup.LOCK).mkdir()
    with pytest.raises(SetupError, match="Is a directory"):
        backup.back_up(ledger)


def test_while_files_change_places_one_of_the_copies_is_whole(
    ledger: Path, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = backup.backup_of(ledger)
    old = copy.read_bytes()
    with Run.open_for_writing(ledger.parent, protocol) as run:
        add(run, "e2")
    hashes = copy.with_name(f"{copy.name}.sha256")
    new = copy.read_bytes()
    copy.write_bytes(old)
    backup._write_hashes(copy, [hashes.read_text().split()[0], backup._sha256(copy)])
    assert backup.is_whole(copy)
    copy.write_bytes(new)
    assert backup.is_whole(copy)
    copy.write_bytes(b"neither")
    assert not backup.is_whole(copy) and list(backup.rows_differing_from_backup(ledger, copy)) == []


def test_a_changed_row_is_found_before_it_gets_into_the_copy(ledger: Path, protocol: Protocol) -> None:
    good = backup.backup_of(ledger).read_bytes()
    spoil(ledger)
    with (
        pytest.raises(backup.DamagedError, match="row 1 of attempt is not what it was"),
        Run.open_for_writing(ledger.parent, protocol) as run,
    ):
        add(run, "e2")
    assert backup.backup_of(ledger).read_bytes() == good
    assert list(ledger.parent.glob(".ledger*")) == []


def test_damage_without_a_copy_is_said_too(ledger: Path) -> None:
    backup.backup_of(ledger).unlink()
    ledger.write_bytes(ledger.read_bytes()[:5000])
    with pytest.raises(backup.DamagedError, match="has no copy beside it"):
        backup.check(ledger)
    with pytest.raises(InputError, match="to go back to"):
        backup.restore(ledger)


def test_going_back(ledger: Path, protocol: Protocol) -> None:
    with pytest.raises(InputError, match="is whole"):
        backup.restore(ledger)
    spoil(ledger)
    backup.check(ledger, thorough=True)  # SQLite sees nothing of it
    with pytest.raises(backup.DamagedError, match="not what it was"):
        backup.check(ledger, rows=True)
    found = backup.restore(ledger)
    assert found.rows["edit"] == 1 and found.lost["edit"] == 0 and found.aside.is_file()
    assert edits(ledger) == 1
    ledger.write_bytes(b"nothing of it")
    assert backup.restore(ledger).lost["edit"] is None
    ledger.unlink()
    assert backup.restore(ledger).rows["edit"] == 1
    spoil(ledger)
    copy = backup.backup_of(ledger)
    copy.write_bytes(copy.read_bytes()[:-1])
    with pytest.raises(SetupError, match="is damaged too"):
        backup.restore(ledger)


def test_a_log_that_belongs_to_the_damaged_ledger_goes_with_it(ledger: Path) -> None:
    spoil(ledger)
    for ending in ("-wal", "-shm"):
        ledger.with_name(ledger.name + ending).write_bytes(b"of another time")
    aside = backup.restore(ledger).aside
    assert aside.with_name(f"{aside.name}-wal").is_file() and edits(ledger) == 1


def test_a_schema_that_was_changed_is_damage(ledger: Path) -> None:
    with closing(sqlite3.connect(ledger)) as connection:
        connection.execute("DROP TRIGGER edit_no_update")
        connection.commit()
    with pytest.raises(backup.DamagedError, match="the schema is not what it was"):
        backup.check(ledger, rows=True)


def test_a_ledger_that_may_not_be_opened_is_not_called_damaged(
    ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(where: str, uri: bool = True) -> sqlite3.Connection:
        raise sqlite3.OperationalError("unable to open database file")

    monkeypatch.setattr(database, "_open", refused)
    with pytest.raises(SetupError, match="could not be used"):
        list(backup.integrity_errors(ledger))
    monkeypatch.setattr(database, "_may_write", lambda folder: False)
    with pytest.raises(SetupError, match="may only be read"):
        list(backup.integrity_errors(ledger))


@pytest.mark.parametrize("left", [b"", b"log"])
def test_reading_where_nothing_may_be_written(
    ledger: Path, protocol: Protocol, left: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As SQLite says it there; a real disk of that kind is in tests/faults."""
    opened = database._open

    class Refusing(sqlite3.Connection):
        def execute(self, *given: object) -> sqlite3.Cursor:
            raise sqlite3.OperationalError("unable to open database file")

    def open_there(where: str, uri: bool = True) -> sqlite3.Connection:
        if where.endswith("mode=ro"):
            return sqlite3.connect(":memory:", factory=Refusing)
        return opened(where, uri)

    log = ledger.with_name(f"{ledger.name}-wal")
    if left:
        with closing(sqlite3.connect(ledger, isolation_level=None)) as writer:
            writer.execute("PRAGMA journal_mode=WAL")
            writer.execute("INSERT INTO edit VALUES ('e2', 'ok', NULL, '')")
            kept = log.read_bytes()
        log.write_bytes(kept)
    monkeypatch.setattr(database, "_open", open_there)
    with pytest.raises(SetupError, match="could not be used"):
        database.connect(ledger, read_only=True)
    monkeypatch.setattr(database, "_may_write", lambda folder: False)
    with closing(database.connect(ledger, read_only=True)) as connection:
        assert connection.execute("SELECT count(*) FROM edit").fetchone() == (1 + bool(left),)


def test_whether_a_folder_may_be_written(tmp_path: Path) -> None:
    assert database._may_write(tmp_path) and not database._may_write(tmp_path / "nowhere")


def test_a_page_that_cannot_be_read_is_told_while_rows_are_compared(ledger: Path) -> None:
    with closing(sqlite3.connect(ledger)) as connection:
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'edit'").fetchone()
    content = bytearray(ledger.read_bytes())
    content[(root - 1) * size : root * size] = bytes(size)
    ledger.write_bytes(content)
    assert any("malformed" in said for said in backup.rows_differing_from_backup(ledger, backup.backup_of(ledger)))


def test_what_is_no_ledger_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "x.sqlite").write_bytes(b"hello" * 1000)
    for read_only in (False, True):
        with pytest.raises(SetupError, match="Restore it from a backup"):
            database.connect(tmp_path / "x.sqlite", read_only)
    (tmp_path / "x.backup").write_bytes(b"")
    with pytest.raises(SetupError, match="with: stillme restore"):
        database.connect(tmp_path / "x.sqlite")


def test_images_that_are_gone_or_cut_short_are_missed(tmp_path: Path, protocol: Protocol) -> None:
    with Run.open_for_writing(tmp_path / "r", protocol) as run:
        stored = run.store(images.lossless(images.black(8)))
        run.append(stored.row).result()
        assert run.has_images([stored.sha256]) and run.fault(stored.sha256) == ""
        (path,) = (tmp_path / "r/objects").rglob("*.png")
        path.write_bytes(path.read_bytes()[:10])
        assert not run.has_images([stored.sha256]) and "was changed on disk" in run.fault(stored.sha256)
        run.store(images.lossless(images.black(8)))
        assert run.has_images([stored.sha256]) and run.fault(stored.sha256) == ""


def test_a_distant_store_is_not_asked_for_every_image() -> None:
    assert RemoteObjectStore(Store(url="memory://images")).has("0" * 64, "png", 1)
