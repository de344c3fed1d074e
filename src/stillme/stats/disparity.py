"""How far groups' rates lie apart: the seed's max − min, and what is left of it when chance is taken off.

Max − min is biased upwards: it is above zero even when all groups are alike, because the two most extreme groups
are picked after looking. It is printed for comparability, beside what it would be by chance, and never as evidence
by itself; the fixed contrasts carry the claims.

    expected     max − min when groups are all alike: persons change groups within their stratum
    p            the same permutations: how often max − min (p_range), or Kruskal–Wallis' statistic on persons'
                 shares (p_rank, far stronger), is at least as large
    corrected    max − min less its bootstrap bias, with an interval from persons drawn anew, whose lower end is 0
                 unless p_rank is at most 0.05 (the gate)
    sd           the standard deviation between groups, less the part that is sampling (Lum, Zhang & Bower 2022)
    bounds       max-T: hold whichever groups are the extreme ones, and are wide

In simulated audits of 12 persons a group the interval covers 94–98 % (`bench/recovery`), where the percentile
bootstrap covers 0–78 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from scipy import special

from stillme.protocol import Protocol
from stillme.protocol.schema import Outcome
from stillme.stats.contrast import TIE
from stillme.stats.intervals import FEWEST_FOR_INTERVAL, LEVEL, clustered_share
from stillme.stats.resample import (
    People,
    Rates,
    gather,
    is_movable,
    permuted_sums,
    ratio,
    reach,
    resampled,
)
from stillme.stats.simultaneous import reach_bounds

GATE = 0.05


def max_minus_min(rates: pl.DataFrame, within: Sequence[str], group: str) -> pl.DataFrame:
    """Per `within`: the highest rate, the lowest, their difference, and which groups they belong to."""
    known = rates.filter(pl.col("rate").is_not_null())
    return known.group_by(*within, maintain_order=True).agg(
        pl.col("rate").max().alias("highest"),
        pl.col("rate").min().alias("lowest"),
        (pl.col("rate").max() - pl.col("rate").min()).alias("disparity"),
        pl.col(group).sort_by("rate", descending=True, maintain_order=True).first().alias("highest_group"),
        pl.col(group).sort_by("rate", maintain_order=True).first().alias("lowest_group"),
    )


def disparities(
    marked: pl.DataFrame, protocol: Protocol, dimension: str, seed: int = 0, level: float = LEVEL
) -> pl.DataFrame:
    """One row per editor and outcome: how far the groups of `dimension` lie apart, and what chance would do.

    Persons change groups only within the other dimensions (race within gender × age). `reason` says why there is
    no interval. `worst_group` is the one with the highest rate, or the lowest where the outcome is what was asked
    for, with its own clustered interval (not adjusted for having been picked).
    """
    strata = [name for name in protocol.groups.dimensions if name != dimension]
    people = gather(marked, dimension, protocol.groups.ids(dimension), strata)
    wanted = [is_wanted(protocol, protocol.rubrics.outcomes.get(outcome)) for _, outcome in people.columns]
    return of_people(people, wanted, seed, level)


def is_wanted(protocol: Protocol, outcome: Outcome | None) -> bool:
    """Whether more of an outcome is better: it is read off the upper end of a scale that measures no change."""
    if outcome is None:
        return False
    return outcome.at_least is not None and protocol.axes[outcome.axis].neutral is None


def of_people(
    people: People,
    wanted: Sequence[bool] | None = None,
    seed: int = 0,
    level: float = LEVEL,
    draws: int | None = None,
) -> pl.DataFrame:
    """`disparities` of persons' sums: one row per column of `people`."""
    if not people.columns:
        return pl.DataFrame(schema=_SCHEMA)
    drawn = resampled(people, seed=seed)
    chance = by_chance(people, seed, draws)
    interval, spread = gated(drawn, chance.p_rank <= GATE, level), between_groups(drawn, level)
    bounds = reach_bounds(drawn, level)
    columns = {
        **_described(people, drawn, wanted or [False] * len(people.columns), level),
        "disparity": reach(drawn.rates),
        **vars(chance),
        **vars(interval),
        **vars(spread),
        "bound_low": bounds[0],
        "bound_high": bounds[1],
    }
    frame = pl.DataFrame([pl.Series(name, values, _SCHEMA[name]) for name, values in columns.items()])
    return _refused_where_few(frame.with_columns(pl.col(pl.Float64).fill_nan(None)), people)


@dataclass(frozen=True)
class Chance:
    """What permutations say, per column. NaN where nobody can change places."""

    expected: np.ndarray
    p_range: np.ndarray
    p_rank: np.ndarray


