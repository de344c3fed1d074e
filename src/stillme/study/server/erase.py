"""Somebody wants their data gone: everything is deleted, or ratings are kept and nothing leads back to anybody.

A tombstone with the keyed hash of the id stays, so that nobody takes part again after erasing; sums that were paid
stay, without whom. Copies made earlier (exports, imports, backups) are not reached.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from sqlalchemy import Column, Connection, Engine, Table, delete, select, update

from stillme.core.errors import InputError
from stillme.study.bundle import COMMENT
from stillme.study.db import seats
from stillme.study.db.keys import Keys, new_id
from stillme.study.db.store import upsert, write_now
from stillme.study.db.tables import (
    answer,
    audit,
    bonus,
    identity,
    lesson,
    opening,
    operation,
    participant,
    payment,
    seat,
    session,
    sitting,
    submission,
    tombstone,
)
from stillme.study.server.scrub import LATER, overwrite, scrub

How = Literal["delete", "detach"]
GONE = "erased-"  # what stands for the hash of an id that is not known any more
DAY = 86_400
TELLING = 12  # characters: an id of so many is in no other word; ours and Prolific's have more
DONE = {"delete": "deleted", "detach": "detached"}
UNPAID = ("ACTIVE", "AWAITING REVIEW", "RESERVED")
# Where a time tells when somebody was here.
TIMES: tuple[tuple[Table, tuple[str, ...]], ...] = (
    (participant, ("created", "guided", "consented", "declined", "tutored", "debriefed")),
    (sitting, ("began", "ended", "clock")),
    (opening, ("opened", "done")),
    (answer, ("at",)),
    (operation, ("at", "received")),
    (lesson, ("at",)),
)

Say = Callable[[str], None]


@dataclass(frozen=True)
class Erased:
    """What was done. `freed`: a place became free; `open_at_prolific`: the submission still waits for approval."""

    how: How
    answers: int
    freed: bool
    open_at_prolific: bool
    scrubbed: bool

    @property
    def text(self) -> str:
        """For whoever runs the study; the id is not repeated."""
        kept = f"{self.answers} answers are kept under a new pseudonym" if self.how == "detach" else ""
        gone = f"{self.answers} answers and everything else about this person were deleted"
        lines = [f"Done: {kept or gone}. They cannot take part again."]
        if self.freed:
            lines.append("Their place is free again.")
        if self.open_at_prolific:
            lines.append("Their submission is not approved at Prolific yet: do that there, by hand.")
        if not self.scrubbed:
            lines.append(LATER)
        return "\n".join(
            [*lines, "Exports, imports and backups made before are not changed: remove or replace them."]
        )


def erase(
    engine: Engine, keys: Keys, pid: str, how: How, now: float, who: str = "command", say: Say = print
) -> Erased:
    """Erases the person with a Prolific id, in one transaction."""
    answers, freed, is_open = write_now(engine, lambda connection: _erase(connection, keys, pid, how, now, who))
    done = Erased(how, answers, freed, is_open, scrub(engine))
    say(done.text)
    return done


def _erase(connection: Connection, keys: Keys, pid: str, how: How, now: float, who: str) -> tuple[int, bool, bool]:
    overwrite(connection)
    person = _find(connection, keys, pid)
    _paid(connection, person)
    sat = connection.scalar(select(sitting.c.id).where(sitting.c.participant == person))
    names = _names(connection, keys, person, sat)
    is_open = connection.scalar(select(submission.c.status).where(submission.c.participant == person)) in UNPAID
    answers = _count(connection, sat)
    freed = _leave(connection, sat, how, now)
    _forget(connection, person)
    if how == "detach" and sat is not None:
        _detach(connection, person, sat)
    else:
        _delete(connection, person, sat)
    _unname(connection, names)
    upsert(connection, tombstone, {"pid_hash": keys.person(pid), "how": DONE[how], "at": now})
    row = {"at": now, "who": who, "what": "erase", "about": "", "detail": DONE[how]}
    connection.execute(audit.insert().values(row))
    return answers, freed, is_open


def _find(connection: Connection, keys: Keys, pid: str) -> str:
    hashed = keys.person(pid)
    found = connection.scalar(select(participant.c.id).where(participant.c.pid_hash == hashed).with_for_update())
    if found is not None:
        return str(found)
    buried = connection.execute(select(tombstone).where(tombstone.c.pid_hash == hashed)).one_or_none()
    if buried is not None:
        day = datetime.fromtimestamp(buried.at, UTC).date().isoformat()
        raise InputError(f"This person's data were {buried.how} already, on {day}.", "Nothing is left to do.")
    raise InputError(
        "Nobody with this Prolific id has entered this study.",
        "Check the id (24 characters, from the participant's message), the bundle and the data folder.",
    )


def _paid(connection: Connection, person: str) -> None:
    """Nobody loses a bonus by asking for something else."""
    state = connection.scalar(
        select(payment.c.state)
        .join(bonus, bonus.c.payment == payment.c.id)
        .where(bonus.c.participant == person, payment.c.state != "paid")
    )
    if state is not None:
        raise InputError(
            f"This person's bonus is not paid yet (it is {state}), and cannot be paid once they are erased.",
            "Finish stillme study prolific bonus first, then erase.",
        )


def _names(connection: Connection, keys: Keys, person: str, sat: str | None) -> set[str]:
    """Everything by which this person may be named in the log."""
    known = connection.execute(select(identity).where(identity.c.participant == person)).one_or_none()
    outside = {known.pid, known.submission} if known is not None else set()
    return {person, keys.pseudonym(person), *outside, *([sat] if sat else [])}


def _count(connection: Connection, sat: str | None) -> int:
    own = select(answer.c.item).where(answer.c.sitting == sat, answer.c.field != COMMENT)
    return len(connection.execute(own).all())


def _leave(connection: Connection, sat: str | None, how: How, now: float) -> bool:
    """Whether a seat became free. Ratings that are complete and kept keep theirs."""
    if sat is None:
        return False
    state = connection.scalar(select(sitting.c.state).where(sitting.c.id == sat))
    if how == "detach" and state == "complete":
        return False
    held = connection.scalar(select(seat.c.slot).where(seat.c.sitting == sat)) is not None
    seats.free(connection, sat, "withdrew", now)
    return held


def _forget(connection: Connection, person: str) -> None:
    for table in (session, submission, identity):
        connection.execute(delete(table).where(table.c.participant == person))


def _delete(connection: Connection, person: str, sat: str | None) -> None:
    for table in (operation, answer, opening):
        connection.execute(delete(table).where(table.c.sitting == sat))
    connection.execute(delete(lesson).where(lesson.c.participant == person))
    connection.execute(delete(sitting).where(sitting.c.participant == person))
    if connection.scalar(select(bonus.c.amount).where(bonus.c.participant == person)) is not None:
        nobody = new_id()
        connection.execute(participant.insert().values(id=nobody, pid_hash=GONE + nobody, created=0.0))
        connection.execute(
            update(bonus).where(bonus.c.participant == person).values(participant=nobody, reason="")
        )
    connection.execute(delete(participant).where(participant.c.id == person))


def _detach(connection: Connection, person: str, sat: str) -> None:
    """The same rows under new names and at other times: everything begins at midnight, its pace stays."""
    connection.execute(delete(answer).where(answer.c.sitting == sat, answer.c.field == COMMENT))
    connection.execute(delete(operation).where(operation.c.sitting == sat, operation.c.kind == COMMENT))
    created = connection.scalar(select(participant.c.created).where(participant.c.id == person)) or 0.0
    for table, names in TIMES:
        owner = table.c.sitting == sat if "sitting" in table.c else _owner(table) == person
        earlier = {name: table.c[name] - created % DAY for name in names}
        connection.execute(update(table).where(owner).values(earlier))
    nobody, moved = new_id(), new_id()
    _copy(connection, participant, person, {"id": nobody, "pid_hash": GONE + nobody, "address_hash": None})
    _copy(connection, sitting, sat, {"id": moved, "participant": nobody})
    _move(connection, (table.c.sitting for table in (seat, opening, answer, operation)), sat, moved)
    _move(connection, (lesson.c.participant, bonus.c.participant), person, nobody)
    connection.execute(delete(sitting).where(sitting.c.id == sat))
    connection.execute(delete(participant).where(participant.c.id == person))


def _owner(table: Table) -> Column[Any]:
    return table.c.id if table is participant else table.c.participant


def _copy(connection: Connection, table: Table, key: str, changed: dict[str, Any]) -> None:
    row = connection.execute(select(table).where(table.c.id == key)).one()
    connection.execute(table.insert().values({**row._mapping, **changed}))


def _move(connection: Connection, columns: Iterable[Column[Any]], old: str, new: str) -> None:
    for column in columns:
        connection.execute(update(column.table).where(column == old).values({column.name: new}))


def _unname(connection: Connection, names: set[str]) -> None:
    """The log keeps what was done, not to whom."""
    named = re.compile("|".join(map(_pattern, names)), re.IGNORECASE)
    rows = connection.execute(select(audit.c.id, audit.c.about, audit.c.detail)).all()
    found = [row.id for row in rows if named.search(f"{row.about}\n{row.detail}")]
    connection.execute(update(audit).where(audit.c.id.in_(found)).values(about="", detail=""))


def _pattern(name: str) -> str:
    """A pilot's own name may be a letter: as a part of other words it names nobody."""
    return re.escape(name) if len(name) >= TELLING else rf"(?<!\w){re.escape(name)}(?!\w)"
