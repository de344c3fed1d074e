"""The writer thread: a request that is given up, at whatever moment, takes nobody else's answer with it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, select
from sqlalchemy.exc import OperationalError

from stillme.study.db.store import Lite, connect, prepare, upsert
from stillme.study.db.tables import meta


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Lite]:
    engine = connect(f"sqlite:///{tmp_path / 'study.db'}")
    prepare(engine)
    made = Lite(engine)
    yield made
    made.close()


def put(key: str) -> Any:
    return lambda connection: upsert(connection, meta, {"key": key, "value": "kept"})


def kept(store: Lite) -> set[str]:
    with store.engine.connect() as connection:
        return set(connection.scalars(select(meta.c.key).where(meta.c.value == "kept")))


class GivenUp(Future[None]):
    """Given up in the very moment after somebody has looked whether it was."""

    def cancelled(self) -> bool:
        was = super().cancelled()
        self.cancel()
        return was


def test_a_write_given_up_at_the_worst_moment_does_not_stop_the_writer(store: Lite) -> None:
    store._waiting.put((put("first"), GivenUp()))
    asyncio.run(asyncio.wait_for(store.write(put("second")), 60))
    assert kept(store) == {"first", "second"}


def test_a_write_given_up_in_the_queue_is_never_made(store: Lite) -> None:
    begun, go = threading.Event(), threading.Event()

    def slow(connection: Connection) -> None:
        begun.set()
        assert go.wait(60)

    async def three() -> None:
        first = asyncio.create_task(store.write(slow))
        await asyncio.to_thread(begun.wait, 60)
        second = asyncio.create_task(store.write(put("second")))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.sleep(0)
        third = asyncio.create_task(store.write(put("third")))
        await asyncio.sleep(0)
        go.set()
        await asyncio.wait_for(asyncio.gather(first, third), 60)

    asyncio.run(three())
    assert kept(store) == {"third"}


def test_a_unit_that_fails_leaves_the_others_of_its_commit(store: Lite) -> None:
    def fails(connection: Connection) -> None:
        put("half")(connection)
        raise ValueError("no")

    async def three() -> list[Any]:
        writes = (store.write(put("a")), store.write(fails), store.write(put("b")))
        found: list[Any] = await asyncio.gather(*writes, return_exceptions=True)
        return found

    outcomes = asyncio.run(three())
    assert [type(one) for one in outcomes] == [type(None), ValueError, type(None)]
    assert kept(store) == {"a", "b"}


def test_a_disk_that_fills_up_within_a_unit_is_said_as_such(store: Lite) -> None:
    def narrow(connection: Connection) -> None:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages + 2}")

    def much(connection: Connection) -> None:
        for number in range(50):
            upsert(connection, meta, {"key": f"much {number}", "value": "x" * 3_000})

    asyncio.run(store.write(narrow))
    with pytest.raises(OperationalError, match="full"):
        asyncio.run(store.write(much))
    asyncio.run(store.write(put("after")))
    assert kept(store) == {"after"}
