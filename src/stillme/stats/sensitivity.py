"""How much a rate hangs on choices that could have been others: thresholds, how scores become one, denominators.

None of these tables carries a claim, and none is tested: each shows a declared number beside its neighbours, so
that a conclusion which holds at one setting only can be seen. Scores are counted by person once; every variant is
read off the counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import polars as pl

from stillme.core.errors import InputError
from stillme.protocol import Protocol
from stillme.protocol.schema import Axis, Outcome
from stillme.stats.contrast import welch
from stillme.stats.intervals import LEVEL
from stillme.stats.outcomes import unrounded
from stillme.stats.rates import rated, rates

ROUNDED, UNROUNDED, ALONE = "rounded", "unrounded mean", "one judge alone"
_CONTRAST = ("reference_rate", "others_rate", "difference", "difference_low", "difference_high")


class Variant(NamedTuple):
    """An outcome at a threshold."""

    outcome: str
    rule: Outcome
    is_declared: bool

    @property
    def threshold(self) -> int:
        return next(cut for cut in (self.rule.at_least, self.rule.at_most) if cut is not None)


# Thresholds


def thresholds(scores: pl.DataFrame, protocol: Protocol, level: float = LEVEL) -> pl.DataFrame:
    """Outcome × threshold × editor: the rate at the declared threshold and one point to either side of it.

    Beside the rate stands the fixed contrast, everyone else − reference group over persons' own shares, with
    Welch's interval. Thresholds that would count every score, or the one that means "nothing changed", are left
    out.
    """
    dimension, reference = next(iter(protocol.groups.reference_group.items()))
    counts = _counts(scores, ["editor", dimension], pl.col("score").cast(pl.Float64))
    people = pl.concat([_hits(counts, one) for one in variants(protocol)])
    found = rated(_without(people, dimension), ["threshold", "is_declared", "editor"], level)
    keys = ["outcome", "threshold", "editor"]
    compared = _contrasts(people.drop_nulls(dimension), keys, dimension, reference, level)
    return found.join(compared, on=keys, how="left", validate="1:1", maintain_order="left")


def variants(protocol: Protocol) -> Iterator[Variant]:
    """Every outcome at its threshold and at its neighbours that still say something."""
    for name, outcome in protocol.rubrics.outcomes.items():
        axis = protocol.axes[outcome.axis]
        for step in (-1, 0, 1):
            rule = _moved(outcome, step)
            if step == 0 or _says_something(rule, axis):
                yield Variant(name, rule, step == 0)


def _moved(outcome: Outcome, step: int) -> Outcome:
    if outcome.at_least is not None:
        return outcome.model_copy(update={"at_least": outcome.at_least + step})
    return outcome.model_copy(update={"at_most": (outcome.at_most or 0) + step})


def _says_something(rule: Outcome, axis: Axis) -> bool:
    hits = [score for score in axis.scale if _holds(rule, score)]
    return 0 < len(hits) < len(axis.scale) and axis.neutral not in hits


def _holds(rule: Outcome, score: int) -> bool:
    return score >= rule.at_least if rule.at_least is not None else score <= (rule.at_most or 0)


def _counts(scores: pl.DataFrame, by: Sequence[str], value: pl.Expr) -> pl.DataFrame:
    """How many cells of each person have which value on which axis, without changes that the prompt asks for."""
    kept = scores.filter(~pl.col("requested")).select(*by, "person", "axis", value.alias("value"))
    return kept.group_by(*by, "person", "axis", "value", maintain_order=True).len("cells")


def _hits(counts: pl.DataFrame, one: Variant) -> pl.DataFrame:
    """Asked, judged and hits of each person."""
    value, cells = pl.col("value"), pl.col("cells").cast(pl.Int64)
    hit = value >= one.rule.at_least if one.rule.at_least is not None else value <= one.rule.at_most
    keys = [name for name in counts.columns if name not in ("axis", "value", "cells")]
    return (
        counts.filter(pl.col("axis") == one.rule.axis)
        .group_by(keys, maintain_order=True)
        .agg(
            cells.sum().alias("asked"),
            cells.filter(value.is_not_null()).sum().alias("judged"),
            cells.filter(hit).sum().alias("hits"),
        )
        .with_columns(
            outcome=pl.lit(one.outcome), threshold=pl.lit(one.threshold, pl.Int64), is_declared=one.is_declared
        )
    )


def _without(people: pl.DataFrame, dimension: str) -> pl.DataFrame:
    """A person is one person, also where a label is missing here and there."""
    keys = [name for name in people.columns if name not in (dimension, "asked", "judged", "hits")]
    return people.group_by(keys, maintain_order=True).agg(pl.col("asked", "judged", "hits").sum())


def _contrasts(
    people: pl.DataFrame, keys: Sequence[str], dimension: str, reference: str, level: float
) -> pl.DataFrame:
    judged = people.filter(pl.col("judged") > 0).with_columns(share=pl.col("hits") / pl.col("judged"))
    rows = [
        (*key, *_contrast(group, pl.col(dimension) == reference, level))
        for key, group in judged.group_by(keys, maintain_order=True)
    ]
    schema = {name: people.schema[name] for name in keys} | dict.fromkeys(_CONTRAST, pl.Float64)
    return pl.DataFrame(rows, schema=schema, orient="row")


def _contrast(group: pl.DataFrame, is_reference: pl.Expr, level: float) -> tuple[float | None, ...]:
    own, others = group.filter(is_reference)["share"], group.filter(~is_reference)["share"]
    found = welch(others, own, level, cautious=True)  # as the contrasts take it
    means = (float(part.to_numpy().mean()) if len(part) else None for part in (own, others))
    return (*means, found.difference, found.low, found.high)


# How several judges' scores become one


def scoring(
    judged: pl.DataFrame | None,
    scores_by_rounding: Mapping[str, pl.DataFrame],
    protocol: Protocol,
    level: float = LEVEL,
) -> pl.DataFrame:
    """Outcome × editor under every way of scoring: `scoring` says which kind of way, `name` which one.

    Rounded: the ensemble under each rounding mode. Unrounded: its mean, which has to reach the threshold itself.
    One judge alone: every judge's own scores, without an ensemble; `is_primary` marks the one ranked first.
    """
    parts = [
        _scored(frame, pl.col("score").cast(pl.Float64), protocol, level, ROUNDED, mode)
        for mode, frame in scores_by_rounding.items()
    ]
    some = next(iter(scores_by_rounding.values()), None)
    if some is not None and "mean" in some.columns:
        parts.append(_scored(some, unrounded(some), protocol, level, UNROUNDED, ""))
    for (judge,), frame in [] if judged is None else judged.group_by("judge", maintain_order=True):
        is_primary = bool((frame["rank"] == 0).any())
        own = pl.col("score").cast(pl.Float64)
        parts.append(_scored(frame, own, protocol, level, ALONE, str(judge), is_primary))
    if not parts:
        raise InputError("There is no way of scoring to compare.", "Give scores, or judges' own rows.")
    return pl.concat(parts)


def _scored(
    scores: pl.DataFrame,
    value: pl.Expr,
    protocol: Protocol,
    level: float,
    scoring: str,
    name: str,
    is_primary: bool | None = None,
) -> pl.DataFrame:
    counts = _counts(scores, ["editor"], value)
    declared = [one for one in variants(protocol) if one.is_declared]
    found = rated(pl.concat([_hits(counts, one) for one in declared]), ["editor"], level)
    told = {"scoring": scoring, "name": name, "is_primary": is_primary}
    return found.select(*(pl.lit(value, _TOLD[key]).alias(key) for key, value in told.items()), pl.all())


_TOLD = {"scoring": pl.String(), "name": pl.String(), "is_primary": pl.Boolean()}


def moves(variants: pl.DataFrame, within: Sequence[str] = ("outcome", "editor")) -> pl.DataFrame:
    """How far a rate moves between the variants of a table: lowest, highest, and their difference as `move`."""
    known = variants.drop_nulls("rate").group_by(list(within), maintain_order=True)
    lowest, highest = pl.col("rate").min(), pl.col("rate").max()
    return known.agg(lowest.alias("lowest"), highest.alias("highest"), (highest - lowest).alias("move"))


# Denominators


def denominators(marked: pl.DataFrame, by: Sequence[str] = ("editor",), level: float = LEVEL) -> pl.DataFrame:
    """The same hits over judged edits and over all asked, and what the missing ones could make of it.

    `rate`: hits ÷ judged, with its interval; `nominal_rate`: hits ÷ asked, which is also `lowest`, where no
    missing edit is a hit; `highest`: where every one is.
    """
    highest = (pl.col("hits") + pl.col("missing")) / pl.col("asked")
    return rates(marked, by, level).with_columns(lowest=pl.col("nominal_rate"), highest=highest)
