"""Two arms that are alike could have changed places, person by person: the test that flips whole persons' signs.

Exact where persons' differences are symmetric about zero, however far persons differ from each other. It knows
nothing of arms: differences in, p out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stillme.stats.contrast import FEWER_DRAWS, FEWEST_PERSONS, MANY_PERSONS, TIE

FLIPS = 9_999  # p is known to about 0.0001
_AT_ONCE = 4_000_000  # signs in memory: 32 MB


def flipped_p(differences: ArrayLike, flips: int = FLIPS, seed: int = 0) -> float | None:
    """Two-sided p of persons' mean difference: were the arms alike, each person's sign could be the other.

    All patterns of signs where they are few, else `flips` drawn ones, and fewer of them where persons are many.
    None with fewer than 3 persons.

    >>> flipped_p([1.0, 2.0, 3.0, 4.0])
    0.125
    """
    values = np.asarray(differences, float)
    if len(values) < FEWEST_PERSONS:
        return None
    observed = abs(values.sum()) - TIE
    every = 2 ** min(len(values), 62)
    if every <= flips + 1:
        signs = np.arange(every)[:, None] >> np.arange(len(values)) & 1
        sums = (2.0 * signs - 1) @ values
        return float((np.abs(sums) >= observed).mean())
    fewer = flips if len(values) < MANY_PERSONS else min(flips, FEWER_DRAWS)
    return float((1 + (np.abs(_drawn(values, fewer, seed)) >= observed).sum()) / (fewer + 1))


def _drawn(values: NDArray[np.float64], flips: int, seed: int) -> NDArray[np.float64]:
    """Sums under drawn patterns of signs, some patterns at a time: many persons do not fit in memory at once."""
    chance, size = np.random.default_rng(seed), max(1, _AT_ONCE // len(values))
    parts = [
        chance.integers(0, 2, (min(size, flips - start), len(values)), dtype=np.int8) @ values
        for start in range(0, flips, size)
    ]
    sums: NDArray[np.float64] = 2.0 * np.concatenate(parts) - values.sum()
    return sums
