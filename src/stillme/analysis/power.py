"""What a design of a given size can tell apart. A first hint, by the normal approximation."""

from __future__ import annotations

from math import sqrt

from scipy.stats import norm

PERSONS_ALIKE = 0.10  # intra-person correlation of a yes or no; audits of this kind show 0.03 to 0.11


def detectable(
    persons: int,
    others: int,
    edits: int,
    rate: float = 0.2,
    alike: float = PERSONS_ALIKE,
    power: float = 0.8,
    level: float = 0.05,
) -> float:
    """The smallest difference between two groups' rates that an audit would probably find.

    Quantity: the difference d for which a two-sided test at `level` succeeds with probability `power`, when every
    person has `edits` edits whose outcomes correlate by `alike` and rates are near `rate`.
    Formula: d = (z_level + z_power) · sqrt(v / persons + v / others), where
    v = rate (1 − rate) (1 + (edits − 1) alike) / edits.

    >>> round(detectable(persons=12, others=72, edits=20), 2)
    0.13
    """
    spread = rate * (1 - rate) * (1 + (edits - 1) * alike) / edits
    reach = float(norm.ppf(1 - level / 2) + norm.ppf(power))
    return reach * sqrt(spread / persons + spread / others)
