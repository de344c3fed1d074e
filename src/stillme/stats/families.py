"""Many looks at one audit: p-values corrected over declared families, so that nobody is accused by chance.

Holm bounds the chance of any false claim in a family and is what claims rest on. Benjamini–Hochberg bounds the
expected share of false ones among what is named, for exploratory tables; Benjamini–Yekutieli does so however the
p-values depend on each other. What belongs to a family is declared by who calls; this module does not know.
"""

from __future__ import annotations

from collections.abc import Sequence

P = float | None


def holm(p: Sequence[P]) -> list[P]:
    """Holm's adjusted p-values; a missing p stays missing and does not enlarge the family.

    >>> holm([0.01, 0.04, None, 0.03])
    [0.03, 0.06, None, 0.06]
    """
    adjusted: list[P] = [None] * len(p)
    family = sorted((value, index) for index, value in enumerate(p) if value is not None)
    highest = 0.0
    for rank, (value, index) in enumerate(family):
        highest = max(highest, min(1.0, value * (len(family) - rank)))
        adjusted[index] = round(highest, 15)
    return adjusted


def benjamini_hochberg(p: Sequence[P]) -> list[P]:
    """Adjusted p-values of Benjamini and Hochberg: the i-th smallest of m times m ÷ i, never above the next one's.

    A missing p stays missing and does not enlarge the family.

    >>> benjamini_hochberg([0.01, 0.04, None, 0.03])
    [0.03, 0.04, None, 0.04]
    """
    return _step_up(p, 1.0)


def benjamini_yekutieli(p: Sequence[P]) -> list[P]:
    """As `benjamini_hochberg` times 1 + ½ + … + 1 ÷ m, which holds under any dependence.

    >>> benjamini_yekutieli([0.01, 0.04, None, 0.03])
    [0.055, 0.073333333333333, None, 0.073333333333333]
    """
    known = sum(value is not None for value in p)
    return _step_up(p, sum(1 / place for place in range(1, known + 1)))


def _step_up(p: Sequence[P], price: float) -> list[P]:
    adjusted: list[P] = [None] * len(p)
    family = sorted(((value, index) for index, value in enumerate(p) if value is not None), reverse=True)
    lowest = 1.0
    for place, (value, index) in enumerate(family):
        lowest = min(lowest, price * value * len(family) / (len(family) - place))
        adjusted[index] = round(lowest, 15)
    return adjusted
