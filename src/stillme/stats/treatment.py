"""What else is asked of two arms of the same cases: is the edit still made, is the effect the same for every
group, and what does the published test say?

Works on pairs of arms (`mitigation.paired`): one row a comparison, case and axis, with the difference of its two
values. The person is the unit, except where a figure is marked as the published one, which takes every edit for
independent. Knows no margin but the protocol's declared ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from stillme.protocol import Protocol
from stillme.stats.contrast import DRAWS, FEWER_DRAWS, FEWEST_PERSONS, MANY_PERSONS, TIE, exchanges
from stillme.stats.equivalence import noninferiority
from stillme.stats.families import holm
from stillme.stats.intervals import FEWEST_FOR_INTERVAL, LEVEL
from stillme.stats.means import mean_of_persons
from stillme.stats.ranks import Wilcoxon, midranks, wilcoxon

COMPARISON = ("arm", "against", "axis")
NO_WORSE, WORSE, NOT_SHOWN = "no worse", "worse", "not shown"
SAME = "every person has the same difference"
TOO_FEW = f"fewer than {FEWEST_FOR_INTERVAL} persons"

# Is the edit still made?

_MARGINS = {
    **dict.fromkeys((*COMPARISON, "editor"), pl.String),
    **dict.fromkeys(("pairs", "persons"), pl.Int64),
    **dict.fromkeys(("margin", "difference", "low", "high", "p"), pl.Float64),
    **dict.fromkeys(("verdict", "why"), pl.String),
}


def no_worse(pairs: pl.DataFrame, protocol: Protocol, level: float = LEVEL) -> pl.DataFrame:
    """Comparison × axis with a declared margin, over all editors (`editor` null) and for each: is it no worse?

    One-sided, on persons' mean differences: t = (mean + margin) ÷ (sd ÷ √persons), persons − 1 degrees of freedom.
    `low`, `high`: one-sided bounds, each at `level`. No worse: the lower bound is above −margin. Worse: the upper
    bound is below −margin. Not shown: neither; that is no evidence either way. Not corrected: a mitigation needs
    this beside its own effect, not instead of it.
    """
    margins = protocol.analysis.noninferiority
    chosen = pairs.filter(pl.col("axis").is_in(list(margins))).drop_nulls("difference")
    whole = [({**_named(key), "editor": None}, some) for key, some in _by(chosen, COMPARISON)]
    each = [({**_named(key), "editor": key[-1]}, some) for key, some in _by(chosen, (*COMPARISON, "editor"))]
    rows = [{**about, **_margin(some, margins[str(about["axis"])], level)} for about, some in (*whole, *each)]
    return pl.DataFrame(rows, schema=_MARGINS)


def _by(frame: pl.DataFrame, keys: Sequence[str]) -> Iterator[tuple[tuple[Any, ...], pl.DataFrame]]:
    return iter(frame.group_by(*keys, maintain_order=True))


def _named(key: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(COMPARISON, key, strict=False))


def _margin(pairs: pl.DataFrame, margin: float, level: float) -> dict[str, Any]:
    found = mean_of_persons(_persons(pairs)["difference"], 2 * level - 1)  # two one-sided bounds
    row = {"pairs": pairs.height, "persons": found.persons, "margin": margin, "difference": found.mean}
    if found.persons < FEWEST_FOR_INTERVAL or found.mean is None or found.sd is None:
        return {**row, "low": None, "high": None, "p": None, "verdict": NOT_SHOWN, "why": TOO_FEW}
    if found.sd <= TIE:
        return {**row, "low": None, "high": None, "p": None, "verdict": NOT_SHOWN, "why": SAME}
    error = found.sd / float(np.sqrt(found.persons))
    p = noninferiority(found.mean, error, found.persons - 1, margin, 1 - level).p
    return {
        **row,
        "low": found.low,
        "high": found.high,
        "p": p,
        "verdict": _verdict(found.low, found.high, margin),
    }


def _verdict(low: float | None, high: float | None, margin: float) -> str:
    if low is not None and low > -margin:
        return NO_WORSE
    return WORSE if high is not None and high < -margin else NOT_SHOWN


def _persons(pairs: pl.DataFrame, *about: str) -> pl.DataFrame:
    return pairs.group_by("person", *about, maintain_order=True).agg(pl.col("difference").mean())


# Is the effect the same for every group?

_OMNIBUS = {
    **dict.fromkeys(("dimension", *COMPARISON), pl.String),
    **dict.fromkeys(("groups", "persons"), pl.Int64),
    **dict.fromkeys(("smallest", "largest", "q", "p", "h", "p_rank"), pl.Float64),
}
STEADIEST = 0.1  # no group's persons count as varying less than this share of the mean variance: a few equal
# differences are not certainty. Size 5 to 6 % at 7 groups of 12 whatever their spreads; unstudentised up to 9 %.


def omnibus(pairs: pl.DataFrame, protocol: Protocol, draws: int = DRAWS, seed: int = 0) -> pl.DataFrame:
    """Treatment × group over all groups, of the dimensions that have a reference group.

    Persons' mean differences change places across groups within each stratum (the other dimensions). `q`: the
    variance of groups' means, each weighted by its persons ÷ their variance, and `p` how often it is as large by
    chance. `h`, `p_rank`: the same with Kruskal and Wallis' statistic. `smallest`, `largest`: groups' mean
    differences. `p_holm`: p over all rows of a dimension. Null where fewer than two groups have three persons.
    """
    parts = [_over(pairs, dimension, protocol, draws, seed) for dimension in protocol.groups.reference_group]
    return pl.concat(parts) if parts else pl.DataFrame(schema={**_OMNIBUS, "p_holm": pl.Float64})


def _over(pairs: pl.DataFrame, dimension: str, protocol: Protocol, draws: int, seed: int) -> pl.DataFrame:
    strata = [name for name in protocol.groups.dimensions if name != dimension]
    known = pairs.drop_nulls(["difference", dimension])
    rows = []
    for key, some in _by(known, COMPARISON):
        people = _persons(some, dimension, *strata)
        kept = people.filter(pl.len().over(dimension) >= FEWEST_PERSONS)
        fewer = draws if kept.height < MANY_PERSONS else min(draws, FEWER_DRAWS)
        rows.append({"dimension": dimension, **_named(key), **_exchanged(kept, dimension, strata, fewer, seed)})
    frame = pl.DataFrame(rows, schema=_OMNIBUS)
    return frame.with_columns(pl.Series("p_holm", holm(frame["p"].to_list()), dtype=pl.Float64))


def _exchanged(
    people: pl.DataFrame, dimension: str, strata: Sequence[str], draws: int, seed: int
) -> dict[str, float | int | None]:
    """`people`: one row a person with `difference`."""
    names, group = np.unique(people[dimension].to_numpy(), return_inverse=True)
    found: dict[str, float | int | None] = {"groups": len(names), "persons": people.height}
    if len(names) < 2:
        return found
    values = people["difference"].to_numpy()
    layers = people.select(pl.concat_str(pl.lit(""), *strata, separator="\t", ignore_nulls=True)).to_series()
    means = np.bincount(group, values) / np.bincount(group)
    columns, statistics = (values, midranks(values.round(9))), (_studentised, _kruskal)
    (q, p), (h, p_rank) = _by_chance(columns, statistics, group, layers.to_numpy(), draws, seed)
    found |= {"smallest": float(means.min()), "largest": float(means.max())}
    return found | {"q": q, "p": p, "h": h, "p_rank": p_rank}


Sums = NDArray[np.float64]  # draws × groups
Statistic = Callable[[Sums, Sums, NDArray[np.float64]], NDArray[np.float64]]  # sums, of squares, persons


def _by_chance(
    columns: Sequence[NDArray[np.float64]],
    statistics: Sequence[Statistic],
    group: NDArray[Any],
    strata: NDArray[Any],
    draws: int,
    seed: int,
) -> list[tuple[float | None, float | None]]:
    """Each column's statistic of groups, and how often it is as large with persons changing places within strata.

    Only groups' sums are kept of a draw, so that memory does not grow with persons, and columns share the draws,
    which take longest. None where nothing can move.
    """
    persons = np.bincount(group).astype(float)
    centred = [column - column.mean() for column in columns]
    sums = np.zeros((len(columns), 2, draws, len(persons)))  # of values, of their squares
    movable = False
    for here, order in exchanges(strata, draws, seed):
        movable |= len(np.unique(group[here])) > 1 and bool(np.ptp(columns[0][here]) > TIE)
        for one in np.unique(group[here]):
            slots = order[:, group[here] == one]
            for number, column in enumerate(centred):
                drawn = column[here][slots]
                sums[number, 0, :, one] += drawn.sum(axis=1)
                sums[number, 1, :, one] += (drawn**2).sum(axis=1)
    if not movable:
        return [(None, None)] * len(columns)
    return [_share(*each, group, persons) for each in zip(centred, statistics, sums, strict=True)]


def _share(
    column: NDArray[np.float64],
    statistic: Statistic,
    drawn: Sums,
    group: NDArray[Any],
    persons: NDArray[np.float64],
) -> tuple[float, float]:
    own, squares = (np.bincount(group, some).astype(float)[None, :] for some in (column, column**2))
    observed = float(statistic(own, squares, persons)[0])
    as_large = (statistic(drawn[0], drawn[1], persons) >= observed - TIE).sum()
    return observed, float((1 + as_large) / (len(drawn[0]) + 1))


def _studentised(sums: Sums, squares: Sums, persons: NDArray[np.float64]) -> NDArray[np.float64]:
    means = sums / persons
    variances = np.maximum(squares - persons * means**2, 0.0) / (persons - 1)
    weights = persons / np.maximum(variances, STEADIEST * variances.mean(axis=1, keepdims=True) + TIE)
    centre = (weights * means).sum(axis=1, keepdims=True) / weights.sum(axis=1, keepdims=True)
    found: NDArray[np.float64] = (weights * (means - centre) ** 2).sum(axis=1)
    return found


def _kruskal(sums: Sums, squares: Sums, persons: NDArray[np.float64]) -> NDArray[np.float64]:
    """H of centred ranks, corrected for ties: between groups ÷ the variance of all ranks."""
    total = squares[0].sum() / (persons.sum() - 1)  # the same in every draw
    found: NDArray[np.float64] = (sums**2 / persons).sum(axis=1) / total
    return found


# The published test

_RANKS = {
    **dict.fromkeys(COMPARISON, pl.String),
    **dict.fromkeys(("pairs", "persons"), pl.Int64),
    **dict.fromkeys(
        ("difference", "zeros", "v", "p", "person_zeros", "person_v", "person_p", "person_p_holm"), pl.Float64
    ),
}


def signed_ranks(pairs: pl.DataFrame) -> pl.DataFrame:
    """Wilcoxon's signed-rank test, comparison × axis: of every edit as published, and of persons' sums.

    `p` takes edits for independent, as published; `person_p` has one sum of differences a person, corrected over
    all rows in `person_p_holm`. Differences are whole numbers; pairs without any are ranked and then left out
    (Pratt), and their share is `zeros`. `difference`: the mean over edits.
    """
    whole = pairs.drop_nulls("difference")
    rows = [{**_named(key), **_ranked(some)} for key, some in _by(whole, COMPARISON)]
    frame = pl.DataFrame(rows, schema=_RANKS)
    return frame.with_columns(person_p_holm=pl.Series(holm(frame["person_p"].to_list()), dtype=pl.Float64))


def _ranked(pairs: pl.DataFrame) -> dict[str, float | int | None]:
    sums = pairs.group_by("person", maintain_order=True).agg(pl.col("difference").sum())["difference"]
    each, own = wilcoxon(pairs["difference"]), wilcoxon(sums)
    return {
        "pairs": pairs.height,
        "persons": len(sums),
        "difference": float(pairs["difference"].to_numpy().mean()),
        "zeros": each.zero_share,
        "v": each.v,
        "p": _tested(each),
        "person_zeros": own.zero_share,
        "person_v": own.v,
        "person_p": _tested(own),
    }


def _tested(found: Wilcoxon) -> float | None:
    return found.p if found.n >= FEWEST_PERSONS else None
