"""Two answers about the same thing: McNemar's test, and the same with clusters of pairs as the unit.

Only pairs that differ say anything. Were the two conditions alike, either side would have it as often: that is
counted out exactly. Pairs of one cluster (a prompt, a person) are not independent, so whole clusters change
sides in the second p.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from stillme.stats.flips import flipped_p


@dataclass(frozen=True)
class Matched:
    """Pairs by what was seen: in both, in the first only, in the second only, in neither.

    `difference`: share in the first − share in the second. `p`: exact, two-sided, pairs independent. `p_clusters`:
    the sign of whole clusters flipped; None with fewer than 3 of them.
    """

    pairs: int
    both: int
    first_only: int
    second_only: int
    neither: int
    difference: float | None
    p: float | None
    clusters: int
    p_clusters: float | None


def matched(first: ArrayLike, second: ArrayLike, clusters: Sequence[Hashable], seed: int = 0) -> Matched:
    """McNemar's exact test of two yes-or-no answers, pair by pair.

    >>> found = matched([1, 1, 1, 1, 1, 0, 1], [0, 0, 0, 0, 0, 0, 1], list("aabbccd"))
    >>> found.first_only, found.second_only, found.p, found.clusters, found.p_clusters
    (5, 0, 0.0625, 4, 0.25)
    """
    one, other = np.asarray(first, bool), np.asarray(second, bool)
    gained, lost = int((one & ~other).sum()), int((~one & other).sum())
    names, places = np.unique(np.asarray(clusters, str), return_inverse=True)
    sums = np.bincount(places, one.astype(float) - other.astype(float), len(names))
    pairs = len(one)
    return Matched(
        pairs=pairs,
        both=int((one & other).sum()),
        first_only=gained,
        second_only=lost,
        neither=int((~one & ~other).sum()),
        difference=(gained - lost) / pairs if pairs else None,
        p=even_p(gained, gained + lost) if pairs else None,
        clusters=len(names),
        p_clusters=flipped_p(sums, seed=seed),
    )


def even_p(hits: int, trials: int) -> float:
    """The exact two-sided p of `hits` of `trials` against one half. None of none is no evidence: 1.

    >>> even_p(0, 5), even_p(84, 100) < 1e-11, even_p(0, 0)
    (0.0625, True, 1.0)
    """
    fewer = min(hits, trials - hits)
    return min(1.0, 2 * float(special.bdtr(fewer, trials, 0.5))) if trials else 1.0
