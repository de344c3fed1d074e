"""Prompt × group: every cell's rate pulled towards its prompt's own, as far as its few persons cannot hold it.

A cell of 12 persons says little: the highest of 140 such cells is high by chance. Each cell's rate is therefore
shrunken by an empirical-Bayes beta-binomial: under one editor and outcome the rates of a prompt's groups are taken
to be drawn around the prompt's rate with a common intraclass correlation ρ, which is estimated from all cells by
moments; a cell of n edits keeps n ÷ (n + 1 ÷ ρ − 1) of its distance. With ρ = 0 the cells differ by no more than
chance and all stand at their prompt's rate.

A cell is tested against the other groups under the same prompt and editor by Fisher's exact test on persons: each
person counts once, as a hit where at least half of the own edits in the cell are. The tests of all cells of an
outcome are one family (Benjamini–Hochberg).

What it does not claim: marks are exploratory and name cells to look at, no more; they say nothing of other
prompts; cells under one prompt share their comparison and editors share persons, so that marks are not independent
finds; a cell without a mark is not shown to be like the others; a shrunken rate is not its cell's rate. Groups are
compared as they are, not within strata of the other dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from scipy import special

from stillme.stats.families import benjamini_hochberg

BELOW = 0.05  # the share of false ones that may be expected among marked cells
FEWEST = 3  # persons a cell needs to be tested at all


def shrunken(marked: pl.DataFrame, dimension: str, below: float = BELOW) -> pl.DataFrame:
    """Outcome × editor × prompt × group: rate, `prompt_rate`, `shrunken`, p, `p_bh` and `marked`.

    `marked`: one row a trial and outcome with `hit`. `effective`: the edits that a cell is worth, its persons
    where one has several edits that agree. A cell without a judged edit has no rate, and no shrunken one.
    """
    cells = _cells(marked, dimension)
    found = cells.with_columns(_weight().alias("weight")).with_columns(
        shrunken=pl.when(pl.col("judged") > 0).then(
            pl.col("prompt_rate") + pl.col("weight") * (pl.col("rate") - pl.col("prompt_rate"))
        ),
        p=pl.Series(_tested(cells), dtype=pl.Float64),
    )
    corrected = [
        part.with_columns(p_bh=pl.Series(benjamini_hochberg(part["p"].to_list()), dtype=pl.Float64))
        for part in found.partition_by("outcome", maintain_order=True)
    ]
    whole = pl.concat(corrected) if corrected else found.with_columns(p_bh=pl.lit(None, pl.Float64))
    side = pl.when(pl.col("rate") > pl.col("others_rate")).then(pl.lit("above")).otherwise(pl.lit("below"))
    return whole.with_columns(marked=pl.when(pl.col("p_bh") <= below).then(side)).select(
        *("outcome", "editor", "prompt"), pl.col(dimension).alias("group"), *_COLUMNS
    )


_COLUMNS = (
    *("asked", "judged", "missing", "persons", "hits", "effective", "rate", "prompt_rate", "others_rate"),
    *("weight", "shrunken", "p", "p_bh", "marked"),
)


# Cells


def _cells(marked: pl.DataFrame, dimension: str) -> pl.DataFrame:
    """Counts of each cell, of its persons, and of the other groups under the same prompt."""
    keys = ["outcome", "editor", "prompt", dimension]
    people = (
        marked.select(*keys, "person", "hit")
        .drop_nulls(dimension)
        .group_by(*keys, "person", maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("asked"),
            pl.col("hit").count().cast(pl.Int64).alias("judged"),
            pl.col("hit").sum().cast(pl.Int64).alias("hits"),
        )
    )
    seen = pl.col("judged") > 0
    counted = people.group_by(keys, maintain_order=True).agg(
        pl.col("asked", "judged", "hits").sum(),
        seen.sum().cast(pl.Int64).alias("persons"),
        (seen & (2 * pl.col("hits") >= pl.col("judged"))).sum().cast(pl.Int64).alias("_yes"),
        _agreeing().alias("_icc"),
    )
    return _with_others(_with_rates(counted), keys[:3])


def _agreeing() -> pl.Expr:
    """1 where a person's several edits in the cell all agree, 0 where none do: how far they count as one."""
    several = pl.col("judged") > 1
    alike = (pl.col("hits") == 0) | (pl.col("hits") == pl.col("judged"))
    return pl.when(several.any()).then((several & alike).sum() / several.sum()).otherwise(0.0)


