"""A ledger on its own, checked for what SQLite and its own keys say of it.

A row's key is the hash of what the row depends on, so a row that was changed in that no longer has its key.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from stillme.core.errors import SurroundingsError
from stillme.core.records import digest
from stillme.ledger import Run
from stillme.ledger.database import MIGRATIONS, UNREADABLE, connect, migrate
from stillme.ledger.run import settings_hash
from stillme.plan.design import Design
from stillme.protocol import from_files
from stillme.steps import judge as judging
from stillme.steps.measure import measurement_key

NAMED = 5  # faults of a kind that are told one by one
_SAFE = ("PRAGMA trusted_schema=OFF", "PRAGMA cell_size_check=ON")
Row = tuple[object, ...]


def damage(path: Path) -> Iterator[str]:
    """What SQLite itself finds: broken pages, rows without what they refer to, a schema that is not ours."""
    try:
        with closing(connect(path, read_only=True)) as connection:
            for pragma in _SAFE:
                connection.execute(pragma)
            yield from _told(connection)
    except UNREADABLE as error:
        yield f"The ledger cannot be read: {error}."
    except SurroundingsError as error:
        if isinstance(error.__cause__, sqlite3.OperationalError) or not isinstance(error.__cause__, UNREADABLE):
            raise  # of this machine, not of the ledger
        yield f"The ledger cannot be read: {error.__cause__}."


def _told(connection: sqlite3.Connection) -> Iterator[str]:
    found = [said for (said,) in connection.execute("PRAGMA integrity_check")]
    if found != ["ok"]:
        yield f"The ledger is damaged: {'; '.join(str(said) for said in found[:NAMED])}."
        return
    for table, row, other, _ in connection.execute("PRAGMA foreign_key_check").fetchmany(NAMED):
        yield f"The ledger's table {table} refers in row {row} to a row of {other} that is not there."
    yield from _schema(connection)


def _schema(connection: sqlite3.Connection) -> Iterator[str]:
    """Tables, indices and the triggers that keep rows from being changed: all there, and nothing besides."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > len(MIGRATIONS):
        yield f"The ledger has schema {version}; this stillme knows up to {len(MIGRATIONS)}: install a newer one."
        return
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        migrate(fresh, ":memory:", MIGRATIONS[:version])
        wanted, found = _named(fresh), _named(connection)
    for kind, name in sorted(wanted - found):
        yield f"The ledger lacks the {kind} {name}."
    for kind, name in sorted(found - wanted):
        yield f"The ledger has a {kind} {name} that stillme does not make."


def _named(connection: sqlite3.Connection) -> set[tuple[str, str]]:
    return set(connection.execute("SELECT type, name FROM sqlite_master"))


# Keys


def strayed(run: Run, design: Design) -> Iterator[str]:
    """Rows whose key is not the hash of what they depend on."""
    meta = run.meta()
    if from_files(json.loads(meta["protocol_files"]), "protocol").hash != meta["protocol_hash"]:
        yield "The ledger's protocol is not the one whose hash it gives."
    for table, query, key in _KEYS:
        yield from _wrong(table, ((row[0], key(row)) for row in run.query(query)))
    yield from _wrong("trial", _trials(run))
    yield from _wrong("portrait", _portraits(run))
    yield from _looks(run, design)


def counted(run: Run) -> int:
    """How many rows have a key that is made anew."""
    tables = [table for table, _, _ in _KEYS] + ["trial", "portrait", "verdict"]
    return sum(int(run.query(f"SELECT count(*) FROM {table}")[0][0]) for table in tables)  # noqa: S608 (names are ours, values are parameters)


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


def _portraits(run: Run) -> Iterator[tuple[object, str]]:
    for portrait in run.portraits([key for (key,) in run.query("SELECT key FROM portrait ORDER BY key")]):
        p = portrait
        yield (
            p.key,
            digest("portrait", source=p.source, source_id=p.source_id, image=p.image, labels=dict(p.labels)),
        )


def _trials(run: Run) -> Iterator[tuple[object, str]]:
    """Trials with the edit that they need: both are hashes."""
    columns = "t.key, t.edit, t.experiment, t.arm, t.prompt, i.text, t.editor, t.settings, t.seed, t.portrait"
    rows = run.query(
        f"SELECT {columns}, p.image, t.partner, coalesce(o.image, '') FROM trial t "  # noqa: S608 (names are ours, values are parameters)
        "JOIN instruction i ON i.hash = t.instruction JOIN portrait p ON p.key = t.portrait "
        "LEFT JOIN portrait o ON o.key = t.partner"
    )
    for key, edit, experiment, arm, prompt, text, editor, settings, seed, portrait, image, partner, other in rows:
        further = {"references": [other]} if partner else {}
        made = digest("edit", image=image, instruction=text, settings=settings, seed=seed, **further)
        names = {"experiment": experiment, "arm": arm, "prompt": prompt, "editor": editor, "portrait": portrait}
        names |= {"partner": partner} if partner else {}
        yield key, digest("trial", edit=made, **names) if made == edit else f"of another edit than {edit}"


def _looks(run: Run, design: Design) -> Iterator[str]:
    """Verdicts of the design's looks: by their keys they are of this edit, by this judge."""
    rows = run.query("SELECT key, edit, settings, repeat FROM verdict")
    found = {key: (edit, settings, repeat) for key, edit, settings, repeat in rows}
    wrong = (
        look.key
        for look in judging.wanted(run, design)
        if look.key in found and found[look.key] != (look.trial.edit, design.judges[look.judge], look.repeat)
    )
    yield from _listed("verdict", wrong)


def _wrong(table: str, pairs: Iterator[tuple[object, str]]) -> Iterator[str]:
    return _listed(table, (str(key) for key, made in pairs if key != made))


def _listed(table: str, keys: Iterator[str]) -> Iterator[str]:
    """The first few, and how many more."""
    wrong = list(keys)
    for key in wrong[:NAMED]:
        yield f"The ledger's row {key[:12]}… of {table} was changed: its key is not the hash of what it says."
    if len(wrong) > NAMED:
        yield f"{len(wrong) - NAMED:,} more rows of {table} were changed."
