"""The seed's rank tests as it made them, beside the same tests with persons as the unit.

Earlier studies take every edit as independent. Edits of one person are not, and such tests accuse editors that
treat everybody alike: at a person correlation of 0.06, Kruskal–Wallis per edit in 69 of 100 audits, on person
means in 4. So the columns named `edits_…` are for comparison with published figures and carry no claim; those
named `persons_…` and `permuted_…` stand beside them, with the design effect that lies between.

A score is taken as it is, also on signed axes, as the seed does: there a difference means a shift of direction and
says nothing about the amount of change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray
from scipy import special

from stillme.protocol import Protocol
from stillme.stats.contrast import DRAWS, TIE, exchanges
from stillme.stats.equivalence import SIZE
from stillme.stats.families import holm
from stillme.stats.intervals import FEWEST_FOR_INTERVAL, LEVEL
from stillme.stats.ranks import (
    Cliff,
    cliff,
    dunn,
    kruskal,
    kruskal_counts,
    mann_whitney,
    mann_whitney_counts,
    midranks,
)

Floats = NDArray[np.float64]
MARK = "as in the seed, not cluster-adjusted"
FEWEST_DRAWS = 999
EXACT = 9  # digits to which person means are compared, so that equal ones tie
MANY = 1_000  # persons above which fewer draws are made: each of them says more


class Likeness(NamedTuple):
    """How alike one person's scores are. `deff`: how many edits count as one. None where it cannot be told."""

    icc: float | None
    deff: float | None


def likeness(n: ArrayLike, total: ArrayLike, squares: ArrayLike, groups: ArrayLike) -> Likeness:
    """Intraclass correlation of scores by person within groups, from each person's n, sum and sum of squares.

    One-way analysis of variance with groups' own means taken out, so that a difference between groups is not taken
    for a difference between persons: (B − W) ÷ (B + (m − 1) W), with B and W the mean squares between and within
    persons and m the scores a person (their mean, less what unequal numbers cost). Design effect
    1 + (m − 1) · icc, at least 1.

    >>> found = likeness([2, 2, 2, 2], [2, 6, 3, 7], [2, 18, 5, 25], ["a", "a", "b", "b"])
    >>> round(found.icc, 2), round(found.deff, 2)
    (0.88, 1.88)
    """
    counts, sums, places = np.asarray(n, float), np.asarray(total, float), _places(groups)
    people, own = len(counts), int(places.max(initial=-1)) + 1
    scores = float(counts.sum())
    if people <= own or scores <= people:
        return Likeness(None, None)
    means = np.bincount(places, sums) / np.bincount(places, counts)
    between = float((counts * (sums / counts - means[places]) ** 2).sum()) / (people - own)
    within = max(0.0, float((np.asarray(squares, float) - sums**2 / counts).sum())) / (scores - people)
    each = (scores - float((np.bincount(places, counts**2) / np.bincount(places, counts)).sum())) / (people - own)
    if between + (each - 1) * within <= 1e-12:
        return Likeness(None, None)
    icc = (between - within) / (between + (each - 1) * within)
    return Likeness(icc, max(1.0, 1 + (each - 1) * icc))


def _places(groups: ArrayLike) -> NDArray[np.int64]:
    return np.unique(np.asarray(groups), return_inverse=True)[1].ravel()


def permuted_p(
    values: ArrayLike, groups: ArrayLike, strata: ArrayLike, draws: int = DRAWS, seed: int = 0
) -> float | None:
    """p of Kruskal–Wallis' H on persons' values when groups are dealt out anew within each stratum.

    Exact whatever the values' distribution, as far as any person of a stratum could have been of any group. None
    where no stratum has persons of two groups, or where all values are the same.
    """
    ranks, labels, layers = midranks(np.asarray(values, float)), _places(groups), np.asarray(strata)
    if len(ranks) < 3 or np.ptp(ranks) == 0 or not _is_movable(labels, layers):
        return None
    draws = _enough(draws, len(ranks))
    sizes = np.bincount(labels)
    sums = np.zeros((draws, len(sizes)))
    for here, order in exchanges(layers, draws, seed):
        dealt, own = ranks[here][order], labels[here]
        for group in np.unique(own):
            sums[:, group] += dealt[:, own == group].sum(1)
    middle = (len(ranks) + 1) / 2
    found = np.bincount(labels, ranks).astype(float)
    observed = _spread(found[None], sizes, middle)[0]
    return float((1 + (_spread(sums, sizes, middle) >= observed * (1 - TIE)).sum()) / (draws + 1))


