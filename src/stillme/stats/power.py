"""What a design of a given size can tell apart: by the normal approximation, and by simulating the audit.

A simulated audit has persons who differ, prompts that differ, one group (the reference) with its own rate and
everyone else with another. What an audit computes is computed on it: the contrast with its interval and its test,
groups' rates with their intervals, max − min with its tests. How often each is right, and how wide, is the answer.
It is as good as what is supposed: how alike edits of one person are (the ICC) nobody knows before an audit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from math import sqrt
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import special

from stillme.core.errors import InputError
from stillme.protocol import Protocol
from stillme.stats import simulate
from stillme.stats.contrast import TIE
from stillme.stats.disparity import by_chance
from stillme.stats.intervals import FEWEST_FOR_INTERVAL, LEVEL
from stillme.stats.resample import People, permuted_sums, reach

PERSONS_ALIKE = 0.10  # intra-person correlation of a yes or no; audits of this kind show 0.03 to 0.11
ALIKE = (0.03, 0.06, 0.11)  # low, middling and high
ENOUGH = 0.8  # the power at which a difference counts as one that would probably be found
SETS = 500  # simulated audits: power is known to about 0.02
DRAWS = 999  # permutations of each of them for the contrast, and half as many for max − min
STEPS = (0.0, 0.6, 0.8, 1.0, 1.25, 1.6, 2.0)  # differences, as parts of what the normal approximation expects
HIGHEST = 0.98  # no planted rate is beyond
HELD = 250  # audits at a time
Floats = NDArray[np.float64]


def detectable(
    persons: int,
    others: int,
    edits: int,
    rate: float = 0.2,
    alike: float = PERSONS_ALIKE,
    power: float = ENOUGH,
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
    reach_of = float(special.ndtri(1 - level / 2) + special.ndtri(power))
    return reach_of * sqrt(spread / persons + spread / others)


@dataclass(frozen=True)
class Design:
    """`groups` of the dimension that is compared, each with `cells` of the other dimensions."""

    groups: int
    cells: int
    per_cell: int = 1
    prompts: int = 20
    seeds: int = 1

    def __post_init__(self) -> None:
        if self.groups < 2:
            raise InputError("One group alone cannot be compared.", "Give portraits of at least two groups.")
        if min(self.cells, self.per_cell, self.prompts, self.seeds) < 1:
            raise InputError("A design needs at least one person a cell, a prompt and a seed.", "Give more.")

    @property
    def persons(self) -> int:
        """In each group."""
        return self.cells * self.per_cell

    @property
    def portraits(self) -> int:
        return self.groups * self.persons

    @property
    def edits(self) -> int:
        """Of each person, by one editor."""
        return self.prompts * self.seeds


def of_protocol(protocol: Protocol, per_cell: int = 1, prompts: int | None = None, seeds: int = 1) -> Design:
    """The protocol's own groups and cells; all of its prompts, unless told otherwise."""
    sizes = {name: len(groups) for name, groups in protocol.groups.dimensions.items()}
    groups = sizes.pop(next(iter(protocol.groups.reference_group)))
    asked = len(protocol.prompts.prompts) if prompts is None else prompts
    return Design(groups, int(np.prod(list(sizes.values()))), per_cell, asked, seeds)


@dataclass(frozen=True)
class Truth:
    """What is supposed: the reference group's rate, everyone else's less that, how alike edits of a person are.

    `icc` is that of the reference group; persons spread equally, on the logit, in all groups.
    """

    rate: float
    difference: float
    icc: float

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1 or not 0 < self.rate + self.difference < 1:
            raise InputError(f"Rates of {self.rate:g} and {self.rate + self.difference:g} are no shares.", _SHARES)
        if not 0 <= self.icc < MOST_ALIKE:
            raise InputError(f"An ICC of {self.icc:g} cannot be simulated.", f"Give one from 0 to {MOST_ALIKE:g}.")


