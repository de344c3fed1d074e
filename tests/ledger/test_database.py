from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from stillme.core.errors import SetupError
from stillme.ledger import Run
from stillme.ledger.database import VERSION, add_axes, migrate
from stillme.ledger.run import LEDGER
from stillme.protocol import Protocol

FIRST = Path(__file__).parent / "first_schema.sql"


def schema(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name").fetchall()
    return [(name, " ".join(sql.split())) for name, sql in rows]


@pytest.fixture
def fresh() -> Iterator[sqlite3.Connection]:
    """A ledger made by this version from nothing."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection, "memory")
        yield connection


@pytest.fixture
def first() -> Iterator[sqlite3.Connection]:
    """A ledger as the first schema made it, with rows in it."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.executescript(FIRST.read_text(encoding="utf-8"))
        yield connection


def test_from_empty(fresh: sqlite3.Connection) -> None:
    assert fresh.execute("PRAGMA user_version").fetchone() == (VERSION,)


def test_from_the_first_schema_to_the_same_schema_with_every_row_kept(
    first: sqlite3.Connection, fresh: sqlite3.Connection
) -> None:
    tables = ("meta", "edit", "verdict", "attempt")
    rows = {table: first.execute(f"SELECT * FROM {table}").fetchall() for table in tables}
    assert all(rows.values())
    migrate(first, "memory")
    assert schema(first) == schema(fresh)
    for table, before in rows.items():
        after = first.execute(f"SELECT * FROM {table}").fetchall()
        assert [row[: len(before[0])] for row in after] == before, "columns are added at the end"


def test_again_changes_nothing(fresh: sqlite3.Connection) -> None:
    before = schema(fresh)
    migrate(fresh, "memory")
    assert schema(fresh) == before


def test_a_ledger_of_a_newer_stillme_is_left_alone(tmp_path: Path, protocol: Protocol) -> None:
    with closing(sqlite3.connect(tmp_path / LEDGER)) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(SetupError, match="Install a newer stillme"), Run.open_for_writing(tmp_path, protocol):
        pass


def test_every_axis_gets_its_column_once(protocol: Protocol, fresh: sqlite3.Connection) -> None:
    add_axes(fresh, protocol.axes)
    add_axes(fresh, protocol.axes)
    columns = [row[1] for row in fresh.execute("PRAGMA table_info(score)")]
    assert columns == ["verdict", *protocol.axes]


def test_an_older_ledger_is_read_through_a_copy_and_left_as_it_is(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / LEDGER, isolation_level=None)) as connection:
        connection.executescript(FIRST.read_text(encoding="utf-8"))
    before = (tmp_path / LEDGER).read_bytes()
    with Run.open_readonly(tmp_path) as seen:
        assert seen.query("SELECT count(*) FROM measurement") == [(0,)]
        with ThreadPoolExecutor(1) as other:  # as the review tool reads it
            assert other.submit(seen.query, "SELECT count(*) FROM edit").result()[0][0] > 0
    assert (tmp_path / LEDGER).read_bytes() == before
