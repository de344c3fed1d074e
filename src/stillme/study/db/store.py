"""Where a study's rows are: SQLite by default, PostgreSQL by its address. One way to ask, the same statements.

SQLite has one writer: a thread that takes what has come in meanwhile and commits it together, and answers after
the commit. Reads happen where they are asked for, on a connection of their own. PostgreSQL is asked from a few
threads. What is written is on the disk before anybody is told so.
"""

from __future__ import annotations

import asyncio
import importlib.util
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection, Engine, Table, bindparam, create_engine, event, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError

from stillme.core.errors import InputError, SetupError
from stillme.study.db.tables import VERSION, meta, metadata

T = TypeVar("T")
Work = Callable[[Connection], T]
MOST_AT_ONCE = 256  # units of one commit
PATIENCE = 30  # seconds that SQLite waits for another process
THREADS = 8
TRIES = 5  # of a transaction that PostgreSQL took back


class Store(Protocol):
    """`read` and `write` run a function on a connection; a write is a transaction that holds or never was."""

    engine: Engine

    async def read(self, work: Work[T]) -> T: ...
    async def write(self, work: Work[T]) -> T: ...
    def close(self) -> None: ...


def address(given: str, folder: Path) -> str:
    """The database's address: a file in the study's folder, unless one is given."""
    return given or f"sqlite:///{folder / 'study.db'}"


def open_store(url: str) -> Store:
    """The store, its tables made if it is new. One of another stillme is refused."""
    engine = connect(url)
    prepare(engine)
    return Lite(engine) if engine.dialect.name == "sqlite" else Pooled(engine)


def connect(url: str) -> Engine:
    """The engine for an address, ready for any number of threads."""
    try:
        given = make_url(url)
    except ArgumentError:
        said = "The address of the database cannot be read."
        raise InputError(said, "Write sqlite:///FILE or postgresql://USER@HOST/NAME.") from None
    if given.get_backend_name() == "sqlite":
        options = {"timeout": PATIENCE, "check_same_thread": False}
        return _lite(create_engine(given, connect_args=options, hide_parameters=True))
    if given.get_backend_name() != "postgresql":
        said = f"The database {given.get_backend_name()} is not known."
        raise InputError(said, "Write sqlite:///FILE or postgresql://USER@HOST/NAME.")
    if importlib.util.find_spec("psycopg") is None:
        said = "PostgreSQL needs the package psycopg, which is not installed."
        raise SetupError(said, "Install it with: pip install 'stillme[postgres]'")
    return create_engine(
        given.set(drivername="postgresql+psycopg"),
        pool_size=THREADS,
        max_overflow=2,
        pool_pre_ping=True,
        hide_parameters=True,  # errors end in logs, and what is written is nobody's business there
    )


def _lite(engine: Engine) -> Engine:
    """SQLite as it has to be: WAL, on the disk at every commit, transactions that begin when we say so."""

    @event.listens_for(engine, "connect")
    def settle(connection: Any, record: Any) -> None:
        connection.isolation_level = None
        for pragma in (
            "journal_mode=WAL",
            "synchronous=FULL",
            "foreign_keys=ON",
            f"busy_timeout={PATIENCE * 1000}",
        ):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        if connection.get_execution_options().get("isolation_level") != "AUTOCOMMIT":  # reads lock nobody out
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def prepare(engine: Engine) -> None:
    with reachable(), engine.begin() as connection:
        if engine.dialect.name == "postgresql":  # several workers may start at once
            connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7151)")
        metadata.create_all(connection)
        upsert(connection, meta, {"key": "schema", "value": VERSION}, keep=True)
        found = connection.scalar(select(meta.c.value).where(meta.c.key == "schema"))
    if found != VERSION:
        said = f"The study's database has the schema {found}; this stillme knows {VERSION}."
        raise SetupError(said, "Use the stillme that it was made with, or export it there first.")


@contextmanager
def reachable() -> Iterator[None]:
    """A database that does not answer is no bug: a sentence without passwords."""
    try:
        yield
    except OperationalError as error:
        first = str(error.orig).strip().splitlines()[0] if error.orig else "no reason given"
        raise SetupError(
            f"The study's database does not answer: {first}.", "Check its address, and that it runs."
        ) from None