MOST_ALIKE = 0.6
WIDEST = 10.0  # logits; persons further apart are always or never hit
_SHARES = "Give rates between 0 and 1, such as 0.08."


@dataclass(frozen=True)
class Power:
    """How often and how well, over simulated audits.

    `found`: the contrast's permutation test has p ≤ level; `found_in_family`: p ≤ level ÷ family, which is what
    Holm asks of the smallest; `interval_found`: its interval leaves out 0, which is no test where outcomes are
    rare. `range_found`, `rank_found`: the two tests of max − min. `half`, `covered`: of the contrast's interval;
    `rate_half`, `rate_covered`: of the groups'. `reach`, `reach_95`: max − min, its mean and what 1 audit in 20
    passes. Where groups are too small for an interval, what is said of intervals is None.
    """

    found: float
    found_in_family: float
    interval_found: float | None
    range_found: float
    rank_found: float
    half: float | None
    covered: float | None
    rate_half: float | None
    rate_covered: float | None
    reach: float
    reach_95: float


def power(
    design: Design, truth: Truth, sets: int = SETS, seed: int = 0, family: int = 1, level: float = 1 - LEVEL
) -> Power:
    """Simulates `sets` audits of the design and counts. The reference is the first group.

    >>> design = Design(groups=7, cells=12)
    >>> alike = power(design, Truth(rate=0.1, difference=0, icc=0.05), sets=100)
    >>> alike.found < 0.12 and alike.reach > 0.05  # max − min is far from zero although all groups are alike
    True
    """
    rng = np.random.default_rng(seed)
    spread = _spread(truth.icc, truth.rate)
    rates = np.full(design.groups, truth.rate + truth.difference)
    rates[0] = truth.rate
    parts = []
    for start in range(0, sets, HELD):
        hits = simulate.people(
            rng,
            rates,
            design.persons,
            design.prompts,
            design.seeds,
            spread,
            replicates=min(HELD, sets - start),
        )
        parts.append(_counted(hits, design, rates, seed, level / max(family, 1), level))
    every = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    means = {name: _mean(values) for name, values in every.items()}
    return Power(**means, reach_95=float(np.quantile(every["reach"], 0.95)))


