"""Audits that never were: planted rates and planted persons, to see what the statistics make of them.

How bad an edit is (its severity) is drawn as

    group's intercept + person + person × editor + person × prompt + prompt + logistic noise

with normal effects. An edit is a hit where its severity is above 0. Intercepts are found such that each group's
rate over all persons and the given prompts is exactly the planted one. How far real persons differ, nobody knows
before an audit; `icc_of` says what a spread means on the scale of yes and no. There is no picture in it, no editor
and no judge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

import numpy as np
import polars as pl
from numpy.typing import ArrayLike
from scipy import special

from stillme.protocol import Protocol
from stillme.protocol.schema import Axis

NODES = 40  # of the Gauss–Hermite rule
STEPS = 60  # of the bisection: as near as floating point comes
FARTHEST = 30.0  # no intercept is further from 0: rates of 1e-9 and less are not planted
CUTS = np.array([-2.0, 0.0, 1.0, 2.0])  # severities of a score of 2, 3, 4, 5: hits are 3 and more
EVEN_CUTS = np.array([-2.5, -1.0, 1.0, 2.5])  # for signed axes: as likely up as down


@dataclass(frozen=True)
class Spread:
    """Standard deviations of the effects, in units of the logit."""

    person: float = 0.8
    editor: float = 0.0  # of a person under one editor, beyond the person's own
    pair: float = 0.3  # of a person under one prompt
    prompt: float = 0.6
    uneven: float = 0.0  # of a group under one prompt; only where prompts are a sample


MIDDLING = Spread(person=0.8, editor=0.3)


def prompt_effects(prompts: int, sd: float) -> np.ndarray:
    """A fixed set of prompts as even as a normal sample can be: the normal's quantiles at (i − ½) ÷ prompts.

    >>> prompt_effects(3, 1.0).round(3).tolist()
    [-0.967, 0.0, 0.967]
    """
    places = (np.arange(prompts) + 0.5) / prompts
    return np.asarray(sd * special.ndtri(places), float)


def intercepts(rates: ArrayLike, spread: Spread, prompts: ArrayLike | None = None) -> np.ndarray:
    """The intercepts at which hits have the given rates, averaged over persons and prompts.

    `prompts` are the effects of a fixed set of prompts; None: prompts are a sample of a normal population.

    >>> intercepts([0.5], Spread()).round(6).tolist()
    [0.0]
    """
    wanted = np.asarray(rates, float)
    low, high = np.full(wanted.shape, -FARTHEST), np.full(wanted.shape, FARTHEST)
    for _ in range(STEPS):
        middle = (low + high) / 2
        below = rate_at(middle, spread, prompts) < wanted
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.where(wanted <= 0, -np.inf, np.where(wanted >= 1, np.inf, (low + high) / 2))


def rate_at(intercept: ArrayLike, spread: Spread, prompts: ArrayLike | None = None) -> np.ndarray:
    """The rate of hits at an intercept, over persons and prompts."""
    fixed = np.zeros(1) if prompts is None else np.asarray(prompts, float)
    sampled = float(np.hypot(spread.prompt, spread.uneven)) if prompts is None else 0.0
    sd = float(np.sqrt(spread.person**2 + spread.editor**2 + spread.pair**2 + sampled**2))
    nodes, weights = _normal_rule()
    at = np.asarray(intercept, float)[..., None, None] + fixed[:, None] + sd * nodes
    return np.asarray((special.expit(at) @ weights).mean(axis=-1))


@lru_cache(maxsize=1)
def _normal_rule() -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the mean over a standard normal."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    return nodes, weights / weights.sum()


def icc_of(person_sd: float, rate: float, pair_sd: float = 0.3, prompt_sd: float = 0.6) -> float:
    """How alike two edits of one person are: the intra-person correlation of hits at a given rate.

    Quantity: the variance between persons of their own probability of a hit ÷ rate (1 − rate).

    >>> [round(icc_of(sd, 0.1), 3) for sd in (0.5, 0.8, 1.2)]
    [0.021, 0.054, 0.116]
    """
    spread = Spread(person=person_sd, pair=pair_sd, prompt=prompt_sd)
    centre = intercepts(rate, spread)
    nodes, weights = _normal_rule()
    own = rate_at(centre + person_sd * nodes, replace(spread, person=0.0))
    return float(weights @ (own - rate) ** 2 / (rate * (1 - rate)))


def person_sd_of(icc: float, rate: float, pair_sd: float = 0.3, prompt_sd: float = 0.6) -> float:
    """The spread of persons at which two edits of one person are this alike; the inverse of `icc_of`.

    >>> round(person_sd_of(icc_of(0.8, 0.1), 0.1), 6)
    0.8
    """
    low, high = 0.0, 10.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        below = icc_of(middle, rate, pair_sd, prompt_sd) < icc
        low, high = (middle, high) if below else (low, middle)
    return (low + high) / 2


def people(
    rng: np.random.Generator,
    rates: ArrayLike,
    persons: int,
    prompts: int,
    seeds: int = 1,
    person_sd: float = 0.8,
    prompt_sd: float = 0.6,
    *,
    editor_sd: float = 0.3,
    pair_sd: float = 0.3,
    replicates: int = 1,
    sample_prompts: bool = False,
) -> np.ndarray:
    """Hits of every person: [replicates, groups, persons], each of prompts × seeds trials.

    `rates` holds each group's rate. With rates [editors, groups] the same persons meet every editor, which adds
    `editor_sd` of their own, and hits are [replicates, editors, groups, persons].
    `sample_prompts`: prompts are drawn anew in each replicate; else they are one fixed set.
    """
    planted = np.atleast_2d(np.asarray(rates, float))
    alone = np.ndim(rates) == 1
    spread = Spread(person_sd, 0.0 if alone else editor_sd, pair_sd, prompt_sd)
    drawn = _places(rng, planted, spread, (replicates, persons, prompts), sample_prompts)
    chance = special.expit(drawn)
    hits = rng.random(chance.shape) < chance if seeds == 1 else rng.binomial(seeds, chance)
    summed = hits.sum(axis=-1, dtype=np.int64)
    return np.asarray(summed[:, 0] if alone else summed)


def severities(
    rng: np.random.Generator,
    rates: ArrayLike,
    persons: int,
    prompts: int,
    spread: Spread,
    *,
    replicates: int = 1,
    sample_prompts: bool = False,
) -> np.ndarray:
    """How bad every edit is, noise and all: [replicates, editors, groups, persons, prompts]; hits are above 0."""
    planted = np.atleast_2d(np.asarray(rates, float))
    place = _places(rng, planted, spread, (replicates, persons, prompts), sample_prompts)
    return np.asarray(place + rng.logistic(size=place.shape))


def _places(
    rng: np.random.Generator,
    rates: np.ndarray,
    spread: Spread,
    size: tuple[int, int, int],
    sample_prompts: bool,
) -> np.ndarray:
    """The severity of each edit before its noise: [replicates, editors, groups, persons, prompts]."""
    replicates, persons, prompts = size
    editors, groups = rates.shape
    fixed = None if sample_prompts else prompt_effects(prompts, spread.prompt)
    centre = intercepts(rates, spread, fixed)[None, :, :, None, None]
    person = rng.normal(0, spread.person, (replicates, 1, groups, persons, 1))
    meeting = rng.normal(0, spread.editor, (replicates, editors, groups, persons, 1))
    pair = rng.normal(0, spread.pair, (replicates, editors, groups, persons, prompts))
    prompt = _sampled_prompts(rng, spread, (replicates, groups, prompts)) if fixed is None else fixed
    return np.asarray(centre + person + meeting + pair + prompt)


def _sampled_prompts(rng: np.random.Generator, spread: Spread, size: tuple[int, int, int]) -> np.ndarray:
    replicates, groups, prompts = size
    for_all = rng.normal(0, spread.prompt, (replicates, 1, 1, 1, prompts))
    return np.asarray(for_all + rng.normal(0, spread.uneven, (replicates, 1, groups, 1, prompts)))


def judges_scores(
    rng: np.random.Generator, severity: np.ndarray, cuts: ArrayLike = CUTS, judges: int = 2, noise: float = 0.5
) -> np.ndarray:
    """Each judge's score 1 … 5 of each severity: [judges, *severity's shape]; judges err on their own."""
    seen = severity + rng.normal(0, noise, (judges, *severity.shape))
    return np.asarray(1 + np.searchsorted(np.asarray(cuts, float), seen), np.int64)


def ensemble(scores: np.ndarray, mode: str, neutral: int | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Score, unrounded mean and flag of two judges [2, …]: the rounded mean, or the first's score where they are
    more than a point apart, flagged."""
    mean, apart = scores.mean(axis=0), np.abs(scores[0] - scores[1]) > 1
    return np.where(apart, scores[0], rounded(mean, mode, neutral)), mean, apart