def by_chance(people: People, seed: int = 0, draws: int | None = None) -> Chance:
    """Max − min expected when groups are all alike, and two tests of that, from the same permutations.

    p_range: the share of permutations whose max − min is at least the observed. p_rank: the same with Σ S² ÷ n
    over groups, S the sum of persons' centred ranks, n their number (Kruskal–Wallis' but for a constant).
    """
    columns = len(people.columns)
    if not is_movable(people):
        return Chance(*np.full((3, columns), np.nan))
    ranks, known = _centred_ranks(people), people.known().astype(float)
    values = np.hstack([people.sums, people.trials, ranks, known])
    moved, still = permuted_sums(people, values, seed, draws), people.add_up(values)
    apart, seen = _reach_of(moved), _reach_of(still)
    uneven, seen_uneven = _unevenness(moved), _unevenness(still)
    count = len(moved) + 1
    p_range = (1 + (apart >= seen - TIE).sum(axis=0)) / count
    p_rank = (1 + (uneven >= seen_uneven * (1 - TIE) - TIE).sum(axis=0)) / count
    silent = (people.persons() > 0).sum(axis=0) < 2  # one group only: nothing lies apart
    unknown = [np.where(silent, np.nan, values) for values in (apart.mean(axis=0), p_range, p_rank)]
    return Chance(*unknown)


def _reach_of(summed: np.ndarray) -> np.ndarray:
    sums, trials, _, _ = np.split(summed, 4, axis=-1)
    return reach(ratio(sums, trials))


def _unevenness(summed: np.ndarray) -> np.ndarray:
    _, _, ranks, known = np.split(summed, 4, axis=-1)
    return np.asarray(np.nansum(ratio(ranks**2, known), axis=-2))


def _centred_ranks(people: People) -> np.ndarray:
    """[persons, columns]: midranks of persons' shares, less their mean; 0 for persons without a trial."""
    shares = pl.DataFrame(np.where(people.known(), people.shares(), np.nan)).fill_nan(None)
    ranks = shares.select(pl.all().rank("average") - (pl.all().count() + 1) / 2)
    return ranks.fill_null(0.0).to_numpy()


@dataclass(frozen=True)
class Interval:
    """Max − min less its bias, with an interval behind the gate, per column."""

    gated: np.ndarray  # whether the gate is open: the lower end may leave 0
    corrected: np.ndarray
    low: np.ndarray
    high: np.ndarray


def gated(drawn: Rates, is_open: np.ndarray, level: float = LEVEL) -> Interval:
    """corrected = max − min − (mean of replicates − max − min), at least 0; ± t · SD of replicates.

    t is Student's on the smallest group's persons − 1. Where the gate is closed the lower end is 0.
    """
    seen, replicates = reach(drawn.rates), reach(drawn.replicates)
    middle = 2 * seen - replicates.mean(axis=0)
    half = _quantile(drawn, level) * replicates.std(axis=0, ddof=1)
    low = np.where(is_open, np.maximum(middle - half, 0.0), 0.0)
    high = np.clip(middle + half, 0.0, 1.0)
    flat = replicates.std(axis=0) < TIE  # nobody differs from anybody: nothing says how far persons differ
    low, high = np.where(flat, np.nan, low), np.where(flat, np.nan, high)
    return Interval(is_open, np.maximum(middle, 0.0), low, high)


def _quantile(drawn: Rates, level: float) -> np.ndarray:
    fewest = np.where(drawn.persons > 0, drawn.persons, np.iinfo(np.int64).max).min(axis=0)
    return np.asarray(special.stdtrit(np.maximum(fewest - 1, 1), 0.5 + level / 2))


@dataclass(frozen=True)
class Spread:
    """The standard deviation between groups, as it is and without sampling, per column."""

    sd_raw: np.ndarray
    sd: np.ndarray
    sd_low: np.ndarray
    sd_high: np.ndarray


def between_groups(drawn: Rates, level: float = LEVEL) -> Spread:
    """√(variance of groups' rates − mean of their sampling variances), at least 0.

    Rates of a replicate hold sampling twice, once from the persons and once from drawing them anew, so its
    variance is corrected twice; the interval is the replicates' percentiles.
    """
    once = _variance(drawn.rates) - _mean(drawn.variances)
    few = np.where(drawn.persons > 1, drawn.persons / np.maximum(drawn.persons - 1, 1), 1.0)
    twice = _variance(drawn.replicates) - 2 * _mean(drawn.replicate_variances * few)
    ends = np.sqrt(np.maximum(np.quantile(twice, [0.5 - level / 2, 0.5 + level / 2], axis=0), 0.0))
    raw = np.sqrt(_variance(drawn.rates))
    return Spread(raw, np.sqrt(np.maximum(once, 0.0)), ends[0], ends[1])


