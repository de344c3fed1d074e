"""What a coordinator sees at a glance: how far the study is, where people are, what it costs. Reads, never writes.

People are pseudonyms; no Prolific id is read here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from stillme.study.bundle import COMMENT, Bundle
from stillme.study.db import seats
from stillme.study.db.keys import Keys
from stillme.study.db.seats import Card
from stillme.study.db.tables import answer, bonus, opening, participant, payment, seat, sitting
from stillme.study.prolific.wage import Wage, measured
from stillme.study.server import coordinators, entering
from stillme.study.server.quality import Agreement, Quality, agreement, answered, raters

# Where people are now; everybody is at one of these places.
PLACES = {
    "arrived": "Arrived, not agreed yet",
    "declined": "Did not agree",
    "consented": "Agreed, in the tutorial",
    "tutored": "Tutorial done, no task yet",
    "active": "At work",
    "complete": "Complete",
    "returned": "Returned to Prolific",
    "timed_out": "Timed out",
    "withdrew": "Withdrew",
    "released": "Released by a coordinator",
}
STATES = {"active": "at work", "complete": "complete", "returned": "returned", "timed_out": "timed out"}


@dataclass(frozen=True)
class Seat:
    """A place of a task and who holds it. `lease`: when it is given away without a sign of life."""

    task: str
    slot: int
    rater: str
    state: str
    began: float
    lease: float | None
    done: int
    of: int


@dataclass(frozen=True)
class Comment:
    rater: str
    task: str
    item: str
    text: str
    at: float


@dataclass(frozen=True)
class Cost:
    """Money so far, in major units, without Prolific's fees. `bonuses`: state of the payment -> sum."""

    currency: str
    complete: int
    rewards: float
    bonuses: Mapping[str, float]

    @property
    def total(self) -> float:
        return self.rewards + sum(self.bonuses.values())


@dataclass(frozen=True)
class Overview:
    """Everything of the dashboard."""

    cards: Sequence[Card]
    seats: Sequence[Seat]
    places: Mapping[str, int]
    turned_away: int
    raters: Sequence[Quality]
    agreement: Sequence[Agreement]
    cost: Cost
    wage: Wage
    comments: int
    is_paused: bool
    now: float

    @property
    def complete(self) -> int:
        return sum(card.complete for card in self.cards)

    @property
    def of(self) -> int:
        return sum(card.seats for card in self.cards)

    @property
    def entered(self) -> int:
        return sum(self.places.values())

    @property
    def marked(self) -> Sequence[Quality]:
        """Raters of whom there is something to say, first those whom the analysis leaves out."""
        found = [one for one in self.raters if one.excluded or one.flags]
        return sorted(found, key=lambda one: not one.is_removed)


def overview(connection: Connection, bundle: Bundle, keys: Keys, now: float) -> Overview:
    given = answered(connection)
    return Overview(
        cards=list(seats.board(connection, bundle).values()),
        seats=held(connection, bundle, keys),
        places=places(connection),
        turned_away=coordinators.surplus(connection),
        raters=raters(connection, bundle, keys, given),
        agreement=agreement(connection, bundle, given),
        cost=cost(connection, bundle),
        wage=measured(connection, bundle),
        comments=_comments(connection),
        is_paused=entering.is_paused(connection),
        now=now,
    )


def held(connection: Connection, bundle: Bundle, keys: Keys) -> list[Seat]:
    """The seats that somebody holds, complete ones included."""
    counted = connection.execute(
        select(opening.c.sitting, func.count().label("n"))
        .where(opening.c.done.is_not(None))
        .group_by(opening.c.sitting)
    )
    done = {row.sitting: row.n for row in counted}
    rows = connection.execute(
        select(seat, sitting.c.participant, sitting.c.state, sitting.c.began)
        .join(sitting, sitting.c.id == seat.c.sitting)
        .order_by(seat.c.task, seat.c.slot)
    )
    return [
        Seat(
            task=row.task,
            slot=row.slot,
            rater=keys.pseudonym(row.participant),
            state=row.state,
            began=row.began,
            lease=row.lease,
            done=done.get(row.sitting, 0),
            of=len(bundle.task[row.task].items),
        )
        for row in rows
    ]


def places(connection: Connection) -> dict[str, int]:
    """Place -> how many people are there now."""
    rows = connection.execute(
        select(
            participant.c.consented, participant.c.declined, participant.c.tutored, sitting.c.state
        ).select_from(participant.outerjoin(sitting, sitting.c.participant == participant.c.id))
    )
    counts = Counter(
        row.state
        or (row.declined is not None and "declined")
        or (row.consented is None and "arrived")
        or (row.tutored is None and "consented")
        or "tutored"
        for row in rows
    )
    return {place: counts[place] for place in PLACES}


def cost(connection: Connection, bundle: Bundle) -> Cost:
    complete = (
        connection.scalar(select(func.count()).select_from(sitting).where(sitting.c.state == "complete")) or 0
    )
    rows = connection.execute(
        select(payment.c.state, func.sum(bonus.c.amount).label("amount"))
        .join(bonus, bonus.c.payment == payment.c.id)
        .group_by(payment.c.state)
    )
    pay = bundle.settings.pay
    return Cost(
        currency=pay.currency,
        complete=complete,
        rewards=complete * pay.reward,
        bonuses={row.state: int(row.amount) / 100 for row in rows},
    )


def _comments(connection: Connection) -> int:
    written = select(func.count()).select_from(answer).where(answer.c.field == COMMENT, answer.c.value != "")
    return connection.scalar(written) or 0


def comments(connection: Connection, keys: Keys, rater: str = "", most: int = 500) -> list[Comment]:
    """What people wrote, the latest first; of one rater, or of all."""
    rows = connection.execute(
        select(answer.c.item, answer.c.value, answer.c.at, sitting.c.participant, sitting.c.task)
        .join(sitting, sitting.c.id == answer.c.sitting)
        .where(answer.c.field == COMMENT, answer.c.value != "")
        .order_by(answer.c.at.desc())
    )
    found = (Comment(keys.pseudonym(row.participant), row.task, row.item, row.value, row.at) for row in rows)
    return [one for one in found if not rater or one.rater == rater][:most]
