"""Seats: who holds which place of which task. Functions over one connection; constraints have the last word.

A seat is held by a sitting while somebody is at work, until its lease runs out without a sign of life; a complete
sitting keeps it for good. Whoever returns, times out or is released frees it; what they answered stays, marked.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, and_, bindparam, func, select, update
from sqlalchemy.exc import IntegrityError

from stillme.core.errors import InputError
from stillme.study.bundle import Bundle
from stillme.study.db.deal import Deal, deal
from stillme.study.db.keys import new_id
from stillme.study.db.people import RefusedError
from stillme.study.db.store import upsert
from stillme.study.db.tables import meta, seat, sitting

RENEWED_BELOW = 0.9  # of the lease: a sign of life is written once in a while, it only has to outlive it
LEASE = 30 * 60  # seconds without a sign of life after which somebody else may have the seat
# One completion code an outcome, as Prolific calls them; people only ever see their own.
OUTCOMES = ("COMPLETED", "NO_CONSENT", "FAILED_ATTENTION_CHECK", "INCOMPATIBLE_DEVICE")
ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # nothing that is mistaken for something else

FULL = (
    "All places of this study are taken. Thank you for coming. Please return your submission on Prolific by"
    " choosing “Stop without completing”: that does not count against you. If somebody leaves, a place may open up"
    " again."
)


@dataclass(frozen=True)
class Sitting:
    """One person at one task."""

    id: str
    participant: str
    task: str
    state: str
    deal: Deal


@dataclass(frozen=True)
class Card:
    """How a task stands: complete and held seats, of all."""

    task: str
    complete: int
    held: int
    seats: int

    @property
    def free(self) -> int:
        return self.seats - self.complete - self.held


def attach(connection: Connection, bundle: Bundle, now: float) -> None:
    """Makes the seats and completion codes of a new study; refuses the database of another bundle."""
    upsert(connection, meta, {"key": "bundle", "value": bundle.hash}, keep=True)
    known = connection.scalar(select(meta.c.value).where(meta.c.key == "bundle"))
    if known != bundle.hash:
        raise InputError(
            f"This database holds the answers to another bundle ({str(known)[:12]}, not {bundle.hash[:12]}).",
            "Give another --data folder or --database; answers to different bundles are never mixed.",
        )
    upsert(connection, meta, {"key": "created", "value": repr(now)}, keep=True)
    for outcome in OUTCOMES:
        upsert(connection, meta, {"key": f"code:{outcome}", "value": _code()}, keep=True)
    for task in bundle.tasks:
        for slot in range(1, task.seats + 1):
            upsert(connection, seat, {"task": task.id, "slot": slot}, keep=True)


def _code() -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(8))


def code(connection: Connection, outcome: str) -> str:
    found = connection.scalar(select(meta.c.value).where(meta.c.key == f"code:{outcome}"))
    assert found is not None, f"no code for {outcome}"
    return str(found)


def take(connection: Connection, bundle: Bundle, person: str, task: str, now: float, lease: float = LEASE) -> str:
    """Seats somebody at a task: the id of their sitting. Who has one keeps it; a task that is full is refused."""
    mine = connection.execute(
        select(sitting.c.id, sitting.c.task).where(sitting.c.participant == person)
    ).one_or_none()
    if mine is not None:
        if mine.task != task:
            raise RefusedError("You have chosen a task already, and everybody can do one.", "tasks")
        resume(connection, mine.id, now, lease)
        return str(mine.id)
    slot = _free_slot(connection, task)
    made = new_id()
    seed = secrets.token_hex(8)
    row = {"id": made, "participant": person, "task": task, "slot": slot, "state": "active", "seed": seed}
    dealt = deal(bundle, task, seed).model_dump_json()
    try:
        with connection.begin_nested():
            connection.execute(
                sitting.insert().values(**row, dealt=dealt, began=now, clock=now, away=0, away_seconds=0.0)
            )
    except IntegrityError:  # another tab was quicker
        return take(connection, bundle, person, task, now, lease)
    _hold(connection, task, slot, made, now + lease)
    return made


def _free_slot(connection: Connection, task: str) -> int:
    free = (
        select(seat.c.slot)
        .where(seat.c.task == task, seat.c.sitting.is_(None))
        .order_by(seat.c.slot)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    found = connection.scalar(free)
    if found is None:
        raise RefusedError(
            "Somebody else has just taken the last place of this task. Please choose another.", "tasks"
        )
    return int(found)


def _hold(connection: Connection, task: str, slot: int, made: str, until: float) -> None:
    held = connection.execute(
        update(seat)
        .where(seat.c.task == task, seat.c.slot == slot, seat.c.sitting.is_(None))
        .values(sitting=made, lease=until)
    )
    if not held.rowcount:
        raise RefusedError(
            "Somebody else has just taken the last place of this task. Please choose another.", "tasks"
        )


def resume(connection: Connection, sitting_id: str, now: float, lease: float = LEASE) -> None:
    """Gives somebody who timed out a seat of the same task again, if one is free; else says so."""
    row = connection.execute(
        select(sitting.c.task, sitting.c.state, seat.c.sitting.label("seated"))
        .select_from(sitting.outerjoin(seat, seat.c.sitting == sitting.c.id))
        .where(sitting.c.id == sitting_id)
    ).one()
    if row.seated is not None:
        return
    if row.state not in ("active", "timed_out"):
        raise RefusedError(
            "Your place was given back, so this task is closed for you. Thank you for your time.", "closed"
        )
    try:
        slot = _free_slot(connection, row.task)
    except RefusedError:
        raise RefusedError(
            "You were away for a long time and your place was given to somebody else. Your answers are kept."
            " Please return your submission on Prolific, or write to us there.",
            "closed",
        ) from None
    _hold(connection, row.task, slot, sitting_id, now + lease)
    connection.execute(
        update(sitting).where(sitting.c.id == sitting_id).values(state="active", ended=None, slot=slot)
    )


_RENEWED = (
    update(seat)
    .where(
        seat.c.sitting == bindparam("of_sitting"),
        seat.c.lease.is_not(None),
        seat.c.lease < bindparam("before"),
    )
    .values(lease=bindparam("until"))
)


def renew(connection: Connection, sitting_id: str, now: float, lease: float = LEASE) -> None:
    """A sign of life."""
    connection.execute(
        _RENEWED, {"of_sitting": sitting_id, "before": now + lease * RENEWED_BELOW, "until": now + lease}
    )


def free(connection: Connection, sitting_id: str, state: str, now: float) -> bool:
    """Ends a sitting that is still at work, and frees its seat. Whether there was one to free.

    One that is complete stays so when time runs out somewhere; who returns, withdraws or is released goes.
    """
    ending = ("active", "timed_out") if state == "timed_out" else ("active", "timed_out", "complete")
    ended = connection.execute(
        update(sitting)
        .where(sitting.c.id == sitting_id, sitting.c.state.in_(ending))
        .values(state=state, ended=now)
    )
    if not ended.rowcount:
        return False
    connection.execute(update(seat).where(seat.c.sitting == sitting_id).values(sitting=None, lease=None))
    return True


def sweep(connection: Connection, now: float) -> list[str]:
    """Frees the seats whose leases have run out; the sittings that it ended."""
    late = connection.scalars(
        select(seat.c.sitting)
        .join(sitting, and_(sitting.c.id == seat.c.sitting, sitting.c.state == "active"))
        .where(seat.c.lease < now)
        .with_for_update(skip_locked=True, of=seat)
    ).all()
    return [one for one in late if one is not None and free(connection, one, "timed_out", now)]


def complete(connection: Connection, sitting_id: str, now: float) -> None:
    """The seat is kept for good."""
    connection.execute(
        update(sitting)
        .where(sitting.c.id == sitting_id, sitting.c.state == "active")
        .values(state="complete", ended=now)
    )
    connection.execute(update(seat).where(seat.c.sitting == sitting_id).values(lease=None))


def board(connection: Connection, bundle: Bundle) -> Mapping[str, Card]:
    """Task -> how it stands, in the bundle's order."""
    rows = connection.execute(
        select(seat.c.task, sitting.c.state, func.count().label("n"))
        .select_from(seat.join(sitting, sitting.c.id == seat.c.sitting))
        .group_by(seat.c.task, sitting.c.state)
    ).all()
    counts = {(row.task, row.state): row.n for row in rows}
    return {
        task.id: Card(
            task=task.id,
            complete=counts.get((task.id, "complete"), 0),
            held=sum(n for (of, state), n in counts.items() if of == task.id and state != "complete"),
            seats=task.seats,
        )
        for task in bundle.tasks
    }


def sit(connection: Connection, sitting_id: str) -> Sitting:
    """The sitting with what was dealt to it."""
    row = connection.execute(select(sitting).where(sitting.c.id == sitting_id)).one()
    return Sitting(row.id, row.participant, row.task, row.state, Deal.model_validate_json(row.dealt))