def _variance(rates: np.ndarray) -> np.ndarray:
    """Over groups (the last axis but one) that have a rate; NaN with fewer than two."""
    known = ~np.isnan(rates)
    count = known.sum(axis=-2)
    middle = _mean(rates)[..., None, :]
    squares = np.where(known, (np.where(known, rates, 0.0) - middle) ** 2, 0.0).sum(axis=-2)
    return np.where(count > 1, squares / np.maximum(count - 1, 1), np.nan)


def _mean(values: np.ndarray) -> np.ndarray:
    known = ~np.isnan(values)
    return ratio(np.where(known, values, 0.0).sum(axis=-2), known.sum(axis=-2).astype(float))


def _described(people: People, drawn: Rates, wanted: Sequence[bool], level: float) -> dict[str, object]:
    """Who and how many, per column: plain counts, and the extreme groups."""
    filled = np.where(np.isnan(drawn.rates), -1.0, drawn.rates)
    empty = (drawn.persons == 0).all(axis=0)
    top = filled.argmax(axis=0)
    bottom = np.where(filled < 0, np.inf, filled).argmin(axis=0)
    worst = np.where(wanted, bottom, top)
    place = np.arange(len(people.columns))
    ends = [_worst(people, group, column, level) for column, group in enumerate(worst)]
    return {
        "editor": [editor for editor, _ in people.columns],
        "outcome": [outcome for _, outcome in people.columns],
        "groups": (drawn.persons > 0).sum(axis=0),
        "persons": drawn.persons.sum(axis=0),
        "judged": people.trials.sum(axis=0).astype(np.int64),
        "highest_group": _names(people, top, empty),
        "highest": drawn.rates[top, place],
        "lowest_group": _names(people, bottom, empty),
        "lowest": drawn.rates[bottom, place],
        "worst_group": _names(people, worst, empty),
        "worst": drawn.rates[worst, place],
        "worst_low": [low for low, _ in ends],
        "worst_high": [high for _, high in ends],
    }


def _names(people: People, places: np.ndarray, empty: np.ndarray) -> list[str | None]:
    return [None if none else people.groups[place] for place, none in zip(places, empty, strict=True)]


def _worst(people: People, group: int, column: int, level: float) -> tuple[float | None, float | None]:
    own = people.group == group
    share = clustered_share(people.sums[own, column], people.trials[own, column], level)
    return share.low, share.high


_SCHEMA: dict[str, type[pl.DataType]] = {
    "editor": pl.String,
    "outcome": pl.String,
    **dict.fromkeys(("groups", "persons", "judged"), pl.Int64),
    "highest_group": pl.String,
    "highest": pl.Float64,
    "lowest_group": pl.String,
    "lowest": pl.Float64,
    "worst_group": pl.String,
    **dict.fromkeys(("worst", "worst_low", "worst_high"), pl.Float64),
    **dict.fromkeys(("disparity", "expected", "p_range", "p_rank"), pl.Float64),
    "gated": pl.Boolean,
    **dict.fromkeys(("corrected", "low", "high", "sd_raw", "sd", "sd_low", "sd_high"), pl.Float64),
    **dict.fromkeys(("bound_low", "bound_high"), pl.Float64),
    "reason": pl.String,
}
_INTERVALS = ("low", "high", "sd_low", "sd_high", "bound_low", "bound_high")
_ESTIMATES = ("disparity", "expected", "p_range", "p_rank", "corrected", "sd_raw", "sd")


def _refused_where_few(frame: pl.DataFrame, people: People) -> pl.DataFrame:
    """What so few persons or groups cannot tell is null, with the reason."""
    persons = people.persons()
    fewest = np.where(persons > 0, persons, np.iinfo(np.int64).max).min(axis=0)
    few = f" persons in a group; an interval needs {FEWEST_FOR_INTERVAL}"
    told = frame.with_columns(
        pl.when(pl.col("groups") == 0)
        .then(pl.lit("nothing judged"))
        .when(pl.col("groups") == 1)
        .then(pl.lit("one group only"))
        .when(pl.Series(fewest < FEWEST_FOR_INTERVAL))
        .then(pl.concat_str(pl.Series(fewest).cast(pl.String), pl.lit(few)))
        .when(pl.col("low").is_null())
        .then(pl.lit("no difference between persons of one group"))
        .alias("reason")
    )
    some = pl.col("reason").is_null()
    alone = pl.col("groups") < 2
    return told.with_columns(
        *(pl.when(some).then(pl.col(name)).alias(name) for name in _INTERVALS),
        *(pl.when(~alone).then(pl.col(name)).alias(name) for name in _ESTIMATES),
        pl.when(~alone).then(pl.col("gated")).alias("gated"),
    ).select(*_SCHEMA)
