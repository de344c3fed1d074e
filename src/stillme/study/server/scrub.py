"""Makes deleted rows unreadable: databases keep the bytes of what was deleted until somebody overwrites them.

Copies that were made before, and a server's own log of changes, are not reached; the page about deploying says so.
"""

from __future__ import annotations

from sqlalchemy import Connection, Engine, delete, select
from sqlalchemy.exc import OperationalError

from stillme.study.db.store import upsert, write_now
from stillme.study.db.tables import meta, metadata

PATIENCE = 20  # seconds
DUE = "scrub"
LATER = (
    "The rows are gone, but their bytes may still be in the database's files, because somebody is reading it."
    " They go with the next run of stillme study retain."
)


def overwrite(connection: Connection) -> None:
    """From here on, whatever this connection deletes in SQLite is overwritten with zeros."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA secure_delete=ON")


def scrub(engine: Engine) -> bool:
    """Writes the database anew without what was deleted. Whether it could: not while somebody reads at length."""
    at_once = engine.execution_options(isolation_level="AUTOCOMMIT")
    try:
        with at_once.connect() as connection:
            done = _lite(connection) if engine.dialect.name == "sqlite" else _postgres(connection)
    except OperationalError:  # locked for too long
        done = False
    write_now(engine, lambda connection: _note(connection, done))
    return done


def _note(connection: Connection, done: bool) -> None:
    if done:
        connection.execute(delete(meta).where(meta.c.key == DUE))
    else:
        upsert(connection, meta, {"key": DUE, "value": ""}, keep=True)


def is_due(engine: Engine) -> bool:
    """Whether an earlier one could not be done."""
    with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        return connection.scalar(select(meta.c.value).where(meta.c.key == DUE)) is not None


def _lite(connection: Connection) -> bool:
    connection.exec_driver_sql("VACUUM")
    busy, *_ = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()
    return not busy


def _postgres(connection: Connection) -> bool:
    connection.exec_driver_sql(f"SET lock_timeout = '{PATIENCE}s'")
    try:
        for table in metadata.sorted_tables:
            connection.exec_driver_sql(f'VACUUM (FULL) "{table.name}"')
    finally:
        connection.exec_driver_sql("RESET lock_timeout")
    return True
