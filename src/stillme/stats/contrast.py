"""Reference group against everyone else: the difference of two rates or means, with persons as the unit.

The interval is Welch's on person means. It speaks of these prompts; where prompts are a sample of many that could
have been asked, their variance is added (two-way clustering), and the interval speaks of prompts like them.

The p-value is a permutation test: under "the editor treats everybody alike" any person of the same stratum (the
other dimensions, e.g. gender × age) could have been the reference one. It is exact where Welch is not: with rare
outcomes a small group often shows none, and a variance of zero. Declared families are corrected with Holm, so that
nobody is accused because many things were looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import ArrayLike
from scipy import special

from stillme.protocol import Protocol
from stillme.stats.families import holm
from stillme.stats.intervals import FEWEST_FOR_INTERVAL, LEVEL
from stillme.stats.outcomes import direction

DRAWS = 9_999  # permutations: p is known to about 0.0001
TIE = 1e-9  # sums of shares that differ by less are equal
MOST_KEPT = 200  # persons whose draws are kept: 16 MB
MANY_PERSONS = 1_000  # from here on fewer draws: each says more, and costs more
FEWER_DRAWS = 1_999
FEWEST_PERSONS = 3  # below this a group says nothing about how persons differ


Prompts = Literal["fixed", "sample"]


@dataclass(frozen=True)
class Difference:
    """others − reference, as a difference of shares, with its standard error and degrees of freedom."""

    difference: float | None
    low: float | None
    high: float | None
    error: float | None = None
    df: float | None = None


def welch(others: ArrayLike, reference: ArrayLike, level: float = LEVEL, cautious: bool = False) -> Difference:
    """The difference of two means of persons, with Welch's interval.

    Fewer than FEWEST_FOR_INTERVAL persons on either side, or no spread on both: a difference, but no interval.
    Formula: error² = v_a ÷ n_a + v_b ÷ n_b; df is Welch and Satterthwaite's, and `cautious` no more than the
    smaller side's persons − 1: rare outcomes are skewed, and a small side then says less than its variance does.

    >>> found = welch([0.1, 0.3, 0.2, 0.4] * 2, [0.1, 0.0, 0.1, 0.2] * 2)
    >>> round(found.difference, 3), round(found.low, 3), round(found.high, 3), round(found.df, 1)
    (0.15, 0.041, 0.259, 11.8)
    """
    a, b = np.asarray(others, float), np.asarray(reference, float)
    if min(len(a), len(b)) < FEWEST_PERSONS:
        return Difference(None, None, None)
    va, vb = a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)
    df = 0.0 if va + vb == 0 else float((va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1)))
    smaller = min(len(a), len(b))
    df, few = min(df, smaller - 1.0) if cautious else df, smaller < FEWEST_FOR_INTERVAL
    return with_interval(float(a.mean() - b.mean()), None if few else float(va + vb), df, level)


def with_interval(difference: float, variance: float | None, df: float, level: float = LEVEL) -> Difference:
    """difference ± t(df) · error; without a variance, or with none at all, no interval."""
    if not variance or variance < TIE**2:
        return Difference(difference, None, None)
    error = float(np.sqrt(variance))
    half = float(special.stdtrit(df, 0.5 + level / 2)) * error
    return Difference(difference, difference - half, difference + half, error, df)


def exchanges(strata: np.ndarray, draws: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Each stratum's persons, and in every draw (draws × persons) the order in which they change places."""
    layers, sizes = np.unique(strata, return_counts=True)
    drawn = _kept if len(strata) <= MOST_KEPT else _orders
    for layer, order in zip(layers, drawn(tuple(sizes.tolist()), draws, seed), strict=True):
        yield np.flatnonzero(strata == layer), order


def _orders(sizes: tuple[int, ...], draws: int, seed: int) -> Iterator[np.ndarray]:
    chance = np.random.default_rng(seed)
    return (np.argsort(chance.random((draws, size)), axis=1) for size in sizes)


@lru_cache(maxsize=4)  # every outcome and editor of an audit is drawn alike, and drawing takes longest
def _kept(sizes: tuple[int, ...], draws: int, seed: int) -> tuple[np.ndarray, ...]:
    return tuple(_orders(sizes, draws, seed))


def permutation_p(
    shares: ArrayLike, is_reference: ArrayLike, strata: ArrayLike, draws: int = DRAWS, seed: int = 0
) -> float | None:
    """Two-sided p of the difference of means, with the reference persons drawn anew within each stratum.

    None where no stratum has both reference and other persons, or where persons are too few to say anything.
    """
    return permutation_ps(np.asarray(shares, float)[:, None], is_reference, strata, draws, seed)[0]


