"""Judges beside raters: how far their scores go together, for whom they differ, and whose rates are the higher.

An output is one edit that was rated; its human score is the mean of its raters' (a sum of whole numbers over
their count, so equal ones tie) or, where a whole score is needed, their median. Persons are the unit of every
interval and test. Prompts that ask for the change themselves are left out. It does not know who raters are, nor
what is true: a judge that agrees with raters shares their view, and raters among themselves set how far anybody
can agree (ceiling).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import ArrayLike
from scipy import special

from stillme.core.errors import InputError
from stillme.protocol import Protocol
from stillme.protocol.schema import Outcome
from stillme.stats.agreement import weighted_kappa
from stillme.stats.contrast import DRAWS, FEWEST_PERSONS, TIE, exchanges, permutation_p, welch
from stillme.stats.families import holm
from stillme.stats.intervals import FEWEST_FOR_INTERVAL, LEVEL, Share, clustered_share
from stillme.stats.outcomes import happened
from stillme.stats.ranks import spearman
from stillme.stats.rectified import Rectified, rectified

SURE = 0.05
SUPPORTED, CONTRADICTED, NOT_SHOWN = "supported", "contradicted", "not shown"
ITEM = ["trial", "axis"]


@dataclass(frozen=True)
class Humans:
    """The tables of judges beside raters."""

    alignment: pl.DataFrame  # axis
    by_group: pl.DataFrame  # axis × group of the main dimension
    by_judge: pl.DataFrame | None  # judge × axis; None where judges' own scores are not at hand
    functioning: pl.DataFrame  # axis: does judge − human depend on the group?
    confusion: pl.DataFrame  # outcome × group
    bounds: pl.DataFrame  # outcome: are judges' rates lower than raters'?
    change_bounds: pl.DataFrame  # axis: is the change that judges see smaller than what raters see?
    rectified: Rectified


def human_findings(
    scores: pl.DataFrame,
    marked: pl.DataFrame,
    ratings: pl.DataFrame,
    protocol: Protocol,
    judged: pl.DataFrame | None = None,
    seed: int = 0,
) -> Humans:
    """All of it for one audit, by the dimension of the reference group; `rectified` per editor."""
    dimension, reference = next(iter(protocol.groups.reference_group.items()))
    outcomes = protocol.rubrics.outcomes
    strata = [name for name in protocol.groups.dimensions if name != dimension]
    return Humans(
        alignment=alignment(scores, ratings, ["axis"], seed=seed),
        by_group=alignment(scores, ratings, ["axis", dimension], seed=seed),
        by_judge=None if judged is None else alignment(judged, ratings, ["judge", "axis"], seed=seed),
        functioning=functioning(pairs(scores, ratings), dimension, reference, strata, seed=seed),
        confusion=confusion(marked, ratings, outcomes, [dimension]),
        bounds=lower_bound(marked, ratings, outcomes),
        change_bounds=lower_bound_of_change(scores, ratings),
        rectified=rectified(marked, majority(ratings, outcomes), dimension, reference),
    )


def raters_scores(ratings: pl.DataFrame) -> pl.DataFrame:
    """One row per output and axis that anybody scored: raters, their `human` mean and `typical` score.

    The typical score is the median; between two scores, the one nearer to the axis' neutral one (or the lower one
    where there is none), so that a scale with two directions leans to neither.

    >>> ratings = pl.DataFrame({"trial": "t", "axis": "a", "neutral": 3, "rater": ["x", "y"], "score": [1, 2]})
    >>> raters_scores(ratings).select("raters", "human", "typical").row(0)
    (2, 1.5, 2)
    """
    _once(ratings, [*ITEM, "rater"], "ratings")
    total, raters, neutral = pl.col("score").sum(), pl.col("score").count(), pl.col("neutral").first()
    scored = ratings.filter(pl.col("score").is_not_null())
    return scored.group_by(ITEM, maintain_order=True).agg(
        raters.cast(pl.Int64).alias("raters"),
        (total / raters).alias("human"),
        _typical(pl.col("score").median(), neutral).alias("typical"),
    )


def _typical(median: pl.Expr, neutral: pl.Expr) -> pl.Expr:
    is_below = median < neutral.fill_null(0)
    return pl.when(is_below).then(median.ceil()).otherwise(median.floor()).cast(pl.Int64)


def pairs(scores: pl.DataFrame, ratings: pl.DataFrame) -> pl.DataFrame:
    """Judges and raters side by side: one row per output and axis (and judge, where `scores` has the column) that
    both scored.

    `given` is the judges' unrounded mean where there is one, else the score; `difference` = given − human.
    """
    judge = [name for name in ("judge",) if name in scores.columns]
    _once(scores, [*ITEM, *judge], "scores")
    asked = scores.filter(~pl.col("requested")) if "requested" in scores.columns else scores
    mean = pl.coalesce("mean", "score") if "mean" in scores.columns else pl.col("score")
    known = asked.filter(pl.col("score").is_not_null()).with_columns(given=mean.cast(pl.Float64))
    both = known.join(raters_scores(ratings), on=ITEM, how="inner", maintain_order="left")
    return both.with_columns(difference=pl.col("given") - pl.col("human"))


def _once(frame: pl.DataFrame, keys: Sequence[str], what: str) -> None:
    twice = frame.select(keys).is_duplicated()
    if twice.any():
        row = " × ".join(str(value) for value in frame.filter(twice).select(keys).row(0))
        raise InputError(f"The {what} have {row} more than once.", f"Give one row per {' × '.join(keys)}.")


_APART = {
    "outputs": pl.Int64,
    "persons": pl.Int64,
    "judge_mean": pl.Float64,
    "human_mean": pl.Float64,
    "difference": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
}
_ALIGNMENT = {
    **_APART,
    "exact": pl.Float64,
    "within_one": pl.Float64,
    "kappa": pl.Float64,
    "rho": pl.Float64,
    "rho_low": pl.Float64,
    "rho_high": pl.Float64,
    "reliability": pl.Float64,
    "rho_corrected": pl.Float64,
    "rho_left_out": pl.Float64,
    "ceiling_rho": pl.Float64,
    "kappa_left_out": pl.Float64,
    "ceiling_kappa": pl.Float64,
}


def alignment(
    scores: pl.DataFrame,
    ratings: pl.DataFrame,
    by: Sequence[str] = ("axis",),
    level: float = LEVEL,
    seed: int = 0,
) -> pl.DataFrame:
    """Per group in `by`: how far judges are from raters, how far both order outputs alike, how far anybody could.

    `difference`: judge − human, with its interval over persons. `exact`, `within_one`, `kappa` (quadratic
    weights): the judges' score against the raters' typical one. `rho`: Spearman's, with its interval from
    resampling persons; `rho_corrected` = rho ÷ √reliability of the raters' mean, at most 1. The ceiling is one
    rater against the others of the same output, each in turn; `rho_left_out` and `kappa_left_out` are the judges'
    against the same others, so a judge is as good as a rater where they reach the ceiling.
    """
    both = pairs(scores, ratings)
    others = left_out(both, ratings)
    spread = _spread(both, ratings, by)
    beside = dict(_groups(others, by))
    rows = []
    for key, part in _groups(both, by):
        row = {**dict(zip(by, key, strict=True)), **_distance(part, level), **_order(part, level, seed)}
        row |= _ceiling(beside[key]) if key in beside else {}
        row["reliability"] = spread.get(key)
        row["rho_corrected"] = _disattenuated(row["rho"], row["reliability"])
        rows.append(row)
    return pl.DataFrame(rows, schema={**{name: both.schema[name] for name in by}, **_ALIGNMENT})


def _groups(frame: pl.DataFrame, by: Sequence[str]) -> Iterator[tuple[tuple[object, ...], pl.DataFrame]]:
    if by:
        known = frame.filter(pl.all_horizontal(pl.col(name).is_not_null() for name in by))
        yield from known.group_by(by, maintain_order=True)
    elif frame.height:
        yield (), frame


def _distance(part: pl.DataFrame, level: float) -> dict[str, object]:
    people = part.group_by("person", maintain_order=True).agg(pl.col("difference").sum(), pl.len())
    found = clustered_mean(people["difference"], people["len"], level)
    apart = (pl.col("score") - pl.col("typical")).abs()
    shares = part.select(exact=(apart == 0).mean(), within_one=(apart <= 1).mean()).row(0, named=True)
    return {
        "outputs": part.height,
        "persons": found.persons,
        "judge_mean": part["given"].mean(),
        "human_mean": part["human"].mean(),
        "difference": found.mean,
        "low": found.low,
        "high": found.high,
        **shares,
        "kappa": _kappa(part, "typical", "score"),
    }


def _order(part: pl.DataFrame, level: float, seed: int) -> dict[str, object]:
    found = spearman(part["given"], part["human"], part["person"], level, seed=seed)
    is_enough = (found.persons or 0) >= FEWEST_FOR_INTERVAL
    return {
        "rho": found.rho,
        "rho_low": found.low if is_enough else None,
        "rho_high": found.high if is_enough else None,
    }


def _kappa(part: pl.DataFrame, first: str, second: str) -> float | None:
    pair = part.select(first=pl.col(first).cast(pl.Float64), second=pl.col(second).cast(pl.Float64))
    found = pair.select(weighted_kappa()).item()
    return None if found is None else float(found)


def _disattenuated(rho: object, reliability: object) -> float | None:
    if not isinstance(rho, float) or not isinstance(reliability, float):
        return None
    return float(np.clip(rho / np.sqrt(reliability), -1, 1))


@dataclass(frozen=True)
class ClusteredMean:
    """A mean over outputs with its interval over persons."""

    persons: int
    mean: float | None = None
    error: float | None = None  # None where persons are too few, or nothing varies
    low: float | None = None
    high: float | None = None


def clustered_mean(sums: ArrayLike, counts: ArrayLike, level: float = LEVEL) -> ClusteredMean:
    """Σ sums ÷ Σ counts of persons' sums, ± t(persons − 1) · error.

    error² = k ÷ (k − 1) · Σ (sum − mean · count)² ÷ (Σ counts)², over k persons. Of fewer than FEWEST_FOR_INTERVAL
    persons a mean stands alone, and so it does where nothing varies.

    >>> found = clustered_mean([2, -1, 0, 1, 3, 0, 1, 2], [2, 2, 2, 2, 2, 2, 2, 2])
    >>> found.mean, round(found.low, 3), round(found.high, 3)
    (0.5, -0.047, 1.047)
    """
    total, n = np.asarray(sums, float), np.asarray(counts, float)
    total, n = total[n > 0], n[n > 0]
    persons = len(n)
    if persons == 0:
        return ClusteredMean(0)
    mean = float(total.sum() / n.sum())
    square = float(((total - mean * n) ** 2).sum())
    if persons < FEWEST_FOR_INTERVAL or square <= TIE**2:
        return ClusteredMean(persons, mean)
    error = float(np.sqrt(persons / (persons - 1) * square)) / float(n.sum())
    half = float(special.stdtrit(persons - 1, 0.5 + level / 2)) * error
    return ClusteredMean(persons, mean, error, mean - half, mean + half)


def left_out(both: pl.DataFrame, ratings: pl.DataFrame) -> pl.DataFrame:
    """One row per rater of each output that others rated too: `own` score, and the others' mean and typical score.

    `both` is what `pairs` gives; its columns stand beside.
    """
    scored = ratings.filter(pl.col("score").is_not_null()).select(*ITEM, "neutral", "rater", own="score")
    other = scored.select(*ITEM, someone="rater", seen="own")
    crossed = scored.join(other, on=ITEM, how="inner").filter(pl.col("rater") != pl.col("someone"))
    others = crossed.group_by(*ITEM, "rater", "own", maintain_order=True).agg(
        (pl.col("seen").sum() / pl.len()).alias("others"),
        _typical(pl.col("seen").median(), pl.col("neutral").first()).alias("others_typical"),
    )
    return both.join(others, on=ITEM, how="inner", maintain_order="left")


def _ceiling(others: pl.DataFrame) -> dict[str, object]:
    return {
        "rho_left_out": spearman(others["given"], others["others"]).rho,
        "ceiling_rho": spearman(others["own"], others["others"]).rho,
        "kappa_left_out": _kappa(others, "others_typical", "score"),
        "ceiling_kappa": _kappa(others, "others_typical", "own"),
    }


def _spread(
    both: pl.DataFrame, ratings: pl.DataFrame, by: Sequence[str]
) -> dict[tuple[object, ...], float | None]:
    """Group -> reliability of the raters' mean, over the outputs of `both`."""
    scored = (
        ratings.filter(pl.col("score").is_not_null())
        .group_by(ITEM)
        .agg(pl.col("score").pow(2).sum().alias("squares"), pl.col("score").sum().alias("total"))
    )
    each = both.join(scored, on=ITEM, how="left", maintain_order="left")
    return {
        key: reliability_of_mean(part["total"], part["squares"], part["raters"]) for key, part in _groups(each, by)
    }


