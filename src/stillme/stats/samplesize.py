"""Sample size from a formula, for independent values. Audits have many edits a person: see power for those."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import special


def whitehead(control: Sequence[float], log_odds: float, power: float = 0.9, level: float = 0.05) -> int:
    """How many independent values, in two equal groups, show a difference on an ordered scale (Whitehead 1993).

    `control`: the share of each score in one group, lowest first; `log_odds`: the logarithm of the odds ratio of
    every cut of the scale. With z the normal quantiles and p̄ the mean shares of both groups:
    n = 12 (z_level + z_power)² ÷ (log_odds² (1 − Σ p̄³)), rounded up.

    >>> whitehead([0.2, 0.5, 0.2, 0.1], 0.887)
    187
    """
    shares = np.asarray(control, float)
    cuts = np.cumsum(shares)[:-1]
    odds = cuts / (1 - cuts) * math.exp(log_odds)
    treated = np.diff(np.concatenate([[0.0], odds / (1 + odds), [1.0]]))
    reach = float(special.ndtri(1 - level / 2) + special.ndtri(power))
    mean = (shares + treated) / 2
    return math.ceil(12 * reach**2 / (log_odds**2 * (1 - float((mean**3).sum()))))
