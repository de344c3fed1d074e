"""Far more people at once than places (180 for 30), with returns, timeouts, double tabs, lost replies and a server that is killed twice:
no task has more than its three raters, nobody has two tasks, no acknowledged answer is lost, who finishes has a code."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, func, select

from stillme.study.bundle import Bundle
from stillme.study.db import seats
from stillme.study.db.store import connect, write_now
from stillme.study.db.tables import answer, identity, operation, seat, sitting
from stillme.study.rehearsal.bots import GONE, MANNERS, Bot, Manner, Told
from stillme.study.rehearsal.rehearse import Process, server
from tests.study import bundles
from tests.study.conftest import database, postgres, postgres_server

__all__ = ["database", "postgres", "postgres_server"]

SIZE = 10
TASKS, SEATS, ITEMS = SIZE, 3, 5
PLACES = TASKS * SEATS
LEASE = 4.0  # seconds
KILLS = (10 * SIZE, 50 * SIZE)  # operations on the disk


def patient(manner: str) -> Manner:
    """Somebody who looks again until the study is full."""
    return replace(MANNERS[manner], looks=1_000, every=1.5)


MINDS = (  # who comes
    *[("returns", patient("returns"))] * (SIZE * 5 // 2),
    *[("vanishes", patient("vanishes"))] * (SIZE * 5 // 2),
    *[("tabs", MANNERS["tabs"])] * (SIZE * 4 // 2),
    *[("flaky", MANNERS["flaky"])] * (SIZE * 4 // 2),
    *[("plain", MANNERS["plain"])] * (SIZE * 4 // 2),
    *[("declines", MANNERS["declines"])] * (SIZE * 2 // 2),
    *[("honest", MANNERS["honest"])] * (SIZE * 12 // 2),
    *[("patient", patient("quick"))] * (SIZE * 4 // 2),
)
STAYING = ("active", "complete")


class Watch:
    """Looks into the database all the time, beside the server; what must never be is written down."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.wrong: list[str] = []
        self.looks = self.operations = self.complete = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            while not self._is_over.wait(0.1):
                self._look(connection)

    def _look(self, connection: Connection) -> None:
        self.looks += 1
        rows = connection.execute(select(sitting.c.task, sitting.c.state, sitting.c.participant)).all()
        at_work = Counter(row.task for row in rows if row.state in STAYING)
        self.wrong += [f"{n} raters at {task}" for task, n in at_work.items() if n > SEATS]
        self.wrong += [f"{n} tasks of one" for n in Counter(row.participant for row in rows).values() if n > 1]
        self.complete = sum(row.state == "complete" for row in rows)
        self.operations = connection.scalar(select(func.count()).select_from(operation)) or 0


class Storm:
    """The people, the server that they come to, and what happens to it."""

    def __init__(self, engine: Engine, served: Process, watch: Watch) -> None:
        self.engine, self.served, self.watch = engine, served, watch
        self.returned = self.came_back = 0

    def people(self) -> list[Bot]:
        def bot(number: int, kind: str, manner: Manner) -> Bot:
            name = f"{kind}{number:03d}"
            link = f"/p/start?PROLIFIC_PID={name}&STUDY_ID=storm&SESSION_ID=s{number:03d}"
            return Bot(self.served.base, link, name, manner, "storm", lambda: self.watch.complete == PLACES)

        return [bot(number, *mind) for number, mind in enumerate(MINDS)]

    async def rage(self) -> list[Told]:
        bots = self.people()
        killing = asyncio.create_task(self._kill())
        told = await asyncio.gather(*(self._visit(bot) for bot in bots))
        await killing
        return list(told)

    async def _visit(self, bot: Bot) -> Told:
        told = await bot.run()
        if told.end != GONE:
            return told
        if told.name.startswith("returns"):
            is_freed = await asyncio.to_thread(write_now, self.engine, lambda c: _return(c, told.name))
            self.returned += is_freed
        else:
            await asyncio.sleep(LEASE * 1.5)
        self.came_back += 1
        return await bot.run()

    async def _kill(self) -> None:
        """Twice, when enough is on the disk."""
        for mark in KILLS:
            while self.watch.operations < mark:
                await asyncio.sleep(0.02)
            await asyncio.to_thread(self.served.kill)
            await asyncio.to_thread(self.served.start)