def permutation_ps(
    shares: np.ndarray, is_reference: ArrayLike, strata: ArrayLike, draws: int = DRAWS, seed: int = 0
) -> list[float | None]:
    """`permutation_p` of every column of `shares` [persons, columns], all from the same draws."""
    chosen, groups = np.asarray(is_reference, bool), np.asarray(strata)
    columns = shares.shape[1]
    if min(int(chosen.sum()), int((~chosen).sum())) < FEWEST_PERSONS:
        return [None] * columns
    sums, expected, movable = np.zeros((draws, columns)), np.zeros(columns), False
    for here, order in exchanges(groups, draws, seed):
        inside, count = shares[here], int(chosen[here].sum())
        drawn = np.zeros(order.shape)
        np.put_along_axis(drawn, order[:, :count], 1.0, axis=1)
        sums += drawn @ inside
        expected += count * inside.mean(axis=0)  # exact: the draws' own mean would decide ties by chance
        movable |= 0 < count < len(inside)
    if not movable:
        return [None] * columns
    observed = np.abs(shares[chosen].sum(axis=0) - expected)
    beyond = (np.abs(sums - expected) >= observed - TIE).sum(axis=0)
    return [float(p) for p in (1 + beyond) / (draws + 1)]


def contrasts(
    marked: pl.DataFrame,
    outcomes: Sequence[str],
    dimension: str,
    reference: str,
    strata: Sequence[str] = (),
    level: float = LEVEL,
    seed: int = 0,
    value: str = "hit",
    prompts: Prompts = "fixed",
) -> pl.DataFrame:
    """Everyone else minus the reference group, per editor and outcome, Holm-corrected over all of them.

    `value` is what is averaged, within a person and then over persons: a hit, a sign, any figure (null: missing).
    The interval is Welch's with no more degrees of freedom than the smaller side's persons − 1.
    `prompts="sample"`: the interval allows for other prompts (V = V_person + V_prompt − V_both, at least V_person;
    df the smaller of Welch's and prompts − 1); p stays the permutation of persons. `error` and `df` are those of
    the interval; where there is none (fewer than 8 persons on a side, no spread at all) they are null.
    """
    chosen = marked.filter(pl.col("outcome").is_in(list(outcomes)) & pl.col(dimension).is_not_null())
    cells = _cells(chosen, dimension, reference, strata, value, prompts)
    people = _people(cells)
    rows = [
        {"editor": key[0], "outcome": key[1], **_contrast(group, level)}
        for key, group in people.group_by("editor", "outcome", maintain_order=True)
    ]
    frame = pl.DataFrame(rows, schema=_SCHEMA).with_columns(pl.Series("p", _ps(people, seed), dtype=pl.Float64))
    if prompts == "sample":
        frame = _allow_for_prompts(frame, cells, people, level)
    return frame.with_columns(pl.Series("p_holm", holm(frame["p"].to_list()), dtype=pl.Float64))


def primary(
    marked: pl.DataFrame,
    scores: pl.DataFrame,
    protocol: Protocol,
    seed: int = 0,
    level: float = LEVEL,
    prompts: Prompts = "fixed",
) -> pl.DataFrame:
    """The declared endpoints of claims (protocol.analysis.primary) as one Holm family: everyone else − reference.

    `kind` says what `outcome` names: an outcome, whose rates are set against each other, or a signed axis, whose
    net direction P(> neutral) − P(< neutral) is.
    """
    dimension, reference = next(iter(protocol.groups.reference_group.items()))
    strata = [name for name in protocol.groups.dimensions if name != dimension]
    frame = endpoints(marked, scores, protocol)
    names = [*protocol.analysis.primary.outcomes, *protocol.analysis.primary.net]
    found = contrasts(frame, names, dimension, reference, strata, level, seed, "value", prompts)
    is_net = pl.col("outcome").is_in(list(protocol.analysis.primary.net))
    return found.with_columns(pl.when(is_net).then(pl.lit("net")).otherwise(pl.lit("rate")).alias("kind"))


def endpoints(marked: pl.DataFrame, scores: pl.DataFrame, protocol: Protocol) -> pl.DataFrame:
    """The primary endpoints in one long frame: `value` is 0 or 1 for an outcome, −1, 0 or 1 for a direction."""
    declared = protocol.analysis.primary
    keys = ["person", "editor", "prompt", *protocol.groups.dimensions, "outcome", "value"]
    hits = marked.filter(pl.col("outcome").is_in(list(declared.outcomes)))
    signed = scores.filter(pl.col("axis").is_in(list(declared.net)) & ~pl.col("requested"))
    return pl.concat(
        [
            hits.with_columns(value=pl.col("hit").cast(pl.Float64)).select(keys),
            signed.with_columns(outcome=pl.col("axis"), value=direction(scores)).select(keys),
        ]
    )


_SCHEMA = {
    "editor": pl.String,
    "outcome": pl.String,
    "reference_rate": pl.Float64,
    "others_rate": pl.Float64,
    "reference_persons": pl.Int64,
    "others_persons": pl.Int64,
    "difference": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "error": pl.Float64,
    "df": pl.Float64,
    "p": pl.Float64,
}


