"""The gate of a calibration: what a judge has to show, rule by rule, and what can be said of each.

A rule is met, failed, or cannot be told: an estimate on the wrong side fails only where the whole interval is
there too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Ruling(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    UNTOLD = "cannot tell"


@dataclass(frozen=True)
class Ruled:
    """One rule for one judge. `about`: the axis, the kinds or the size that it is about. `said`: in a sentence."""

    judge: str
    rule: str
    about: str
    estimate: float | None
    low: float | None
    high: float | None
    threshold: float
    persons: int
    ruling: Ruling
    said: str
    group: str | None = None


Row = Mapping[str, Any]


def at_least(row: Row | None, least: float, fewest: int) -> Ruling:
    """A share that has to reach `least`."""
    if row is None or row["rate"] is None or row["low"] is None or row["persons"] < fewest:
        return Ruling.UNTOLD
    if row["rate"] >= least:
        return Ruling.PASSED
    return Ruling.FAILED if row["high"] < least else Ruling.UNTOLD


def at_most(row: Row | None, most: float, fewest: int) -> Ruling:
    """A mean that must not lie further than `most` from nothing, to either side."""
    if row is None or row["mean"] is None or row["low"] is None or row["persons"] < fewest:
        return Ruling.UNTOLD
    if abs(row["mean"]) <= most:
        return Ruling.PASSED
    return Ruling.FAILED if row["low"] > most or row["high"] < -most else Ruling.UNTOLD


def overall(rulings: list[Ruling]) -> Ruling:
    """One failed rule fails the judge; one that cannot be told leaves it open."""
    for ruling in (Ruling.FAILED, Ruling.UNTOLD):
        if ruling in rulings:
            return ruling
    return Ruling.PASSED if rulings else Ruling.UNTOLD


def percent(share: float | None) -> str:
    return "–" if share is None else f"{share * 100:.0f} %"


def points(value: float | None) -> str:
    """A number of points with its sign, and a true minus.

    >>> points(1.054), points(-0.2)
    ('+1.05', '−0.20')
    """
    return "–" if value is None else f"{value:+.2f}".replace("-", "−")


def spanned(low: float | None, high: float | None) -> str:
    return "no interval" if low is None else f"{points(low)} to {points(high)}"