def reliability_of_mean(totals: ArrayLike, squares: ArrayLike, raters: ArrayLike) -> float | None:
    """What share of the variance of raters' means lies between outputs, given each output's sum and sum of squares
    of scores and its raters: b ÷ (b + w · mean of 1 ÷ raters).

    w is the mean square of scores within outputs, b what that leaves of the mean square between them (one-way
    analysis of variance, which takes unequal numbers of raters). None where nobody shares an output, or where
    outputs do not differ beyond raters.

    >>> round(reliability_of_mean([2, 6, 10], [2, 20, 50], [2, 2, 2]), 3)
    0.917
    """
    total, square, k = (np.asarray(values, float) for values in (totals, squares, raters))
    n, items = float(k.sum()), len(k)
    if items < 2 or n <= items:
        return None
    within = float((square - total**2 / k).sum()) / (n - items)
    between = float((total**2 / k).sum() - total.sum() ** 2 / n) / (items - 1)
    size = (n - float((k**2).sum()) / n) / (items - 1)
    own = (between - within) / size
    return own / (own + within * float((1 / k).mean())) if own > TIE else None


_FUNCTIONING = {
    "groups": pl.Int64,
    "persons": pl.Int64,
    "eta2": pl.Float64,
    "p": pl.Float64,
    "reference_difference": pl.Float64,
    "others_difference": pl.Float64,
    "contrast": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "contrast_p": pl.Float64,
}


