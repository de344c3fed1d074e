"""Does a sentence before the prompt change what an editor does? Arms of the same case, held against each other.

A case is a portrait × prompt × editor, edited once in every arm. Of two arms the difference is taken case by
case; a case counts only where both arms have a score, and those that lack one are counted beside. The unit is the
person: differences are averaged within a person first. Intervals are Student's over persons; p-values come from
flipping the sign of whole persons, and are corrected over every comparison × axis (Holm).

What is compared: on an axis with a point that means "nothing changed", how far the score is from it, without the
cells where the prompt itself asks for a change; on an axis without one, the score. Does not know what an arm says.
How cases were chosen is told, and looked for in the data (`selection`). A change is never set against its own
baseline: the two correlate without any effect.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from stillme.protocol import Protocol
from stillme.stats.contrast import DRAWS, FEWER_DRAWS, MANY_PERSONS, permutation_p, welch
from stillme.stats.drift import CASE, changes, directions, refuse_twice, signed_axes
from stillme.stats.families import holm
from stillme.stats.flips import FLIPS, flipped_p
from stillme.stats.intervals import LEVEL
from stillme.stats.means import by_groups, mean_of_persons
from stillme.stats.selection import Selection, asks_again, is_plain, selection
from stillme.stats.tradeoff import Tradeoff, tradeoff
from stillme.stats.treatment import no_worse, omnibus, signed_ranks

SCORE, AMOUNT, NET = "score", "amount", "net"  # what a published table's mean is of


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

    `selection`: what the data say of such a choice. `published`: the means of tables 14 and 19, see `seed_tables`.
    `ranks`: the published signed-rank test, per edit and per person. `omnibus`: whether the effect is the same for
    all groups. `no_worse`: whether edits are still made. `tradeoff`: drift against success.
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
    selection: Selection | None = None
    published: pl.DataFrame | None = None
    ranks: pl.DataFrame | None = None
    omnibus: pl.DataFrame | None = None
    no_worse: pl.DataFrame | None = None
    tradeoff: Tradeoff | None = None

    @property
    def is_selected(self) -> bool:
        """Told so, or looking so: either way nothing may be claimed against the edits that were chosen by."""
        return self.selected_on_outcome or (self.selection is not None and self.selection.suspected)

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
    refuse_twice(scores)
    dimensions = list(protocol.groups.dimensions)
    chosen = selection(scores, protocol, seed)
    wanted = contrasts(protocol, set(scores["arm"]), selected_on_outcome or chosen.suspected)
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
        selection=chosen,
        published=seed_tables(scores, protocol),
        ranks=signed_ranks(pairs),
        omnibus=omnibus(_of_features(pairs, protocol), protocol, seed=seed),
        no_worse=no_worse(pairs, protocol),
        tradeoff=tradeoff(scores, protocol),
    )


# What is compared with what


def contrasts(protocol: Protocol, arms: Collection[str], selected_on_outcome: bool) -> list[Contrast]:
    """Every arm against the prompt alone; the feature prompt against a neutral sentence as well.

    Where cases were chosen by their outcome, also against the same prompt asked again: both of these were made
    after the choice, so that only their difference is the sentence's.
    """
    present = [arm for arm in protocol.manifest.arms if arm.id in arms]
    plain = [arm.id for arm in present if is_plain(arm)]
    features = [arm.id for arm in present if arm.lead == "features"]
    others = [arm.id for arm in present if arm.id not in plain]
    found = [Contrast(arm, plain[0]) for arm in (*features, *(a for a in others if a not in features)) if plain]
    beside = [arm.id for arm in present if arm.lead == "placebo" or (selected_on_outcome and asks_again(arm))]
    return found + [Contrast(arm, other) for arm in features for other in beside]


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


# Is it the same for everybody?

_UNEVEN = {
    **dict.fromkeys(("arm", "against", "axis"), pl.String),
    **dict.fromkeys(("reference_persons", "others_persons"), pl.Int64),
    **dict.fromkeys(("reference_mean", "others_mean", "difference", "low", "high", "p"), pl.Float64),
}


def _uneven(pairs: pl.DataFrame, protocol: Protocol, seed: int) -> pl.DataFrame:
    """The effect on everyone else minus that on the reference group; corrected over all rows."""
    chosen = _of_features(pairs, protocol).drop_nulls("difference")
    frame = pl.DataFrame(list(_uneven_rows(chosen, protocol, seed)), schema=_UNEVEN)
    return frame.with_columns(pl.Series("p_holm", holm(frame["p"].to_list()), dtype=pl.Float64))


def _of_features(pairs: pl.DataFrame, protocol: Protocol) -> pl.DataFrame:
    """The comparisons of the arm that has features before the prompt."""
    leads = [arm.id for arm in protocol.manifest.arms if arm.lead == "features"]
    return pairs.filter(pl.col("arm").is_in(leads))


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
            draws = DRAWS if people.height < MANY_PERSONS else FEWER_DRAWS
            yield {
                **dict(zip(("arm", "against", "axis"), key, strict=True)),
                "reference_persons": len(own),
                "others_persons": len(others),
                "reference_mean": mean_of_persons(own).mean,
                "others_mean": mean_of_persons(others).mean,
                "difference": found.difference,
                "low": found.low,
                "high": found.high,
                "p": permutation_p(people["difference"], is_reference, stratum, draws, seed),
            }


# The published tables


_PUBLISHED = {
    **dict.fromkeys(("dimension", "group", "axis", "quantity"), pl.String),
    **dict.fromkeys(("cases", "persons"), pl.Int64),
    **dict.fromkeys(("baseline", "feature", "delta"), pl.Float64),
}


def seed_tables(scores: pl.DataFrame, protocol: Protocol, by: str = "", order: Sequence[str] = ()) -> pl.DataFrame:
    """Tables 14 and 19 as published: group × axis, the mean of the prompt alone, of the feature prompt, and delta.

    Means are over edits that have a score in both arms, every edit counting alike: for comparison with what was
    published, not for claims. `quantity`: the score; of signed axes the amount |score − neutral| and, apart, the
    net direction, share above neutral − share below. `by`: a dimension, without it that of the protocol's main
    table. `order`: groups in the order of rows (see `published_order`); else the protocol's. Everybody's rows are
    the last.
    """
    by = by or protocol.manifest.tables.change_by_group.by
    wanted = [
        one for one in contrasts(protocol, set(scores["arm"]), False) if protocol.arms[one.arm].lead == "features"
    ]
    whole = pl.concat(
        [
            paired(part, wanted[:1], [by]).with_columns(quantity=pl.lit(name))
            for name, part in _quantities(scores, protocol)
        ]
    ).drop_nulls("difference")
    groups = [_deltas(whole.filter(pl.col(by) == group), by, group) for group in order or protocol.groups.ids(by)]
    return pl.concat([pl.DataFrame(schema=_PUBLISHED), *groups, _deltas(whole, None, None)])


def _quantities(scores: pl.DataFrame, protocol: Protocol) -> list[tuple[str, pl.DataFrame]]:
    signed = pl.col("axis").is_in([axis.id for axis in signed_axes(protocol)])
    moved = changes(scores, protocol)
    plain = moved.filter(~signed).with_columns(value="score")
    return [(SCORE, plain), (AMOUNT, moved.filter(signed)), (NET, directions(scores, protocol))]


def _deltas(pairs: pl.DataFrame, dimension: str | None, group: str | None) -> pl.DataFrame:
    means = pairs.group_by("axis", "quantity", maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("cases"),
        pl.col("person").n_unique().cast(pl.Int64).alias("persons"),
        pl.col("first").mean().alias("baseline"),
        pl.col("second").mean().alias("feature"),
        pl.col("difference").mean().alias("delta"),
    )
    about = {"dimension": pl.lit(dimension, pl.String), "group": pl.lit(group, pl.String)}
    return means.with_columns(**about).select(list(_PUBLISHED))


def published_order(protocol: Protocol, table: str, by: str) -> list[str]:
    """Groups in the order of a published table's rows; those that it does not name follow in the protocol's."""
    places = {row[by]: place for place, row in enumerate(protocol.published.get(table, ())) if by in row}
    groups = protocol.groups.dimensions[by]
    named = {
        one.id: min((places[w] for w in (one.label, *one.aliases) if w in places), default=len(places))
        for one in groups
    }
    return sorted(named, key=lambda group: named[group])


# What came of each arm


def _arms(scores: pl.DataFrame) -> pl.DataFrame:
    """Per arm: cases asked for, with a score on any axis, without one, and cases that it was not asked of."""
    cases = scores.select(CASE).n_unique() if scores.height else 0
    trials = scores.group_by("arm", "trial", maintain_order=True).agg(pl.col("score").is_not_null().any())
    frame = trials.group_by("arm", maintain_order=True).agg(
        asked=pl.len().cast(pl.Int64), scored=pl.col("score").sum().cast(pl.Int64)
    )
    return frame.with_columns(missing=pl.col("asked") - pl.col("scored"), unasked=cases - pl.col("asked"))