def upsert(connection: Connection, table: Table, row: dict[str, Any], keep: bool = False) -> None:
    """Puts a row in place of the one with the same primary key; `keep`: or leaves that one as it is."""
    connection.execute(_upserted(connection.dialect.name, table, tuple(row), keep), row)


@lru_cache(maxsize=64)
def _upserted(dialect: str, table: Table, names: tuple[str, ...], keep: bool) -> Any:
    """Made once: making a statement takes longer than running it."""
    given: dict[str, Any] = {name: bindparam(name) for name in names}
    made = (postgresql if dialect == "postgresql" else sqlite).insert(table).values(given)
    keys = [column.name for column in table.primary_key]
    changed = {name: made.excluded[name] for name in names if name not in keys}
    if keep or not changed:
        return made.on_conflict_do_nothing(index_elements=keys)
    return made.on_conflict_do_update(index_elements=keys, set_=changed)


def added(connection: Connection, table: Table, row: dict[str, Any]) -> bool:
    """Adds a row unless one of its UNIQUE keys is taken; whether it was added."""
    made = (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(table).values(row)
    key = next(iter(table.primary_key))
    return connection.execute(made.on_conflict_do_nothing().returning(key)).first() is not None


class Lite:
    """SQLite: one writer thread, commits shared by whatever has come in."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._reader = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        self._lock = threading.Lock()
        self._waiting: queue.SimpleQueue[tuple[Work[Any], Future[Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="study-writer", daemon=True)
        self._thread.start()

    async def read(self, work: Work[T]) -> T:
        """On the spot: a look at a few rows is quicker than handing it to a thread."""
        with self._lock:
            return work(self._reader)

    async def write(self, work: Work[T]) -> T:
        future: Future[T] = Future()
        self._waiting.put((work, future))
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        self._waiting.put(None)
        self._thread.join()
        self._reader.close()
        self.engine.dispose()

    def _work(self) -> None:
        with self.engine.connect() as connection:
            while (first := self._waiting.get()) is not None:
                group = [first]
                closing = False
                while len(group) < MOST_AT_ONCE and not self._waiting.empty():
                    if (more := self._waiting.get()) is None:
                        closing = True
                        break
                    group.append(more)
                self._commit(connection, group)
                if closing:
                    return

    def _commit(self, connection: Connection, group: list[tuple[Work[Any], Future[Any]]]) -> None:
        """Each unit holds or never was; all that hold are committed at once, and only then answered."""
        wanted = [(work, future) for work, future in group if future.set_running_or_notify_cancel()]
        results: list[tuple[Future[Any], Any, BaseException | None]] = []
        try:
            with connection.begin():
                for work, future in wanted:
                    results.append((future, *_attempt(connection, work)))
        except BaseException as error:
            results = [(future, None, error) for _, future in wanted]
        for future, value, failure in results:  # begun, so nobody can give them up any more
            if failure is None:
                future.set_result(value)
            else:
                future.set_exception(failure)


def _attempt(connection: Connection, work: Work[Any]) -> tuple[Any, BaseException | None]:
    run = connection.connection.cursor().execute  # three words that need no compiler
    run("SAVEPOINT unit")
    try:
        value = work(connection)
    except Exception as error:
        if not connection.connection.driver_connection.in_transaction:  # type: ignore[union-attr]
            raise  # a full disk, for one: SQLite has taken back the other units as well
        run("ROLLBACK TO unit")
        run("RELEASE unit")
        return None, error
    run("RELEASE unit")
    return value, None


class Pooled:
    """PostgreSQL: a transaction a unit, on a few threads; several processes may share the database."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="study-store")

    async def read(self, work: Work[T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._read, work)

    async def write(self, work: Work[T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, write_now, self.engine, work)

    def _read(self, work: Work[T]) -> T:
        with self.engine.connect() as connection:
            return work(connection)

    def close(self) -> None:
        self._threads.shutdown()
        self.engine.dispose()


def write_now(engine: Engine, work: Work[T]) -> T:
    """One transaction, here and now; tried again where the database took it back because of another."""
    for left in reversed(range(TRIES)):
        try:
            with engine.begin() as connection:
                return work(connection)
        except DBAPIError as error:
            if not left or getattr(error.orig, "sqlstate", "") not in ("40001", "40P01"):
                raise
    raise AssertionError
