"""Each group against everybody else, in many figures at once: who lies apart, and how surely.

Under "it makes no difference which group somebody is of" any person could have had any other's label. Labels are
drawn anew, for all figures together, and the largest correlation of a group with a figure is kept each time
(Westfall and Young's max-T). What a judge, however noisy, would show by chance in some group and some figure is in
that distribution, so the family as a whole is sure at its level; figures that go together cost little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DRAWS = 4_999
HELD = 4_000_000  # numbers that are drawn at a time
TIE = 1e-9

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Gaps:
    """group × figure: mean of the group minus mean of the others, half the width of an interval that holds for all
    of them together, and the adjusted p-value. NaN where it cannot be told."""

    gap: Floats
    half: Floats
    p: Floats


def gaps(values: Floats, groups: Sequence[str], order: Sequence[str], sure: float, seed: int = 0) -> Gaps:
    """`values`: person × figure, NaN where missing; `groups`: each person's; `order`: the groups to compare.

    A group is compared where it and the others have at least two persons with the figure.
    """
    place = np.argsort([order.index(group) for group in groups], kind="stable")
    sizes = np.array([list(groups).count(group) for group in order])
    sorted_values = values[place]
    known = ~np.isnan(sorted_values)
    centred = np.where(known, sorted_values - _mean(sorted_values, known), 0.0)
    observed = _correlations(centred[None], known[None], sizes)[0]
    largest = _largest(centred, known, sizes, seed)
    limit = float(np.quantile(largest, sure, method="higher"))
    p = (1 + (largest[:, None, None] >= np.abs(observed) - TIE).sum(0)) / (len(largest) + 1)
    return Gaps(*_sized(centred, known, sizes, observed, limit), np.where(np.isnan(observed), np.nan, p))


def _mean(values: Floats, known: NDArray[np.bool_]) -> Floats:
    return np.asarray(np.where(known, values, 0).sum(0) / np.maximum(known.sum(0), 1))


def _sums(values: NDArray[np.floating], sizes: NDArray[np.int_]) -> Floats:
    """draw × person × figure -> draw × group × figure; persons of a group stand together."""
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    return np.asarray(np.add.reduceat(values, starts, axis=1), np.float64)


def _inside(known: NDArray[np.bool_], sizes: NDArray[np.int_]) -> Floats:
    """draw × group × figure: how many persons of a group have the figure."""
    if known.all():
        return np.broadcast_to(sizes[None, :, None].astype(float), (len(known), len(sizes), known.shape[2]))
    return _sums(known.astype(float), sizes)


def _correlations(centred: Floats, known: NDArray[np.bool_], sizes: NDArray[np.int_]) -> Floats:
    """Of being in a group with a figure; NaN where nobody differs, or where hardly anybody is on one side."""
    sums, inside = _sums(centred, sizes), _inside(known, sizes)
    total = known.sum(1, keepdims=True)
    spread = np.sqrt(np.square(centred).sum(1, keepdims=True) / np.maximum(total, 1))
    scale = np.sqrt(inside * (total - inside)) * spread
    usable = (inside >= 2) & (total - inside >= 2) & (spread > TIE)
    return np.where(usable, sums / np.where(usable, scale, 1), np.nan)


def _largest(centred: Floats, known: NDArray[np.bool_], sizes: NDArray[np.int_], seed: int) -> Floats:
    """The largest correlation of each draw of labels."""
    chance, people = np.random.default_rng(seed), len(centred)
    at_a_time = max(1, HELD // max(centred.size, 1))
    found = []
    for start in range(0, DRAWS, at_a_time):
        dealt = np.argsort(chance.random((min(at_a_time, DRAWS - start), people)), axis=1)
        drawn = np.abs(_correlations(centred[dealt], known[dealt], sizes))
        found.append(np.nan_to_num(drawn, nan=0.0).max(axis=(1, 2)))
    return np.concatenate(found)


def _sized(
    centred: Floats, known: NDArray[np.bool_], sizes: NDArray[np.int_], observed: Floats, limit: float
) -> tuple[Floats, Floats]:
    """The gap and half its interval: by the t that belongs to the largest correlation chance may give."""
    sums, inside = _sums(centred[None], sizes)[0], _inside(known[None], sizes)[0]
    total = known.sum(0)
    split = np.maximum(inside, 1) * np.maximum(total - inside, 1)
    gap = np.where(np.isnan(observed), np.nan, sums * total / split)
    if limit >= 1 - TIE:  # every split may look like this by chance
        return _even(gap, observed, centred, inside), np.where(np.isnan(gap), np.nan, np.inf)
    within = np.square(centred).sum(0) - gap**2 * split / np.maximum(total, 1)
    error = np.sqrt(np.maximum(within, 0) / np.maximum(total - 2, 1) * total / split)
    times = limit * np.sqrt(np.maximum(total - 2, 0)) / np.sqrt(1 - limit**2)
    half = times * error
    return _even(gap, observed, centred, inside), np.where(np.isnan(gap), _none(centred, inside), half)


def _even(gap: Floats, observed: Floats, centred: Floats, inside: Floats) -> Floats:
    """Where everybody is alike there is no gap, which is known for certain."""
    return np.where(np.isnan(observed), _none(centred, inside), gap)


def _none(centred: Floats, inside: Floats) -> Floats:
    alike = np.square(centred).sum(0) <= TIE
    return np.where(alike & (inside >= 2), 0.0, np.nan)
