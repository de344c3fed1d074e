"""The only thread that writes. Waiting units are committed together; callers are answered after the commit.

Durability (`synchronous=FULL`) costs one flush per group instead of one per row, and rows of a kind go in with one
statement. The queue is bounded, so a fast producer waits for the disk instead of filling the memory. A unit whose
caller does not wait for it may wait a moment for others, so that there are fewer flushes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from stillme.core.errors import StillmeError
from stillme.ledger.database import connect, database


class RowInsert(NamedTuple):
    """One row for one table. `again`: the same row may come twice; the second changes nothing."""

    into: str  # a table, with its columns where not all are given
    values: tuple[Any, ...]
    again: bool = False


_Unit = tuple[tuple[RowInsert, ...], "Future[None]"]

MAX_GROUP = 512  # units per commit: larger ones keep their callers waiting longer
MAX_ROWS_PER_STATEMENT = 64  # smaller powers of two take the rest, so that few statements are ever compiled
MAX_WAITING = 4096  # units in memory; then producers wait for the disk
MAX_WAIT_S = 0.005  # that patient units wait for others: a little delay for fewer flushes


class Writer:
    """Appends units (rows that belong together) in order; a unit is written whole or not at all."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._waiting: list[_Unit] = []
        self._changed = threading.Condition()
        self._closing = False
        self._is_urgent = False  # whether a caller waits for a unit of the queue
        self._failure: StillmeError | None = None
        self._connection = connect(path)
        self.commits = 0  # that changed something
        self._thread = threading.Thread(target=self._work, name="ledger-writer", daemon=True)
        self._thread.start()

    def append(self, *rows: RowInsert, patient: bool = False) -> Future[None]:
        """Queue one unit. The future is done when it is on disk, or has the error.

        Args:
            patient: nothing waits for this unit, so it may be committed a moment later.
        """
        commit: Future[None] = Future()
        commit.set_running_or_notify_cancel()  # not cancellable: who stops waiting takes nothing back
        if self._failure is not None:
            commit.set_exception(self._failure)
            return commit
        with self._changed:
            while len(self._waiting) >= MAX_WAITING:
                self._changed.wait()
            self._waiting.append((rows, commit))
            becomes_urgent = not (patient or self._is_urgent)
            self._is_urgent |= not patient
            if becomes_urgent or len(self._waiting) == 1:
                self._changed.notify_all()
        return commit

    def fail(self, error: StillmeError) -> None:
        """Refuse all further units with this error."""
        self._failure = error

    def close(self) -> None:
        """Write what is waiting, then end the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()

    def _work(self) -> None:
        while group := self._next_group():
            self._commit(group)
        self._connection.close()

    def _next_group(self) -> list[_Unit]:
        """The waiting units, up to a limit; empty when the writer is closed and nothing is left."""
        with self._changed:
            while not self._waiting and not self._closing:
                self._changed.wait()
            self._changed.wait_for(lambda: self._is_urgent or self._closing, MAX_WAIT_S)
            group = self._waiting[:MAX_GROUP]
            del self._waiting[:MAX_GROUP]
            self._is_urgent = bool(self._waiting)
            self._changed.notify_all()
        return group

    def _commit(self, group: list[_Unit]) -> None:
        """Write a group and answer all of its callers, whatever happens: otherwise they would wait for ever."""
        try:
            with database(self._path):
                self._write(group)
        except StillmeError as error:
            self._failure = error
            _answer(group, error)
        except UnicodeEncodeError:
            self._commit([(tuple(map(_storable, rows)), commit) for rows, commit in group])
        except Exception as error:
            if len(group) == 1:
                _answer(group, error)
            else:  # one unit broke a rule, or has a value that SQLite cannot store: find it, and keep the others
                for unit in group:
                    self._commit([unit])
        else:
            _answer(group, None)

    def _write(self, group: list[_Unit]) -> None:
        connection = self._connection
        before = connection.total_changes
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.execute("PRAGMA defer_foreign_keys=ON")  # rows of a kind go together, so order is free
            for sql, values in statements(row for rows, _ in group for row in rows):
                connection.execute(sql, values)
            connection.execute("COMMIT")
            self.commits += connection.total_changes > before  # rows that are there already change nothing
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _storable(row: RowInsert) -> RowInsert:
    """The row with lone surrogates replaced: services send them now and then, and UTF-8 cannot encode them."""
    texts = (
        v.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if isinstance(v, str) else v
        for v in row.values
    )
    return row._replace(values=tuple(texts))


def statements(rows: Iterator[RowInsert]) -> Iterator[tuple[str, list[Any]]]:
    """The rows of each kind, many to a statement."""
    kinds: dict[tuple[str, int, bool], list[tuple[Any, ...]]] = {}
    for row in rows:
        kinds.setdefault((row.into, len(row.values), row.again), []).append(row.values)
    for (into, columns, again), values in kinds.items():
        start = 0
        while start < len(values):
            size = min(MAX_ROWS_PER_STATEMENT, 1 << ((len(values) - start).bit_length() - 1))
            yield _sql(into, columns, again, size), [v for row in values[start : start + size] for v in row]
            start += size


@lru_cache(maxsize=512)
def _sql(into: str, columns: int, again: bool, size: int) -> str:
    row = f"({', '.join('?' * columns)})"
    return f"INSERT INTO {into} VALUES {', '.join([row] * size)}{' ON CONFLICT DO NOTHING' if again else ''}"  # noqa: S608 (names are ours, values are parameters)


def _answer(group: list[_Unit], error: Exception | None) -> None:
    for _, commit in group:
        if error is None:
            commit.set_result(None)
        else:
            commit.set_exception(error)
