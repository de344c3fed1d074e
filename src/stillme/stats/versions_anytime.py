"""A mean of bounded differences, looked at person after person: bounds that hold at every look at once.

An interval of a fixed number of persons holds once. Who looks after every person and stops at the first one that
shows something is wrong far more often than 1 time in 20. A confidence sequence holds at all looks together,
P(the mean is within its bounds after every person) ≥ level, so one may stop whenever one likes, for any reason.

It is the hedged capital process of Waudby-Smith and Ramdas (Estimating means of bounded random variables by
betting, J. R. Stat. Soc. B 86, 2024, section 4): for every candidate mean m somebody bets that it is wrong. A
difference d within ± reach becomes x = (d + reach) ÷ 2 reach, within 0 and 1. With α = 1 − level and persons
i = 1 … t,

    λᵢ     = √(2 ln(2/α) ÷ (vᵢ₋₁ · i · ln(i + 1)))           what is bet; v: the variance of the persons before
    K⁺(m)  = Πᵢ (1 + min(λᵢ, c/m) · (xᵢ − m))                 bets that the mean is above m
    K⁻(m)  = Πᵢ (1 − min(λᵢ, c/(1 − m)) · (xᵢ − m))           bets that it is below
    the sequence after t persons = {m : ½ max(K⁺, K⁻) < 1/α}, and what was outside before stays outside.

If m is the mean, no bet gains anything on average, so the capital reaches 1/α with a chance of α at most (Ville).
That holds however λ is chosen from the persons before: the starting variance and c only make it narrower.
Persons have to come in an order that knows nothing of how they came out; who calls sees to that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stillme.stats.intervals import LEVEL

Floats = NDArray[np.float64]
CAP = 0.9  # c: the share of the capital that one person can lose
STARTING_VARIANCE = 0.01  # of x, as if of one person: differences of ± 0.2 between persons, where reach is 1
STEPS = 4_000  # candidate means; bounds lie one step further out, so that none is narrower for it


@dataclass(frozen=True)
class Bounds:
    """After each person, in their order: the mean so far, and the bounds of the sequence."""

    mean: Floats
    low: Floats
    high: Floats

    @property
    def persons(self) -> int:
        return len(self.mean)


def sequence(differences: ArrayLike, level: float = LEVEL, reach: float = 1.0) -> Bounds:
    """The confidence sequence of the mean of `differences`, each within ± `reach`, in the order given.

    >>> found = sequence([0.2, 0.3, 0.1, 0.25] * 15)
    >>> [(round(float(found.low[n - 1]), 2), round(float(found.high[n - 1]), 2)) for n in (10, 30, 60)]
    [(-0.19, 0.48), (0.06, 0.32), (0.13, 0.27)]
    """
    x = (np.asarray(differences, float) + reach) / (2 * reach)
    betting = _Betting(1 - level)
    shares = np.array([betting.after(one) for one in x]).reshape(-1, 2)
    low, high = (2 * reach * shares - reach).T
    means = np.cumsum(x) / np.arange(1, len(x) + 1)
    return Bounds(2 * reach * means - reach, low, high)


class _Betting:
    """The candidates that are still in, and the logarithms of what was won against each."""

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha
        self.means = np.arange(1, STEPS) / STEPS
        self.above, self.below = np.zeros((2, STEPS - 1))
        self.persons, self.sum, self.squares = 0, 0.0, 0.0

    def after(self, x: float) -> tuple[float, float]:
        """One more person: the bounds from here on."""
        self._bet(x)
        self.persons, self.sum = self.persons + 1, self.sum + x
        self.squares += (x - (0.5 + self.sum) / (self.persons + 1)) ** 2
        inside = np.flatnonzero(np.maximum(self.above, self.below) < np.log(2 / self.alpha))
        if len(inside):  # where nothing is left, persons changed on the way: the last bounds stay
            kept = slice(inside[0], inside[-1] + 1)
            self.means, self.above, self.below = self.means[kept], self.above[kept], self.below[kept]
        step = 1 / STEPS
        return float(self.means[0] - step), float(self.means[-1] + step)

    def _bet(self, x: float) -> None:
        number = self.persons + 1
        variance = (STARTING_VARIANCE + self.squares) / number
        size = np.sqrt(2 * np.log(2 / self.alpha) / (variance * number * np.log(number + 1)))
        away = x - self.means
        self.above += np.log1p(np.minimum(size, CAP / self.means) * away)
        self.below += np.log1p(-np.minimum(size, CAP / (1 - self.means)) * away)
