"""Erasing and keeping no longer than needed: what is gone is gone from the files, what stays leads to nobody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, func, select

from stillme.core.errors import InputError
from stillme.study.db import people, seats
from stillme.study.db.keys import new_id
from stillme.study.db.people import RefusedError
from stillme.study.db.store import Lite, connect, upsert
from stillme.study.db.tables import (
    answer,
    audit,
    bonus,
    hook,
    identity,
    metadata,
    operation,
    participant,
    payment,
    session,
    sitting,
    submission,
    tombstone,
)
from stillme.study.server.erase import Erased, erase
from stillme.study.server.export import export
from stillme.study.server.retention import DAY, retain
from tests.study import bundles
from tests.study.conftest import ON_BOTH_DATABASES
from tests.study.db.test_core import KEYS, Desk, op
from tests.study.postgres import Server

PID = "5f3c0ffee0ddba11cafe0001"
SUBMISSION = "64aaaaaaaaaaaaaaaaaa0002"
COMMENT = "my name is Anna of the long comment"


@pytest.fixture
def desk(database: str) -> Iterator[Desk]:
    made = Desk(database, bundles.make(retention_days=90)[0])
    made.now = 1_700_000_000.0
    yield made
    made.engine.dispose()


def rated(desk: Desk, complete: bool = True) -> tuple[str, str]:
    """Somebody who rated, commented, was excluded in the log and handed in: the person and the sitting."""
    person = desk.enter(PID, SUBMISSION)
    desk.do(lambda c: people.consent(c, person, "c1", desk.now))
    desk.do(lambda c: people.learn(c, person, 1, "1", True, desk.now))
    sat = desk.take(person)
    item = desk.do(lambda c: seats.sit(c, sat)).deal.screens[0].item
    desk.send(sat, op("comment", item, value=COMMENT))
    for number in range(4 if complete else 1):
        desk.rate(sat, number)
    if complete:
        desk.finish(sat)
    desk.do(lambda c: _prolific(c, desk, person))
    return person, sat


def _prolific(connection: Connection, desk: Desk, person: str) -> None:
    row = {"id": SUBMISSION, "participant": person, "status": "APPROVED", "seen": desk.now}
    upsert(connection, submission, row)
    logged = {"at": desk.now, "who": "maria", "what": "exclude", "about": KEYS.pseudonym(person), "detail": "late"}
    connection.execute(audit.insert().values(logged))


def erased(desk: Desk, how: Any = "delete", pid: str = PID) -> Erased:
    return erase(desk.engine, KEYS, pid, how, desk.now, say=lambda said: None)


def dump(desk: Desk) -> str:
    """Every value in every table but the tombstones."""
    with desk.engine.connect() as connection:
        return "\n".join(
            repr(tuple(row))
            for table in metadata.sorted_tables
            if table is not tombstone
            for row in connection.execute(select(table))
        )


def count(desk: Desk, table: Any) -> int:
    return int(desk.do(lambda c: c.scalar(select(func.count()).select_from(table))))


@ON_BOTH_DATABASES
def test_deleting_leaves_nothing_but_the_tombstone(desk: Desk) -> None:
    other = desk.take(desk.enter("bert"))
    desk.rate(other, 0)
    kept = count(desk, answer)
    person, sat = rated(desk)
    done = erased(desk)
    assert done.freed and done.answers >= 24 and "cannot take part again" in done.text and PID not in done.text
    left = dump(desk)
    for trace in (PID, SUBMISSION, person, sat, KEYS.person(PID), KEYS.pseudonym(person), COMMENT):
        assert trace not in left
    assert count(desk, tombstone) == 1 and count(desk, participant) == 1 and count(desk, answer) == kept
    with pytest.raises(RefusedError, match="deleted at your wish"):
        desk.enter(PID, SUBMISSION)
    card = desk.do(lambda c: seats.board(c, desk.bundle))["t00"]
    assert (card.complete, card.held, card.free) == (0, 1, 2)
    desk.rate(other, 1)


def test_detaching_keeps_the_ratings_and_leads_to_nobody(desk: Desk, tmp_path: Path) -> None:
    person, sat = rated(desk)
    before = desk.do(lambda c: c.execute(select(answer.c.item, answer.c.field, answer.c.value, answer.c.at)).all())
    done = erased(desk, "detach")
    assert not done.freed and "new pseudonym" in done.text
    left = dump(desk)
    for trace in (PID, SUBMISSION, person, sat, KEYS.person(PID), KEYS.pseudonym(person), COMMENT):
        assert trace not in left
    assert KEYS.address("127.0.0.1") not in left
    after = desk.do(lambda c: c.execute(select(answer.c.item, answer.c.field, answer.c.value, answer.c.at)).all())
    ratings = sorted(row for row in before if row.field != "comment")
    assert [tuple(row)[:3] for row in sorted(after)] == [tuple(row)[:3] for row in ratings]
    moved = {round(old.at - new.at, 3) for old, new in zip(ratings, sorted(after), strict=True)}
    assert moved == {1_700_000_000.0 % DAY}, "all are moved alike, to another time of the day"
    card = desk.do(lambda c: seats.board(c, desk.bundle))["t00"]
    assert (card.complete, card.free) == (1, 2), "a complete rating keeps its place"
    export(desk.engine, desk.bundle, KEYS, tmp_path / "out", "csv", say=lambda said: None)
    text = (tmp_path / "out" / "ratings.csv").read_text()
    assert text.count("scored") == 24 and KEYS.pseudonym(person) not in text
    with pytest.raises(RefusedError, match="cannot take part again"):
        desk.enter(PID, SUBMISSION)


def test_who_is_detached_at_work_gives_the_place_back(desk: Desk) -> None:
    rated(desk, complete=False)
    assert erased(desk, "detach").freed
    assert desk.do(lambda c: c.scalar(select(sitting.c.state))) == "withdrew"
    assert desk.do(lambda c: seats.board(c, desk.bundle))["t00"].free == 3


def test_who_took_no_task_leaves_no_row(desk: Desk) -> None:
    desk.enter(PID, SUBMISSION)
    erased(desk, "detach")
    assert count(desk, participant) == 0 == count(desk, identity)


def test_unknown_and_erased_already(desk: Desk) -> None:
    with pytest.raises(InputError, match="Nobody with this Prolific id"):
        erased(desk)
    desk.enter(PID)
    erased(desk)
    with pytest.raises(InputError, match="deleted already, on 2023-11-14"):
        erased(desk)
    assert count(desk, tombstone) == 1
    logged = desk.do(lambda c: c.execute(select(audit.c.what, audit.c.about, audit.c.detail)).one())
    assert tuple(logged) == ("erase", "", "deleted")


def test_the_short_name_of_a_pilot_takes_nobody_elses_lines_from_the_log(desk: Desk) -> None:
    desk.enter("a")

    def log(connection: Connection) -> None:
        for detail in ("was late", "said to be a.", "asked twice"):
            row = {"at": desk.now, "who": "maria", "what": "exclude", "about": "", "detail": detail}
            connection.execute(audit.insert().values(row))

    desk.do(log)
    erased(desk, pid="a")
    kept = desk.do(lambda c: c.scalars(select(audit.c.detail).where(audit.c.what == "exclude")).all())
    assert sorted(kept) == ["", "asked twice", "was late"]


@pytest.mark.parametrize("how", ["delete", "detach"])
def test_paid_sums_stay_without_whom_and_unpaid_ones_come_first(desk: Desk, how: str) -> None:
    person, _ = rated(desk)
    made = new_id()

    def promise(connection: Connection, state: str) -> None:
        upsert(connection, payment, {"id": made, "state": state, "total": 140, "at": desk.now})
        upsert(
            connection, bonus, {"participant": person, "payment": made, "amount": 100, "reason": "passed 4 of 4"}
        )

    desk.do(lambda c: promise(c, "created"))
    with pytest.raises(InputError, match="not paid yet"):
        erased(desk, how)
    assert PID in dump(desk), "the refusal changed nothing"
    desk.do(lambda c: promise(c, "paid"))
    erased(desk, how)
    assert desk.do(lambda c: c.scalar(select(bonus.c.amount))) == 100
    assert person not in dump(desk)


def on_disk(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("how", ["delete", "detach"])
def test_not_a_byte_is_left_in_the_files_while_a_server_runs(tmp_path: Path, how: str) -> None:
    desk = Desk(f"sqlite:///{tmp_path / 'study.db'}", bundles.make()[0])
    server = Lite(connect(str(desk.engine.url)))
    try:
        for number in range(20):
            desk.enter(f"somebody-{number}")
        rated(desk)
        for trace in (PID, SUBMISSION, COMMENT):
            assert trace.encode() in on_disk(tmp_path)
        done = erased(desk, how)
        assert done.scrubbed
        for trace in (PID, SUBMISSION, COMMENT):
            assert trace.encode() not in on_disk(tmp_path)
        assert b"somebody-7" in on_disk(tmp_path)
        assert desk.enter("one-more")
    finally:
        server.close()
        desk.engine.dispose()


def test_not_a_byte_is_left_in_the_tables_of_postgresql(postgres_server: Server) -> None:
    desk = Desk(postgres_server.database(), bundles.make()[0])
    with desk.engine.connect() as connection:
        tables = str(connection.exec_driver_sql("SELECT pg_relation_filepath('identity')").scalar())
    folder = (postgres_server._data / tables).parent
    rated(desk)
    _checkpoint(desk)
    assert PID.encode() in on_disk(folder)
    assert erased(desk).scrubbed
    _checkpoint(desk)
    for trace in (PID, SUBMISSION, COMMENT):
        assert trace.encode() not in on_disk(folder)
    desk.engine.dispose()


def _checkpoint(desk: Desk) -> None:
    with desk.engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        connection.exec_driver_sql("CHECKPOINT")


def test_who_reads_at_length_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stillme.study.db.store.PATIENCE", 0.1)
    desk = Desk(f"sqlite:///{tmp_path / 'study.db'}", bundles.make()[0])
    desk.enter(PID)
    raw = desk.engine.raw_connection()
    raw.execute("BEGIN")
    raw.execute("SELECT * FROM identity").fetchall()
    done = erased(desk)
    raw.execute("COMMIT")
    raw.close()
    assert not done.scrubbed and "somebody is reading" in done.text
    assert PID.encode() in on_disk(tmp_path)
    assert retain(desk.engine, desk.bundle, desk.now).scrubbed
    assert PID.encode() not in on_disk(tmp_path), "what could not be done then is done later"
    desk.engine.dispose()


def test_addresses_go_after_a_month_and_identities_when_they_are_due(desk: Desk) -> None:
    rated(desk)
    desk.do(lambda c: c.execute(hook.insert().values(event="e1", at=desk.now)))
    noted = {"at": desk.now, "who": "command", "what": "approve", "about": SUBMISSION, "detail": ""}
    desk.do(lambda c: c.execute(audit.insert().values(noted)))
    began = desk.now
    assert not retain(desk.engine, desk.bundle, began + 3600).is_anything
    month = retain(desk.engine, desk.bundle, began + 31 * DAY)
    assert (month.addresses, month.sessions, month.identities) == (1, 1, 0) and month.scrubbed
    assert desk.do(lambda c: c.scalar(select(participant.c.address_hash))) is None
    assert count(desk, session) == 0 and count(desk, identity) == 1
    assert not retain(desk.engine, desk.bundle, began + 31 * DAY).is_anything, "once is enough"
    due = retain(desk.engine, desk.bundle, began + 91 * DAY)
    assert (due.identities, due.submissions, due.hooks) == (1, 1, 1) and "1 identities" in due.text
    assert PID not in dump(desk) and SUBMISSION not in dump(desk) and count(desk, answer) > 20
    assert retain(desk.engine, desk.bundle, began + 92 * DAY).text == "Nothing is due."
    detail = desk.do(lambda c: c.scalars(select(audit.c.detail).where(audit.c.what == "retain")).all())
    assert len(detail) == 2
    erased(desk)  # the keyed hash still finds them
    assert count(desk, operation) == 0


def test_identities_stay_while_somebody_is_to_be_paid(desk: Desk) -> None:
    rated(desk)
    desk.do(lambda c: c.execute(payment.insert().values(id="p", state="planned", at=desk.now)))
    late = desk.now + 200 * DAY
    found = retain(desk.engine, desk.bundle, late)
    assert found.unpaid and not found.identities and "until planned bonuses are paid" in found.text
    desk.do(lambda c: c.execute(payment.update().values(state="paid")))
    assert retain(desk.engine, desk.bundle, late).identities == 1


def test_whoever_is_still_active_keeps_the_study_alive(desk: Desk) -> None:
    rated(desk)
    desk.now += 80 * DAY
    desk.enter("somebody-new")
    assert retain(desk.engine, desk.bundle, desk.now + 30 * DAY).identities == 0
