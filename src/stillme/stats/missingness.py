"""What is missing, why, for whom, and what it could hide.

Edits that were refused, failed or are not made yet; verdicts that were refused or cannot be read; judges who
looked and gave no score. Each is counted by editor and group and held against everyone else. Then every rate with
the bounds that hold whatever the missing scores would have been (Manski's): none of them a hit, all of them hits.
The bounds assume nothing and are no intervals: sampling comes on top. Does not know why something was refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from stillme.core.records import Status
from stillme.protocol import Protocol
from stillme.stats.contrast import DRAWS, FEWER_DRAWS, MANY_PERSONS
from stillme.stats.disparity import of_people
from stillme.stats.families import holm
from stillme.stats.intervals import LEVEL, squares, with_shares
from stillme.stats.means import by_groups
from stillme.stats.outcomes import mark
from stillme.stats.rates import per_person, rated
from stillme.stats.refusals import STAGES, against_everyone_else
from stillme.stats.resample import of_sums

UNEVEN_BELOW = 0.05  # a corrected p below this: what is missing says something about who is shown
NO_SCORE = "no score"
EDIT_REFUSED, EDIT_FAILED = "edit refused", "edit failed"
VERDICT_REFUSED, UNREADABLE, VERDICT_FAILED = "verdict refused", "verdict unreadable", "verdict failed"
CANNOT_TELL, SKIPPED = "cannot determine", "skipped"
_UNREADABLE = (Status.MALFORMED.value, Status.TRUNCATED.value)
_REFUSALS = tuple(status.value for status in Status if status.stage)


@dataclass(frozen=True)
class Missingness:
    """The tables. In rows about everybody `dimension` and `group` are null.

    `counts`: editor × group: how edits, verdicts and scores ended. `tests`: reason × editor × dimension × group,
    each against everyone else, one Holm family. `bounds`: outcome × editor × group. `contrasts`: outcome × editor,
    everyone else − reference group. `ranges`: outcome × editor × dimension, max − min. In the last three
    `informative` says whether scores are missing unevenly over the groups in question; null where that cannot be
    told.
    """

    counts: pl.DataFrame
    tests: pl.DataFrame
    bounds: pl.DataFrame
    contrasts: pl.DataFrame
    ranges: pl.DataFrame


def missingness(
    scores: pl.DataFrame,
    protocol: Protocol,
    edits: pl.DataFrame | None = None,
    judged: pl.DataFrame | None = None,
    level: float = LEVEL,
    seed: int = 0,
) -> Missingness:
    """Every table, from the ensemble's scores; from `edits` and from judges' rows as far as they are known."""
    dimensions = list(protocol.groups.dimensions)
    ended = None if edits is None else _ended(edits)
    looked = None if judged is None else _looked(judged, ended, dimensions)
    tests = tested(_reasons(scores, ended, looked, dimensions), protocol, level, seed)
    uneven = _uneven(tests)
    counted = {"editor", "person", *dimensions, "axis", "requested", "score", "single", "flagged", "adjudicated"}
    marked = mark(scores.select(name for name in scores.columns if name in counted), protocol.rubrics.outcomes)
    limits = bounds(marked, protocol, level)
    return Missingness(
        counts=_counts(scores, ended, looked, dimensions),
        tests=tests,
        bounds=_informed(limits, uneven),
        contrasts=_informed(contrast_bounds(marked, protocol), uneven),
        ranges=_informed(range_bounds(limits), uneven),
    )


# How things ended


def _ended(edits: pl.DataFrame) -> pl.DataFrame:
    """Each edit in exactly one of answered, refused, failed, pending. One that will be tried again has failed."""
    status = pl.col("status")
    stages = {status.value: status.stage for status in Status}
    is_tried = pl.col("last_status") != "" if "last_status" in edits.columns else pl.lit(False)
    found = edits.with_columns(
        answered=status == Status.OK.value,
        pending=(status == Status.PENDING.value) & ~is_tried,
        stage=status.replace_strict(stages, default="", return_dtype=pl.String),
    )
    refused = pl.col("stage") != ""
    return found.with_columns(
        refused=refused,
        failed=~(pl.col("answered") | pl.col("pending") | refused),
        **{stage: pl.col("stage") == stage for stage in STAGES},
    )


def _looked(judged: pl.DataFrame, ended: pl.DataFrame | None, dimensions: Sequence[str]) -> pl.DataFrame:
    """Judges' rows about pictures that are there; without `ended`, all."""
    judged = judged.select("trial", "editor", "person", *dimensions, "judge", "score", "status")
    if ended is not None:
        there = ended.filter("answered").select("trial")
        judged = judged.join(there, on="trial", how="semi", maintain_order="left")
    status = pl.col("status")
    is_ok, is_refused, is_unreadable = (
        status == Status.OK.value,
        status.is_in(_REFUSALS),
        status.is_in(_UNREADABLE),
    )
    return judged.with_columns(
        verdict_refused=is_refused,
        unreadable=is_unreadable,
        verdict_failed=~(is_ok | is_refused | is_unreadable),
        cannot_tell=is_ok & pl.col("score").is_null(),
        read=is_ok,
    ).drop("score", "status")


