"""Rates by judges, corrected by what people saw on a part of the outputs (prediction-powered inference).

Judges see every output and may err differently for different groups; people see few outputs and are what is
meant. Per group, the mean error of the judges on the outputs that people rated too (the rectifier) is added to
the judges' rate over all outputs. One rectifier for everybody would cancel in every difference between groups and
leave the judges' error in it, so each group has its own. Persons are the unit in both parts together: a person's
outputs with and without labels share that person. It does not know why a label is missing (labelled outputs must
be drawn at random, or with known probabilities), nor how raters differ (their agreement says so).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import special

from stillme.core.errors import InputError
from stillme.stats.intervals import FEWEST_FOR_INTERVAL, LEVEL, wilson

TINY = 1e-18  # influences are shares of a share: smaller sums of squares are rounding
JUDGES, RATERS, CORRECTED, TUNED = METHODS = ("judges", "raters", "corrected", "tuned")

Floats = NDArray[np.float64]
_SUMS = ["outputs", "hits", "weight", "human", "both"]


@dataclass(frozen=True)
class Rectified:
    """Four answers to the same question, a row each: `judges` alone, `raters` alone, judges `corrected` by raters,
    and `tuned`: corrected with the judges' part weighted by how much it helps (`power` 0: raters alone; 1: as
    corrected)."""

    rates: pl.DataFrame  # by × outcome × group × method
    contrasts: pl.DataFrame  # by × outcome × method: everyone else − the reference group


@dataclass(frozen=True)
class People:
    """Sums per person of one group, all that estimates need.

    `sums` has a column each for the outputs judged, the judges' hits among them and, over labelled outputs
    weighted by 1 ÷ probability, their weight, the raters' yes and the judges' hits. `labelled` counts the
    labelled outputs.
    """

    sums: Floats  # persons × 5
    labelled: Floats

    @property
    def persons(self) -> int:
        return len(self.sums)

    @property
    def labelled_persons(self) -> int:
        return int((self.labelled > 0).sum())

    @property
    def outputs(self) -> float:
        return float(self.sums[:, 0].sum())


@dataclass(frozen=True)
class Estimate:
    """A rate, its variance between persons, and the persons that the variance rests on."""

    value: float
    variance: float
    persons: int


def rectified(
    marked: pl.DataFrame,
    labels: pl.DataFrame,
    dimension: str,
    reference: str,
    by: Sequence[str] = ("editor",),
    level: float = LEVEL,
) -> Rectified:
    """Rates per group of `dimension` and everyone else − `reference`, per `by` (none: pooled) and outcome.

    `marked` has trial, person, outcome, hit (null: not judged, left out) and the group. `labels` has trial,
    outcome and human: 1 or 0 by the raters' majority, 0.5 where they are split, null where nobody could tell;
    and, where outputs were not drawn evenly, the `probability` with which each was. Everyone else is the mean of
    the other groups, each with its own rectifier, weighted by their judged outputs.
    """
    keys = [*by, "outcome"]
    people = per_person(marked, labels, dimension, keys)
    rates: list[dict[str, object]] = []
    contrasts: list[dict[str, object]] = []
    for key, cell in people.group_by(keys, maintain_order=True):
        head = dict(zip(keys, key, strict=True))
        groups = {str(name): _people(part) for (name,), part in cell.group_by(dimension, maintain_order=True)}
        power = best_power(groups.values())
        rates += [{**head, **row} for name, part in groups.items() for row in _rates(name, part, power, level)]
        contrasts += [{**head, **row} for row in _contrasts(groups, reference, power, level)]
    first = {name: people.schema[name] for name in keys}
    return Rectified(
        pl.DataFrame(rates, schema={**first, "group": pl.String, **_SCHEMA}),
        pl.DataFrame(contrasts, schema={**first, **_SCHEMA}),
    )


_SCHEMA = {
    "method": pl.String,
    "estimate": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "power": pl.Float64,
    "outputs": pl.Int64,
    "labelled": pl.Int64,
    "persons": pl.Int64,
    "labelled_persons": pl.Int64,
    "reason": pl.String,
}


def per_person(marked: pl.DataFrame, labels: pl.DataFrame, dimension: str, keys: Sequence[str]) -> pl.DataFrame:
    """Sums per person: what `People` holds. Outputs without a verdict of the judges, or a group, are left out."""
    _once(marked, "the table of outcomes")
    _once(labels, "the table of labels")
    weight = _weights(labels) if "probability" in labels.columns else pl.lit(1.0)
    known = labels.drop_nulls("human").select("trial", "outcome", pl.col("human").cast(pl.Float64), weight=weight)
    judged = marked.filter(pl.col("hit").is_not_null() & pl.col(dimension).is_not_null())
    each = judged.join(known, on=["trial", "outcome"], how="left", maintain_order="left")
    hit, weighted = pl.col("hit").cast(pl.Float64), pl.col("weight").fill_null(0.0)
    return each.group_by(*keys, dimension, "person", maintain_order=True).agg(
        pl.len().cast(pl.Float64).alias("outputs"),
        hit.sum().alias("hits"),
        pl.col("human").count().cast(pl.Float64).alias("labelled"),
        weighted.sum().alias("weight"),
        (weighted * pl.col("human").fill_null(0.0)).sum().alias("human"),
        (weighted * hit).sum().alias("both"),
    )


def _once(frame: pl.DataFrame, what: str) -> None:
    twice = frame.select("trial", "outcome").is_duplicated()
    if twice.any():
        trial, outcome = frame.filter(twice).select("trial", "outcome").row(0)
        raise InputError(f"{what} has {trial} × {outcome} more than once.", "Give one row per trial and outcome.")


def _weights(labels: pl.DataFrame) -> pl.Expr:
    known = labels.drop_nulls("human")["probability"].cast(pl.Float64)
    if known.null_count() or not ((known > 0) & (known <= 1)).all():
        raise InputError(
            "A labelled output has no probability above 0 and up to 1 of having been drawn.",
            "Give each labelled output the probability it was drawn with, or leave the column out.",
        )
    return 1 / pl.col("probability").cast(pl.Float64)


def _people(part: pl.DataFrame) -> People:
    return People(part.select(_SUMS).to_numpy(), part["labelled"].to_numpy())


def judged_rate(people: People) -> Estimate:
    """The judges' rate: hits ÷ outputs."""
    outputs, hits = people.sums[:, 0], people.sums[:, 1]
    value = float(hits.sum() / outputs.sum())
    return _estimate(value, (hits - value * outputs) / outputs.sum(), people.persons)