def rounded(mean: np.ndarray, mode: str, neutral: int | None) -> np.ndarray:
    """Means of two scores, rounded: halves go up, to the even number, or towards the neutral score.

    >>> [rounded(np.array([2.5, 3.5]), mode, 3).tolist() for mode in ("half_up", "half_even", "toward_neutral")]
    [[3, 4], [2, 4], [3, 3]]
    """
    if mode == "half_even" or (mode == "toward_neutral" and neutral is None):
        return np.asarray(np.rint(mean), np.int64)
    up = np.floor(mean + 0.5)
    nearer = np.where(mean > neutral, np.ceil(mean - 0.5), up) if mode == "toward_neutral" else up
    return np.asarray(nearer, np.int64)


@dataclass(frozen=True)
class Audit:
    """A simulated audit's frames, as the analysis takes them."""

    scores: pl.DataFrame  # trial × axis
    judged: pl.DataFrame  # trial × axis × judge


def audit(
    protocol: Protocol,
    seed: int,
    rates: Mapping[str, ArrayLike] | None = None,
    editors: Sequence[str] = ("e1", "e2", "e3"),
    *,
    per_cell: int = 1,
    prompts: Sequence[str] | None = None,
    rounding: str = "half_up",
    spread: Spread = MIDDLING,
    noise: float = 0.5,
) -> Audit:
    """A whole audit of the protocol's groups, prompts and axes under two judges, with planted severities.

    `rates`: axis -> [editors, groups of the reference group's dimension] (or anything that spreads to it): the
    probability that severity is above 0. That is a score of 3 and more on an unsigned axis and a change upwards on
    a signed one, before judges err. An axis that is not named has 0.1 (signed: 0.5, which is as likely up as down;
    without a neutral score: 0.9), for every group alike. `per_cell` persons are in each cell of the groups.
    """
    rng = np.random.default_rng(seed)
    trials = _trials(protocol, editors, per_cell, prompts)
    shape = (len(editors), len(protocol.groups.ids(main_dimension(protocol))))
    persons = trials["person"].n_unique() // shape[1]
    parts = []
    for axis in protocol.rubrics.axes:
        planted = np.broadcast_to(np.asarray((rates or {}).get(axis.id, _usual(axis)), float), shape)
        bad = severities(rng, planted, persons, trials["prompt"].n_unique(), spread).ravel()
        each = judges_scores(rng, bad, EVEN_CUTS if axis.is_signed else CUTS, noise=noise)
        parts.append(_axis_frame(protocol, axis, trials, each, rounding))
    scores = pl.concat(parts)
    return Audit(scores.drop("by_judge"), _by_judge(scores))


