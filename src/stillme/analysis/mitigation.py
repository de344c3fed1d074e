"""Does a sentence before the prompt change what an editor does? Arms of the same case, held against each other.

A case is a portrait × prompt × editor, edited once in every arm. Of two arms the difference is taken case by
case; a case counts only where both arms have a score, and those that lack one are counted beside. The unit is the
person: differences are averaged within a person first. Intervals are Student's over persons; p-values come from
flipping the sign of whole persons, and are corrected over every comparison × axis (Holm).

What is compared: on an axis with a point that means "nothing changed", how far the score is from it, without the
cells where the prompt itself asks for a change; on an axis without one, the score. Knows neither what an arm says
nor how cases were chosen: that is told.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from stillme.analysis.contrast import FEWEST_PERSONS, TIE, permutation_p, welch
from stillme.analysis.families import holm
from stillme.analysis.intervals import LEVEL
from stillme.analysis.means import by_groups, mean_of_persons
from stillme.protocol import Protocol
from stillme.protocol.schema import Arm, Axis

FLIPS = 9_999  # p is known to about 0.0001
CASE = ("editor", "prompt", "person")


class Contrast(NamedTuple):
    """Two arms: `arm` minus `against`."""

    arm: str
    against: str


@dataclass(frozen=True)
class Mitigation:
    """The tables of the experiment. Every row of a comparison names `arm` and `against`, and is arm − against.

    `arms`: what was asked of each arm and what came of it. `effects`: comparison × axis. `directions`: the same of
    signed axes, where the value is +1, 0 or −1. `by_group`: by the groups of every dimension. `by_editor`.
    `uneven`: whether the reference group's effect differs from the others'. `unmarked`: `effects` without the
    persons whose feature prompt was marked; None where none was. `selected_on_outcome`: cases were chosen because
    something was seen in the arm `against`, so that seeing less of it anew is expected without any effect.
    """

    contrasts: tuple[Contrast, ...]
    selected_on_outcome: bool
    cases: int
    persons: int
    marked: int
    arms: pl.DataFrame
    effects: pl.DataFrame
    directions: pl.DataFrame
    by_group: pl.DataFrame
    by_editor: pl.DataFrame
    uneven: pl.DataFrame
    unmarked: pl.DataFrame | None

    def regression(self, protocol: Protocol) -> pl.DataFrame:
        """What asking the same again does: regression to the mean where cases were chosen by their outcome."""
        again = [arm.id for arm in protocol.manifest.arms if asks_again(arm)]
        return self.effects.filter(pl.col("arm").is_in(again))


def mitigation_findings(
    scores: pl.DataFrame,
    protocol: Protocol,
    *,
    selected_on_outcome: bool,
    marked: Collection[str] = (),
    seed: int = 0,
) -> Mitigation:
    """Every table of the experiment, from the ensemble's scores of its trials.

    `scores`: one row a trial and axis, missing ones included. `marked`: persons whose feature prompt holds words
    for race, ethnicity, gender or age. `seed`: of the permutations.
    """
    dimensions = list(protocol.groups.dimensions)
    wanted = contrasts(protocol, set(scores["arm"]), selected_on_outcome)
    pairs = paired(changes(scores, protocol), wanted, dimensions)
    signs = paired(directions(scores, protocol), wanted, dimensions)
    own = pairs.filter(pl.col("person").is_in(list(marked)))["person"].n_unique()
    by = ["arm", "against", "axis"]
    return Mitigation(
        contrasts=tuple(wanted),
        selected_on_outcome=selected_on_outcome,
        cases=scores.select(CASE).n_unique() if scores.height else 0,
        persons=scores["person"].n_unique(),
        marked=own,
        arms=_arms(scores),
        effects=effects(pairs, seed),
        directions=summaries(signs, by),
        by_group=by_groups(pairs, by, dimensions, summaries),
        by_editor=summaries(pairs, [*by, "editor"]),
        uneven=_uneven(pairs, protocol, seed),
        unmarked=effects(pairs.filter(~pl.col("person").is_in(list(marked))), seed) if own else None,
    )


# What is compared with what


def contrasts(protocol: Protocol, arms: Collection[str], selected_on_outcome: bool) -> list[Contrast]:
    """Every arm against the prompt alone; the feature prompt against a neutral sentence as well.

    Where cases were chosen by their outcome, also against the same prompt asked again: both of these were made
    after the choice, so that only their difference is the sentence's.
    """
    present = [arm for arm in protocol.manifest.arms if arm.id in arms]
    plain = [arm.id for arm in present if not arm.lead and not arm.prefix and not arm.seed_offset]
    features = [arm.id for arm in present if arm.lead == "features"]
    others = [arm.id for arm in present if arm.id not in plain]
    found = [Contrast(arm, plain[0]) for arm in (*features, *(a for a in others if a not in features)) if plain]
    beside = [arm.id for arm in present if arm.lead == "placebo" or (selected_on_outcome and asks_again(arm))]
    return found + [Contrast(arm, other) for arm in features for other in beside]


def asks_again(arm: Arm) -> bool:
    """Whether an arm is the prompt alone with another seed."""
    return bool(arm.seed_offset) and not arm.lead and not arm.prefix


def changes(scores: pl.DataFrame, protocol: Protocol) -> pl.DataFrame:
    """`value`: how far a score is from "nothing changed", or the score where an axis has no such point."""
    change = (pl.col("score") - pl.col("neutral")).abs()
    value = pl.when(pl.col("neutral").is_null()).then(pl.col("score")).otherwise(change)
    return _of_axes(scores, [axis for axis in protocol.rubrics.axes if is_compared(axis)]).with_columns(
        value=value
    )


def directions(scores: pl.DataFrame, protocol: Protocol) -> pl.DataFrame:
    """`value`: +1 above "nothing changed", −1 below it; of signed axes alone."""
    signed = [axis for axis in protocol.rubrics.axes if is_compared(axis) and axis.is_signed]
    return _of_axes(scores, signed).with_columns(value=(pl.col("score") - pl.col("neutral")).sign())


def is_compared(axis: Axis) -> bool:
    """Drift of an attribute of the person, or how well the edit was made; not how well an asked change fits."""
    return axis.attribute is not None or axis.neutral is None


def _of_axes(scores: pl.DataFrame, axes: Sequence[Axis]) -> pl.DataFrame:
    return scores.filter(pl.col("axis").is_in([axis.id for axis in axes]) & ~pl.col("requested"))


def paired(valued: pl.DataFrame, wanted: Sequence[Contrast], dimensions: Sequence[str]) -> pl.DataFrame:
    """One row a comparison, case and axis: `first` (against), `second` (arm), and the difference of both."""
    keys = [*CASE, "axis"]
    cases = valued.select(*keys, *dimensions).unique(keys, maintain_order=True)
    parts = [_pair(valued, cases, contrast, keys) for contrast in wanted]
    return pl.concat(parts) if parts else _pair(valued, cases, Contrast("", ""), keys).clear()


def _pair(valued: pl.DataFrame, cases: pl.DataFrame, contrast: Contrast, keys: list[str]) -> pl.DataFrame:
    joined = cases
    for name, arm in (("first", contrast.against), ("second", contrast.arm)):
        side = valued.filter(pl.col("arm") == arm).select(*keys, pl.col("value").cast(pl.Float64).alias(name))
        joined = joined.join(side, on=keys, how="left", validate="1:1", maintain_order="left")
    return joined.with_columns(
        arm=pl.lit(contrast.arm), against=pl.lit(contrast.against), difference=pl.col("second") - pl.col("first")
    )


# Estimates


_NUMBERS = ("first_mean", "second_mean", "difference", "low", "high", "sd", "zeros")
_COUNTS = ("cases", "pairs", "first_only", "second_only", "persons")
_ROW = {**dict.fromkeys(_COUNTS, pl.Int64), **dict.fromkeys(_NUMBERS, pl.Float64)}


def summaries(pairs: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """One row a group in `by`: the mean difference over persons with its interval, and what it rests on.

    `first_only`, `second_only`: cases with a score in one arm only. `zeros`: the share of pairs without any
    difference. Means of both arms are over the same pairs as the difference.
    """
    rows = [
        {**dict(zip(by, key, strict=True)), **_summary(group)}
        for key, group in pairs.group_by(*by, maintain_order=True)
    ]
    return pl.DataFrame(rows, schema={**{name: pairs.schema[name] for name in by}, **_ROW})


def _summary(group: pl.DataFrame) -> dict[str, float | int | None]:
    whole = group.drop_nulls("difference")
    people = _people(whole)
    found = mean_of_persons(people["difference"])
    zeros = (whole["difference"] == 0).mean()
    return {
        "cases": group.height,
        "pairs": whole.height,
        "first_only": group["first"].count() - whole.height,
        "second_only": group["second"].count() - whole.height,
        "persons": found.persons,
        "first_mean": mean_of_persons(people["first"]).mean,
        "second_mean": mean_of_persons(people["second"]).mean,
        "difference": found.mean,
        "low": found.low,
        "high": found.high,
        "sd": found.sd,
        "zeros": float(zeros) if isinstance(zeros, float) else None,
    }


def _people(whole: pl.DataFrame) -> pl.DataFrame:
    """Persons' own means over their pairs."""
    return whole.group_by("person", maintain_order=True).agg(pl.col("first", "second", "difference").mean())


