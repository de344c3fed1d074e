"""What the study pays an hour, against the floor that its protocol sets: by the clock where people have finished,
else by the estimate."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from sqlalchemy import Connection, select

from stillme.core.errors import InputError
from stillme.study.bundle import Bundle
from stillme.study.db.tables import participant, sitting, submission

FEW = 3  # people: fewer durations tell nothing


@dataclass(frozen=True)
class Wage:
    """`minutes`: the median of those who finished (`people` of them), or the longest that was estimated (0)."""

    currency: str
    reward: float
    minutes: float
    floor: float
    people: int

    @property
    def per_hour(self) -> float:
        return self.reward * 60 / self.minutes

    @property
    def is_enough(self) -> bool:
        return round(self.per_hour, 2) >= round(self.floor, 2)

    @property
    def enough(self) -> float:
        """The least reward that reaches the floor, in whole minor units."""
        return -(-round(self.floor * self.minutes / 60 * 100, 6) // 1) / 100

    def __str__(self) -> str:
        how = f"the median of {self.people} people" if self.people else "as estimated"
        return (
            f"{self.reward:.2f} {self.currency} for {self.minutes:.0f} minutes ({how}) is"
            f" {self.per_hour:.2f} {self.currency} an hour; the floor is {self.floor:.2f}"
        )


def measured(connection: Connection, bundle: Bundle, reward: float | None = None) -> Wage:
    """The wage by what the database knows; the reward is the bundle's unless another is meant."""
    pay = bundle.settings.pay
    durations = minutes(connection)
    known = len(durations) >= FEW
    return Wage(
        currency=pay.currency,
        reward=pay.reward if reward is None else reward,
        minutes=statistics.median(durations) if known else float(max(bundle.settings.estimated_minutes)),
        floor=pay.per_hour,
        people=len(durations) if known else 0,
    )


def minutes(connection: Connection) -> list[float]:
    """How long each finisher took: as Prolific measured it, else from arriving to the last item."""
    rows = connection.execute(
        select(submission.c.seconds, participant.c.created, sitting.c.ended)
        .select_from(
            sitting.join(participant, participant.c.id == sitting.c.participant).outerjoin(
                submission, submission.c.participant == participant.c.id
            )
        )
        .where(sitting.c.state == "complete")
    )
    seconds = [row.seconds or (row.ended or 0) - row.created for row in rows]
    return [one / 60 for one in seconds if one > 0]


def guard(wage: Wage, is_allowed: bool) -> None:
    """A study below the floor does not start, unless told otherwise."""
    if not wage.is_enough and not is_allowed:
        raise InputError(
            f"The study pays too little: {wage}.",
            f"Pay {wage.enough:.2f} {wage.currency} (--reward), or say --below-floor if that is meant.",
        )