def _cells(
    chosen: pl.DataFrame, dimension: str, reference: str, strata: Sequence[str], value: str, prompts: Prompts
) -> pl.DataFrame:
    """Sums and trials per person, and per prompt where prompts are a sample."""
    layer = pl.concat_str(*strata, separator="\t", ignore_nulls=True) if strata else pl.lit("")
    keys = ["editor", "outcome", "person", "stratum", "is_reference", *(["prompt"] if prompts == "sample" else [])]
    told = chosen.with_columns(layer.alias("stratum"), (pl.col(dimension) == reference).alias("is_reference"))
    summed = told.group_by(keys, maintain_order=True).agg(
        pl.col(value).cast(pl.Float64).sum().alias("sum"), pl.col(value).count().alias("trials")
    )
    return summed.filter(pl.col("trials") > 0)


def _people(cells: pl.DataFrame) -> pl.DataFrame:
    keys = ["editor", "outcome", "person", "stratum", "is_reference"]
    summed = cells.group_by(keys, maintain_order=True).agg(pl.col("sum", "trials").sum())
    return summed.with_columns(share=pl.col("sum") / pl.col("trials"))


def _contrast(people: pl.DataFrame, level: float) -> dict[str, float | int | None]:
    theirs = people.filter(~pl.col("is_reference"))["share"]
    own = people.filter(pl.col("is_reference"))["share"]
    return {
        "reference_rate": _mean(own),
        "others_rate": _mean(theirs),
        "reference_persons": len(own),
        "others_persons": len(theirs),
        **vars(welch(theirs, own, level, cautious=True)),
    }


def _ps(people: pl.DataFrame, seed: int) -> list[float | None]:
    """A p per editor and outcome, in their order. Those that the same persons stand behind are drawn together."""
    groups = people.group_by("editor", "outcome", maintain_order=True)
    parts = [part.sort("person") for _, part in groups]
    alike: dict[tuple[str, ...], list[int]] = {}
    for index, part in enumerate(parts):
        alike.setdefault(tuple(part["person"]), []).append(index)
    found: list[float | None] = [None] * len(parts)
    for persons, places in alike.items():
        first = parts[places[0]]
        shares = np.column_stack([parts[index]["share"].to_numpy() for index in places])
        draws = DRAWS if len(persons) < MANY_PERSONS else FEWER_DRAWS
        ps = permutation_ps(shares, first["is_reference"], first["stratum"], draws, seed)
        for index, p in zip(places, ps, strict=True):
            found[index] = p
    return found


def _allow_for_prompts(
    frame: pl.DataFrame, cells: pl.DataFrame, people: pl.DataFrame, level: float
) -> pl.DataFrame:
    """The intervals widened by how far prompts differ; one prompt says nothing of others, so it gives none."""
    added = _prompt_variance(cells, people)
    both = frame.join(added, on=["editor", "outcome"], how="left", maintain_order="left")
    rows = []
    for row in both.iter_rows(named=True):
        known = row["error"] is not None and row["added"] is not None
        variance = row["error"] ** 2 + max(row["added"], 0.0) if known else None
        df = min(row["df"], row["prompts"] - 1) if known else 0.0
        told = None if row["difference"] is None else with_interval(row["difference"], variance, df, level)
        rows.append({**row, **(vars(told) if told else {})})
    return pl.DataFrame(rows, schema=_SCHEMA)


def _prompt_variance(cells: pl.DataFrame, people: pl.DataFrame) -> pl.DataFrame:
    """V_prompt − V_both per editor and outcome, from what each cell of person × prompt adds to the difference.

    A cell's part is ± (sum − side's mean · trials) ÷ (person's trials · side's persons).
    """
    side = ["editor", "outcome", "is_reference"]
    mean = pl.col("share").mean().over(side)
    told = people.select(*side, "person", mean.alias("mean"), pl.len().over(side).alias("n"), own=pl.col("trials"))
    joined = cells.join(told, on=[*side, "person"], how="left", maintain_order="left")
    sign = pl.when("is_reference").then(-1.0).otherwise(1.0)
    part = sign * (pl.col("sum") - pl.col("mean") * pl.col("trials")) / (pl.col("own") * pl.col("n"))
    parts = joined.with_columns(part=part).group_by("editor", "outcome", "prompt", maintain_order=True)
    sums = parts.agg(pl.col("part").sum().alias("whole"), (pl.col("part") ** 2).sum().alias("squares"))
    count = pl.len()
    scaled = count / (count - 1) * (pl.col("whole") ** 2).sum()
    return sums.group_by("editor", "outcome", maintain_order=True).agg(
        pl.when(count > 1).then(scaled - pl.col("squares").sum()).alias("added"), count.alias("prompts")
    )


def _mean(values: pl.Series) -> float | None:
    return float(values.to_numpy().mean()) if len(values) else None
