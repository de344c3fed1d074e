"""Several judges, one score (S0, eq. 1). Pure: a frame of judges' scores in, a frame of ensemble scores out.

    two, spread ≤ 1   the rounded mean
    two, spread > 1   the score of the one that is ranked higher, flagged for human review
    three and more    the median, rounded where it falls on .5; flagged if the spread is above 1, and still the
                      median: it does not depend on who is ranked first

Only judges who answered count: with two of three it is the rule for two. Every judge's score and the unrounded
mean stay in the frame. A missing score is missing: with no score at all the ensemble has none; a single score is
used and marked single.

A reviewer's decision takes precedence over all of this, however halves are rounded; where the reviewer cannot
tell, the score is missing. The disagreement stays flagged: a decision closes a flag, and does not undo it. The
column `standing` is the source of a score.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import polars as pl

from stillme.core.records import Adjudication
from stillme.protocol.schema import Rounding

REVIEW_ABOVE = 1  # points; a larger spread goes to a reviewer


class ScoreSource(StrEnum):
    """The source of an ensemble's score. The closed list."""

    AGREED = "agreed"  # two judges at most a point apart
    PRIMARY = "primary_decided"  # two judges further apart: the one that is ranked higher
    SINGLE = "single"
    MEDIAN = "median"  # of three judges or more
    ADJUDICATED = "adjudicated"
    CANNOT_TELL = "cannot_tell"  # a reviewer looked and cannot tell: there is no score
    MISSING = "missing"


def combine(scores: pl.DataFrame, rounding: Rounding, adjudicated: pl.DataFrame | None = None) -> pl.DataFrame:
    """One row per trial and axis: mean, score, judges, spread, flagged, single, standing, adjudicated, open,
    contested.

    `scores` has the columns trial, axis, neutral, rank (0 = primary) and score (null when the judge gave none).
    `adjudicated` has trial, axis, decided (null: cannot tell) and contested (reviewers differ);
    see `decisions`.
    """
    return rounded_by(collect_scores(scores), rounding, adjudicated)


def rounded_by(
    gathered: pl.DataFrame, rounding: Rounding, adjudicated: pl.DataFrame | None = None
) -> pl.DataFrame:
    """As `combine`, from what `collect_scores` makes of the scores, which is the same however halves are
    rounded."""
    agreed = _combine_judges(gathered, rounding)
    if adjudicated is None:
        adjudicated = pl.DataFrame(schema={"trial": pl.String, "axis": pl.String, **_DECISION})
    people = adjudicated.select("trial", "axis", *_DECISION).with_columns(adjudicated=pl.lit(True))
    frame = agreed.join(people, on=["trial", "axis"], how="left", validate="1:1", maintain_order="left")
    frame = frame.with_columns(pl.col("adjudicated", "contested").fill_null(False))
    adjudicated_by_person = pl.col("adjudicated")
    return frame.with_columns(
        pl.when(adjudicated_by_person).then("decided").otherwise("score").alias("score"),
        _score_source_expr().alias("standing"),
        (pl.col("flagged") & ~adjudicated_by_person).alias("open"),
    ).drop("decided")


_DECISION: dict[str, Any] = {"decided": pl.Int64, "contested": pl.Boolean}


def _score_source_expr() -> pl.Expr:
    """The column `standing`, from the columns of judges and reviewers."""
    judges, decided = pl.col("judges"), pl.col("decided")
    return (
        pl.when(pl.col("adjudicated") & decided.is_null())
        .then(pl.lit(ScoreSource.CANNOT_TELL.value))
        .when(pl.col("adjudicated"))
        .then(pl.lit(ScoreSource.ADJUDICATED.value))
        .when(judges == 0)
        .then(pl.lit(ScoreSource.MISSING.value))
        .when(judges == 1)
        .then(pl.lit(ScoreSource.SINGLE.value))
        .when(judges > 2)
        .then(pl.lit(ScoreSource.MEDIAN.value))
        .when(pl.col("flagged"))
        .then(pl.lit(ScoreSource.PRIMARY.value))
        .otherwise(pl.lit(ScoreSource.AGREED.value))
    )


def decisions(adjudications: Iterable[Adjudication]) -> pl.DataFrame:
    """The valid decisions: edit, prompt, axis, decided, contested. `adjudications`: oldest first.

    Of each reviewer the newest decision counts; a withdrawal leaves those of others. Of several reviewers the
    newest decision is used, and it is contested where they differ.
    """
    scores: dict[tuple[str, str, str], dict[str, int | None]] = {}  # edit, prompt, axis -> reviewer -> score
    for decision in adjudications:
        by_reviewer = scores.setdefault((decision.edit, decision.prompt, decision.axis), {})
        by_reviewer.pop(decision.reviewer, None)  # the newest is last
        if not decision.withdrawn:
            by_reviewer[decision.reviewer] = decision.score
    rows = [
        (*subject, list(by_reviewer.values())[-1], len(set(by_reviewer.values())) > 1)
        for subject, by_reviewer in scores.items()
        if by_reviewer
    ]
    schema = dict.fromkeys(("edit", "prompt", "axis"), pl.String) | _DECISION
    return pl.DataFrame(rows, schema=schema, orient="row")


def collect_scores(scores: pl.DataFrame) -> pl.DataFrame:
    """One row per trial and axis: how many judges answered, and their scores' mean, median and spread."""
    ranked = scores.select("trial", "axis", "neutral", "rank", "score").sort("trial", "axis", "rank")
    answered = pl.col("score").drop_nulls()
    return ranked.group_by("trial", "axis", maintain_order=True).agg(
        pl.col("neutral").first(),
        answered.len().cast(pl.Int64).alias("judges"),
        answered.mean().alias("mean"),
        answered.median().alias("median"),
        (answered.max() - answered.min()).alias("spread"),
        answered.first().alias("leading"),
    )


def _combine_judges(gathered: pl.DataFrame, rounding: Rounding) -> pl.DataFrame:
    """The score of the judges, without any reviewer."""
    flagged = pl.col("spread").fill_null(0) > REVIEW_ABOVE
    score = pl.when(flagged & (pl.col("judges") == 2)).then("leading").otherwise(rounded(rounding))
    return gathered.with_columns(
        flagged.alias("flagged"), (pl.col("judges") == 1).alias("single"), score.cast(pl.Int64).alias("score")
    ).drop("leading", "median")


def rounded(rounding: Rounding) -> pl.Expr:
    """The column `median` (of two, their mean) as a whole number; the modes differ only where it falls on .5."""
    median, below = pl.col("median"), pl.col("median").floor()
    even = pl.when(below % 2 == 0).then(below).otherwise(below + 1)
    up = below + 1
    nearer = pl.when(pl.col("neutral") <= below).then(below).otherwise(up)
    # An axis without a neutral score (edit success) has nothing to lean towards.
    neutral = pl.when(pl.col("neutral").is_null()).then(even).otherwise(nearer)
    at_half = {"half_even": even, "half_up": up, "toward_neutral": neutral}[rounding]
    return pl.when(median > below).then(at_half).otherwise(below)