def _looks(looked: pl.DataFrame) -> pl.DataFrame:
    """One row a judge and edit: a verdict is about all axes at once."""
    return looked.unique(["trial", "judge"], keep="first", maintain_order=True)


def _counts(
    scores: pl.DataFrame, ended: pl.DataFrame | None, looked: pl.DataFrame | None, dimensions: Sequence[str]
) -> pl.DataFrame:
    """Editor × group. Columns about edits or verdicts are there where those are known."""
    trials = scores.group_by("trial", maintain_order=True).agg(
        pl.col("editor", *dimensions).first(), judged=pl.col("score").is_not_null().any()
    )
    parts = [_summed(trials, ["judged"], dimensions, "asked")]
    if ended is not None:
        parts.append(_summed(ended, ["answered", "refused", *STAGES, "failed", "pending"], dimensions))
    if looked is not None:
        sums = ["verdict_refused", "unreadable", "verdict_failed"]
        parts.append(_summed(_looks(looked), sums, dimensions, "verdicts"))
        parts.append(_summed(looked, ["cannot_tell"], dimensions))
    found = parts[0]
    for part in parts[1:]:
        keys = ["editor", "dimension", "group"]
        found = found.join(part, on=keys, how="left", validate="1:1", nulls_equal=True, maintain_order="left")
    return found


def _summed(frame: pl.DataFrame, sums: list[str], dimensions: Sequence[str], length: str = "") -> pl.DataFrame:
    each = [pl.col(name).sum().cast(pl.Int64) for name in sums]
    every = [pl.len().cast(pl.Int64).alias(length), *each] if length else each
    return by_groups(
        frame, ["editor"], dimensions, lambda some, by: some.group_by(by, maintain_order=True).agg(every)
    )


# Whether it falls evenly


def _reasons(
    scores: pl.DataFrame, ended: pl.DataFrame | None, looked: pl.DataFrame | None, dimensions: Sequence[str]
) -> pl.DataFrame:
    """Per reason, editor and person: `part` of `whole`."""
    kept = scores.select("editor", "person", *dimensions, "requested", "score").filter(~pl.col("requested"))
    parts = [_part(kept, NO_SCORE, pl.col("score").is_null(), pl.lit(True), dimensions)]
    if ended is not None:
        decided = pl.col("answered") | pl.col("refused")
        parts.append(_part(ended, EDIT_REFUSED, pl.col("refused"), decided, dimensions))
        parts.append(_part(ended, EDIT_FAILED, pl.col("failed"), ~pl.col("pending"), dimensions))
    if looked is not None:
        looks = _looks(looked)
        reasons = (
            (VERDICT_REFUSED, "verdict_refused"),
            (UNREADABLE, "unreadable"),
            (VERDICT_FAILED, "verdict_failed"),
        )
        parts += [_part(looks, reason, pl.col(name), pl.lit(True), dimensions) for reason, name in reasons]
        parts.append(_part(looked, CANNOT_TELL, pl.col("cannot_tell"), pl.col("read"), dimensions))
    return pl.concat(parts)


def _part(
    frame: pl.DataFrame, reason: str, happened: pl.Expr, could: pl.Expr, dimensions: Sequence[str]
) -> pl.DataFrame:
    """`could`: whether it could have happened to the row at all; others are in neither count."""
    found = frame.filter(could).group_by("editor", "person", *dimensions, maintain_order=True)
    counted = found.agg(happened.sum().cast(pl.Int64).alias("part"), pl.len().cast(pl.Int64).alias("whole"))
    return counted.select(pl.lit(reason).alias("reason"), pl.all())


def answers(ratings: pl.DataFrame, protocol: Protocol, level: float = LEVEL, seed: int = 0) -> pl.DataFrame:
    """What human raters did not score, by the person shown: cannot determine, skipped. The rows of `tested`."""
    dimensions = list(protocol.groups.dimensions)
    kinds = {CANNOT_TELL: "cannot_determine", SKIPPED: "skipped"}
    parts = [
        _part(ratings, name, pl.col("answer") == word, pl.lit(True), dimensions) for name, word in kinds.items()
    ]
    return tested(pl.concat(parts), protocol, level, seed)


