"""The one thread that writes. Whatever is waiting is committed together; the caller hears back after the commit.

Durability (`synchronous=FULL`) costs one flush per group instead of one per row, and rows of a kind go in with one
statement. The queue is bounded, so a fast producer waits for the disk instead of filling the memory. A unit that
nobody is held up by may wait a moment for others, so that there are fewer flushes.
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


class Insert(NamedTuple):
    """One row for one table; `again`: the same row may come twice, which changes nothing."""

    into: str  # a table, with its columns where not all are given
    values: tuple[Any, ...]
    again: bool = False


_Unit = tuple[tuple[Insert, ...], "Future[None]"]

LARGEST_GROUP = 512
MANY = 64  # rows a statement; smaller powers of two take the rest, so that few statements are ever compiled
WAITING_ROOM = 4096
A_MOMENT = 0.005  # seconds that patient units wait for others


class Writer:
    """Appends units (rows that belong together) in order; a unit is written whole or not at all."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._waiting: list[_Unit] = []
        self._changed = threading.Condition()
        self._closing = False
        self._is_urgent = False  # whether somebody is held up by what waits
        self._failure: StillmeError | None = None
        self._connection = connect(path)
        self.commits = 0  # that changed something
        self._thread = threading.Thread(target=self._work, name="ledger-writer", daemon=True)
        self._thread.start()

    def append(self, *rows: Insert, patient: bool = False) -> Future[None]:
        """Queues one unit. The future is done when it is on disk, or has the reason why not."""
        answer: Future[None] = Future()
        answer.set_running_or_notify_cancel()  # whoever stops waiting for it takes nothing back
        if self._failure is not None:
            answer.set_exception(self._failure)
            return answer
        with self._changed:
            while len(self._waiting) >= WAITING_ROOM:
                self._changed.wait()
            self._waiting.append((rows, answer))
            hurries = not (patient or self._is_urgent)
            self._is_urgent |= not patient
            if hurries or len(self._waiting) == 1:
                self._changed.notify_all()
        return answer

    def fail(self, error: StillmeError) -> None:
        """Whatever comes from now on is answered with this."""
        self._failure = error

    def close(self) -> None:
        """Writes what is waiting, then ends the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()

    def _work(self) -> None:
        while group := self._next_group():
            self._commit(group)
        self._connection.close()

    def _next_group(self) -> list[_Unit]:
        """Everything that waits, up to a limit; empty when the writer is closed and nothing is left."""
        with self._changed:
            while not self._waiting and not self._closing:
                self._changed.wait()
            self._changed.wait_for(lambda: self._is_urgent or self._closing, A_MOMENT)
            group = self._waiting[:LARGEST_GROUP]
            del self._waiting[:LARGEST_GROUP]
            self._is_urgent = bool(self._waiting)
            self._changed.notify_all()
        return group

    def _commit(self, group: list[_Unit]) -> None:
        """Whatever happens, everybody who waits is answered: a thread that ended early would keep them waiting."""
        try:
            with database(self._path):
                self._write(group)
        except StillmeError as error:
            self._failure = error
            _answer(group, error)
        except UnicodeEncodeError:
            self._commit([(tuple(map(_storable, rows)), answer) for rows, answer in group])
        except Exception as error:
            self._commit_apart(group, error)
        else:
            _answer(group, None)

    def _commit_apart(self, group: list[_Unit], error: Exception) -> None:
        """One unit broke a rule, or holds what SQLite cannot: find it, and keep the others."""
        if len(group) == 1:
            _answer(group, error)
            return
        for unit in group:
            self._commit([unit])

    def _write(self, group: list[_Unit]) -> None:
        connection = self._connection
        before = connection.total_changes
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.execute("PRAGMA defer_foreign_keys=ON")  # rows of a kind go together, so order is free
            for sql, values in statements(row for rows, _ in group for row in rows):
                connection.execute(sql, values)
            connection.execute("COMMIT")
            self.commits += connection.total_changes > before  # rows that were there already change nothing
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _storable(row: Insert) -> Insert:
    """Half of a character pair, which services send now and then, is no text: a mark stands in its place."""
    texts = (
        v.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if isinstance(v, str) else v
        for v in row.values
    )
    return row._replace(values=tuple(texts))


def statements(rows: Iterator[Insert]) -> Iterator[tuple[str, list[Any]]]:
    """The rows of each kind, many to a statement."""
    kinds: dict[tuple[str, int, bool], list[tuple[Any, ...]]] = {}
    for row in rows:
        kinds.setdefault((row.into, len(row.values), row.again), []).append(row.values)
    for (into, columns, again), values in kinds.items():
        start = 0
        while start < len(values):
            size = min(MANY, 1 << ((len(values) - start).bit_length() - 1))
            yield _sql(into, columns, again, size), [v for row in values[start : start + size] for v in row]
            start += size


@lru_cache(maxsize=512)
def _sql(into: str, columns: int, again: bool, size: int) -> str:
    one = f"({', '.join('?' * columns)})"
    return f"INSERT INTO {into} VALUES {', '.join([one] * size)}{' ON CONFLICT DO NOTHING' if again else ''}"  # noqa: S608 (names are ours, values are parameters)


def _answer(group: list[_Unit], error: Exception | None) -> None:
    for _, answer in group:
        if error is None:
            answer.set_result(None)
        else:
            answer.set_exception(error)
