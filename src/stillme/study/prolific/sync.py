"""What Prolific knows of everybody's submissions, brought here: statuses, codes, and seats that became free.

The list is read whole; people are matched by their submission. What was read earlier never replaces what was read
later. Whoever needs a person's eye is named by submission, never by Prolific id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Connection, select

from stillme.study.db import seats
from stillme.study.db.store import Store, upsert
from stillme.study.db.tables import identity, participant, seat, sitting, submission
from stillme.study.prolific import marks
from stillme.study.prolific.client import (
    AWAITING,
    LIVE,
    PAID_FOR,
    REJECTED,
    RETURNED,
    SCREENED_OUT,
    TIMED_OUT,
    Prolific,
    Submission,
)

# What an end at Prolific makes of a sitting here.
ENDS = {RETURNED: "returned", TIMED_OUT: "timed_out", SCREENED_OUT: "released", REJECTED: "released"}
CHUNK = 100  # submissions of one transaction


@dataclass(frozen=True)
class Change:
    """A submission that has another status than before; `freed`: whether a seat became free."""

    submission: str
    before: str
    after: str
    freed: bool


@dataclass(frozen=True)
class Synced:
    """What a look at Prolific brought, in submissions."""

    counts: dict[str, int]
    changes: tuple[Change, ...]
    surplus: tuple[str, ...]  # they are here, and there was no seat for them
    unfinished: tuple[str, ...]  # they entered the code of those who finish, and did not finish
    uncoded: tuple[str, ...]  # they finished, and handed in without the code
    late: tuple[str, ...]  # they finished here, and Prolific's time ran out

    @property
    def freed(self) -> int:
        return sum(change.freed for change in self.changes)


async def sync(store: Store, client: Prolific, now: float) -> Synced:
    """Reads all submissions and applies them. `now`: when it began."""
    study = await store.read(marks.study)
    changes: list[Change] = []
    chunk: list[Submission] = []
    counts: Counter[str] = Counter()
    async for one in client.submissions(study):
        counts[one.status] += 1
        chunk.append(one)
        if len(chunk) >= CHUNK:
            changes += await _applied(store, chunk, now)
            chunk = []
    changes += await _applied(store, chunk, now)
    return await store.read(lambda connection: _synced(connection, dict(counts), tuple(changes)))


async def _applied(store: Store, chunk: list[Submission], now: float) -> list[Change]:
    ready = tuple(chunk)
    found = await store.write(lambda connection: [note(connection, one, now) for one in ready])
    return [change for change in found if change is not None]


def note(connection: Connection, found: Submission, seen: float) -> Change | None:
    """Keeps a submission as it was `seen` and frees its seat where it ended; what changed."""
    known = connection.execute(
        select(submission.c.status, submission.c.seen, submission.c.participant)
        .where(submission.c.id == found.id)
        .with_for_update()
    ).one_or_none()
    if known is not None and known.seen > seen:
        return None
    person = connection.scalar(select(identity.c.participant).where(identity.c.submission == found.id))
    if person is None and known is not None:  # the identity was removed when its time was over
        person = known.participant
    upsert(connection, submission, _row(found, person, seen))
    freed = _free(connection, person, found.status, seen)
    before = known.status if known is not None else ""
    return Change(found.id, before, found.status, freed) if freed or before != found.status else None


def _row(found: Submission, person: str | None, seen: float) -> dict[str, object]:
    return {
        "id": found.id,
        "participant": person,
        "status": found.status,
        "code": found.code[:64] or None,
        "started": found.started,
        "completed": found.completed,
        "seconds": found.seconds,
        "return_requested": int(found.return_requested),
        "seen": seen,
    }


def _free(connection: Connection, person: str | None, status: str, now: float) -> bool:
    """Whether a seat became free. Who finished here keeps it though Prolific's time ran out."""
    state = ENDS.get(status)
    if state is None or person is None:
        return False
    row = connection.execute(
        select(sitting.c.id, sitting.c.state, seat.c.slot)
        .select_from(sitting.outerjoin(seat, seat.c.sitting == sitting.c.id))
        .where(sitting.c.participant == person)
    ).one_or_none()
    ending = ("active",) if state == "timed_out" else ("active", "timed_out", "complete")
    if row is None or row.state not in ending:
        return False
    return seats.free(connection, row.id, state, now) and row.slot is not None


def _synced(connection: Connection, counts: dict[str, int], changes: tuple[Change, ...]) -> Synced:
    right = marks.codes(connection).get("COMPLETED", "")
    rows = connection.execute(
        select(
            submission.c.id,
            submission.c.status,
            submission.c.code,
            sitting.c.state,
            participant.c.tutored,
        )
        .select_from(
            submission.outerjoin(participant, participant.c.id == submission.c.participant).outerjoin(
                sitting, sitting.c.participant == participant.c.id
            )
        )
        .order_by(submission.c.id)
    ).all()
    handed_in = {AWAITING, *PAID_FOR}
    return Synced(
        counts=counts,
        changes=changes,
        surplus=tuple(r.id for r in rows if r.status in LIVE and r.tutored is not None and r.state is None),
        unfinished=tuple(
            r.id for r in rows if r.status in handed_in and r.code == right and r.state != "complete"
        ),
        uncoded=tuple(r.id for r in rows if r.status in handed_in and r.code != right and r.state == "complete"),
        late=tuple(r.id for r in rows if r.status == TIMED_OUT and r.state == "complete"),
    )


def lines(found: Synced) -> Iterator[str]:
    """The report, for a coordinator."""
    said = ", ".join(f"{count} {status.lower()}" for status, count in sorted(found.counts.items()))
    yield f"Prolific has {sum(found.counts.values())} submissions: {said or 'none'}."
    yield f"{len(found.changes)} changed since the last look; {found.freed} seats became free."
    for what, ids in (
        ("have come through the tutorial and have no seat (choosing, or surplus)", found.surplus),
        ("entered the finishers' code and have not finished here: look before you pay", found.unfinished),
        ("finished here and handed in without the code: they have done the work", found.uncoded),
        ("finished here though their time at Prolific ran out: they have done the work", found.late),
    ):
        if ids:
            yield f"{len(ids)} {what}:"
            yield from (f"  {one}" for one in ids)
