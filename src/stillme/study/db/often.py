"""Statements that are run with every request: SQLAlchemy writes them, once a database; the driver runs them.

A look at a few rows costs the database less than SQLAlchemy's way to it. Errors come out as its own all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

Rows = list[tuple[Any, ...]]


class Often:
    """`made`: the statement, or one for each dialect where they are spelled differently."""

    def __init__(self, made: Any) -> None:
        self._made = made
        self._known: dict[str, tuple[str, list[str] | None]] = {}

    def rows(self, connection: Connection, **values: Any) -> Rows:
        return self._run(connection, values, is_asked=True)

    def first(self, connection: Connection, **values: Any) -> tuple[Any, ...] | None:
        found = self.rows(connection, **values)
        return found[0] if found else None

    def do(self, connection: Connection, **values: Any) -> None:
        self._run(connection, values)

    def each(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """The same for many rows."""
        self._run(connection, rows)

    def _run(
        self,
        connection: Connection,
        given: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        is_asked: bool = False,
    ) -> Rows:
        text, names = self._known.get(connection.dialect.name) or self._written(connection)
        cursor = connection.connection.cursor()
        try:
            if isinstance(given, Mapping):
                cursor.execute(text, _placed(given, names))
            else:
                cursor.executemany(text, [_placed(row, names) for row in given])
            return list(cursor.fetchall()) if is_asked else []
        except connection.dialect.loaded_dbapi.Error as error:
            kind = connection.dialect.loaded_dbapi.Error
            raise DBAPIError.instance(text, None, error, kind, hide_parameters=True) from error
        finally:
            cursor.close()

    def _written(self, connection: Connection) -> tuple[str, list[str] | None]:
        name = connection.dialect.name
        statement = self._made[name] if isinstance(self._made, Mapping) else self._made
        compiled = statement.compile(dialect=connection.dialect)
        found = (str(compiled), list(compiled.positiontup) if compiled.positional else None)
        self._known[name] = found
        return found


def _placed(values: Mapping[str, Any], names: list[str] | None) -> Any:
    """By place or by name, as the driver wants them."""
    return values if names is None else [values[name] for name in names]