def effects(pairs: pl.DataFrame, seed: int = 0, flips: int = FLIPS) -> pl.DataFrame:
    """Comparison × axis with p, and p corrected over all rows."""
    by = ["arm", "against", "axis"]
    frame = summaries(pairs, by)
    tested = {
        key: flipped_p(_people(group.drop_nulls("difference"))["difference"], flips, seed)
        for key, group in pairs.group_by(*by, maintain_order=True)
    }
    p = [tested[key] for key in frame.select(by).iter_rows()]
    return frame.with_columns(pl.Series("p", p, dtype=pl.Float64), pl.Series("p_holm", holm(p), dtype=pl.Float64))


def flipped_p(differences: ArrayLike, flips: int = FLIPS, seed: int = 0) -> float | None:
    """Two-sided p of persons' mean difference: were the arms alike, each person's sign could be the other.

    All patterns of signs where they are few, else `flips` drawn ones. None with fewer than 3 persons.

    >>> flipped_p([1.0, 2.0, 3.0, 4.0])
    0.125
    """
    values = np.asarray(differences, float)
    if len(values) < FEWEST_PERSONS:
        return None
    every = 2 ** min(len(values), 62)
    if every <= flips + 1:
        signs = np.arange(every)[:, None] >> np.arange(len(values)) & 1
        sums = (2.0 * signs - 1) @ values
        return float((np.abs(sums) >= abs(values.sum()) - TIE).mean())
    drawn = np.random.default_rng(seed).integers(0, 2, (flips, len(values)), dtype=np.int8)
    sums = 2.0 * (drawn @ values) - values.sum()
    return float((1 + (np.abs(sums) >= abs(values.sum()) - TIE).sum()) / (flips + 1))