def corrected_rate(people: People, power: float) -> Estimate:
    """power · judges' rate + the mean over labelled outputs of (human − power · judge).

    Power 1 is the plain correction, 0 the raters' own rate. The variance is that of the sum of persons' influences
    (see `_influences`), persons being independent of each other.
    """
    own, rest = _influences(people)
    outputs, hits, weight, human, both = people.sums.sum(axis=0)
    value = power * hits / outputs + (human - power * both) / weight
    return _estimate(float(value), own + power * rest, people.labelled_persons)


def best_power(groups: Iterable[People]) -> float | None:
    """The power, within 0 and 1, at which corrected rates vary least: −Σ ab ÷ Σ b² over all labelled groups'
    persons, where a and b are a person's influences on the raters' rate and, per unit of power, on the rest.

    One for all groups: tuned on a dozen persons each it would chase their noise (intervals then cover 90–93 %),
    and any power leaves the rectifiers, which every group has of its own, to do their work.
    """
    parts = [_influences(people) for people in groups if people.labelled_persons]
    square = sum(float((rest**2).sum()) for _, rest in parts)
    if not parts or square <= TINY:
        return None
    return min(1.0, max(0.0, -sum(float((own * rest).sum()) for own, rest in parts) / square))


def _influences(people: People) -> tuple[Floats, Floats]:
    """A person's influence on the raters' rate, (human − rate · weight) ÷ Σ weight, and, per unit of power, on the
    rest: the same of hits over all outputs minus that of the judges' hits over labelled ones."""
    outputs, hits, weight, human, both = people.sums.T
    everywhere = (hits - hits.sum() / outputs.sum() * outputs) / outputs.sum()
    labelled = (both - both.sum() / weight.sum() * weight) / weight.sum()
    return (human - human.sum() / weight.sum() * weight) / weight.sum(), everywhere - labelled


def _estimate(value: float, influence: Floats, persons: int) -> Estimate:
    scale = persons / (persons - 1) if persons > 1 else 1.0
    return Estimate(value, scale * float((influence**2).sum()), persons)


def estimates(people: People, power: float | None) -> dict[str, Estimate]:
    """Method -> estimate; without labels only the judges', without a power not the tuned one."""
    found = {JUDGES: judged_rate(people)}
    if people.labelled_persons:
        powers = {RATERS: 0.0, CORRECTED: 1.0, TUNED: power}
        found |= {method: corrected_rate(people, own) for method, own in powers.items() if own is not None}
    return found


