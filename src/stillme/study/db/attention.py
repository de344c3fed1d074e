"""Attention checks: how many somebody passed, and how many have to be. The one place where that is counted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, select

from stillme.study.bundle import CHECK, Bundle
from stillme.study.db.deal import Deal, is_passed
from stillme.study.db.seats import Sitting
from stillme.study.db.tables import answer


@dataclass(frozen=True)
class Attention:
    """`open`: checks that have no answer, and so are not passed."""

    passed: int
    asked: int
    open: int = 0

    @property
    def share(self) -> float:
        """Whoever was asked nothing failed nothing."""
        return self.passed / self.asked if self.asked else 1.0

    def is_enough(self, share: float) -> bool:
        return self.passed >= needed(self.asked, share)

    def __str__(self) -> str:
        return f"{self.passed} of {self.asked} attention checks"


def needed(checks: int, share: float) -> int:
    """How many of so many attention checks have to be passed: ⌈share · checks⌉.

    >>> [needed(checks, 0.8) for checks in (3, 4, 5)]
    [3, 4, 4]
    """
    return math.ceil(share * checks - 1e-9)


def counted(bundle: Bundle, deal: Deal, tried: Mapping[str, str]) -> Attention:
    """`tried`: item -> the answer to its check."""
    checks = [screen for screen in deal.screens if screen.check is not None]
    passed = sum(is_passed(bundle, screen, tried[screen.item]) for screen in checks if screen.item in tried)
    return Attention(passed, len(checks), sum(screen.item not in tried for screen in checks))


def attention(connection: Connection, bundle: Bundle, sat: Sitting) -> Attention:
    """Of one sitting."""
    rows = connection.execute(
        select(answer.c.item, answer.c.value).where(answer.c.sitting == sat.id, answer.c.field == CHECK)
    )
    return counted(bundle, sat.deal, {row.item: row.value for row in rows})