def functioning(
    both: pl.DataFrame,
    dimension: str,
    reference: str,
    strata: Sequence[str] = (),
    by: Sequence[str] = ("axis",),
    level: float = LEVEL,
    seed: int = 0,
) -> pl.DataFrame:
    """Do judges differ from raters otherwise for some groups than for others (differential functioning)?

    On persons' mean difference judge − human, from `pairs`: `eta2` is the share of its variance between groups,
    `p` how often groups are as far apart when persons change places within their stratum, `p_holm` the same
    corrected over all rows. `contrast` is everyone else − reference (Welch), with its own p. A judge may be far
    from raters and yet alike for everybody; only what depends on the group makes or hides a disparity.
    """
    layer = pl.concat_str(*strata, separator="\t", ignore_nulls=True) if strata else pl.lit("")
    people = both.filter(pl.col(dimension).is_not_null()).group_by(
        *by,
        "person",
        pl.col(dimension).cast(pl.String).alias("group"),
        layer.alias("stratum"),
        maintain_order=True,
    )
    means = people.agg(pl.col("difference").mean())
    rows = [
        {**dict(zip(by, key, strict=True)), **_functioning(part, reference, level, seed)}
        for key, part in _groups(means, by)
    ]
    frame = pl.DataFrame(rows, schema={**{name: both.schema[name] for name in by}, **_FUNCTIONING})
    return frame.with_columns(
        pl.Series("p_holm", holm(frame["p"].to_list()), dtype=pl.Float64),
        pl.Series("contrast_p_holm", holm(frame["contrast_p"].to_list()), dtype=pl.Float64),
    )


