"""The cumulative logit: how likely each score is, and how that changes with the predictor and the thresholds.

A score j is seen where a latent value η + logistic noise falls between the thresholds θⱼ₋₁ and θⱼ, so that
P(score ≤ j) = F(θⱼ − η) with F(x) = 1 ÷ (1 + e⁻ˣ). With f = F(1 − F) the logistic makes everything short: writing
a = θⱼ − η and b = θⱼ₋₁ − η, log P = log F(a) + log(1 − F(b)) + log(1 − e^(b − a)), its slope in η is
−(1 − F(a) − F(b)), and its curvature −(f(a) + f(b)), which is never positive. No difference of two near-equal
numbers is taken, so far tails are exact. Knows nothing of persons, designs or frames.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import special

Floats: TypeAlias = NDArray[np.float64]
Codes: TypeAlias = NDArray[np.int64]
TINY = 1e-300  # a chance below this is this
WIDEST = 50.0  # log of the widest gap between thresholds: a step beyond it would overflow


def thresholds(steps: Floats) -> Floats:
    """Ordered thresholds of free numbers: the first, then the logarithms of the gaps.

    >>> thresholds(np.array([-1.0, 0.0, np.log(2.0)])).tolist()
    [-1.0, 0.0, 2.0]
    """
    gaps = np.exp(np.clip(steps[1:], -WIDEST, WIDEST))
    return np.asarray(steps[0] + np.concatenate([[0.0], np.cumsum(gaps)]), np.float64)


def steps_of(theta: Floats) -> Floats:
    """The free numbers of ordered thresholds."""
    return np.concatenate([theta[:1], np.log(np.diff(theta))])


def slopes(theta: Floats) -> Floats:
    """dθ ÷ dsteps, a square matrix: row = threshold, column = step."""
    found = np.zeros((len(theta), len(theta)))
    found[:, 0] = 1.0
    for column, gap in enumerate(np.diff(theta), start=1):
        found[column:, column] = gap
    return found


@dataclass(frozen=True)
class Chances:
    """Of every row (score `y` as a code from 0, predictor `eta`): log P and its derivatives."""

    y: Codes
    eta: Floats
    theta: Floats

    @cached_property
    def upper(self) -> Floats:
        """a: the upper threshold minus η; ∞ for the highest score."""
        return np.append(self.theta, np.inf)[self.y] - self.eta

    @cached_property
    def lower(self) -> Floats:
        """b: the lower threshold minus η; −∞ for the lowest score."""
        return np.append(-np.inf, self.theta)[self.y] - self.eta

    @cached_property
    def below(self) -> Floats:
        """F(a)."""
        return np.asarray(special.expit(self.upper), np.float64)

    @cached_property
    def over(self) -> Floats:
        """1 − F(b), exact where F(b) is next to 1."""
        return np.asarray(special.expit(-self.lower), np.float64)

    @cached_property
    def width(self) -> Floats:
        """1 − e^(b − a), which depends on the score alone."""
        gaps = np.concatenate([[np.inf], np.diff(self.theta), [np.inf]])
        return np.asarray(-np.expm1(-gaps), np.float64)[self.y]

    @cached_property
    def log(self) -> Floats:
        return np.asarray(np.log(np.maximum(self.below * self.over * self.width, TINY)), np.float64)

    @cached_property
    def pull(self) -> Floats:
        """−d log P ÷ dη."""
        return self.over - self.below

    @cached_property
    def upper_density(self) -> Floats:
        return self.below * (1.0 - self.below)

    @cached_property
    def lower_density(self) -> Floats:
        return self.over * (1.0 - self.over)

    @cached_property
    def bend(self) -> Floats:
        """−d² log P ÷ dη², at least 0."""
        return self.upper_density + self.lower_density

    @cached_property
    def upper_turn(self) -> Floats:
        """f′(a)."""
        return self.upper_density * (1.0 - 2.0 * self.below)

    @cached_property
    def lower_turn(self) -> Floats:
        """f′(b)."""
        return self.lower_density * (2.0 * self.over - 1.0)

    @cached_property
    def upper_share(self) -> Floats:
        """f(a) ÷ P: the slope of log P in the upper threshold."""
        return np.asarray(special.expit(-self.upper) / np.maximum(self.over * self.width, TINY), np.float64)

    @cached_property
    def lower_share(self) -> Floats:
        """f(b) ÷ P: minus the slope of log P in the lower threshold."""
        return np.asarray(special.expit(self.lower) / np.maximum(self.below * self.width, TINY), np.float64)
