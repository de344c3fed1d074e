"""Connections to the ledger, sentences for what SQLite says when something is wrong, and the ledger's schema.

The schema is the list of steps that made it. A step is never changed once released; add another. Score columns are
not in it: a run's axes come from its protocol, so `add_axes` makes them when a run is made.
"""

from __future__ import annotations

import errno
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from stillme.core.errors import SetupError, disk, explain_os_error

BACKUP = ".backup"  # the ending of a ledger's copy
UNREADABLE = (sqlite3.DatabaseError, UnicodeDecodeError)  # the second: where SQLite's words repeat damaged ones


# Connections


@contextmanager
def database(path: Path) -> Iterator[None]:
    """Turn errors of the disk and of SQLite into sentences; broken rules of the schema pass through."""
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
        raise SetupError(
            f"The ledger {path} could not be used: {error}.", "Check the disk, then run the same command again."
        ) from error
    except UNREADABLE as error:
        raise SetupError(f"{path} is not a readable ledger: {error}.", _way_back(path)) from error


def _way_back(path: Path) -> str:
    if path.with_suffix(BACKUP).is_file():
        return f"Go back to its last copy with: stillme restore {path.parent}"
    return "Restore it from a backup, or choose another run directory."


@contextmanager
def wrap_row_errors(run: Path, what: str) -> Iterator[None]:
    """Turn errors of reading a row into a sentence: stillme wrote it, so it was changed since."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise SetupError(
            f"The ledger of {run} holds {what} that stillme did not write ({reason}).",
            _way_back(run / "ledger.sqlite"),
        ) from error


def connect(path: Path, read_only: bool = False) -> sqlite3.Connection:
    """Open a connection with the settings that the ledger relies on."""
    with database(path):
        connection = _open_readable(path) if read_only else _open(str(path), uri=False)
        try:
            if not read_only:
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=FULL")
                connection.execute("PRAGMA wal_autocheckpoint=8000")  # 32 MB: fewer pauses to fold the log in
                connection.execute("PRAGMA cache_size=-8192")  # 8 MB: keys are hashes, so inserts go everywhere
            connection.execute("PRAGMA busy_timeout=10000")
            connection.execute("PRAGMA foreign_keys=ON")
            connection.execute("PRAGMA schema_version").fetchone()  # reads the file: is it a database at all?
        except (sqlite3.Error, UnicodeDecodeError):
            connection.close()
            raise
    return connection


def _open(where: str, uri: bool = True) -> sqlite3.Connection:
    return sqlite3.connect(where, uri=uri, isolation_level=None, check_same_thread=False)


def _open_readable(path: Path) -> sqlite3.Connection:
    """Open for reading, also where nothing may be written (SQLite first puts two files beside a ledger)."""
    where = path.absolute().as_uri()
    connection = _open(f"{where}?mode=ro")
    try:
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    except sqlite3.OperationalError:
        connection.close()
        if not path.is_file() or _may_write(path.parent):
            raise
        log = path.with_name(f"{path.name}-wal")
        if log.is_file() and log.stat().st_size > 0:
            return _open_copy(path, log)
        return _open(f"{where}?mode=ro&immutable=1")
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


def _open_copy(path: Path, log: Path) -> sqlite3.Connection:
    """A copy in memory, into which the log that a killed writer left is folded."""
    memory = _open("file::memory:")
    with tempfile.TemporaryDirectory(prefix="stillme-look-") as folder:
        for file in (path, log):
            shutil.copyfile(file, Path(folder) / file.name)
        with closing(_open(str(Path(folder) / path.name), uri=False)) as copied:
            copied.backup(memory)
    return memory


# Schema

_CORE = """
CREATE TABLE meta (                    -- what the run is: protocol, versions, creation
    key TEXT PRIMARY KEY, value TEXT NOT NULL
) STRICT;
CREATE TABLE audit (                   -- every configuration that the run has seen, in turn
    id INTEGER PRIMARY KEY, at TEXT NOT NULL, content TEXT NOT NULL
) STRICT;
CREATE TABLE object (                  -- files in objects/, by content
    sha256 TEXT PRIMARY KEY, format TEXT NOT NULL, bytes INTEGER NOT NULL,
    width INTEGER NOT NULL, height INTEGER NOT NULL
) STRICT;
CREATE TABLE settings (                -- everything that changes an editor's pixels or a judge's scores
    hash TEXT PRIMARY KEY, kind TEXT NOT NULL, content TEXT NOT NULL
) STRICT;
CREATE TABLE instruction (
    hash TEXT PRIMARY KEY, text TEXT NOT NULL
) STRICT;
CREATE TABLE portrait (
    key TEXT PRIMARY KEY, source TEXT NOT NULL, source_id TEXT NOT NULL,
    image TEXT NOT NULL REFERENCES object, licence TEXT NOT NULL, split TEXT NOT NULL
) STRICT;
CREATE TABLE label (                   -- how annotators perceived the person
    portrait TEXT NOT NULL REFERENCES portrait, dimension TEXT NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (portrait, dimension)
) STRICT;
CREATE TABLE trial (                   -- an edit that the design asks for; several trials may share one edit
    key TEXT PRIMARY KEY, edit TEXT NOT NULL, experiment TEXT NOT NULL, arm TEXT NOT NULL, prompt TEXT NOT NULL,
    instruction TEXT NOT NULL REFERENCES instruction, editor TEXT NOT NULL,
    settings TEXT NOT NULL REFERENCES settings, seed INTEGER NOT NULL, portrait TEXT NOT NULL REFERENCES portrait
) STRICT;
CREATE INDEX trial_edit ON trial (edit);
CREATE TABLE edit (                    -- the final outcome of an edit; an image only where there is one
    key TEXT PRIMARY KEY, status TEXT NOT NULL, image TEXT REFERENCES object, detail TEXT NOT NULL
) STRICT;
CREATE TABLE verdict (                 -- the final outcome of one judge's look at one edit
    key TEXT PRIMARY KEY, edit TEXT NOT NULL REFERENCES edit, judge TEXT NOT NULL,
    settings TEXT NOT NULL REFERENCES settings, status TEXT NOT NULL, evidence TEXT NOT NULL, detail TEXT NOT NULL
) STRICT;
CREATE INDEX verdict_edit ON verdict (edit);
CREATE TABLE score (                   -- one column an axis, added from the protocol; a row only with status ok
    verdict TEXT PRIMARY KEY REFERENCES verdict
) STRICT;
CREATE TABLE attempt (                 -- every call, however it ended
    id INTEGER PRIMARY KEY, subject TEXT NOT NULL, status TEXT NOT NULL, started TEXT NOT NULL,
    seconds REAL NOT NULL, cost_usd REAL NOT NULL, detail TEXT NOT NULL
) STRICT;
CREATE INDEX attempt_subject ON attempt (subject);
"""

_TRUTH = """
CREATE TABLE truth (                   -- what a planted editor really did; apart from what judges are sent
    edit TEXT NOT NULL REFERENCES edit, quantity TEXT NOT NULL, value REAL NOT NULL,
    PRIMARY KEY (edit, quantity)
) STRICT;
"""

_MEASUREMENT = """
CREATE TABLE measurement (             -- the final outcome of one measure of a source and an edit, by their pixels
    key TEXT PRIMARY KEY, source TEXT NOT NULL REFERENCES object, image TEXT NOT NULL REFERENCES object,
    measure TEXT NOT NULL, settings TEXT NOT NULL REFERENCES settings, status TEXT NOT NULL,
    figures TEXT NOT NULL,             -- JSON: name -> number; empty unless status is ok
    detail TEXT NOT NULL
) STRICT;
CREATE INDEX measurement_image ON measurement (image);
"""

_MAKING = """
ALTER TABLE attempt ADD COLUMN code TEXT NOT NULL DEFAULT '';        -- the other side's own word for how it ended
ALTER TABLE attempt ADD COLUMN request_id TEXT NOT NULL DEFAULT '';
CREATE TABLE circumstances (           -- what edits of one process share: versions, dtype, device, threads
    hash TEXT PRIMARY KEY, content TEXT NOT NULL
) STRICT;
CREATE TABLE making (                  -- how an edit was made; notes: JSON, of this edit alone
    edit TEXT PRIMARY KEY REFERENCES edit, circumstances TEXT NOT NULL REFERENCES circumstances,
    notes TEXT NOT NULL
) STRICT;
CREATE TABLE extra (                   -- further pictures that an editor made on the way
    edit TEXT NOT NULL REFERENCES edit, name TEXT NOT NULL, image TEXT NOT NULL REFERENCES object,
    PRIMARY KEY (edit, name)
) STRICT;
"""

_CALLS = """
ALTER TABLE attempt ADD COLUMN http INTEGER NOT NULL DEFAULT 0;      -- the status of an answer by HTTP
ALTER TABLE attempt ADD COLUMN usage TEXT NOT NULL DEFAULT '';       -- JSON: tokens by kind, as they were counted
ALTER TABLE attempt ADD COLUMN raw BLOB;                             -- the answer as it came, by zlib
ALTER TABLE verdict ADD COLUMN observations TEXT NOT NULL DEFAULT '';  -- JSON: what a judge saw before it scored
ALTER TABLE verdict ADD COLUMN call TEXT NOT NULL DEFAULT '';        -- the call that it was read off
ALTER TABLE verdict ADD COLUMN repeat INTEGER NOT NULL DEFAULT 0;    -- above 0: does the judge agree with itself?
CREATE TABLE question (                -- a request as it was sent, but for the pictures
    hash TEXT PRIMARY KEY, content TEXT NOT NULL
) STRICT;
CREATE TABLE call (                    -- what was asked about which pictures; several verdicts may share one
    key TEXT PRIMARY KEY, question TEXT NOT NULL REFERENCES question,
    source TEXT NOT NULL REFERENCES object, edited TEXT NOT NULL REFERENCES object, repeat INTEGER NOT NULL
) STRICT;
CREATE TABLE shard (                   -- calls that travel to a service together; calls: JSON, their keys
    key TEXT PRIMARY KEY, judge TEXT NOT NULL, settings TEXT NOT NULL REFERENCES settings, calls TEXT NOT NULL
) STRICT;
CREATE TABLE shipment (                -- how far a shard is, step by step; content: JSON
    id INTEGER PRIMARY KEY, shard TEXT NOT NULL REFERENCES shard, at TEXT NOT NULL, step TEXT NOT NULL,
    content TEXT NOT NULL
) STRICT;
"""

_EXPERIMENTS = """
ALTER TABLE trial ADD COLUMN partner TEXT NOT NULL DEFAULT '';       -- a second portrait that the edit starts from
ALTER TABLE trial ADD COLUMN about TEXT NOT NULL DEFAULT '';         -- JSON: what the experiment says of the trial
CREATE TABLE depicted (                -- people whom a judge saw in an edit, from left to right
    verdict TEXT NOT NULL REFERENCES verdict, place INTEGER NOT NULL, role TEXT NOT NULL,
    gender INTEGER,                    -- 1 clearly masculine to 5 clearly feminine; NULL: unclear
    note TEXT NOT NULL, PRIMARY KEY (verdict, place)
) STRICT;
CREATE TABLE feature (                 -- what was read off one portrait, to be kept in an edit
    key TEXT PRIMARY KEY, image TEXT NOT NULL REFERENCES object, settings TEXT NOT NULL REFERENCES settings,
    status TEXT NOT NULL, features TEXT NOT NULL,                     -- JSON: dimension -> text
    leaks TEXT NOT NULL,               -- JSON: words for race, ethnicity, gender or age that are still in it
    detail TEXT NOT NULL
) STRICT;
CREATE TABLE draw (                    -- a sample that hangs on what was observed; kept, so that it stays the same
    key TEXT PRIMARY KEY, at TEXT NOT NULL, content TEXT NOT NULL
) STRICT;
CREATE TABLE adjudication (            -- what a person decided after looking; the newest of an edit and axis holds
    id INTEGER PRIMARY KEY, edit TEXT NOT NULL REFERENCES edit, prompt TEXT NOT NULL, axis TEXT NOT NULL,
    score INTEGER,                     -- NULL: it cannot be told, or an earlier decision is taken back
    withdrawn INTEGER NOT NULL, who TEXT NOT NULL, why TEXT NOT NULL, at TEXT NOT NULL
) STRICT;
CREATE INDEX adjudication_edit ON adjudication (edit);
"""

_RATINGS = """
CREATE TABLE study (                   -- a human study whose answers were taken in, by the hash of its bundle
    hash TEXT PRIMARY KEY, at TEXT NOT NULL, name TEXT NOT NULL, preset TEXT NOT NULL,
    content TEXT NOT NULL              -- JSON: its key, without the secret
) STRICT;
CREATE TABLE rating (                  -- one answer of one rater to one question; never changed once it is here
    key TEXT PRIMARY KEY, study TEXT NOT NULL REFERENCES study, rater TEXT NOT NULL,
    sitting TEXT NOT NULL,             -- how the rater's task ended
    task TEXT NOT NULL, item TEXT NOT NULL,
    output TEXT NOT NULL,              -- the study's name of it; empty where a question is about two outputs
    trial TEXT NOT NULL,               -- what the output is; empty likewise
    question TEXT NOT NULL, answer TEXT NOT NULL,
    value TEXT,                        -- NULL: no value; of a choice the output that was meant, or the word
    shown TEXT, place TEXT, position INTEGER NOT NULL, rev INTEGER, ms INTEGER, at_seconds REAL,
    complete INTEGER NOT NULL          -- whether the rater finished the item
) STRICT;
CREATE INDEX rating_study ON rating (study, rater);
CREATE TABLE rating_check (            -- attention checks
    study TEXT NOT NULL REFERENCES study, rater TEXT NOT NULL, name TEXT NOT NULL, item TEXT NOT NULL,
    passed INTEGER NOT NULL, PRIMARY KEY (study, rater, name)
) STRICT;
CREATE TABLE rating_exclusion (        -- raters whom a coordinator left out; the newest of a rater holds
    id INTEGER PRIMARY KEY, study TEXT NOT NULL REFERENCES study, rater TEXT NOT NULL, why TEXT NOT NULL,
    who TEXT NOT NULL, withdrawn INTEGER NOT NULL, at TEXT NOT NULL
) STRICT;
"""

MIGRATIONS: tuple[str, ...] = (_CORE, _TRUTH, _MEASUREMENT, _MAKING, _CALLS, _EXPERIMENTS, _RATINGS)
VERSION = len(MIGRATIONS)


def migrate(connection: sqlite3.Connection, where: str, steps: Sequence[str] = MIGRATIONS) -> None:
    """Bring a ledger of any age to this version, one step per transaction."""
    version = _version(connection)
    if version > len(steps):
        raise SetupError(
            f"The ledger {where} has schema {version}; this stillme knows up to {len(steps)}.",
            "Install a newer stillme.",
        )
    for number, script in enumerate(steps[version:], start=version + 1):
        tables = [line.split()[2] for line in script.splitlines() if line.startswith("CREATE TABLE")]
        guards = "".join(  # rows are only appended: triggers refuse anything else
            f"CREATE TRIGGER {table}_no_{verb} BEFORE {verb} ON {table} "
            f"BEGIN SELECT RAISE(ABORT, 'rows of {table} are only appended'); END;"
            for table in tables
            for verb in ("update", "delete")
        )
        connection.executescript(f"BEGIN IMMEDIATE;{script}{guards}PRAGMA user_version = {number};COMMIT;")


def is_current(path: Path) -> bool:
    """Whether a ledger has this version's schema."""
    with closing(connect(path, read_only=True)) as connection:
        return _version(connection) == VERSION


def up_to_date(connection: sqlite3.Connection, where: str) -> sqlite3.Connection:
    """The ledger for reading: as it is or, if an earlier stillme made it, a copy brought to this version."""
    if _version(connection) >= VERSION:
        return connection
    copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    with closing(connection):
        connection.backup(copy)
    migrate(copy, where)
    return copy


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def add_axes(connection: sqlite3.Connection, axes: Iterable[str]) -> None:
    """Add a score column for each axis of the protocol."""
    present = {row[1] for row in connection.execute("PRAGMA table_info(score)")}
    for axis in axes:
        if axis not in present:
            connection.execute(f'ALTER TABLE score ADD COLUMN "{axis}" INTEGER')