def _with_rates(counted: pl.DataFrame) -> pl.DataFrame:
    judged, persons = pl.col("judged").cast(pl.Float64), pl.col("persons").cast(pl.Float64)
    deff = 1 + (judged / persons - 1) * pl.col("_icc")
    return counted.with_columns(
        missing=pl.col("asked") - pl.col("judged"),
        rate=pl.when(pl.col("judged") > 0).then(pl.col("hits") / judged),
        effective=pl.when(pl.col("judged") > 0).then(judged / deff).otherwise(0.0),
    )


def _with_others(cells: pl.DataFrame, under: Sequence[str]) -> pl.DataFrame:
    def total(name: str) -> pl.Expr:
        return pl.col(name).sum().over(list(under))

    hits, judged = total("hits") - pl.col("hits"), total("judged") - pl.col("judged")
    return cells.with_columns(
        prompt_rate=pl.when(total("judged") > 0).then(total("hits") / total("judged")),
        others_rate=pl.when(judged > 0).then(hits / judged),
        _part=pl.col("effective") / total("effective"),
        _others=total("persons") - pl.col("persons"),
        _others_yes=total("_yes") - pl.col("_yes"),
    )


# Shrinking


def _weight() -> pl.Expr:
    """How much of its distance to the prompt's rate a cell keeps: n ÷ (n + 1 ÷ ρ − 1)."""
    n, rho = pl.col("effective"), _correlation()
    return pl.when(n > 0).then(n * rho / (1 + (n - 1) * rho)).otherwise(0.0)


def _correlation() -> pl.Expr:
    """ρ by moments: Σ n(p − m)² ÷ (1 − n ÷ N) less what chance alone gives, Σ m(1 − m), per Σ m(1 − m)(n − 1)."""
    n, m, part = pl.col("effective"), pl.col("prompt_rate"), pl.col("_part")
    is_used, chance, whole = (pl.col("judged") > 0) & (part < 1), m * (1 - m), ["outcome", "editor"]
    beyond = pl.when(is_used).then(n * (pl.col("rate") - m) ** 2 / (1 - part) - chance).sum().over(whole)
    scale = pl.when(is_used).then(chance * (n - 1)).sum().over(whole)
    return pl.when(scale > 0).then((beyond / scale).clip(0.0, 1.0)).otherwise(0.0)


# Testing


def _tested(cells: pl.DataFrame) -> list[float | None]:
    counts = cells.select("_yes", "persons", "_others_yes", "_others")
    return [fisher(*row) if row[1] >= FEWEST and row[3] >= FEWEST else None for row in counts.iter_rows()]


def fisher(hits: int, persons: int, other_hits: int, others: int) -> float:
    """Fisher's exact test of two shares, two-sided: the probability of all tables that are no likelier.

    >>> round(fisher(8, 10, 1, 10), 6)
    0.005477
    """
    total = hits + other_hits
    could = np.arange(max(0, total - others), min(persons, total) + 1)
    ways = _log_choose(persons, could) + _log_choose(others, total - could)
    chances = np.exp(ways - ways.max())
    seen = chances[hits - int(could[0])]
    return float(min(1.0, chances[chances <= seen * (1 + 1e-7)].sum() / chances.sum()))


def _log_choose(n: int, k: np.ndarray) -> np.ndarray:
    return np.asarray(special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1))
