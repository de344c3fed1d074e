"""Who takes part: entering, the steps before a task, and who is asking. Functions over one connection.

A person is known by a keyed hash of the Prolific id; the id itself is in one table that only Prolific's side and
the erasing command read.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, delete, select, update

from stillme.study.db.keys import Keys, new_id, new_token
from stillme.study.db.often import Often
from stillme.study.db.store import added, upsert
from stillme.study.db.tables import identity, lesson, participant, seat, session, sitting, tombstone

SESSION_SECONDS = 4 * 24 * 3600


class RefusedError(Exception):
    """A kind sentence for a rater. `page`: where it is said; `wait`: seconds after which it may be otherwise."""

    def __init__(self, sentence: str, page: str = "", wait: float | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.page = page
        self.wait = wait


@dataclass(frozen=True)
class Launch:
    """Who comes from Prolific, after it was checked: the person, the study there, the submission."""

    pid: str
    study: str
    submission: str


@dataclass(frozen=True)
class Person:
    """Who is asking, and how far they are. `seated`: whether the sitting still holds a seat."""

    id: str
    token: str
    guided: bool
    consented: bool
    declined: bool
    tutored: bool
    debriefed: bool
    sitting: str | None
    task: str | None
    state: str | None
    seated: bool


def enter(
    connection: Connection, keys: Keys, launch: Launch, address: str, now: float, wanted: str | None = None
) -> str:
    """Opens a session for somebody who was let in, new or coming back: the session's token.

    `wanted`: the task that was chosen for them.
    """
    person = keys.person(launch.pid)
    if connection.scalar(select(tombstone.c.at).where(tombstone.c.pid_hash == person)) is not None:
        raise RefusedError("Your data were deleted at your wish, so you cannot take part again.", "closed")
    made = {"id": new_id(), "pid_hash": person, "address_hash": keys.address(address), "created": now}
    made |= {"wanted": wanted}
    if added(connection, participant, made):
        known = {
            "participant": made["id"],
            "pid": launch.pid,
            "study": launch.study,
            "submission": launch.submission,
        }
        if not added(connection, identity, known):
            raise RefusedError("This link belongs to somebody else. Please start from Prolific again.", "closed")
    found = connection.execute(
        select(identity.c.participant, identity.c.submission)
        .join(participant, participant.c.id == identity.c.participant)
        .where(participant.c.pid_hash == person)
    ).one_or_none()
    if found is None or found.submission != launch.submission:
        raise RefusedError(
            "You have taken part in this study before, and everybody can do so once. If you came back to go on,"
            " please use the link of your first visit.",
            "closed",
        )
    token = new_token()
    row = {"token_hash": keys.token_hash(token), "participant": found.participant}
    upsert(connection, session, {**row, "created": now, "expires": now + SESSION_SECONDS})
    return token


_KNOWN = Often(
    select(
        participant.c.id,
        participant.c.guided,
        participant.c.consented,
        participant.c.declined,
        participant.c.tutored,
        participant.c.debriefed,
        sitting.c.id.label("sitting"),
        sitting.c.task,
        sitting.c.state,
        seat.c.sitting.label("seated"),
    )
    .select_from(
        session.join(participant, participant.c.id == session.c.participant)
        .outerjoin(sitting, sitting.c.participant == participant.c.id)
        .outerjoin(seat, seat.c.sitting == sitting.c.id)
    )
    .where(session.c.token_hash == bindparam("of_token"), session.c.expires > bindparam("at"))
)


def who(connection: Connection, keys: Keys, token: str, now: float) -> Person | None:
    """The person behind a session's token, if it is one of ours and has not expired."""
    if not token:
        return None
    row = _KNOWN.first(connection, of_token=keys.token_hash(token), at=now)
    if row is None:
        return None
    person, guided, consented, declined, tutored, debriefed, at_work, task, state, seated = row
    return Person(
        id=person,
        token=token,
        guided=guided is not None,
        consented=consented is not None,
        declined=declined is not None,
        tutored=tutored is not None,
        debriefed=debriefed is not None,
        sitting=at_work,
        task=task,
        state=state,
        seated=seated is not None,
    )


def note(connection: Connection, person: str, step: str, now: float) -> None:
    """That somebody has passed a step (guided, tutored, debriefed); the first time counts."""
    column = participant.c[step]
    connection.execute(update(participant).where(participant.c.id == person, column.is_(None)).values({step: now}))


def wanted(connection: Connection, person: str) -> str | None:
    """The task that was chosen for somebody."""
    return connection.scalar(select(participant.c.wanted).where(participant.c.id == person))


def consent(connection: Connection, person: str, version: str, now: float) -> None:
    """The agreement, with the version of the form that was read. A later one does not replace it."""
    connection.execute(
        update(participant)
        .where(participant.c.id == person, participant.c.consented.is_(None))
        .values(consented=now, consent_version=version, declined=None)
    )


def decline(connection: Connection, person: str, now: float) -> None:
    """Somebody who has not agreed does not agree; who has, withdraws instead."""
    connection.execute(
        update(participant)
        .where(participant.c.id == person, participant.c.consented.is_(None))
        .values(declined=now)
    )


def learn(connection: Connection, person: str, example: int, value: str, right: bool, now: float) -> None:
    """An answer to a tutorial example; the first answer is kept."""
    first = {"participant": person, "example": example, "first": value, "tries": 0, "right": 0, "at": now}
    upsert(connection, lesson, first, keep=True)
    connection.execute(
        update(lesson)
        .where(lesson.c.participant == person, lesson.c.example == example)
        .values(tries=lesson.c.tries + 1, right=int(right), at=now)
    )


def lessons(connection: Connection, person: str) -> dict[int, bool]:
    """Example -> whether its last answer was as expected."""
    rows = connection.execute(select(lesson.c.example, lesson.c.right).where(lesson.c.participant == person))
    return {row.example: bool(row.right) for row in rows}


def leave(connection: Connection, keys: Keys, token: str) -> None:
    """Closes a session; nothing else changes."""
    connection.execute(delete(session).where(session.c.token_hash == keys.token_hash(token)))