# Is it the same for everybody?

_UNEVEN = {
    **dict.fromkeys(("arm", "against", "axis"), pl.String),
    **dict.fromkeys(("reference_persons", "others_persons"), pl.Int64),
    **dict.fromkeys(("reference_mean", "others_mean", "difference", "low", "high", "p"), pl.Float64),
}


def _uneven(pairs: pl.DataFrame, protocol: Protocol, seed: int) -> pl.DataFrame:
    """The effect on everyone else minus that on the reference group; corrected over all rows."""
    leads = [arm.id for arm in protocol.manifest.arms if arm.lead == "features"]
    chosen = pairs.filter(pl.col("arm").is_in(leads)).drop_nulls("difference")
    frame = pl.DataFrame(list(_uneven_rows(chosen, protocol, seed)), schema=_UNEVEN)
    return frame.with_columns(pl.Series("p_holm", holm(frame["p"].to_list()), dtype=pl.Float64))


def _uneven_rows(pairs: pl.DataFrame, protocol: Protocol, seed: int) -> Iterator[dict[str, object]]:
    for dimension, reference in protocol.groups.reference_group.items():
        strata = [name for name in protocol.groups.dimensions if name != dimension]
        known = pairs.filter(pl.col(dimension).is_not_null())
        for key, group in known.group_by("arm", "against", "axis", maintain_order=True):
            people = group.group_by("person", dimension, *strata, maintain_order=True).agg(
                pl.col("difference").mean()
            )
            is_reference = people[dimension] == reference
            own, others = people.filter(is_reference)["difference"], people.filter(~is_reference)["difference"]
            stratum = people.select(pl.concat_str(*strata, separator="\t", ignore_nulls=True)).to_series()
            found = welch(others, own, LEVEL)
            yield {
                **dict(zip(("arm", "against", "axis"), key, strict=True)),
                "reference_persons": len(own),
                "others_persons": len(others),
                "reference_mean": mean_of_persons(own).mean,
                "others_mean": mean_of_persons(others).mean,
                "difference": found.difference,
                "low": found.low,
                "high": found.high,
                "p": permutation_p(people["difference"], is_reference, stratum, seed=seed),
            }


# What came of each arm


def _arms(scores: pl.DataFrame) -> pl.DataFrame:
    """Per arm: cases asked for, with a score on any axis, without one, and cases that it was not asked of."""
    cases = scores.select(CASE).n_unique() if scores.height else 0
    trials = scores.group_by("arm", "trial", maintain_order=True).agg(pl.col("score").is_not_null().any())
    frame = trials.group_by("arm", maintain_order=True).agg(
        asked=pl.len().cast(pl.Int64), scored=pl.col("score").sum().cast(pl.Int64)
    )
    return frame.with_columns(missing=pl.col("asked") - pl.col("scored"), unasked=cases - pl.col("asked"))
