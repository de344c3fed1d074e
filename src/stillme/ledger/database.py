"""Connections to the ledger, and sentences for what SQLite says when something is wrong."""

from __future__ import annotations

import errno
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from stillme.core.errors import SurroundingsError, disk, explain_os_error

BACKUP = ".backup"  # the ending of a ledger's copy
UNREADABLE = (sqlite3.DatabaseError, UnicodeDecodeError)  # the second: where SQLite's words repeat damaged ones


@contextmanager
def database(path: Path) -> Iterator[None]:
    """Turns what the disk or SQLite says about `path` into a sentence. Broken rules of the schema pass through."""
    try:
        with disk(path):
            yield
    except sqlite3.IntegrityError:
        raise
    except sqlite3.OperationalError as error:
        if "full" in str(error):
            raise explain_os_error(OSError(errno.ENOSPC, "full"), path) from error
        if "readonly" in str(error) or ("unable to open" in str(error) and not _may_write(path.parent)):
            raise explain_os_error(OSError(errno.EROFS, "it may only be read"), path) from error
        raise SurroundingsError(
            f"The ledger {path} could not be used: {error}.", "Check the disk, then run the same command again."
        ) from error
    except UNREADABLE as error:
        raise SurroundingsError(f"{path} is not a readable ledger: {error}.", _way_back(path)) from error


def _way_back(path: Path) -> str:
    if path.with_suffix(BACKUP).is_file():
        return f"Go back to its last copy with: stillme restore {path.parent}"
    return "Restore it from a backup, or choose another run directory."


@contextmanager
def as_written(run: Path, what: str) -> Iterator[None]:
    """What a row says, stillme wrote: a row that cannot be read as that was changed since."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        raise SurroundingsError(
            f"The ledger of {run} holds {what} that stillme did not write ({said}).",
            _way_back(run / "ledger.sqlite"),
        ) from error


def connect(path: Path, read_only: bool = False) -> sqlite3.Connection:
    """A connection with the settings that the ledger relies on."""
    with database(path):
        connection = _readable(path) if read_only else _opened(str(path), uri=False)
        try:
            _settle(connection, read_only)
        except (sqlite3.Error, UnicodeDecodeError):
            connection.close()
            raise
    return connection


def _opened(where: str, uri: bool = True) -> sqlite3.Connection:
    return sqlite3.connect(where, uri=uri, isolation_level=None, check_same_thread=False)


def _readable(path: Path) -> sqlite3.Connection:
    """To read from, also where nothing may be written: SQLite would put two small files beside a ledger first."""
    where = path.absolute().as_uri()
    connection = _opened(f"{where}?mode=ro")
    try:
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    except sqlite3.OperationalError:
        connection.close()
        if not path.is_file() or _may_write(path.parent):
            raise
        return _from_copy(path) if _has_log(path) else _opened(f"{where}?mode=ro&immutable=1")
    except UNREADABLE:
        connection.close()
        raise
    return connection


def _may_write(folder: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _has_log(path: Path) -> bool:
    return _log(path).is_file() and _log(path).stat().st_size > 0


def _log(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _from_copy(path: Path) -> sqlite3.Connection:
    """What a killed writer left in its log is folded in elsewhere."""
    memory = _opened("file::memory:")
    with tempfile.TemporaryDirectory(prefix="stillme-look-") as folder:
        for file in (path, _log(path)):
            shutil.copyfile(file, Path(folder) / file.name)
        with closing(_opened(str(Path(folder) / path.name), uri=False)) as copied:
            copied.backup(memory)
    return memory


def _settle(connection: sqlite3.Connection, read_only: bool) -> None:
    if not read_only:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA wal_autocheckpoint=8000")  # 32 MB: fewer pauses to fold the log in
        connection.execute("PRAGMA cache_size=-8192")  # 8 MB: keys are hashes, so inserts go everywhere
    connection.execute("PRAGMA busy_timeout=10000")
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute("PRAGMA schema_version").fetchone()  # reads the file, so that what is none is noticed here