def _functioning(people: pl.DataFrame, reference: str, level: float, seed: int) -> dict[str, object]:
    values, groups = people["difference"].to_numpy(), people["group"].to_numpy()
    strata, is_reference = people["stratum"].to_numpy(), people["group"].to_numpy() == reference
    found = welch(values[~is_reference], values[is_reference], level)
    return {
        "groups": people["group"].n_unique(),
        "persons": people.height,
        "eta2": _eta2(values, groups),
        "p": between_p(values, groups, strata, seed=seed),
        "reference_difference": _mean(values[is_reference]),
        "others_difference": _mean(values[~is_reference]),
        "contrast": found.difference,
        "low": found.low,
        "high": found.high,
        "contrast_p": permutation_p(values, is_reference, strata, seed=seed),
    }


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None


def _eta2(values: np.ndarray, groups: np.ndarray) -> float | None:
    """The share of persons' variance that lies between groups; None where persons do not differ."""
    _, place, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    centred = values - values.mean()
    whole = float((centred**2).sum())
    inside = np.bincount(place.ravel(), centred)
    return float((inside**2 / sizes).sum()) / whole if whole > TIE and len(sizes) > 1 else None


def between_p(
    values: ArrayLike, groups: ArrayLike, strata: ArrayLike, draws: int = DRAWS, seed: int = 0
) -> float | None:
    """p of Σ n · (mean of a group − mean of all)², persons changing places within strata.

    None with fewer than FEWEST_PERSONS persons, one group, or no stratum in which two groups meet.
    """
    given = np.asarray(values, float)
    centred = given - given.mean() if len(given) else given
    names, place, sizes = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    if len(names) < 2 or len(centred) < FEWEST_PERSONS or float((centred**2).sum()) <= TIE:
        return None
    member = (place.ravel()[:, None] == np.arange(len(names))).astype(float)
    sums, movable = np.zeros((draws, len(names))), False
    for here, order in exchanges(np.asarray(strata), draws, seed):
        sums += centred[here][order] @ member[here]
        movable |= int(member[here].any(axis=0).sum()) > 1
    if not movable:
        return None
    observed = float(((centred @ member) ** 2 / sizes).sum())
    return float((1 + ((sums**2 / sizes).sum(axis=1) >= observed - TIE).sum()) / (draws + 1))