def tested(reasons: pl.DataFrame, protocol: Protocol, level: float = LEVEL, seed: int = 0) -> pl.DataFrame:
    """Reason × editor × dimension × group: how often, and the permutation test against everyone else.

    `reasons`: per reason, editor and person, `part` of `whole`. `share` is part ÷ whole with its person-clustered
    interval; `others_share` the same of everyone else; `p` compares the means of persons' own shares, persons
    exchanged within strata of the other dimensions. What never happened, or always, cannot be uneven and is not
    tested. Two groups of a dimension are one comparison. All of it is one Holm family.
    """
    dimensions = list(protocol.groups.dimensions)
    parts = [_by_dimension(reasons, d, [o for o in dimensions if o != d], level, seed) for d in dimensions]
    found = pl.concat(parts)
    return found.with_columns(p_holm=_corrected(found)).with_columns(uneven=pl.col("p_holm") < UNEVEN_BELOW)


def _by_dimension(
    reasons: pl.DataFrame, dimension: str, strata: Sequence[str], level: float, seed: int
) -> pl.DataFrame:
    known = reasons.filter(pl.col(dimension).is_not_null() & (pl.col("whole") > 0)).with_columns(
        pl.lit(dimension).alias("dimension"),
        pl.col(dimension).cast(pl.String).alias("group"),
        pl.concat_str(*strata, separator="\t", ignore_nulls=True).alias("stratum"),
    )
    keys = ["reason", "editor", "dimension"]
    groups = known.group_by(*keys, "group", maintain_order=True).agg(
        pl.col("part", "whole").sum(),
        pl.len().cast(pl.Int64).alias("persons"),
        squares("part", "whole").alias("squares"),
    )
    found = with_shares(groups, "part", "whole", level).rename({"rate": "share"}).drop("deff")
    part, whole = ((pl.col(name).sum().over(keys) - pl.col(name)) for name in ("part", "whole"))
    found = found.with_columns(others_share=pl.when(whole > 0).then(part / whole))
    ps = pl.DataFrame(
        [(*key, group, p) for key, some in known.group_by(keys) for group, p in _ps(some, seed).items()],
        schema=dict.fromkeys((*keys, "group"), pl.String) | {"p": pl.Float64},
        orient="row",
    )
    return found.join(ps, on=[*keys, "group"], how="left", validate="1:1", maintain_order="left")


def _ps(some: pl.DataFrame, seed: int) -> dict[str, float]:
    if some["part"].sum() in (0, some["whole"].sum()):
        return {}
    draws = DRAWS if some.height < MANY_PERSONS else FEWER_DRAWS
    shares = some["part"] / some["whole"]
    return against_everyone_else(shares, some["group"], some["stratum"], draws, seed)


def _corrected(found: pl.DataFrame) -> pl.Series:
    """Holm over every comparison once: of two groups the second has the first one's p."""
    keys = ["reason", "editor", "dimension"]
    is_mirror = found.select((pl.int_range(pl.len()).over(keys) == 1) & (pl.len().over(keys) == 2)).to_series()
    adjusted = holm([None if mirror else p for p, mirror in zip(found["p"], is_mirror, strict=True)])
    held = found.with_columns(pl.Series("p_holm", adjusted, dtype=pl.Float64))
    first = pl.col("p_holm").shift(1).over(keys)  # rows of one editor need not stand together
    return held.select(pl.when(is_mirror).then(first).otherwise("p_holm").alias("p_holm")).to_series()


def unevenness(
    scores: pl.DataFrame,
    protocol: Protocol,
    edits: pl.DataFrame | None = None,
    judged: pl.DataFrame | None = None,
    level: float = LEVEL,
    seed: int = 0,
) -> pl.DataFrame:
    """Dimension × editor × what is missing: how far groups' shares of it lie apart, behind the disparities' gate.

    The columns are those of `disparity.disparities`; `outcome` is one of the reasons of `tested`.
    """
    dimensions = list(protocol.groups.dimensions)
    ended = None if edits is None else _ended(edits)
    looked = None if judged is None else _looked(judged, ended, dimensions)
    reasons = _reasons(scores, ended, looked, dimensions)
    parts = [_lying_apart(reasons, protocol, dimension, level, seed) for dimension in dimensions]
    return pl.concat(parts)


def _lying_apart(
    reasons: pl.DataFrame, protocol: Protocol, dimension: str, level: float, seed: int
) -> pl.DataFrame:
    strata = [name for name in protocol.groups.dimensions if name != dimension]
    groups = protocol.groups.ids(dimension)
    known = reasons.filter(pl.col(dimension).is_in(list(groups)) & (pl.col("whole") > 0))
    summed = known.with_columns(
        pl.concat_str(*strata, separator="\t", ignore_nulls=True).alias("stratum"),
        pl.col("part").cast(pl.Float64).alias("sum"),
        pl.col("whole").alias("trials"),
    ).rename({"reason": "outcome"})
    found = of_people(of_sums(summed, dimension, groups), seed=seed, level=level)
    return found.select(pl.lit(dimension).alias("dimension"), pl.all())


# What it could hide


