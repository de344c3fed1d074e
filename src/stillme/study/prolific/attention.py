"""How many of a rater's attention checks were answered as they ask."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, select

from stillme.study.bundle import CHECK, Bundle
from stillme.study.deal import is_passed
from stillme.study.seats import Sitting
from stillme.study.tables import answer


@dataclass(frozen=True)
class Attention:
    passed: int
    asked: int

    @property
    def share(self) -> float:
        """Whoever was asked nothing failed nothing."""
        return self.passed / self.asked if self.asked else 1.0

    def __str__(self) -> str:
        return f"{self.passed} of {self.asked} attention checks"


def attention(connection: Connection, bundle: Bundle, sat: Sitting) -> Attention:
    """A check without an answer is not passed."""
    rows = connection.execute(
        select(answer.c.item, answer.c.value).where(answer.c.sitting == sat.id, answer.c.field == CHECK)
    )
    values = {row.item: row.value for row in rows}
    checked = [screen for screen in sat.deal.screens if screen.check is not None]
    passed = sum(is_passed(bundle, screen, values.get(screen.item, "")) for screen in checked)
    return Attention(passed, len(checked))
