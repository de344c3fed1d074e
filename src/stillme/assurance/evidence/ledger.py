"""A ledger on its own, checked for what SQLite and its own keys say of it.

A row's key is the hash of what the row depends on, so a row that was changed in that no longer has its key.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from stillme.core.errors import SetupError
from stillme.core.records import Portrait, digest
from stillme.ledger import Run
from stillme.ledger.database import MIGRATIONS, UNREADABLE, connect, migrate
from stillme.ledger.run import settings_hash
from stillme.plan.design import Design
from stillme.protocol import from_files
from stillme.steps.judge import all_judge_tasks as all_looks
from stillme.steps.measure import measurement_key

MAX_LISTED = 5  # faults of a kind that are named one by one
_SAFE = ("PRAGMA trusted_schema=OFF", "PRAGMA cell_size_check=ON")
Row = tuple[object, ...]


def integrity_errors(path: Path) -> Iterator[str]:
    """What SQLite itself finds: broken pages, rows without what they refer to, a schema that is not ours."""
    try:
        with closing(connect(path, read_only=True)) as connection:
            for pragma in _SAFE:
                connection.execute(pragma)
            yield from _integrity_errors(connection)
    except UNREADABLE as error:
        yield f"The ledger cannot be read: {error}."
    except SetupError as error:
        if isinstance(error.__cause__, sqlite3.OperationalError) or not isinstance(error.__cause__, UNREADABLE):
            raise  # of this machine, not of the ledger
        yield f"The ledger cannot be read: {error.__cause__}."


def _integrity_errors(connection: sqlite3.Connection) -> Iterator[str]:
    errors = [str(error) for (error,) in connection.execute("PRAGMA integrity_check")]
    if errors != ["ok"]:
        yield f"The ledger is damaged: {'; '.join(errors[:MAX_LISTED])}."
        return
    for table, row, other, _ in connection.execute("PRAGMA foreign_key_check").fetchmany(MAX_LISTED):
        yield f"The ledger's table {table} refers in row {row} to a row of {other} that is not there."
    # Tables, indices and the triggers that keep rows from being changed: all there, and nothing besides.
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > len(MIGRATIONS):
        yield f"The ledger has schema {version}; this stillme knows up to {len(MIGRATIONS)}: install a newer one."
        return
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        migrate(fresh, ":memory:", MIGRATIONS[:version])
        query = "SELECT type, name FROM sqlite_master"
        expected, present = (set(ledger.execute(query)) for ledger in (fresh, connection))
    for kind, name in sorted(expected - present):
        yield f"The ledger lacks the {kind} {name}."
    for kind, name in sorted(present - expected):
        yield f"The ledger has a {kind} {name} that stillme does not make."


# Keys


def rows_with_wrong_key(run: Run, design: Design) -> Iterator[str]:
    """Rows whose key is not the hash of what they depend on."""
    meta = run.meta()
    if from_files(json.loads(meta["protocol_files"]), "protocol").hash != meta["protocol_hash"]:
        yield "The ledger's protocol is not the one whose hash it gives."
    for table, query, key in _KEYS:
        yield from _changed_rows(table, (str(row[0]) for row in run.query(query) if row[0] != key(row)))
    yield from _changed_rows("trial", _changed_trials(run))
    portraits = run.portraits([key for (key,) in run.query("SELECT key FROM portrait ORDER BY key")])
    yield from _changed_rows("portrait", (p.key for p in portraits if p.key != _portrait_key(p)))
    yield from _changed_rows("verdict", _changed_verdicts(run, design))


def count_keys(run: Run) -> int:
    """How many rows have a key that is recomputed."""
    tables = [table for table, _, _ in _KEYS] + ["trial", "portrait", "verdict"]
    return sum(int(run.query(f"SELECT count(*) FROM {table}")[0][0]) for table in tables)  # noqa: S608 (names are ours, values are parameters)


# Table, what is read of it (the key first), and the key that the rest gives. Hashed as the ledger hashes: no word
# of these digests may change.
_KEYS: tuple[tuple[str, str, Callable[[Row], str]], ...] = (
    (
        "settings",
        "SELECT hash, kind, content FROM settings",
        lambda row: settings_hash(str(row[1]), json.loads(str(row[2]))),
    ),
    ("instruction", "SELECT hash, text FROM instruction", lambda row: digest("instruction", text=row[1])),
    (
        "circumstances",
        "SELECT hash, content FROM circumstances",
        lambda row: digest("circumstances", content=row[1]),
    ),
    (
        "question",
        "SELECT hash, content FROM question",
        lambda row: digest("question", **json.loads(str(row[1]))),
    ),
    (
        "call",
        "SELECT key, question, source, edited, repeat FROM call",
        lambda row: digest("call", question=row[1], source=row[2], edited=row[3], repeat=row[4]),
    ),
    (
        "measurement",
        "SELECT key, source, image, settings FROM measurement",
        lambda row: measurement_key(str(row[1]), str(row[2]), str(row[3])),
    ),
)


def _portrait_key(portrait: Portrait) -> str:
    return digest(
        "portrait",
        source=portrait.source,
        source_id=portrait.source_id,
        image=portrait.image,
        labels=dict(portrait.labels),
    )


def _changed_trials(run: Run) -> Iterator[str]:
    """Trials with the edit that they need: both are hashes."""
    columns = "t.key, t.edit, t.experiment, t.arm, t.prompt, i.text, t.editor, t.settings, t.seed, t.portrait"
    rows = run.query(
        f"SELECT {columns}, p.image, t.partner, coalesce(o.image, '') FROM trial t "  # noqa: S608 (names are ours, values are parameters)
        "JOIN instruction i ON i.hash = t.instruction JOIN portrait p ON p.key = t.portrait "
        "LEFT JOIN portrait o ON o.key = t.partner"
    )
    for key, edit, experiment, arm, prompt, text, editor, settings, seed, portrait, image, partner, other in rows:
        references = {"references": [other]} if partner else {}
        own_edit = digest("edit", image=image, instruction=text, settings=settings, seed=seed, **references)
        names = {"experiment": experiment, "arm": arm, "prompt": prompt, "editor": editor, "portrait": portrait}
        names |= {"partner": partner} if partner else {}
        if own_edit != edit or digest("trial", edit=own_edit, **names) != key:
            yield str(key)


def _changed_verdicts(run: Run, design: Design) -> Iterator[str]:
    """Verdicts of the design's looks: by their keys they are of this edit, by this judge."""
    rows = run.query("SELECT key, edit, settings, repeat FROM verdict")
    verdicts = {key: (edit, settings, repeat) for key, edit, settings, repeat in rows}
    for look in all_looks(run, design):
        own = (look.trial.edit, design.judges[look.judge], look.repeat)
        if verdicts.get(look.key, own) != own:
            yield look.key


def _changed_rows(table: str, keys: Iterator[str]) -> Iterator[str]:
    """A sentence on each of the first few, and how many more."""
    wrong = list(keys)
    for key in wrong[:MAX_LISTED]:
        yield f"The ledger's row {key[:12]}… of {table} was changed: its key is not the hash of what it says."
    if len(wrong) > MAX_LISTED:
        yield f"{len(wrong) - MAX_LISTED:,} more rows of {table} were changed."
