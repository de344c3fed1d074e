"""Means and differences over balanced cells, with prompts as the unit.

A cell is a combination of cues that a sentence was asked in. Every cell has the same weight whatever is missing,
so that what an editor refuses unbalances nothing. Knows nothing of stereotypes: values in, an estimate out.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import get_args

import numpy as np
from numpy.typing import NDArray
from scipy import special

from stillme.protocol.schema import Cue, Order
from stillme.stats.intervals import LEVEL

NO_SPREAD = 1e-9

Cell = tuple[str, str, bool]  # cue, named order, whether the first portrait is congruent
ORDERS: tuple[str, ...] = get_args(Order)


@dataclass(frozen=True)
class Estimate:
    """A mean or a difference over balanced cells; clustered by prompt, or by what `clusters` of `estimate` says.

    None where a cell has no verdict.
    """

    value: float | None
    low: float | None
    high: float | None
    p: float | None
    prompts: int


NOTHING = Estimate(None, None, None, None, 0)


def every_cell(spoken: bool) -> list[Cell]:
    """The cells that a sentence with a pronoun is asked in, or one without."""
    cues = [Cue.PRO, Cue.ANTI, Cue.NEUTRAL] if spoken else [Cue.NONE]
    return [(cue.value, order, congruent) for cue, order, congruent in product(cues, ORDERS, (True, False))]


Side = Callable[[Cell], int]  # 1: a cell counts for, −1: against, 0: it does not count


def estimate(
    prompts: Sequence[Hashable],
    cells: Sequence[Cell],
    values: Sequence[float],
    side: Side,
    level: float = LEVEL,
    clusters: Mapping[Hashable, Hashable] | None = None,
) -> Estimate:
    """The mean of the cells' means on one side, minus that on the other: what is missing unbalances nothing.

    Sentences with and without a pronoun have other cells; each kind has the weight of its prompts. The error is
    that of prompts drawn from a population, by linearisation: with nothing missing it is Student's interval of
    the prompts' own means. `clusters`: prompt -> what it has in common with others, which is then drawn whole.
    """
    kinds = [_kind(prompts, cells, values, side, spoken) for spoken in (True, False)]
    known = [kind for kind in kinds if kind is not None]
    number = sum(len(kind.shifts) for kind in known)
    if not number or any(kind.value is None for kind in known):
        return NOTHING
    value = sum(len(kind.shifts) * (kind.value or 0.0) for kind in known) / number
    shifts = [len(k.shifts) / number * k.shifts + ((k.value or 0.0) - value) / number for k in known]
    named = [prompt for kind in known for prompt in kind.prompts]
    drawn = np.concatenate(shifts) if clusters is None else _summed(np.concatenate(shifts), named, clusters)
    return Estimate(value, *_interval(value, drawn, level), number)


def _summed(
    shifts: NDArray[np.float64], prompts: Sequence[Hashable], clusters: Mapping[Hashable, Hashable]
) -> NDArray[np.float64]:
    whole: dict[Hashable, float] = {}
    for prompt, shift in zip(prompts, shifts, strict=True):
        whole[clusters[prompt]] = whole.get(clusters[prompt], 0.0) + float(shift)
    return np.array(list(whole.values()))


@dataclass(frozen=True)
class _Kind:
    """Of one kind of sentence: the estimate, and by how much each prompt moves it. No value: a cell is empty."""

    value: float | None
    prompts: tuple[Hashable, ...]
    shifts: NDArray[np.float64]


def _kind(
    prompts: Sequence[Hashable], cells: Sequence[Cell], values: Sequence[float], side: Side, spoken: bool
) -> _Kind | None:
    """None where this kind was not asked for, or has no cell that counts."""
    wanted = {cell: side(cell) for cell in every_cell(spoken) if side(cell)}
    rows = [(p, c, v) for p, c, v in zip(prompts, cells, values, strict=True) if c in wanted]
    if not rows:
        return None
    each: dict[Cell, list[tuple[Hashable, float]]] = {cell: [] for cell in wanted}
    for prompt, cell, value in rows:
        each[cell].append((prompt, value))
    shifts = dict.fromkeys((prompt for prompt, _, _ in rows), 0.0)
    if not all(each.values()):
        return _Kind(None, tuple(shifts), np.zeros(len(shifts)))
    total, sides = 0.0, [list(wanted.values()).count(sign) for sign in wanted.values()]
    for (cell, found), size in zip(each.items(), sides, strict=True):
        weight, mean = wanted[cell] / size, float(np.mean([value for _, value in found]))
        total += weight * mean
        for prompt, value in found:
            shifts[prompt] += weight * (value - mean) / len(found)
    return _Kind(total, tuple(shifts), np.array(list(shifts.values())))


def _interval(
    value: float, shifts: NDArray[np.float64], level: float
) -> tuple[float | None, float | None, float | None]:
    """Student's, with prompts or their clusters as the unit; and p against 0."""
    number = len(shifts)
    if number < 2:
        return None, None, None
    error = float(np.sqrt(number / (number - 1) * np.sum(shifts**2)))
    if error < NO_SPREAD:
        return _without_spread(value, number, level)
    half = float(special.stdtrit(number - 1, 0.5 + level / 2)) * error
    p = float(2 * special.stdtr(number - 1, -abs(value) / error))
    return max(-1.0, value - half), min(1.0, value + half), p


def _without_spread(value: float, number: int, level: float) -> tuple[float, float, float]:
    """No prompt differs from another. At most this share of all prompts would, and those could do anything."""
    others = 1 - ((1 - level) / 2) ** (1 / number)
    p = 1.0 if abs(value) < NO_SPREAD else min(1.0, 2 * 0.5**number)
    return value - others * (1 + value), value + others * (1 - value), p
