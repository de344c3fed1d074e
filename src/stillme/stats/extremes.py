"""The worst of several groups: an interval of the highest rate, or of the lowest, whichever group it belongs to.

Whoever looks for the worst of seven groups finds one by chance. An interval of the group that happens to be the
worst one does not allow for that; this one does, and holds for the truly worst group:

    high   of a highest rate: the largest upper end of all groups. The truly highest group's own end is among them
    low    the largest of the lower ends at a level that is corrected for so many groups (Bonferroni)

and the other way round for a lowest one. A group without an interval leaves open how far out the worst one lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scipy import special

from stillme.stats.intervals import FEWEST_FOR_INTERVAL, LEVEL, wilson


@dataclass(frozen=True)
class Ends:
    """An interval; an end that is not known is None."""

    low: float | None = None
    high: float | None = None

    def flipped(self) -> Ends:
        """Of the same figure with its sign turned round."""
        return Ends(None if self.high is None else -self.high, None if self.low is None else -self.low)


def corrected(groups: int, level: float = LEVEL) -> float:
    """The level at which each of so many intervals is taken for all of them to hold at `level`.

    >>> round(corrected(7), 4)
    0.9929
    """
    return 1 - (1 - level) / max(groups, 1)


def highest(own: Sequence[Ends], at_once: Sequence[Ends]) -> Ends:
    """Of the largest of several figures: `own` intervals, and `at_once` those at the corrected level.

    >>> highest([Ends(0.1, 0.3), Ends(0.2, 0.25)], [Ends(0.08, 0.33), Ends(0.19, 0.26)])
    Ends(low=0.19, high=0.3)
    """
    upper = [one.high for one in own]
    known = [high for high in upper if high is not None]
    lower = [one.low for one in at_once if one.low is not None]
    is_known = bool(upper) and len(known) == len(upper)
    return Ends(max(lower, default=None), max(known) if is_known else None)


def lowest(own: Sequence[Ends], at_once: Sequence[Ends]) -> Ends:
    """Of the smallest of several figures."""
    return highest([one.flipped() for one in own], [one.flipped() for one in at_once]).flipped()


def share_ends(rate: float | None, trials: float, deff: float | None, persons: int, level: float = LEVEL) -> Ends:
    """The interval of `rates` at any level: Wilson's at trials ÷ deff, Student's quantile on persons − 1.

    >>> ends = share_ends(0.25, 240, 2.0, 12)
    >>> round(ends.low, 3), round(ends.high, 3)
    (0.174, 0.346)
    """
    if rate is None or deff is None or persons < FEWEST_FOR_INTERVAL:
        return Ends()
    return Ends(*wilson(rate, trials / deff, _quantile(persons, level)))


def mean_ends(
    mean: float | None, low: float | None, high: float | None, persons: int, level: float, at: float = LEVEL
) -> Ends:
    """Student's interval of persons' means, known at the level `at`, at another one; within −1 and 1 as it was."""
    if mean is None or low is None or high is None or persons < FEWEST_FOR_INTERVAL:
        return Ends()
    half = max(mean - low, high - mean) * _quantile(persons, level) / _quantile(persons, at)
    return Ends(max(mean - half, -1.0), min(mean + half, 1.0))


def _quantile(persons: int, level: float) -> float:
    return float(special.stdtrit(persons - 1, 0.5 + level / 2))
