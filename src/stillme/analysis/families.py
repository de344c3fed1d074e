"""Many looks at one audit: p-values corrected over declared families, so that nobody is accused by chance."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p: Sequence[float | None]) -> list[float | None]:
    """Holm's adjusted p-values; a missing p stays missing and does not enlarge the family.

    >>> holm([0.01, 0.04, None, 0.03])
    [0.03, 0.06, None, 0.06]
    """
    adjusted: list[float | None] = [None] * len(p)
    family = sorted((value, index) for index, value in enumerate(p) if value is not None)
    highest = 0.0
    for rank, (value, index) in enumerate(family):
        highest = max(highest, min(1.0, value * (len(family) - rank)))
        adjusted[index] = round(highest, 15)
    return adjusted
