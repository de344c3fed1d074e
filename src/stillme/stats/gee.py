"""Generalised estimating equations: a second opinion on odds ratios that assumes less than a mixed model.

A logistic regression of hits that are equally correlated within a cluster (a person); the interval rests on how
clusters differ, not on the correlation being right. The usual sandwich is too narrow for a dozen clusters a group,
so every cluster's residual is first blown up by its leverage (Mancl and DeRouen 2001). Everything is made of sums
over clusters, and rows that are alike are one that counts several times: a person is two rows, however many edits.

Odds ratios here are those of shares in a population: nearer to 1 than those of one and the same person, which
`modelled` gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import ArrayLike
from scipy import special

from stillme.protocol import Protocol
from stillme.stats.cumulative import Codes, Floats
from stillme.stats.formula import formula
from stillme.stats.intervals import LEVEL

ROUNDS = 60
ENOUGH = 1e-8  # of the largest step
FARTHEST = 15.0  # a log-odds beyond this is on its way to infinity
FEWEST_PERSONS = 3  # per side


@dataclass(frozen=True)
class Equations:
    """Coefficients (the first is the constant) with both covariances, and the correlation within clusters."""

    coefficients: Floats
    robust: Floats
    reduced: Floats
    correlation: float
    clusters: int
    converged: bool


def exchangeable(
    hits: ArrayLike, design: ArrayLike, clusters: ArrayLike, counts: ArrayLike | None = None
) -> Equations:
    """Logistic regression with equal correlation within clusters.

    `design` has no constant: one is put in front. Solves Σ D′V⁻¹(y − μ) = 0 over clusters, where V has the
    binomial variances and one correlation α, estimated from products of Pearson residuals within clusters.
    `counts`: how often each row occurs in its cluster.

    >>> sides = [[0], [0], [0], [0], [1], [1], [1], [1]]
    >>> found = exchangeable([0, 1, 1, 1, 0, 0, 1, 0], sides, [1, 1, 2, 2, 3, 3, 4, 4])
    >>> found.coefficients.round(3).tolist()
    [1.099, -2.197]
    """
    y, codes = np.asarray(hits, float), np.unique(np.asarray(clusters), return_inverse=True)[1]
    matrix = np.column_stack([np.ones(len(y)), np.asarray(design, float).reshape(len(y), -1)])
    count = np.ones(len(y)) if counts is None else np.asarray(counts, float)
    order = np.argsort(codes, kind="stable")
    sums = _Sums(y[order], matrix[order], codes[order].astype(np.int64), count[order])
    beta, alpha = np.zeros(matrix.shape[1]), 0.0
    converged = False
    for _ in range(ROUNDS):
        score, bread = sums.equations(beta, alpha)
        step = np.linalg.lstsq(bread.sum(axis=0), score.sum(axis=0), rcond=None)[0]
        beta = np.clip(beta + step, -2 * FARTHEST, 2 * FARTHEST)
        changed, alpha = abs(sums.correlation(beta) - alpha), sums.correlation(beta)
        if max(float(np.abs(step).max()), changed) < ENOUGH:
            converged = True
            break
    return replace(sums.sandwich(beta, alpha), converged=converged)


class _Sums:
    """Rows sorted by cluster, and what the equations need of each cluster."""

    def __init__(self, y: Floats, matrix: Floats, codes: Codes, counts: Floats) -> None:
        self.y, self.matrix, self.counts = y, matrix, counts
        self.starts = np.flatnonzero(np.diff(codes, prepend=-1))
        self.sizes = self.by_cluster(np.ones(len(y)))

    def by_cluster(self, values: Floats) -> Floats:
        counted = values * (self.counts if values.ndim == 1 else self.counts[:, None])
        return np.asarray(np.add.reduceat(counted, self.starts, axis=0), np.float64)

    def residuals(self, beta: Floats) -> tuple[Floats, Floats]:
        """Pearson residuals, and the standard deviations that they are in."""
        mean = special.expit(self.matrix @ beta)
        spread = np.sqrt(np.maximum(mean * (1 - mean), 1e-12))
        return (self.y - mean) / spread, spread

    def correlation(self, beta: Floats) -> float:
        resid, _ = self.residuals(beta)
        squares, columns = resid**2, self.matrix.shape[1]
        scale = float(squares @ self.counts) / max(float(self.sizes.sum()) - columns, 1.0)
        products = float((self.by_cluster(resid) ** 2 - self.by_cluster(squares)).sum()) / 2
        pairs = float((self.sizes * (self.sizes - 1)).sum()) / 2 - columns
        if pairs <= 0 or scale <= 0:
            return 0.0
        lowest = -0.99 / max(float(self.sizes.max()) - 1, 1.0)  # below −1 ÷ (size − 1) no such correlation exists
        return float(np.clip(products / scale / pairs, lowest, 0.99))

    def equations(self, beta: Floats, alpha: float) -> tuple[Floats, Floats]:
        """Per cluster D′V⁻¹(y − μ) and D′V⁻¹D. With equal correlation V⁻¹ is a diagonal minus a constant."""
        resid, spread = self.residuals(beta)
        slopes = self.matrix * spread[:, None]
        shrink = alpha / (1 + (self.sizes - 1) * alpha)
        sides, totals = self.by_cluster(slopes), self.by_cluster(resid)
        score = self.by_cluster(slopes * resid[:, None]) - (shrink * totals)[:, None] * sides
        products = np.stack([self.by_cluster(slopes * slopes[:, [k]]) for k in range(slopes.shape[1])], axis=2)
        bread = products - shrink[:, None, None] * (sides[:, :, None] * sides[:, None, :])
        return score / (1 - alpha), bread / (1 - alpha)

    def sandwich(self, beta: Floats, alpha: float) -> Equations:
        """The covariance from how clusters' scores differ, plain and with leverages taken out.

        D′V⁻¹(I − H)⁻¹e, with H = D M⁻¹ D′V⁻¹ of a cluster, is (I − D′V⁻¹D M⁻¹)⁻¹ times the cluster's score.
        """
        score, bread = self.equations(beta, alpha)
        inverse = np.linalg.pinv(bread.sum(axis=0), hermitian=True)
        widened = np.eye(len(beta)) - bread @ inverse
        # A person alone in a group has leverage 1: nothing says how far they are from it, so they add nothing.
        blown = (np.linalg.pinv(widened, rcond=1e-10) @ score[:, :, None])[:, :, 0]
        return Equations(
            beta,
            inverse @ (score.T @ score) @ inverse,
            inverse @ (blown.T @ blown) @ inverse,
            alpha,
            len(self.sizes),
            True,
        )


_SCHEMA = {
    "editor": pl.String,
    "outcome": pl.String,
    "persons": pl.Int64,
    "odds_ratio": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "p": pl.Float64,
    "correlation": pl.Float64,
    "why": pl.String,
}


def gee(marked: pl.DataFrame, protocol: Protocol, *, level: float = LEVEL) -> pl.DataFrame:
    """Per editor and outcome the odds of everyone else against the reference group's, other dimensions held alike.

    Persons who lack a label are left out; a dimension in which nobody has one is not held alike.
    `marked`: one row per trial and outcome with `hit`. The interval takes Student's t with persons − coefficients
    degrees of freedom. Null, with the reason, where a side has no hit or nothing but hits, or too few persons.
    """
    main, reference = next(iter(protocol.groups.reference_group.items()))
    others = [name for name in protocol.groups.dimensions if name != main and marked[name].count()]
    told = marked.select("editor", "outcome", "person", "hit", main, *others)
    known = told.drop_nulls(["hit", main, *others]).with_columns(pl.col(main, *others).cast(pl.String))
    known = known.with_columns(is_other=pl.col(main) != reference).sort("editor", "outcome")
    rows = [
        {"editor": key[0], "outcome": key[1], **_odds(group, others, protocol, level)}
        for key, group in known.group_by("editor", "outcome", maintain_order=True)
    ]
    return pl.DataFrame(rows, schema=_SCHEMA)


def _odds(rows: pl.DataFrame, others: Sequence[str], protocol: Protocol, level: float) -> dict[str, object]:
    persons = rows["person"].n_unique()
    blank = dict.fromkeys(("odds_ratio", "low", "high", "p", "correlation"))
    why = _why_not(rows)
    if why:
        return {"persons": persons, **blank, "why": why}
    alike = rows.group_by("person", "hit", "is_other", *others).len("count").sort("person", "hit")
    found = exchangeable(alike["hit"], _design(alike, others, protocol), alike["person"], alike["count"])
    value, error = float(found.coefficients[1]), float(np.sqrt(found.reduced[1, 1]))
    free = persons - len(found.coefficients)
    if not found.converged or abs(value) > FARTHEST or error <= 0 or free < 1:
        return {"persons": persons, **blank, "why": "the equations have no solution"}
    half = float(special.stdtrit(free, 0.5 + level / 2)) * error
    ends = {"odds_ratio": value, "low": value - half, "high": value + half}
    p = float(2 * special.stdtr(free, -abs(value) / error))
    exact = {name: float(np.exp(end)) for name, end in ends.items()}
    return {"persons": persons, **exact, "p": p, "correlation": found.correlation, "why": None}


def _why_not(rows: pl.DataFrame) -> str | None:
    sides = rows.group_by("is_other").agg(pl.col("hit").mean().alias("share"), pl.col("person").n_unique())
    if sides.height < 2:
        return "there is one group only"
    if sides["person"].to_numpy().min() < FEWEST_PERSONS:
        return "too few persons"
    return "a side has no hit, or nothing but hits" if sides["share"].is_in([0.0, 1.0]).any() else None


def _design(rows: pl.DataFrame, others: Sequence[str], protocol: Protocol) -> Floats:
    """Other than the reference group, then the groups of the other dimensions that have hits and misses."""
    held = {}
    for name in others:
        shares = rows.group_by(name).agg(pl.col("hit").mean())
        both = shares.filter((pl.col("hit") > 0) & (pl.col("hit") < 1))[name].to_list()
        # A group without hits has no finite odds; it is held together with the first one.
        held[name] = [group for group in protocol.groups.ids(name) if group in both]
    columns = formula(held, [(name,) for name in others]).matrix(rows)
    return np.column_stack([rows["is_other"].cast(pl.Float64).to_numpy(), columns])
