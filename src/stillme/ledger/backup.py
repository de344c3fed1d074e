"""A copy of the ledger beside it, whole and checked: what a run goes back to when its ledger is damaged.

ledger.backup   one file, an earlier state of the ledger        ledger.backup.sha256   its hash, for sha256sum -c

Rows are only appended, so a row that is in the copy and no longer the same in the ledger was damaged there: SQLite
itself sees broken pages, not changed numbers. A copy takes the old one's place only when it has stood both tests.
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

from stillme.core.errors import InputError, StillmeError, SurroundingsError, disk
from stillme.core.lock import Lock
from stillme.ledger.database import BACKUP, UNREADABLE, connect, database
from stillme.ledger.writer import Writer

EVERY = 600.0  # seconds between copies while rows are added
NAMED = 3  # faults that are told one by one
LOCK = "ledger.backup.lock"
LEDGERS = ("ledger.sqlite", "selection.sqlite")  # of a run, of a selection
COUNTED = ("edit", "measurement", "verdict", "feature", "adjudication", "rating", "attempt", "candidate", "action")


class DamagedError(SurroundingsError):
    """The ledger is not what was written."""


# Copying


def backup_of(ledger: Path) -> Path:
    return ledger.with_suffix(BACKUP)


def copy(ledger: Path, target: Path) -> None:
    """A consistent copy as one file; another process may write meanwhile."""
    with (
        database(ledger),
        closing(sqlite3.connect(target, isolation_level=None)) as made,
        closing(connect(ledger, read_only=True)) as source,
    ):
        source.backup(made)
        made.execute("PRAGMA journal_mode=DELETE")  # no further files beside it, wherever it is read


def back_up(ledger: Path) -> bool:
    """Copies, checks, and only then replaces the copy that is there. False where somebody else is just at it."""
    with suppress(_BusyError), _Alone(ledger.parent, LOCK), disk(backup_of(ledger)):
        part = ledger.with_name(f".{backup_of(ledger).name}.part")
        part.unlink(missing_ok=True)
        try:
            copy(ledger, part)
            if found := list(broken(part)) or list(changed(part, backup_of(ledger))):
                raise damaged(ledger, found)
            _settle(part, backup_of(ledger))
            return True
        finally:
            part.unlink(missing_ok=True)
    return False


def _settle(part: Path, final: Path) -> None:
    """On the disk first, then under its name. While the files change places both hashes are noted, so that a kill
    finds one of the two copies, whole."""
    with part.open("rb") as file:
        os.fsync(file.fileno())
    hashes = [_sha256(part), *([_sha256(final)] if final.is_file() else [])]
    _note(final, hashes)
    part.replace(final)
    _note(final, hashes[:1])


def _note(backup: Path, hashes: list[str]) -> None:
    aside = backup.with_name(f".{_hash_of(backup).name}.part")
    with aside.open("w", encoding="ascii") as file:
        file.writelines(f"{one}  {backup.name}\n" for one in hashes)
        file.flush()
        os.fsync(file.fileno())  # a power cut must not leave a good copy without its hash
    aside.replace(_hash_of(backup))


def _hash_of(backup: Path) -> Path:
    return backup.with_name(f"{backup.name}.sha256")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _BusyError(Exception):
    """Somebody else is at it."""


class _Alone(Lock):
    def __enter__(self) -> Lock:
        try:
            return super().__enter__()
        except SurroundingsError as error:
            if isinstance(error.__cause__, OSError):  # the disk's own words
                raise
            raise _BusyError from None


class Keeper:
    """Keeps the copy of a ledger young while `writer` adds to it."""

    def __init__(self, ledger: Path, writer: Writer) -> None:
        self._ledger, self._writer = ledger, writer
        self._kept = 0 if is_whole(backup_of(ledger)) else -1  # commits that are in the copy
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="ledger-backup", daemon=True)
        self._thread.start()

    def now(self) -> None:
        """A copy of what is there, unless it is the same. Where there is no room for it the ledger is still whole:
        only damage is an error."""
        commits = self._writer.commits
        try:
            if commits != self._kept and back_up(self._ledger):
                self._kept = commits
        except DamagedError:
            raise
        except StillmeError:
            pass

    def close(self) -> None:
        """The last copy."""
        self._is_over.set()
        self._thread.join()
        self.now()

    def _work(self) -> None:
        while not self._is_over.wait(EVERY):
            try:
                self.now()
            except DamagedError as error:
                self._writer.fail(error)
                return


# Looking for damage


def broken(ledger: Path, thorough: bool = False) -> Iterator[str]:
    """What SQLite finds in the pages. `thorough`: also whether indices say what rows say."""
    pragma = "integrity_check" if thorough else "quick_check"
    try:
        with closing(connect(ledger, read_only=True)) as connection, database(ledger):
            found = [str(said) for (said,) in connection.execute(f"PRAGMA {pragma}({NAMED})")]
    except SurroundingsError as error:
        if isinstance(error.__cause__, (OSError, sqlite3.OperationalError)):  # it was not even looked at
            raise
        found = [str(error.__cause__)]
    yield from () if found == ["ok"] else found


def changed(ledger: Path, backup: Path) -> Iterator[str]:
    """Rows of the copy that the ledger has no longer, or not as they were. A damaged copy says nothing."""
    if not is_whole(backup):
        return
    with closing(connect(ledger, read_only=True)) as connection:
        try:
            connection.execute("ATTACH ? AS kept", (f"{backup.absolute().as_uri()}?mode=ro",))
            yield from _schema(connection)
            for (table,) in connection.execute(
                "SELECT name FROM kept.sqlite_master WHERE type = 'table'"
            ).fetchall():
                for (row,) in connection.execute(_differing(connection, table)).fetchall():
                    yield f"row {row} of {table} is not what it was"
        except UNREADABLE as error:
            yield str(error)


def _schema(connection: sqlite3.Connection) -> Iterator[str]:
    """A newer stillme may have added to it; nothing else changes what makes the tables."""
    now, then = (connection.execute(f"PRAGMA {name}.user_version").fetchone()[0] for name in ("main", "kept"))
    made = "SELECT type, name, sql FROM {}.sqlite_master"
    lost = connection.execute(f"{made.format('kept')} EXCEPT {made.format('main')}").fetchone()
    if now < then or (now == then and lost):
        yield "the schema is not what it was"


def _differing(connection: sqlite3.Connection, table: str) -> str:
    columns = [name for (name,) in connection.execute("SELECT name FROM pragma_table_info(?, 'kept')", (table,))]
    now, then = (", ".join(f'{side}."{name}"' for name in columns) for side in ("l", "k"))
    return (  # names are the ledger's own, quoted; the connection may only read
        f'SELECT k.rowid FROM kept."{table}" k LEFT JOIN main."{table}" l ON l.rowid = k.rowid '  # noqa: S608 - see above
        f"WHERE l.rowid IS NULL OR ({now}) IS NOT ({then}) LIMIT {NAMED}"
    )


def is_whole(backup: Path) -> bool:
    """Whether the copy is there and has the hash that it was given."""
    try:
        return _sha256(backup) in _hash_of(backup).read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return False


def damaged(ledger: Path, found: list[str]) -> DamagedError:
    told = "; ".join(found[:NAMED]).replace("\n", " ")
    return DamagedError(f"The ledger {ledger} is damaged: {told}.", _way_back(ledger))


def _way_back(ledger: Path) -> str:
    if (when := made_at(ledger)) is None:
        return "It has no copy beside it: put back one of your own, or choose another run directory."
    return f"Nothing was changed. Go back to its copy of {when} with: stillme restore {ledger.parent}"


def made_at(ledger: Path) -> str | None:
    """When the copy was made; None where there is none."""
    try:
        seconds = backup_of(ledger).stat().st_mtime
    except OSError:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def check(ledger: Path, thorough: bool = False) -> None:
    """Refuses a ledger that is damaged, and one that is gone though its copy is there."""
    if ledger.is_file():
        found = list(broken(ledger, thorough)) or list(changed(ledger, backup_of(ledger)))
    else:
        found = ["it is not there any more"] if backup_of(ledger).is_file() else []
    if found:
        raise damaged(ledger, found)


# Going back


@dataclass(frozen=True)
class Restored:
    """What the ledger has again, table by table, and how many rows more the damaged one had: None where it no
    longer says. `aside`: where the damaged one is now."""

    when: str
    rows: Mapping[str, int]
    lost: Mapping[str, int | None]
    aside: Path


def restore(ledger: Path) -> Restored:
    """Puts the copy in the damaged ledger's place, which is kept under another name. A whole one stays."""
    backup = backup_of(ledger)
    when = made_at(ledger)
    if when is None:
        raise InputError(f"{ledger.parent} has no {backup.name} to go back to.", "Put back a copy of your own.")
    with Lock(ledger.parent):
        if not is_whole(backup) or list(broken(backup, thorough=True)):
            raise SurroundingsError(f"{backup} is damaged too.", "Put back a copy of your own.")
        if ledger.is_file() and not (list(broken(ledger, thorough=True)) or list(changed(ledger, backup))):
            raise InputError(f"The ledger {ledger} is whole, so nothing was changed.")
        rows, had = _counts(backup), _counts(ledger)
        lost = {table: _more(had[table], number) for table, number in rows.items() if number is not None}
        aside = _swap(ledger, backup)
    return Restored(when, {table: number or 0 for table, number in rows.items()}, lost, aside)


def _more(had: int | None, has: int | None) -> int | None:
    return None if had is None or has is None else max(0, had - has)


def _counts(ledger: Path) -> dict[str, int | None]:
    found: dict[str, int | None] = dict.fromkeys(COUNTED)
    with (
        suppress(*UNREADABLE, SurroundingsError),
        closing(connect(ledger, read_only=True)) as connection,
    ):
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for table in COUNTED:
            with suppress(*UNREADABLE):
                if table in tables:
                    found[table] = int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608 - COUNTED
    return found


def _swap(ledger: Path, backup: Path) -> Path:
    """The log of the damaged ledger goes away before the copy comes: it must never be folded into that."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    aside = ledger.with_name(f"{ledger.stem}.damaged-{stamp}{ledger.suffix}")
    part = ledger.with_name(f".{ledger.name}.part")
    with disk(ledger):
        shutil.copyfile(backup, part)
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        for ending in ("-wal", "-shm"):
            if (log := ledger.with_name(ledger.name + ending)).exists():
                log.replace(aside.with_name(aside.name + ending))
        if ledger.exists():
            shutil.copyfile(ledger, aside)
        part.replace(ledger)
    return aside
