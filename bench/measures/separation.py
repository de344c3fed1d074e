"""How well lightness tells two groups of pictures apart, and how sure a difference between two ways is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Read = Mapping[str, float]  # picture -> L*, for the pictures that were read
DRAWS = 2000
LEVEL = (2.5, 97.5)


def auc(lighter: Sequence[float], darker: Sequence[float]) -> float | None:
    """How often one of the first is above one of the second, ties counting half; None where a group is empty."""
    one, other = np.asarray(lighter, float)[:, None], np.asarray(darker, float)
    if not one.size or not other.size:
        return None
    return float((one > other).mean() + (one == other).mean() / 2)


def separation(read: Read, lighter: Sequence[str], darker: Sequence[str]) -> float | None:
    """AUC over what was read of two lists of pictures; a picture may be listed more than once."""
    return auc([read[one] for one in lighter if one in read], [read[one] for one in darker if one in read])


def difference(
    ours: Read, theirs: Read, lighter: Sequence[str], darker: Sequence[str], seed: int = 1
) -> tuple[float, float] | None:
    """A 95 % interval of the difference of two AUC: pictures are drawn anew, the same ones for both."""
    chance = np.random.default_rng(seed)
    drawn = [_drawn(ours, theirs, _again(lighter, chance), _again(darker, chance)) for _ in range(DRAWS)]
    known = [one for one in drawn if one is not None]
    if not known:
        return None
    low, high = np.percentile(known, LEVEL)
    return float(low), float(high)


def _drawn(ours: Read, theirs: Read, lighter: Sequence[str], darker: Sequence[str]) -> float | None:
    one, other = separation(ours, lighter, darker), separation(theirs, lighter, darker)
    return None if one is None or other is None else one - other


def _again(names: Sequence[str], chance: np.random.Generator) -> list[str]:
    picked: NDArray[np.int64] = chance.integers(0, len(names), len(names)) if names else np.array([], np.int64)
    return [names[n] for n in picked]