def _is_movable(labels: NDArray[np.int64], layers: NDArray[np.generic]) -> bool:
    pairs = len({*zip(labels.tolist(), layers.tolist(), strict=True)})
    return pairs > len(np.unique(layers))


def _enough(draws: int, persons: int) -> int:
    return draws if persons <= MANY else min(draws, max(FEWEST_DRAWS, draws * MANY // persons))


def _spread(sums: Floats, sizes: NDArray[np.int64], middle: float) -> Floats:
    """Σ n (mean rank − middle)² of each draw: H but for a constant."""
    found: Floats = (sizes * (sums / sizes - middle) ** 2).sum(1)
    return found


_SCHEMA = {
    "editor": pl.String,
    "axis": pl.String,
    **dict.fromkeys(("edits", "persons", "groups"), pl.Int64),
    **dict.fromkeys(("edits_h", "edits_p", "edits_epsilon2"), pl.Float64),
    **dict.fromkeys(("icc", "deff", "h_over_deff", "p_over_deff"), pl.Float64),
    **dict.fromkeys(("persons_h", "persons_p", "persons_epsilon2", "permuted_p"), pl.Float64),
    **dict.fromkeys(("reference_persons", "others_persons"), pl.Int64),
    **dict.fromkeys(("edits_u", "edits_u_p", "edits_delta"), pl.Float64),
    **dict.fromkeys(("persons_u", "persons_u_p", "delta", "delta_low", "delta_high"), pl.Float64),
    "alike": pl.Boolean,
}


def comparability(scores: pl.DataFrame, protocol: Protocol, seed: int = 0, level: float = LEVEL) -> pl.DataFrame:
    """Per editor (null: all editors together) and axis: do scores differ between groups, counted both ways?

    Groups are those of the protocol's reference dimension; the strata of the permutation are its other dimensions.
    `edits_h`, `edits_p`, `edits_epsilon2`: Kruskal–Wallis per edit, as in the seed. `icc`, `deff`: how alike one
    person's scores are. `p_over_deff`: of H ÷ deff. `persons_…`: on person means. `permuted_p`: the same, permuted
    within strata; `permuted_holm` corrects it over the rows of single editors. `edits_u…`, `persons_u…`:
    Mann–Whitney of everyone else against the reference group; `delta`: Cliff's, on person means, positive where
    others score higher; `alike`: its 90 % interval lies within the declared margin.

    Requested changes are left out, and so are edits without a score and persons without a group.
    """
    tables = [_row(part, protocol, seed, level) for part in _parts(scores, protocol)]
    frame = pl.DataFrame(tables, schema=_SCHEMA)
    family = [p if editor is not None else None for editor, p in frame.select("editor", "permuted_p").iter_rows()]
    return frame.with_columns(pl.Series("permuted_holm", holm(family), dtype=pl.Float64))


class _Part(NamedTuple):
    """The persons of one editor (or all) and axis: n, total, squares, mean, and how often each score (`_1` …)."""

    editor: str | None
    axis: str
    people: pl.DataFrame


def _parts(scores: pl.DataFrame, protocol: Protocol) -> Iterator[_Part]:
    dimension = next(iter(protocol.groups.reference_group))
    kept = scores.filter(~pl.col("requested") & pl.col("score").is_not_null() & pl.col(dimension).is_not_null())
    who = ["person", *protocol.groups.dimensions]
    score, points = pl.col("score").cast(pl.Int64), sorted(kept["score"].unique())
    counted = kept.group_by("editor", "axis", *who, maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("n"),
        score.sum().alias("total"),
        (score * score).sum().alias("squares"),
        *((score == point).sum().cast(pl.Int64).alias(f"_{point}") for point in points),
    )
    together = counted.group_by("axis", *who, maintain_order=True).agg(pl.exclude("editor", "axis", *who).sum())
    editors = [(None, together)] if counted["editor"].n_unique() > 1 else []
    for (editor,), group in counted.group_by("editor", maintain_order=True):
        editors.append((editor, group))
    for editor, group in editors:
        for (axis,), people in group.group_by("axis", maintain_order=True):
            mean = (pl.col("total") / pl.col("n")).round(EXACT)
            yield _Part(editor, axis, people.with_columns(mean=mean))


def _row(part: _Part, protocol: Protocol, seed: int, level: float) -> dict[str, object]:
    dimension, reference = next(iter(protocol.groups.reference_group.items()))
    people = part.people
    means, groups = people["mean"].to_numpy(), people[dimension].to_numpy()
    counts = people.select(pl.col("^_.*$")).to_numpy()
    table = np.stack([counts[groups == group].sum(0) for group in np.unique(groups)])
    per_edit, per_person = kruskal_counts(table), kruskal([means[groups == g] for g in np.unique(groups)])
    alike = likeness(people["n"], people["total"], people["squares"], groups)
    return {
        "editor": part.editor,
        "axis": part.axis,
        "edits": per_edit.n,
        "persons": len(people),
        "groups": per_edit.groups,
        "edits_h": per_edit.h,
        "edits_p": per_edit.p,
        "edits_epsilon2": per_edit.epsilon2,
        **_over_deff(per_edit.h, per_edit.df, alike),
        "persons_h": per_person.h,
        "persons_p": per_person.p,
        "persons_epsilon2": per_person.epsilon2,
        "permuted_p": permuted_p(means, groups, _strata(people, dimension, protocol), seed=seed),
        **_against(counts, means, groups == reference, protocol.analysis.alike_delta, level),
    }


def _strata(people: pl.DataFrame, dimension: str, protocol: Protocol) -> NDArray[np.generic]:
    others = [name for name in protocol.groups.dimensions if name != dimension]
    return people.select(pl.concat_str(*others, separator="\t", ignore_nulls=True)).to_series().to_numpy()


def _over_deff(h: float | None, df: int | None, found: Likeness) -> dict[str, float | None]:
    if h is None or df is None or found.deff is None:
        return {"icc": found.icc, "deff": found.deff, "h_over_deff": None, "p_over_deff": None}
    smaller = h / found.deff
    return {**found._asdict(), "h_over_deff": smaller, "p_over_deff": float(special.chdtrc(df, smaller))}


def _against(
    counts: NDArray[np.int64], means: Floats, is_reference: NDArray[np.bool_], margin: float, level: float
) -> dict[str, object]:
    """Everyone else against the reference group, per edit and on person means."""
    u, p, delta = mann_whitney_counts(counts[~is_reference].sum(0), counts[is_reference].sum(0))
    others, own = means[~is_reference], means[is_reference]
    found, narrow = mann_whitney(others, own, level=level), cliff(others, own, 1 - 2 * SIZE)
    few = min(len(own), len(others)) < FEWEST_FOR_INTERVAL
    return {
        "reference_persons": len(own),
        "others_persons": len(others),
        "edits_u": u,
        "edits_u_p": p,
        "edits_delta": delta,
        "persons_u": found.u,
        "persons_u_p": found.p,
        "delta": found.cliff.delta,
        "delta_low": None if few else found.cliff.low,
        "delta_high": None if few else found.cliff.high,
        "alike": None if few or found.p is None else _within(narrow, margin),
    }


def _within(found: Cliff, margin: float) -> bool | None:
    return None if found.low is None or found.high is None else -margin < found.low and found.high < margin


_PAIRS = {
    **dict.fromkeys(("editor", "axis", "first", "second"), pl.String),
    **dict.fromkeys(("z", "p", "p_holm"), pl.Float64),
}


def pairs(scores: pl.DataFrame, protocol: Protocol, omnibus: pl.DataFrame) -> pl.DataFrame:
    """Dunn's comparisons of every two groups on person means, where the permuted omnibus test names a difference.

    `omnibus` is the frame of `comparability`; rows of single editors whose `permuted_holm` is below 0.05 are
    looked into. p is corrected with Holm within each of them.
    """
    dimension = next(iter(protocol.groups.reference_group))
    named = omnibus.filter(pl.col("editor").is_not_null() & (pl.col("permuted_holm") < SIZE))
    wanted = set(named.select("editor", "axis").iter_rows())
    rows = []
    for part in _parts(scores, protocol):
        if (part.editor, part.axis) in wanted:
            grouped = part.people.group_by(dimension, maintain_order=True).agg("mean")
            found = dunn(grouped[dimension].to_list(), [values.to_numpy() for values in grouped["mean"]])
            rows += [{"editor": part.editor, "axis": part.axis, **vars(pair)} for pair in found]
    return pl.DataFrame(rows, schema=_PAIRS)
