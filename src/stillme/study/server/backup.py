"""A copy of the study's database while it is in use, checked, with its hash; and the way back.

For SQLite. PostgreSQL has its own tools, which the page about deploying names. The file `secret` beside the
database is not in a backup: without it nobody's session, pseudonym or second visit is recognised, so keep a copy
of it, elsewhere.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Engine

from stillme.core.atomic import replace_database
from stillme.core.errors import InputError, SetupError, disk
from stillme.study.server.export import sha256

PATIENCE = 30  # seconds
NAMED = re.compile(r"^study-\d{8}T\d{6}Z\.db$")

Say = Callable[[str], None]


@dataclass(frozen=True)
class Backup:
    """A file that holds a whole study, and how many answers and people are in it."""

    path: Path
    sha256: str
    answers: int
    people: int


def backup(engine: Engine, folder: Path, now: float, keep: int = 0, say: Say = print) -> Backup:
    """Writes `study-<time>.db` and its hash into a folder. `keep`: of older ones, only so many in all stay."""
    source = _source(engine)
    time = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
    path = folder / f"study-{time}.db"
    if path.exists():
        raise InputError(f"{path} exists already.", "Wait a second, or give another folder.")
    with disk(folder):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _opened(source) as database, replace_database(database, path, private=True) as part:
            made = _checked(part, path)
            hashes = path.with_suffix(".db.sha256")  # in the form that sha256sum -c reads
            hashes.write_text(f"{made.sha256}  {path.name}\n", encoding="ascii")
        removed = _prune(folder, keep) if keep > 0 else 0
    more = f"; {removed} older removed" if removed else ""
    say(f"{path}: {made.answers} answers of {made.people} people, checked, sha256 {made.sha256[:16]}…{more}.")
    return made


def _source(engine: Engine) -> Path:
    if engine.dialect.name != "sqlite" or not engine.url.database:
        raise InputError(
            "This study is on PostgreSQL, which is copied by its own tools.",
            "Use pg_dump --format=custom; docs/study-deploy.md has the commands and the way back.",
        )
    path = Path(engine.url.database)
    if not path.is_file():
        raise InputError(f"There is no database at {path}.", "Check the data folder.")
    return path


def _opened(path: Path) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(_read_only(path), uri=True, timeout=PATIENCE))


def _read_only(path: Path) -> str:
    return f"{path.resolve().as_uri()}?mode=ro"


def _checked(file: Path, path: Path) -> Backup:
    """What a file holds, if it is a whole database of a study; else a sentence."""
    try:
        with closing(sqlite3.connect(_read_only(file), uri=True)) as connection:
            sound = connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
            orphans = connection.execute("PRAGMA foreign_key_check").fetchone()
            answers = connection.execute("SELECT count(*) FROM answer").fetchone()[0]
            people = connection.execute("SELECT count(*) FROM participant").fetchone()[0]
    except sqlite3.DatabaseError as error:
        raise _broken(file, str(error)) from None
    if not sound or orphans is not None:
        raise _broken(file, "it does not hold together")
    return Backup(path, sha256(file), answers, people)


def _broken(file: Path, why: str) -> SetupError:
    return SetupError(f"{file} is not a whole database of a study: {why}.", "Use another backup.")


def _prune(folder: Path, keep: int) -> int:
    """Removes the oldest of our own backups; nothing else in the folder is touched."""
    own = sorted(path for path in folder.iterdir() if NAMED.match(path.name))
    old = own[: max(0, len(own) - keep)]
    for path in old:
        path.unlink()
        path.with_suffix(".db.sha256").unlink(missing_ok=True)
    return len(old)


def restore(path: Path, folder: Path, say: Say = print) -> Backup:
    """Puts a backup into a data folder as its database, after checking it. One that is there is never replaced."""
    target = folder / "study.db"
    for left in (target, folder / "study.db-wal"):  # a log of another database would be played onto this one
        if left.exists():
            raise InputError(f"{left} exists already.", f"Stop the server and move {target}* away together first.")
    if not path.is_file():
        raise InputError(f"There is no backup at {path}.", "Give one of the files study-….db.")
    _same(path)
    found = _checked(path, target)
    with disk(folder):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _opened(path) as database, replace_database(database, target, private=True):
            pass  # it was checked above
    missing = "" if (folder / "secret").exists() else f" Put the study's secret beside it: {folder / 'secret'}."
    say(f"{target}: {found.answers} answers of {found.people} people.{missing}")
    return found


def _same(path: Path) -> None:
    """A backup whose hash is not the one that was noted is not used."""
    noted = path.with_suffix(".db.sha256")
    if noted.is_file() and noted.read_text(encoding="ascii").split()[0] != sha256(path):
        raise SetupError(f"{path} is not what it was when it was made.", "Use another backup.")