def majority(ratings: pl.DataFrame, outcomes: Mapping[str, Outcome]) -> pl.DataFrame:
    """One row per output and outcome that any rater scored: raters, `yes` of them, and `human`: 1 where most say
    yes, 0 where most say no, 0.5 where they are split."""
    parts = [
        ratings.filter((pl.col("axis") == outcome.axis) & pl.col("score").is_not_null())
        .group_by("trial", maintain_order=True)
        .agg(pl.len().cast(pl.Int64).alias("raters"), happened(outcome).sum().cast(pl.Int64).alias("yes"))
        .with_columns(pl.lit(name).alias("outcome"))
        for name, outcome in outcomes.items()
    ]
    yes, no = pl.col("yes"), pl.col("raters") - pl.col("yes")
    human = ((yes > no).cast(pl.Float64) + (yes >= no).cast(pl.Float64)) / 2
    found = pl.concat(parts) if parts else _NO_LABELS
    return found.select("trial", "outcome", "raters", "yes", human.alias("human"))


_NO_LABELS = pl.DataFrame(schema={"trial": pl.String, "outcome": pl.String, "raters": pl.Int64, "yes": pl.Int64})
_SHARES = [f"{name}{end}" for name in ("sensitivity", "specificity") for end in ("", "_low", "_high")]
_CONFUSION = {
    **dict.fromkeys(("outputs", "split", "persons", "human_yes", "human_no"), pl.Int64),
    **dict.fromkeys(_SHARES, pl.Float64),
}


def confusion(
    marked: pl.DataFrame,
    ratings: pl.DataFrame,
    outcomes: Mapping[str, Outcome],
    by: Sequence[str] = (),
    level: float = LEVEL,
) -> pl.DataFrame:
    """Per outcome and group: of the outputs where most raters say yes the share where judges do (sensitivity),
    and of those where most say no the share where judges do (specificity), each with its interval over persons.

    Outputs on which raters are split are counted (`split`) and are in neither.
    """
    keys = ["outcome", *by]
    both = _labelled(marked, majority(ratings, outcomes))
    rows = [{**dict(zip(keys, key, strict=True)), **_confused(part, level)} for key, part in _groups(both, keys)]
    return pl.DataFrame(rows, schema={**{name: both.schema[name] for name in keys}, **_CONFUSION})


def _labelled(marked: pl.DataFrame, labels: pl.DataFrame) -> pl.DataFrame:
    """Outputs with a verdict of the judges and a label: `verdict` and `human`, from 0 to 1."""
    _once(marked, ["trial", "outcome"], "outcomes")
    known = marked.filter(pl.col("hit").is_not_null()).with_columns(verdict=pl.col("hit").cast(pl.Float64))
    return known.join(labels, on=["trial", "outcome"], how="inner", maintain_order="left")


