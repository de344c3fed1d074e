"""A study's data for the outside: one row an answer, under pseudonyms, left and right undone.

Reads one state of the database while the server goes on writing, one person at a time, so that a large study takes
no more memory than a small one. Prolific's ids, addresses and submissions are not read at all.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Select, create_engine, event, func, select
from sqlalchemy.pool import NullPool

from stillme import __version__
from stillme.core.atomic import new_folder
from stillme.core.errors import InputError, disk
from stillme.study.bundle import Bundle
from stillme.study.db.keys import Keys
from stillme.study.db.store import PATIENCE, reachable
from stillme.study.db.tables import meta, participant, sitting, submission
from stillme.study.server import codebook, quality, rows
from stillme.study.server.codebook import (
    CHECKS,
    COMMENTS,
    EXCLUSIONS,
    OPERATIONS,
    PARTICIPANTS,
    RATINGS,
    REVIEW,
    Sheet,
)
from stillme.study.server.erase import GONE
from stillme.study.server.sheets import Form, Writer, writing

FILE = "export.json"
AT_ONCE = 50  # people whose rows are fetched together

Say = Callable[[str], None]


@dataclass(frozen=True)
class Exported:
    """Where an export is, and how many rows its files have."""

    folder: Path
    rows: Mapping[str, int]


def export(
    engine: Engine,
    bundle: Bundle,
    keys: Keys,
    folder: Path,
    form: Form = "parquet",
    history: bool = False,
    say: Say = print,
    now: float | None = None,
) -> Exported:
    """Writes a new folder, whole or not at all. `history`: with every operation that was ever sent."""
    if folder.exists():
        raise InputError(f"{folder} exists already.", "Give a new folder: an export is never overwritten.")
    with disk(folder), new_folder(folder, private=True) as part:
        with reachable(), snapshot(engine) as connection:
            _check(connection, bundle)
            counts = _write(connection, bundle, keys, part, form, history)
        _describe(bundle, part, counts, _sheets(history), time.time() if now is None else now)
    say(_said(folder, counts))
    return Exported(folder, counts)


def _said(folder: Path, counts: Mapping[str, int]) -> str:
    said = ", ".join(f"{count} {name}" for name, count in counts.items())
    warning = f" Comments: {REVIEW}." if counts["comments"] else ""
    return f"{folder}: {said}.{warning}"


def _sheets(history: bool) -> tuple[Sheet, ...]:
    every = (RATINGS, CHECKS, PARTICIPANTS, EXCLUSIONS, COMMENTS)
    return (*every, OPERATIONS) if history else every


@contextmanager
def snapshot(engine: Engine) -> Iterator[Connection]:
    """One state of the database for as long as it takes; nobody who writes has to wait."""
    if engine.dialect.name == "postgresql":
        calm = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        with calm.connect() as connection:
            yield connection
        return
    own = create_engine(engine.url, poolclass=NullPool, connect_args={"timeout": PATIENCE})

    @event.listens_for(own, "connect")
    def settle(raw: Any, record: Any) -> None:
        raw.isolation_level = None

    @event.listens_for(own, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")  # fixes what is read with the first look, and locks nothing

    try:
        with own.connect() as connection:
            yield connection
    finally:
        own.dispose()


def _check(connection: Connection, bundle: Bundle) -> None:
    known = connection.scalar(select(meta.c.value).where(meta.c.key == "bundle"))
    if known != bundle.hash:
        raise InputError(
            f"This database holds the answers to another bundle ({str(known)[:12]}, not {bundle.hash[:12]}).",
            "Give the bundle that the raters saw.",
        )


def _write(
    connection: Connection, bundle: Bundle, keys: Keys, folder: Path, form: Form, history: bool
) -> dict[str, int]:
    large = {RATINGS.name, OPERATIONS.name}
    with ExitStack() as stack:
        files = {
            sheet.name: stack.enter_context(writing(sheet, folder, form if sheet.name in large else "csv"))
            for sheet in _sheets(history)
        }
        writing_one = _Person(connection, bundle, keys, files)
        for row in connection.execute(_people(), execution_options={"yield_per": AT_ONCE}):
            writing_one.write(row)
        return {name: file.count for name, file in files.items()}


def _people() -> Select[Any]:
    """Everybody with their sitting, in an order that says nothing: ids are random."""
    status = select(submission.c.status).where(submission.c.participant == participant.c.id).limit(1)
    known = (participant.c[name] for name in ("consented", "consent_version", "declined", "tutored"))
    marks = (participant.c.address_hash, participant.c.excluded, participant.c.excluded_by)
    return (
        select(
            sitting,
            participant.c.id.label("person"),
            *known,
            *marks,
            status.scalar_subquery().label("status"),
        )
        .select_from(participant.outerjoin(sitting, sitting.c.participant == participant.c.id))
        .where(~participant.c.pid_hash.startswith(GONE) | sitting.c.id.is_not(None))
        .order_by(participant.c.id)
    )


class _Person:
    """Writes what one person gave into all files."""

    def __init__(self, connection: Connection, bundle: Bundle, keys: Keys, files: Mapping[str, Writer]) -> None:
        self._connection, self._bundle, self._keys, self._files = connection, bundle, keys, files
        several = (
            select(participant.c.address_hash, func.count().label("n"))
            .where(participant.c.address_hash.is_not(None))
            .group_by(participant.c.address_hash)
            .having(func.count() > 1)
        )
        self._alike = {row.address_hash: row.n - 1 for row in connection.execute(several)}

    def write(self, row: Any) -> None:
        rater = self._keys.pseudonym(row.person)
        if row.id is None:
            self._files[PARTICIPANTS.name].add(rows.visitor(row, rater))
            return
        sat = rows.Sat(self._connection, self._bundle, row, rater)
        found = quality.judged(self._bundle, self._keys, row, sat.given, self._alike.get(row.address_hash, 0))
        self._files[PARTICIPANTS.name].add(rows.participant(row, sat, found))
        for sheet, found_rows in (
            (RATINGS, sat.ratings()),
            (CHECKS, sat.checks()),
            (COMMENTS, sat.comments()),
            (EXCLUSIONS, rows.exclusions(self._bundle, found)),
        ):
            for one in found_rows:
                self._files[sheet.name].add(one)
        if OPERATIONS.name in self._files:
            for one in rows.operations(self._connection, row, rater):
                self._files[OPERATIONS.name].add(one)


def _describe(
    bundle: Bundle, folder: Path, counts: Mapping[str, int], sheets: tuple[Sheet, ...], now: float
) -> None:
    """The codebook, and last what the export is: counts, and a hash a file."""
    (folder / "codebook.md").write_text(codebook.as_markdown(bundle, sheets), encoding="utf-8")
    (folder / "codebook.json").write_text(codebook.as_json(bundle, sheets), encoding="utf-8")
    found = {
        "format": 1,
        "bundle": bundle.hash,
        "name": bundle.name,
        "preset": bundle.preset,
        "exported": datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds"),
        "stillme": __version__,
        "rows": dict(counts),
        "sha256": {path.name: sha256(path) for path in sorted(folder.iterdir())},
    }
    (folder / FILE).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def sha256(path: Path) -> str:
    """Of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