def main_dimension(protocol: Protocol) -> str:
    """The dimension whose reference group everyone else is set against."""
    return next(iter(protocol.groups.reference_group))


def _usual(axis: Axis) -> float:
    if axis.neutral is None:
        return 0.9
    return 0.5 if axis.is_signed else 0.1


def _trials(
    protocol: Protocol, editors: Sequence[str], per_cell: int, prompts: Sequence[str] | None
) -> pl.DataFrame:
    """One row a trial: editor by editor, group by group, person by person, prompt by prompt."""
    main = main_dimension(protocol)
    dimensions = [main, *(d for d in protocol.groups.dimensions if d != main)]
    cells = product(*(protocol.groups.ids(d) for d in dimensions), range(per_cell))
    rows = [{"person": "-".join(map(str, cell)), **dict(zip(dimensions, cell, strict=False))} for cell in cells]
    asked = [protocol.prompt[name] for name in (prompts or protocol.prompt)]
    texts = pl.DataFrame([{"prompt": p.id, "category": p.category, "subcategory": p.subcategory} for p in asked])
    crossed = pl.DataFrame({"editor": list(editors)}).join(
        pl.DataFrame(rows), how="cross", maintain_order="left_right"
    )
    crossed = crossed.join(texts, how="cross", maintain_order="left_right")
    arm = next(iter(protocol.arms))
    return crossed.with_columns(
        pl.concat_str("editor", "person", "prompt", separator=":").alias("trial"),
        pl.lit(arm).alias("arm"),
        pl.lit(0, pl.Int64).alias("seed"),
    )


def _axis_frame(
    protocol: Protocol, axis: Axis, trials: pl.DataFrame, each: np.ndarray, rounding: str
) -> pl.DataFrame:
    score, mean, apart = ensemble(each, rounding, axis.neutral)
    here = [p for p in trials["prompt"].unique(maintain_order=True) if axis.id in protocol.axes_of(p)]
    requested = [p for p in here if not protocol.unrequested(p, axis.id)]
    return trials.with_columns(
        pl.lit(axis.id).alias("axis"),
        pl.lit(axis.neutral, pl.Int64).alias("neutral"),
        pl.col("prompt").is_in(requested).alias("requested"),
        pl.Series("score", score, pl.Int64),
        pl.Series("mean", mean, pl.Float64),
        pl.lit(False).alias("single"),
        pl.Series("flagged", apart, pl.Boolean),
        pl.Series("by_judge", each.T, pl.Array(pl.Int64, len(each))),
    ).filter(pl.col("prompt").is_in(here))


def _by_judge(scores: pl.DataFrame) -> pl.DataFrame:
    """Each judge's own score of each trial and axis."""
    parts = [
        scores.with_columns(
            pl.lit(f"judge-{rank + 1}").alias("judge"),
            pl.lit(rank, pl.Int64).alias("rank"),
            pl.col("by_judge").arr.get(rank).alias("score"),
            pl.lit("ok").alias("status"),
        )
        for rank in range(2)
    ]
    return pl.concat(parts).drop("by_judge")