def _rates(name: str, people: People, power: float | None, level: float) -> Iterable[dict[str, object]]:
    found = estimates(people, power)
    for method in METHODS:
        reason = _too_few({name: people}, method) or _untuned(power, method)
        row = {"group": name, "method": method, **_counts([people]), "reason": reason}
        if method in found:
            row |= {"estimate": min(1.0, max(0.0, found[method].value)), "power": _of(power, method)}
        if reason is None:
            row |= _limits(found[method], people.outputs, level)
        yield row


def _of(power: float | None, method: str) -> float | None:
    return power if method == TUNED else None


def _untuned(power: float | None, method: str) -> str | None:
    return "the judges' verdicts never vary" if method == TUNED and power is None else None


def _limits(estimate: Estimate, outputs: float, level: float) -> dict[str, float]:
    """Wilson's interval at the number of outputs that would vary as much as this estimate does, with Student's t.

    Where nothing varies, or the estimate lies at an end, each labelled person counts as one output.
    """
    rate = min(1.0, max(0.0, estimate.value))
    spread = rate * (1 - rate)
    n = min(outputs, spread / estimate.variance) if spread > 0 and estimate.variance > 0 else estimate.persons
    low, high = wilson(rate, n, float(special.stdtrit(estimate.persons - 1, 0.5 + level / 2)))
    return {"low": low, "high": high}


def _contrasts(
    groups: Mapping[str, People], reference: str, power: float | None, level: float
) -> Iterable[dict[str, object]]:
    found = {name: estimates(people, power) for name, people in groups.items()}
    shares = _shares(groups, reference)
    for method in METHODS:
        reason = _uncompared(groups, reference) or _too_few(groups, method) or _untuned(power, method)
        row: dict[str, object] = {"method": method, **_counts(groups.values()), "reason": reason}
        if shares and all(method in each for each in found.values()):
            parts = [(share, found[name][method]) for name, share in shares.items()]
            row |= {"power": _of(power, method), **_difference(parts, level if reason is None else None)}
        yield row


def _shares(groups: Mapping[str, People], reference: str) -> dict[str, float]:
    """Group -> its part in everyone else − reference: −1 for the reference; the others' are shares of outputs."""
    if _uncompared(groups, reference):
        return {}
    sizes = {name: people.outputs for name, people in groups.items()}
    others = sum(size for name, size in sizes.items() if name != reference)
    return {name: -1.0 if name == reference else size / others for name, size in sizes.items()}


def _difference(parts: Sequence[tuple[float, Estimate]], level: float | None) -> dict[str, object]:
    """Σ share · rate ± t · √Σ share² · variance, with Satterthwaite's degrees of freedom over the groups."""
    value = sum(share * estimate.value for share, estimate in parts)
    if level is None:
        return {"estimate": value}
    variances = [share**2 * estimate.variance for share, estimate in parts]
    total = sum(variances)
    if total <= TINY:
        return {"estimate": value, "reason": "persons do not differ"}
    spent = sum(v**2 / (estimate.persons - 1) for v, (_, estimate) in zip(variances, parts, strict=True))
    half = float(special.stdtrit(total**2 / spent, 0.5 + level / 2)) * float(np.sqrt(total))
    return {"estimate": value, "low": value - half, "high": value + half}


def _uncompared(groups: Mapping[str, People], reference: str) -> str | None:
    if reference not in groups:
        return f"no judged output of the reference group {reference}"
    return "no judged output of anyone else" if len(groups) == 1 else None


def _too_few(groups: Mapping[str, People], method: str) -> str | None:
    """Why there is no interval: the groups with too few persons (labelled ones, unless judges alone are asked)."""
    counts = {name: p.persons if method == JUDGES else p.labelled_persons for name, p in groups.items()}
    few = [f"{name} has {count}" for name, count in counts.items() if count < FEWEST_FOR_INTERVAL]
    what = "persons" if method == JUDGES else "labelled persons"
    return f"fewer than {FEWEST_FOR_INTERVAL} {what}: {', '.join(few)}" if few else None


def _counts(parts: Iterable[People]) -> dict[str, object]:
    groups = list(parts)
    return {
        "outputs": int(sum(people.outputs for people in groups)),
        "labelled": int(sum(people.labelled.sum() for people in groups)),
        "persons": sum(people.persons for people in groups),
        "labelled_persons": sum(people.labelled_persons for people in groups),
    }