def _mean(values: Floats) -> Any:
    """Over the audits that have the figure."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


@lru_cache(maxsize=64)
def _spread(icc: float, rate: float) -> float:
    """`simulate.person_sd_of`, in fewer steps: a thousandth of a logit is near enough here."""
    from scipy.optimize import brentq

    if icc == 0:
        return 0.0
    return float(brentq(lambda sd: simulate.icc_of(sd, rate) - icc, 0.0, WIDEST, xtol=1e-3))


def _counted(
    hits: NDArray[np.int64], design: Design, rates: Floats, seed: int, strict: float, level: float
) -> dict[str, Floats]:
    """Per audit: what was found, how wide intervals are, and whether they hold the truth."""
    people = arranged(hits, design)
    p, chance = contrast_p(people, seed), by_chance(people, seed, DRAWS // 2)
    difference, half = contrast_halves(hits / design.edits, level)
    low, high = rate_intervals(hits, design.edits, level)
    inside = np.where(np.isnan(low), np.nan, (low <= rates) & (rates <= high))
    some = np.where(np.isnan(half), np.nan, 1.0)
    return {
        "found": (p <= level).astype(float),
        "found_in_family": (p <= strict).astype(float),
        "interval_found": some * (np.abs(difference) > half),
        "range_found": (chance.p_range <= level).astype(float),
        "rank_found": (chance.p_rank <= level).astype(float),
        "half": half,
        "covered": some * (np.abs(difference - (rates[1] - rates[0])) <= half),
        "rate_half": ((high - low) / 2).mean(axis=1),
        "rate_covered": inside.mean(axis=1),
        "reach": reach(people.rates()),
    }


def arranged(hits: NDArray[np.int64], design: Design) -> People:
    """Audits [audits, groups, persons] as columns of one set of persons, as the tests of an audit take them."""
    audits, groups, persons = hits.shape
    return People(
        groups=tuple(map(str, range(groups))),
        group=np.repeat(np.arange(groups), persons),
        stratum=np.tile(np.arange(persons) // design.per_cell, groups),
        columns=tuple((str(audit), "") for audit in range(audits)),
        sums=hits.reshape(audits, -1).T.astype(float),
        trials=np.full((groups * persons, audits), float(design.edits)),
    )


def contrast_p(people: People, seed: int, draws: int = DRAWS) -> Floats:
    """`contrast.permutation_p` of every column, with the first group as the reference."""
    shares, own = people.shares(), people.group == 0
    drawn = permuted_sums(people, shares, seed, draws, groups=[0])[:, 0]
    expected = np.zeros(shares.shape[1])
    for layer in np.unique(people.stratum):
        here = people.stratum == layer
        expected += (here & own).sum() * shares[here].mean(axis=0)
    observed = np.abs(shares[own].sum(axis=0) - expected)
    return np.asarray((1 + (np.abs(drawn - expected) >= observed - TIE).sum(axis=0)) / (draws + 1))


def contrast_halves(shares: Floats, level: float) -> tuple[Floats, Floats]:
    """The contrast of every audit, `contrast.welch` with its cautious degrees of freedom: others − reference, and
    half the width of its interval, NaN without one."""
    own, theirs = shares[:, 0], shares[:, 1:].reshape(len(shares), -1)
    one, many = own.shape[1], theirs.shape[1]
    difference = theirs.mean(axis=1) - own.mean(axis=1)
    if one < FEWEST_FOR_INTERVAL:
        return difference, np.full(len(shares), np.nan)
    va, vb = theirs.var(axis=1, ddof=1) / many, own.var(axis=1, ddof=1) / one
    below = va**2 / (many - 1) + vb**2 / (one - 1)
    df = np.divide((va + vb) ** 2, below, out=np.ones_like(va), where=below > 0)
    half = special.stdtrit(np.minimum(df, min(one, many) - 1), 1 - level / 2) * np.sqrt(va + vb)
    return difference, np.where(va + vb < TIE**2, np.nan, half)


def rate_intervals(hits: NDArray[np.int64], edits: int, level: float) -> tuple[Floats, Floats]:
    """`intervals.clustered_share` of every audit and group: [audits, groups], both ends, NaN without any."""
    persons = hits.shape[2]
    if persons < FEWEST_FOR_INTERVAL:
        return np.full(hits.shape[:2], np.nan), np.full(hits.shape[:2], np.nan)
    n = float(persons * edits)
    rate = hits.sum(axis=2) / n
    squares = ((hits - rate[..., None] * edits) ** 2).sum(axis=2)
    variance = persons / (persons - 1) * squares / n**2
    effective = np.divide(rate * (1 - rate), variance, out=np.full(rate.shape, n), where=variance > 0)
    effective = np.where((rate == 0) | (rate == 1), float(persons), np.minimum(effective, n))
    quantile = float(special.stdtrit(persons - 1, 1 - level / 2))
    square = quantile**2
    centre = (rate + square / (2 * effective)) / (1 + square / effective)
    width = np.sqrt(rate * (1 - rate) / effective + square / (4 * effective**2))
    half = quantile / (1 + square / effective) * width
    return np.maximum(0.0, centre - half), np.minimum(1.0, centre + half)


# Over many differences and designs


def curve(
    designs: Sequence[Design],
    rate: float,
    iccs: Sequence[float] = ALIKE,
    sets: int = SETS,
    seed: int = 0,
    family: int = 1,
    differences: Sequence[float] | None = None,
) -> pl.DataFrame:
    """One row per design, ICC and true difference: `Power` beside what was supposed.

    Differences that are not given start at none and lie around what the normal approximation could find. The same
    seed serves them all, so that the curve is smooth.
    """
    rows = [
        {**_described(design), **asdict(truth), "sets": sets, **asdict(power(design, truth, sets, seed, family))}
        for design in designs
        for truth in _truths(design, rate, iccs, family, differences)
    ]
    return pl.DataFrame(rows, schema=_SCHEMA)


_COUNTS = ("groups", "per_cell", "persons", "portraits", "prompts", "seeds", "edits")
_SCHEMA = {
    **dict.fromkeys(_COUNTS, pl.Int64),
    **dict.fromkeys(Truth.__dataclass_fields__, pl.Float64),
    "sets": pl.Int64,
    **dict.fromkeys(Power.__dataclass_fields__, pl.Float64),
}


def _described(design: Design) -> dict[str, int]:
    return {name: getattr(design, name) for name in _COUNTS}


def _truths(
    design: Design, rate: float, iccs: Sequence[float], family: int, differences: Sequence[float] | None
) -> Iterator[Truth]:
    for icc in iccs:
        if differences is None:
            differences_here = [step * _guess(design, rate, icc, family) for step in STEPS]
        else:
            differences_here = list(differences)
        for difference in differences_here:
            if rate + difference <= HIGHEST:
                yield Truth(rate, difference, icc)


def _guess(design: Design, rate: float, icc: float, family: int) -> float:
    """By the normal approximation, at the rate half-way to the one that is found."""
    others = design.persons * (design.groups - 1)
    guess = 0.0
    for _ in range(5):
        middle = min(rate + guess / 2, 0.5)
        guess = detectable(design.persons, others, design.edits, middle, icc, level=0.05 / family)
    return guess


def resolved(curve: pl.DataFrame, power: float = ENOUGH) -> pl.DataFrame:
    """One row per design and ICC: the difference that is found with this power, interpolated, and chance's work.

    `detectable`, `detectable_in_family`, `detectable_by_rank`: null where no difference that was tried (`tried` is
    the largest) is found so often. `false_alarms` and what follows it: without any true difference.
    """
    keys = [*_COUNTS, "rate", "icc"]
    rows = []
    for key, rows_of in curve.group_by(keys, maintain_order=True):
        tried = rows_of.sort("difference")
        alike = tried.row(0, named=True)
        rows.append(
            {
                **dict(zip(keys, key, strict=True)),
                "detectable": _crossing(tried, "found", power),
                "detectable_in_family": _crossing(tried, "found_in_family", power),
                "detectable_by_rank": _crossing(tried, "rank_found", power),
                "tried": tried["difference"].max(),
                "false_alarms": alike["found"],
                **{name: alike[name] for name in _ALIKE},
            }
        )
    return pl.DataFrame(rows, schema=_RESOLVED)


_ALIKE = ("half", "covered", "rate_half", "rate_covered", "reach", "reach_95")
_FOUND = ("detectable", "detectable_in_family", "detectable_by_rank", "tried", "false_alarms")
_RESOLVED = {
    **dict.fromkeys(_COUNTS, pl.Int64),
    **dict.fromkeys(("rate", "icc", *_FOUND, *_ALIKE), pl.Float64),
}


def _crossing(tried: pl.DataFrame, column: str, power: float) -> float | None:
    """Where the curve first reaches `power`; it is made to rise, as power does."""
    rising = np.maximum.accumulate(tried[column].to_numpy())
    if rising[-1] < power or rising[0] >= power:
        return None
    at = int(np.argmax(rising >= power))
    pair = slice(at - 1, at + 1)
    return float(np.interp(power, rising[pair], tried["difference"].to_numpy()[pair]))


def larger(design: Design) -> list[Design]:
    """The same audit with twice the persons, with five times the prompts, and with five edits a prompt."""
    return [
        replace(design, per_cell=2 * design.per_cell),
        replace(design, prompts=5 * design.prompts),
        replace(design, seeds=5 * design.seeds),
    ]
