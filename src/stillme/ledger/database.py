"""Connections to the ledger, and sentences for what SQLite says when something is wrong."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stillme.errors import SurroundingsError, disk, explain_os_error


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
        raise SurroundingsError(
            f"The ledger {path} could not be used: {error}.", "Check the disk, then run the same command again."
        ) from error
    except sqlite3.DatabaseError as error:
        raise SurroundingsError(
            f"{path} is not a readable ledger: {error}.",
            "Restore it from a backup, or choose another run directory.",
        ) from error


def connect(path: Path, read_only: bool = False) -> sqlite3.Connection:
    """A connection with the settings that the ledger relies on."""
    where = f"{path.absolute().as_uri()}?mode=ro" if read_only else str(path)
    with database(path):
        connection = sqlite3.connect(where, uri=read_only, isolation_level=None, check_same_thread=False)
        try:
            _settle(connection, read_only)
        except sqlite3.Error:
            connection.close()
            raise
    return connection


def _settle(connection: sqlite3.Connection, read_only: bool) -> None:
    if not read_only:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA wal_autocheckpoint=8000")  # 32 MB: fewer pauses to fold the log in
        connection.execute("PRAGMA cache_size=-8192")  # 8 MB: keys are hashes, so inserts go everywhere
    connection.execute("PRAGMA busy_timeout=10000")
    connection.execute("PRAGMA foreign_keys=ON")
