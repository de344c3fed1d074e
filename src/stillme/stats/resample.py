"""Persons drawn again, and persons who change groups: what a figure of groups' rates would be in other samples.

Every figure here is a function of each group's sums (hits and trials, or any value and how often it is known). So
the edits are summed per person once, and a replicate costs one weight a person, however many edits there are. The
same draws serve every editor and endpoint: they share the persons, so their replicates belong together.

    bootstrap     persons are drawn with replacement within their group: how far a figure moves between samples
    permutation   persons change groups within their stratum: what a figure is when groups are all alike

Knows nothing of outcomes, scores or claims.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from stillme.core.errors import InputError
from stillme.stats.contrast import DRAWS, FEWER_DRAWS, MANY_PERSONS, exchanges

REPLICATES = 2_000
AT_ONCE = 4_000_000  # weights held in memory at one time: 32 MB
TOGETHER = 200  # persons of several strata that are summed in one step
Columns = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class People:
    """Persons' sums: rows are persons, columns are pairs of editor and endpoint."""

    groups: tuple[str, ...]  # those that persons belong to, in the protocol's order
    group: np.ndarray  # [persons] place in `groups`
    stratum: np.ndarray  # [persons]
    columns: Columns
    sums: np.ndarray  # [persons, columns]
    trials: np.ndarray  # [persons, columns]

    @property
    def size(self) -> int:
        return len(self.group)

    def known(self) -> np.ndarray:
        """[persons, columns]: whether the person has any trial."""
        return np.asarray(self.trials > 0)

    def shares(self) -> np.ndarray:
        """[persons, columns]: the person's own mean; 0 where there is none (see `known`)."""
        return np.asarray(np.divide(self.sums, self.trials, out=np.zeros_like(self.sums), where=self.trials > 0))

    def persons(self) -> np.ndarray:
        """[groups, columns]: how many persons have a trial."""
        return self.add_up(self.known().astype(float)).astype(np.int64)

    def add_up(self, values: np.ndarray) -> np.ndarray:
        """[groups, columns]: the sum of persons' values in each group."""
        total = np.zeros((len(self.groups), values.shape[1]))
        np.add.at(total, self.group, values)
        return total

    def rates(self) -> np.ndarray:
        """[groups, columns]: sum ÷ trials; NaN where a group has no trial."""
        return ratio(self.add_up(self.sums), self.add_up(self.trials))


def gather(
    frame: pl.DataFrame, dimension: str, groups: Sequence[str], strata: Sequence[str] = (), value: str = "hit"
) -> People:
    """Persons' sums of `value` by editor and outcome. Who has no group in `dimension` is left out.

    `frame` has one row per trial and outcome: person, editor, outcome, the dimensions, and the value (null where
    it is missing).
    """
    told = frame.filter(pl.col(dimension).is_in(list(groups)))
    layer = pl.concat_str(*strata, separator="\t", ignore_nulls=True) if strata else pl.lit("")
    keys = ["person", dimension, "stratum", "editor", "outcome"]
    summed = (
        told.lazy()
        .with_columns(layer.alias("stratum"))
        .group_by(keys, maintain_order=True)
        .agg(pl.col(value).cast(pl.Float64).sum().alias("sum"), pl.col(value).count().alias("trials"))
        .collect()
    )
    return of_sums(summed, dimension, groups)


def of_sums(summed: pl.DataFrame, dimension: str, groups: Sequence[str]) -> People:
    """The same of what is summed already: person, dimension, stratum, editor, outcome, sum, trials."""
    who = summed.select("person", dimension, "stratum").unique().sort("person", dimension, "stratum")
    if who["person"].is_duplicated().any():
        twice = who.filter(pl.col("person").is_duplicated())["person"][0]
        raise InputError(f"Person {twice} is in two groups.", "Give every person one label in each dimension.")
    cells = summed.select("editor", "outcome").unique(maintain_order=True)
    return _arranged(summed, who, cells, dimension, groups)


def _arranged(
    summed: pl.DataFrame, who: pl.DataFrame, cells: pl.DataFrame, dimension: str, groups: Sequence[str]
) -> People:
    here = set(who[dimension])
    present = tuple(group for group in groups if group in here)
    places = summed.join(who.select("person").with_row_index("row"), on="person", maintain_order="left")
    places = places.join(cells.with_row_index("column"), on=["editor", "outcome"], maintain_order="left")
    at = places["row"].to_numpy(), places["column"].to_numpy()
    sums, trials = np.zeros((2, len(who), len(cells)))
    sums[at], trials[at] = summed["sum"].to_numpy(), summed["trials"].to_numpy()
    number = {group: index for index, group in enumerate(present)}
    return People(
        present,
        np.array([number[group] for group in who[dimension]], np.int64),
        np.unique(who["stratum"].to_numpy(), return_inverse=True)[1],
        tuple(cells.iter_rows()),
        sums,
        trials,
    )


def ratio(sums: np.ndarray, trials: np.ndarray) -> np.ndarray:
    """sums ÷ trials; NaN where there is no trial."""
    return np.asarray(np.divide(sums, trials, out=np.full(np.shape(sums), np.nan), where=trials > 0))


