from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from stillme.errors import SurroundingsError
from stillme.ledger import Run
from stillme.ledger.migrations import VERSION, add_axes, migrate
from stillme.ledger.run import LEDGER
from stillme.protocol import Protocol

FIRST = Path(__file__).parent / "first_schema.sql"


def schema(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name").fetchall()
    return [(name, " ".join(sql.split())) for name, sql in rows]


def fresh() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection, "memory")
    return connection


def first() -> sqlite3.Connection:
    """A ledger as the first schema made it, with rows in it."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(FIRST.read_text(encoding="utf-8"))
    return connection


def test_from_empty() -> None:
    assert fresh().execute("PRAGMA user_version").fetchone() == (VERSION,)


def test_from_the_first_schema_to_the_same_schema_with_every_row_kept() -> None:
    old = first()
    rows = {
        table: old.execute(f"SELECT * FROM {table}").fetchall() for table in ("meta", "edit", "verdict", "attempt")
    }
    assert all(rows.values())
    migrate(old, "memory")
    assert schema(old) == schema(fresh())
    assert {table: old.execute(f"SELECT * FROM {table}").fetchall() for table in rows} == rows


def test_again_changes_nothing() -> None:
    connection = fresh()
    before = schema(connection)
    migrate(connection, "memory")
    assert schema(connection) == before


def test_a_ledger_of_a_newer_stillme_is_left_alone(tmp_path: Path, protocol: Protocol) -> None:
    connection = sqlite3.connect(tmp_path / LEDGER)
    connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()
    with pytest.raises(SurroundingsError, match="Install a newer stillme"), Run.hold(tmp_path, protocol):
        pass


def test_every_axis_gets_its_column_once(protocol: Protocol) -> None:
    connection = fresh()
    add_axes(connection, protocol.axes)
    add_axes(connection, protocol.axes)
    columns = [row[1] for row in connection.execute("PRAGMA table_info(score)")]
    assert columns == ["verdict", *protocol.axes]