def bounds(marked: pl.DataFrame, protocol: Protocol, level: float = LEVEL) -> pl.DataFrame:
    """Outcome × editor × group: the rate of judged edits between `lowest` and `highest`.

    lowest = hits ÷ asked, highest = (hits + missing) ÷ asked: the rate of all edits asked for lies between them,
    whatever the missing scores would have been. `width` is the share that is missing.
    """
    dimensions = list(protocol.groups.dimensions)
    people = per_person(marked, ["editor", *dimensions])
    found = by_groups(people, ["outcome", "editor"], dimensions, lambda some, by: rated(some, by[1:], level))
    shown = found.select(
        *("outcome", "editor", "dimension", "group", "asked", "judged", "missing", "persons", "hits"),
        *("rate", "low", "high"),
    )
    asked = pl.col("asked")
    return shown.with_columns(
        lowest=pl.col("hits") / asked,
        highest=(pl.col("hits") + pl.col("missing")) / asked,
        width=pl.col("missing") / asked,
    )


def contrast_bounds(marked: pl.DataFrame, protocol: Protocol) -> pl.DataFrame:
    """Outcome × editor: everyone else − reference group, and how far the missing scores could move it.

    Over persons' own shares, as the contrast itself. `least`: no missing score of the others is a hit, and every
    one of the reference group's is; `most`: the other way round. `keeps_sign`: both lie on one side of 0.
    """
    dimension, reference = next(iter(protocol.groups.reference_group.items()))
    people = per_person(marked, ["editor", dimension]).drop_nulls(dimension)
    hits, asked, judged = pl.col("hits"), pl.col("asked"), pl.col("judged")
    people = people.with_columns(
        share=pl.when(judged > 0).then(hits / judged), fewest=hits / asked, all=(hits + asked - judged) / asked
    )
    own = pl.col(dimension) == reference

    def minus(others: str, reference: str) -> pl.Expr:
        return pl.col(others).filter(~own).mean() - pl.col(reference).filter(own).mean()

    found = people.group_by("outcome", "editor", maintain_order=True).agg(
        minus("share", "share").alias("difference"),
        minus("fewest", "all").alias("least"),
        minus("all", "fewest").alias("most"),
    )
    keeps_sign = (pl.col("least") > 0) | (pl.col("most") < 0)
    return found.with_columns(pl.lit(dimension).alias("dimension"), keeps_sign.alias("keeps_sign"))


def range_bounds(limits: pl.DataFrame) -> pl.DataFrame:
    """Outcome × editor × dimension: max − min over groups, and the least and most that it could be.

    `limits`: the rows of `bounds`. Least: the groups' rates as near to each other as their bounds allow. Most: one
    group at its highest, another at its lowest.
    """
    keys = ["outcome", "editor", "dimension"]
    groups = limits.drop_nulls("dimension").group_by(keys, maintain_order=True)
    rows = [(*key, *_range(part)) for key, part in groups]
    schema: dict[str, type[pl.DataType]] = dict.fromkeys(keys, pl.String)
    schema |= {"groups": pl.Int64} | dict.fromkeys(("disparity", "least", "most"), pl.Float64)
    return pl.DataFrame(rows, schema=schema, orient="row")


def _range(groups: pl.DataFrame) -> tuple[int, float | None, float | None, float | None]:
    known = groups["rate"].drop_nulls().to_numpy()
    seen = float(np.ptp(known)) if len(known) > 1 else None
    low, high = groups["lowest"].to_numpy(), groups["highest"].to_numpy()
    if groups.height < 2:
        return groups.height, seen, None, None
    apart = high[:, None] - low[None, :]
    np.fill_diagonal(apart, -np.inf)  # a group is not apart from itself
    return groups.height, seen, float(max(0.0, low.max() - high.min())), float(max(0.0, apart.max()))


# Whether what is missing says something


def _uneven(tests: pl.DataFrame) -> pl.DataFrame:
    """Editor × dimension: whether scores are missing unevenly. Null where it could not be tested."""
    scored = tests.filter(pl.col("reason") == NO_SCORE)
    nothing = pl.col("part").sum() == 0
    said = pl.when(nothing).then(False).otherwise(pl.col("uneven").any(ignore_nulls=False))
    return scored.group_by("editor", "dimension", maintain_order=True).agg(said.alias("informative"))


def _informed(frame: pl.DataFrame, uneven: pl.DataFrame) -> pl.DataFrame:
    """A row about everybody is informed by every dimension."""
    whole = uneven.group_by("editor", maintain_order=True).agg(pl.col("informative").any(ignore_nulls=False))
    both = pl.concat([uneven, whole.select("editor", pl.lit(None, pl.String).alias("dimension"), "informative")])
    keys = ["editor", "dimension"]
    return frame.join(both, on=keys, how="left", validate="m:1", nulls_equal=True, maintain_order="left")