def _confused(part: pl.DataFrame, level: float) -> dict[str, object]:
    yes, no = part.filter(pl.col("human") > 0.5), part.filter(pl.col("human") < 0.5)
    found = {"sensitivity": _share(yes, pl.col("hit"), level), "specificity": _share(no, ~pl.col("hit"), level)}
    shares = {
        f"{name}{end}": value
        for name, share in found.items()
        for end, value in (("", share.rate), ("_low", share.low), ("_high", share.high))
    }
    return {
        "outputs": part.height,
        "split": part.height - yes.height - no.height,
        "persons": part["person"].n_unique(),
        "human_yes": yes.height,
        "human_no": no.height,
        **shares,
    }


def _share(part: pl.DataFrame, mark: pl.Expr, level: float) -> Share:
    people = part.group_by("person", maintain_order=True).agg(mark.sum().alias("hits"), pl.len())
    return clustered_share(people["hits"], people["len"], level)


_BOUND = {
    **_APART,
    "p_lower": pl.Float64,
    "p_higher": pl.Float64,
    "reason": pl.String,
}


def lower_bound(
    marked: pl.DataFrame,
    ratings: pl.DataFrame,
    outcomes: Mapping[str, Outcome],
    by: Sequence[str] = (),
    level: float = LEVEL,
) -> pl.DataFrame:
    """Are judges' rates a conservative lower bound of raters'? Per outcome, over the outputs that both marked.

    `difference` = human − judge, with its interval over persons; an output on which raters are split counts half.
    `p_lower` is one-sided, for judges' rates being lower; `p_higher` for their being higher; each is corrected
    with Holm over all rows. The `verdict` is supported, contradicted or not shown.
    """
    return _bounds(_labelled(marked, majority(ratings, outcomes)), ["outcome", *by], level)


def lower_bound_of_change(
    scores: pl.DataFrame, ratings: pl.DataFrame, by: Sequence[str] = (), level: float = LEVEL
) -> pl.DataFrame:
    """As `lower_bound`, per axis with a neutral score: how far the judges' score and the raters' typical one lie
    from it, on the mean."""
    both = pairs(scores, ratings).filter(pl.col("neutral").is_not_null())
    far = both.with_columns(
        verdict=(pl.col("score") - pl.col("neutral")).abs().cast(pl.Float64),
        human=(pl.col("typical") - pl.col("neutral")).abs().cast(pl.Float64),
    )
    return _bounds(far, ["axis", *by], level)


def _bounds(both: pl.DataFrame, keys: Sequence[str], level: float) -> pl.DataFrame:
    rows = [{**dict(zip(keys, key, strict=True)), **_bound(part, level)} for key, part in _groups(both, keys)]
    frame = pl.DataFrame(rows, schema={**{name: both.schema[name] for name in keys}, **_BOUND})
    held = {f"{name}_holm": holm(frame[name].to_list()) for name in ("p_lower", "p_higher")}
    frame = frame.with_columns(pl.Series(name, p, dtype=pl.Float64) for name, p in held.items())
    return frame.with_columns(
        pl.when(pl.col("p_lower_holm") < SURE)
        .then(pl.lit(SUPPORTED))
        .when(pl.col("p_higher_holm") < SURE)
        .then(pl.lit(CONTRADICTED))
        .otherwise(pl.lit(NOT_SHOWN))
        .alias("verdict")
    )


def _bound(part: pl.DataFrame, level: float) -> dict[str, object]:
    gap = pl.col("human") - pl.col("verdict")
    people = part.group_by("person", maintain_order=True).agg(gap.sum().alias("gap"), pl.len())
    found = clustered_mean(people["gap"], people["len"], level)
    row: dict[str, object] = {
        "outputs": part.height,
        "persons": found.persons,
        "judge_mean": part["verdict"].mean(),
        "human_mean": part["human"].mean(),
        "difference": found.mean,
        "low": found.low,
        "high": found.high,
    }
    if found.mean is None or found.error is None:
        few = f"fewer than {FEWEST_FOR_INTERVAL} persons"
        return row | {"reason": few if found.persons < FEWEST_FOR_INTERVAL else "persons do not differ"}
    t = found.mean / found.error
    above, below = (float(special.stdtr(found.persons - 1, side * t)) for side in (-1, 1))
    return row | {"p_lower": above, "p_higher": below}