def _return(connection: Connection, pid: str) -> bool:
    """As when Prolific says that somebody has returned."""
    mine = select(sitting.c.id).join(identity, identity.c.participant == sitting.c.participant)
    found = connection.scalar(mine.where(identity.c.pid == pid))
    return found is not None and seats.free(connection, found, "returned", time.time())


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    return bundles.write(tmp_path / "bundle", items=ITEMS, tasks=TASKS, seats=SEATS)


@pytest.fixture
def served(tmp_path: Path, bundle: Bundle, database: str) -> Iterator[Process]:
    several = ("--workers", "2") if database.startswith("postgresql") else ()
    lease = ("--lease", str(LEASE / 60))
    told = server(
        tmp_path / "bundle", tmp_path / "data", tmp_path / "log", "--database", database, *lease, *several
    )
    yield told.start()
    told.kill()
    assert "Traceback" not in (said := told.log.read_text(encoding="utf-8")), said


@pytest.mark.slow
def test_far_more_people_than_places_arrive_at_once(
    served: Process, database: str, bundle: Bundle, record_property: Callable[[str, object], None]
) -> None:
    engine = connect(database)
    try:
        with Watch(engine) as watch:
            storm = Storm(engine, served, watch)
            told = asyncio.run(storm.rage())
        assert watch.wrong == []
        assert watch.looks > 20
        with engine.connect() as connection:
            check_places(connection, bundle)
            check_codes(connection, told)
            check_answers(connection, told)
            ends = Counter(connection.scalars(select(sitting.c.state)))
    finally:
        engine.dispose()
    assert len(told) == len(MINDS)
    assert ends["returned"] == storm.returned > 0, "nobody who returned had a place"
    assert storm.came_back > storm.returned, "nobody timed out"
    assert sum(one.repeated for one in told) > 5 * SIZE, "the kills went unnoticed"
    requests, repeated = (sum(getattr(one, name) for one in told) for name in ("requests", "repeated"))
    record_property("storm", f"{requests} requests, {repeated} repeated, {watch.looks} looks, {dict(ends)}")


def check_places(connection: Connection, bundle: Bundle) -> None:
    """All places are filled, each by one person."""
    board = seats.board(connection, bundle)
    assert {(card.complete, card.free) for card in board.values()} == {(SEATS, 0)}
    held = connection.execute(
        select(seat.c.task, sitting.c.task.label("own"), sitting.c.participant).join(
            sitting, sitting.c.id == seat.c.sitting
        )
    ).all()
    assert len({row.participant for row in held}) == len(held) == PLACES
    assert all(row.task == row.own for row in held)


def check_codes(connection: Connection, told: list[Told]) -> None:
    """Every finisher has the code of those who finish, whoever declined the other one, nobody else any."""
    rows = connection.execute(
        select(identity.c.pid)
        .join(sitting, sitting.c.participant == identity.c.participant)
        .where(sitting.c.state == "complete")
    )
    finished = {row.pid for row in rows}
    codes = {outcome: seats.code(connection, outcome) for outcome in seats.OUTCOMES}
    assert {one.name for one in told if one.end == "complete"} == finished
    for one in told:
        due = codes["COMPLETED"] if one.name in finished else codes["NO_CONSENT"] if one.end == "declined" else ""
        assert (one.name, one.code) == (one.name, due)


def check_answers(connection: Connection, told: list[Told]) -> None:
    """What a bot was told is saved is there: the operation, and its value unless a newer one came."""
    people = {
        row.pid: row.id
        for row in connection.execute(
            select(identity.c.pid, sitting.c.id).join(sitting, sitting.c.participant == identity.c.participant)
        )
    }
    taken = {
        row.id: (row.sitting, row.refused)
        for row in connection.execute(select(operation.c.id, operation.c.sitting, operation.c.refused))
    }
    kept = {(row.sitting, row.item, row.field): row for row in connection.execute(select(answer))}
    acknowledged = 0
    for one in told:
        for saved in one.saved:
            acknowledged += 1
            if saved.id:
                assert taken[saved.id] == (people[one.name], "")
            if saved.kind in ("answer", "comment"):
                row = kept[people[one.name], saved.item, saved.field]
                assert (
                    row.rev > saved.rev
                    or (row.rev, row.value) == (saved.rev, saved.value)
                    or (not saved.id and row.value == saved.value)
                )
    assert acknowledged > PLACES * ITEMS * 7
