"""A run whose ledger somebody wrote into: what stands in its rows as JSON is read again, or said to be damaged."""

from __future__ import annotations

import json
import random
import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path

from stillme import pipeline
from stillme.analysis.frames import tidy
from stillme.assurance.evidence.ledger import integrity_errors
from stillme.core.errors import StillmeError
from stillme.engine.progress import Progress
from stillme.ledger import Run, batches
from stillme.ledger.run import LEDGER
from stillme.plan import config
from stillme.plan.design import load_design
from tests.conftest import dump_audit
from tests.fuzz.damage import Input, as_json, bytes_of, tree
from tests.fuzz.target import Feed, Target, sentence

PLACES = (
    ("audit", "content"),
    ("settings", "content"),
    ("trial", "about"),
    ("making", "notes"),
    ("verdict", "observations"),
    ("verdict", "status"),
    ("measurement", "figures"),
    ("edit", "status"),
    ("label", "value"),
    ("attempt", "usage"),
)


def _made(folder: Path) -> Path:
    """The smallest run that has every kind of row: one portrait, one prompt."""
    folder.mkdir(parents=True, exist_ok=True)
    groups = {"race": ["white"], "gender": ["female"], "age": ["20s"]}
    dump_audit(
        folder / "audit.yaml",
        sources=[{"id": "heads", "kind": "synthetic", "settings": {"groups": groups}}],
        experiments={"diagnose": {"prompts": ["O-01"]}},
    )
    loaded = config.load(folder / "audit.yaml")
    pipeline.run(loaded, Progress())
    with closing(sqlite3.connect(loaded.run / LEDGER)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
    return loaded.run


def _unguarded(path: Path) -> bytes:
    """The ledger without what keeps its rows from being changed."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
    return path.read_bytes()


def _rows(folder: Path, stack: ExitStack) -> tuple[Input, Feed]:
    run = _made(folder)
    good = _unguarded(run / LEDGER)
    with closing(sqlite3.connect(run / LEDGER)) as connection:
        held = {
            f"{table}.{column}": [
                row[0] for row in connection.execute(f"SELECT {column} FROM {table} LIMIT 3") if row[0]
            ]
            for table, column in PLACES
        }
    named = [name for name, values in held.items() if values]

    def made(chance: random.Random) -> bytes:
        name = chance.choice(named)
        text = chance.choice(held[name])
        try:
            spoiled = as_json(tree(json.loads(text), chance))
        except ValueError:
            spoiled = bytes_of(text.encode())(chance)
        return name.encode() + b"\n" + (spoiled if chance.random() < 0.7 else bytes_of(text.encode())(chance))

    def feed(content: bytes) -> None:
        name, _, text = content.partition(b"\n")
        table, column = name.decode().split(".")
        (run / LEDGER).write_bytes(good)
        with closing(sqlite3.connect(run / LEDGER, isolation_level=None)) as connection:
            changed = f"UPDATE {table} SET {column} = ? WHERE rowid = (SELECT max(rowid) FROM {table})"
            connection.execute(changed, (text.decode("utf-8", "replace"),))
        with sentence(StillmeError):
            pipeline.status(run)
            with Run.open_readonly(run) as seen:
                design = load_design(seen)
                tidy(seen, design)
                batches.shards(seen, "a", "b")

    return made, feed


def _pages(folder: Path, stack: ExitStack) -> tuple[Input, Feed]:
    """The file itself, with other bytes in it."""
    good = (_made(folder) / LEDGER).read_bytes()
    path = folder / "copy" / LEDGER
    path.parent.mkdir()
    plain = bytes_of(good)

    def feed(content: bytes) -> None:
        path.write_bytes(content)
        with sentence(StillmeError):
            found = list(integrity_errors(path))
            assert all(isinstance(said, str) for said in found)
            if not found:
                with Run.open_readonly(path.parent) as seen:
                    seen.meta()

    return plain, feed


TARGETS = (Target("rows of a ledger", _rows, 120), Target("pages of a ledger", _pages, 400))