def reach(rates: np.ndarray) -> np.ndarray:
    """Max − min over the groups (the last axis but one); groups without a rate are left out.

    >>> reach(np.array([[0.1], [0.4], [np.nan]])).round(3).tolist()
    [0.3]
    """
    highest = np.where(np.isnan(rates), -np.inf, rates).max(axis=-2)
    lowest = np.where(np.isnan(rates), np.inf, rates).min(axis=-2)
    some = np.isfinite(highest)
    return np.asarray(np.subtract(highest, lowest, out=np.full(highest.shape, np.nan), where=some))


def bootstrap_sums(people: People, values: np.ndarray, replicates: int = REPLICATES, seed: int = 0) -> np.ndarray:
    """[replicates, groups, columns]: groups' sums of `values` [persons, columns] in samples of persons drawn anew.

    Persons are drawn with replacement, as many as the group has: a replicate is a multinomial weight a person.
    """
    rng = np.random.default_rng(seed)
    drawn = np.empty((replicates, len(people.groups), values.shape[1]))
    for group in range(len(people.groups)):
        own = values[people.group == group]
        chance = np.full(len(own), 1 / len(own))
        step = max(1, AT_ONCE // len(own))
        for start in range(0, replicates, step):
            size = min(step, replicates - start)
            drawn[start : start + size, group] = rng.multinomial(len(own), chance, size=size) @ own
    return drawn


def bootstrap_rates(people: People, replicates: int = REPLICATES, seed: int = 0) -> np.ndarray:
    """[replicates, groups, columns]: groups' rates in samples of persons drawn anew."""
    both = bootstrap_sums(people, np.hstack([people.sums, people.trials]), replicates, seed)
    return ratio(*np.split(both, 2, axis=-1))


def disparity_replicates(people: People, replicates: int = REPLICATES, seed: int = 0) -> np.ndarray:
    """[replicates, columns]: max − min of the groups' rates in samples of persons drawn anew."""
    return reach(bootstrap_rates(people, replicates, seed))


def draws_for(persons: int) -> int:
    """How many permutations: fewer where persons are many."""
    return DRAWS if persons < MANY_PERSONS else FEWER_DRAWS


def is_movable(people: People) -> bool:
    """Whether any stratum holds persons of two groups: else nobody can change places."""
    return any(np.ptp(people.group[people.stratum == layer]) > 0 for layer in np.unique(people.stratum))


def permuted_sums(
    people: People,
    values: np.ndarray,
    seed: int = 0,
    draws: int | None = None,
    groups: Sequence[int] | None = None,
) -> np.ndarray:
    """[draws, groups, columns]: groups' sums of `values` [persons, columns] after persons changed places.

    `groups`: the places of those that are wanted; all by default.
    """
    count = draws or draws_for(people.size)
    wanted = range(len(people.groups)) if groups is None else groups
    drawn = np.zeros((len(wanted), count, values.shape[1]))
    for here, labels in _dealt(people, count, seed):
        for place, group in enumerate(wanted):
            drawn[place] += (labels == group).astype(float) @ values[here]
    return drawn.swapaxes(0, 1)


def _dealt(people: People, draws: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Persons, and the group that each is dealt in every draw [draws, persons]: many small strata at a time."""
    who: list[np.ndarray] = []
    dealt: list[np.ndarray] = []
    for here, order in exchanges(people.stratum, draws, seed):
        labels = np.empty(order.shape, np.int16)
        np.put_along_axis(labels, order, np.broadcast_to(people.group[here], order.shape), axis=1)
        who, dealt = [*who, here], [*dealt, labels]
        if sum(map(len, who)) >= TOGETHER:
            yield np.concatenate(who), np.hstack(dealt)
            who, dealt = [], []
    if who:
        yield np.concatenate(who), np.hstack(dealt)


@dataclass(frozen=True)
class Rates:
    """Groups' rates with their person-clustered variances, and the same in samples of persons drawn anew.

    Replicates lie around the rates √(n ÷ (n − 1)) times as far out as drawn: a sample of n persons drawn from
    themselves spreads too little by that much.
    """

    persons: np.ndarray  # [groups, columns]
    rates: np.ndarray  # [groups, columns]
    variances: np.ndarray  # [groups, columns]
    replicates: np.ndarray  # [replicates, groups, columns]
    replicate_variances: np.ndarray  # [replicates, groups, columns]


def resampled(people: People, replicates: int = REPLICATES, seed: int = 0) -> Rates:
    """Groups' rates and variances as observed and in samples of persons drawn anew, the same for all columns."""
    y, n = people.sums, people.trials
    moments = np.hstack([y, n, y * y, y * n, n * n])
    persons = people.persons()
    rates, variances = _rates_of(people.add_up(moments), persons)
    drawn, drawn_variances = _rates_of(bootstrap_sums(people, moments, replicates, seed), persons)
    widened = rates + (drawn - rates) * np.sqrt(persons / np.maximum(persons - 1, 1))
    return Rates(persons, rates, variances, widened, drawn_variances)


def _rates_of(moments: np.ndarray, persons: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rates p = Σy ÷ Σn and n ÷ (n − 1) · Σ(y − p n)² ÷ (Σn)², their variance between persons."""
    y, n, yy, yn, nn = np.split(moments, 5, axis=-1)
    rates = ratio(y, n)
    squares = np.maximum(yy - 2 * rates * yn + rates**2 * nn, 0.0)  # rounding may take a zero below zero
    few = persons / np.maximum(persons - 1, 1)
    return rates, few * ratio(squares, n * n)
