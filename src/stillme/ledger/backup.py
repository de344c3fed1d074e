"""A copy of the ledger beside it, whole and checked: what a run goes back to when its ledger is damaged.

ledger.backup   one file, an earlier state of the ledger        ledger.backup.sha256   its hash, for sha256sum -c

Rows are only appended, so a row that is in the copy and no longer the same in the ledger was damaged there: SQLite
itself sees broken pages, not changed numbers. Rows are compared before a copy takes the old one's place, before a
ledger is restored, and when it is asked for; opening a run checks the pages alone.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from stillme.core.atomic import copy_database, open_replacement, replace_database, replace_file
from stillme.core.errors import InputError, SetupError, StillmeError, disk
from stillme.core.lock import InUseError, Lock
from stillme.ledger.database import BACKUP, UNREADABLE, connect, database
from stillme.ledger.writer import Writer

# Seconds between copies while rows are added: the most work that damage can cost, for about a second of CPU per
# 250 MB of ledger (docs/faults.md).
INTERVAL_S = 600.0
MAX_LISTED = 3  # faults in a message
LOCK = "ledger.backup.lock"
LEDGERS = ("ledger.sqlite", "selection.sqlite")  # of a run, of a selection
COUNTED = ("edit", "measurement", "verdict", "feature", "adjudication", "rating", "attempt", "candidate", "action")


class DamagedError(SetupError):
    """The ledger is not what was written."""


# Copying


def backup_of(ledger: Path) -> Path:
    return ledger.with_suffix(BACKUP)


def copy(ledger: Path, target: Path) -> None:
    """Write a consistent copy as one file; another process may write to the ledger meanwhile."""
    with database(ledger), closing(connect(ledger, read_only=True)) as source:
        copy_database(source, target)


def back_up(ledger: Path) -> bool:
    """Copy, check, and only then replace the copy that is there. False where another process is doing so."""
    final = backup_of(ledger)
    with (
        suppress(InUseError),
        Lock(ledger.parent, LOCK),
        disk(final),
        database(ledger),
        closing(connect(ledger, read_only=True)) as source,
    ):
        with replace_database(source, final) as part:
            if faults := list(integrity_errors(part)) or list(rows_differing_from_backup(part, final)):
                raise damaged(ledger, faults)
            sha256 = _sha256(part)
            # Both hashes while the files change places, so that a kill finds one of the two copies whole.
            _write_hashes(final, [sha256, *([_sha256(final)] if final.is_file() else [])])
        _write_hashes(final, [sha256])
        return True
    return False


def _write_hashes(backup: Path, hashes: list[str]) -> None:
    lines = "".join(f"{sha256}  {backup.name}\n" for sha256 in hashes)
    replace_file(_hash_file(backup), lines.encode("ascii"))


def _hash_file(backup: Path) -> Path:
    return backup.with_name(f"{backup.name}.sha256")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class BackupScheduler:
    """Copies a ledger now and then while `writer` adds to it, and when it is closed."""

    def __init__(self, ledger: Path, writer: Writer) -> None:
        self._ledger = ledger
        self._writer = writer
        self._copied = 0 if is_whole(backup_of(ledger)) else -1  # commits that are in the copy
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="ledger-backup", daemon=True)
        self._thread.start()

    def now(self) -> None:
        """Copy what is there, unless it is the same. Where there is no room for it the ledger is still whole:
        only damage is an error."""
        commits = self._writer.commits
        try:
            if commits != self._copied and back_up(self._ledger):
                self._copied = commits
        except DamagedError:
            raise
        except StillmeError:
            pass

    def close(self) -> None:
        """Make the last copy."""
        self._closing.set()
        self._thread.join()
        self.now()

    def _work(self) -> None:
        while not self._closing.wait(INTERVAL_S):
            try:
                self.now()
            except DamagedError as error:
                self._writer.fail(error)
                return


# Looking for damage


def integrity_errors(ledger: Path, thorough: bool = False) -> Iterator[str]:
    """What SQLite finds in the pages. `thorough`: also whether indices agree with rows."""
    pragma = "integrity_check" if thorough else "quick_check"
    try:
        with closing(connect(ledger, read_only=True)) as connection, database(ledger):
            faults = [str(fault) for (fault,) in connection.execute(f"PRAGMA {pragma}({MAX_LISTED})")]
    except SetupError as error:
        if isinstance(error.__cause__, (OSError, sqlite3.OperationalError)):  # the file was not even read
            raise
        faults = [str(error.__cause__)]
    yield from () if faults == ["ok"] else faults


def rows_differing_from_backup(ledger: Path, backup: Path) -> Iterator[str]:
    """Rows of the copy that the ledger has no longer, or not as they were. A damaged copy proves nothing."""
    if not is_whole(backup):
        return
    with closing(connect(ledger, read_only=True)) as connection:
        try:
            connection.execute("ATTACH ? AS kept", (f"{backup.absolute().as_uri()}?mode=ro",))
            new, old = (
                connection.execute(f"PRAGMA {name}.user_version").fetchone()[0] for name in ("main", "kept")
            )
            schema = "SELECT type, name, sql FROM {}.sqlite_master"
            lost = connection.execute(f"{schema.format('kept')} EXCEPT {schema.format('main')}").fetchone()
            if new < old or (new == old and lost):  # a newer stillme may have added to it
                yield "the schema is not what it was"
            tables = connection.execute("SELECT name FROM kept.sqlite_master WHERE type = 'table'").fetchall()
            for (table,) in tables:
                for (row,) in connection.execute(_select_changed(connection, table)).fetchall():
                    yield f"row {row} of {table} is not what it was"
        except UNREADABLE as error:
            yield str(error)


def _select_changed(connection: sqlite3.Connection, table: str) -> str:
    columns = [name for (name,) in connection.execute("SELECT name FROM pragma_table_info(?, 'kept')", (table,))]
    new, old = (", ".join(f'{side}."{name}"' for name in columns) for side in ("l", "k"))
    return (  # names are the ledger's own, quoted; the connection may only read
        f'SELECT k.rowid FROM kept."{table}" k LEFT JOIN main."{table}" l ON l.rowid = k.rowid '  # noqa: S608 - see above
        f"WHERE l.rowid IS NULL OR ({new}) IS NOT ({old}) LIMIT {MAX_LISTED}"
    )


def is_whole(backup: Path) -> bool:
    """Whether the copy is there and has the hash that was noted for it."""
    try:
        return _sha256(backup) in _hash_file(backup).read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return False


def damaged(ledger: Path, faults: list[str]) -> DamagedError:
    listed = "; ".join(faults[:MAX_LISTED]).replace("\n", " ")
    if (made := made_at(ledger)) is None:
        next_step = "It has no copy beside it: put back one of your own, or choose another run directory."
    else:
        next_step = f"Nothing was changed. Go back to its copy of {made} with: stillme restore {ledger.parent}"
    return DamagedError(f"The ledger {ledger} is damaged: {listed}.", next_step)


def made_at(ledger: Path) -> str | None:
    """The time of the copy; None where there is none."""
    try:
        seconds = backup_of(ledger).stat().st_mtime
    except OSError:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def check(ledger: Path, thorough: bool = False, rows: bool = False) -> None:
    """Refuse a ledger that is damaged, and one that is gone though its copy is there.

    Args:
        thorough: also check whether indices agree with rows.
        rows: also compare every row with the copy.
    """
    if ledger.is_file():
        faults = list(integrity_errors(ledger, thorough)) or (
            list(rows_differing_from_backup(ledger, backup_of(ledger))) if rows else []
        )
    else:
        faults = ["it is not there any more"] if backup_of(ledger).is_file() else []
    if faults:
        raise damaged(ledger, faults)


# Going back


@dataclass(frozen=True)
class Restored:
    """A restored ledger: its rows by table, and how many rows more the damaged one had (None where it cannot be
    read). `aside`: where the damaged one is now."""

    when: str
    rows: Mapping[str, int]
    lost: Mapping[str, int | None]
    aside: Path


def restore(ledger: Path) -> Restored:
    """Put the copy in the place of a damaged ledger, which is kept under another name. A whole one stays."""
    backup = backup_of(ledger)
    when = made_at(ledger)
    if when is None:
        raise InputError(f"{ledger.parent} has no {backup.name} to go back to.", "Put back a copy of your own.")
    with Lock(ledger.parent):
        if not is_whole(backup) or list(integrity_errors(backup, thorough=True)):
            raise SetupError(f"{backup} is damaged too.", "Put back a copy of your own.")
        if ledger.is_file() and not (
            list(integrity_errors(ledger, thorough=True)) or list(rows_differing_from_backup(ledger, backup))
        ):
            raise InputError(f"The ledger {ledger} is whole, so nothing was changed.")
        rows, before = _count_rows(backup), _count_rows(ledger)
        lost: dict[str, int | None] = {}
        for table, count in rows.items():
            if count is not None:
                n_before = before[table]
                lost[table] = None if n_before is None else max(0, n_before - count)
        aside = _swap(ledger, backup)
    return Restored(when=when, rows={table: count or 0 for table, count in rows.items()}, lost=lost, aside=aside)


def _count_rows(ledger: Path) -> dict[str, int | None]:
    counts: dict[str, int | None] = dict.fromkeys(COUNTED)
    with (
        suppress(*UNREADABLE, SetupError),
        closing(connect(ledger, read_only=True)) as connection,
    ):
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for table in COUNTED:
            with suppress(*UNREADABLE):
                if table in tables:
                    counts[table] = int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608 - COUNTED
    return counts


def _swap(ledger: Path, backup: Path) -> Path:
    """The log of the damaged ledger goes away before the copy comes: it must never be folded into that."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    aside = ledger.with_name(f"{ledger.stem}.damaged-{stamp}{ledger.suffix}")
    with disk(ledger), open_replacement(ledger) as file, backup.open("rb") as content:
        shutil.copyfileobj(content, file)
        file.flush()
        os.fsync(file.fileno())  # nothing of the damaged one is touched before the copy is on the disk
        for ending in ("-wal", "-shm"):
            if (log := ledger.with_name(ledger.name + ending)).exists():
                log.replace(aside.with_name(aside.name + ending))
        if ledger.exists():
            shutil.copyfile(ledger, aside)
    return aside
