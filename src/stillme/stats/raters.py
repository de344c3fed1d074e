"""Which raters to trust: the study's rules and the marks of careless answers, rater by rater, each with its
reason.

A rule removes a rater, or flags one for a person to look at; nothing is dropped here. Somebody who sees no change
gives the same answer again and again on one axis and is right to, so no rule looks at one axis alone: answers are
pooled over all of them, and what flags for sameness removes nobody unless it is asked to. "Cannot determine" is an
answer. It does not know who raters are: names are the study's pseudonyms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

import polars as pl

from stillme.protocol.study_schema import StudyRules

RELATIVELY_FAST = 0.5  # of the sample's median: twice as fast as the others
MANY_QUICK = 0.1  # share of answers under the rule's seconds
WHOLE_OUTPUTS = 2  # outputs in a row with one and the same answer on every axis
UNRELATED = 0.1  # correlation with the other raters; of careless answers it is 0 ± 0.06 over 250 of them
SKIPPED = "skipped"

KEPT, FLAGGED, REMOVED = "kept", "flagged", "removed"


class Rule(StrEnum):
    """The closed list."""

    FAST = "fast"  # median seconds an answer
    FASTER_THAN_OTHERS = "faster than others"  # the same over the median of the sample
    QUICK = "quick answers"  # share of answers that were too quick to be read
    STRAIGHT = "one answer"  # share of the most frequent answer, all axes together
    LONGSTRING = "long string"  # longest run of one answer, across axes
    UNRELATED = "unrelated"  # correlation with the mean of the other raters
    ATTENTION = "attention"  # attention checks passed
    INCOMPLETE = "incomplete"  # share of questions skipped


REMOVES = frozenset({Rule.FAST, Rule.FASTER_THAN_OTHERS, Rule.ATTENTION, Rule.INCOMPLETE})
BY_HIGH_VALUE = frozenset({Rule.QUICK, Rule.STRAIGHT, Rule.LONGSTRING, Rule.INCOMPLETE})

_SAID = {
    Rule.FAST: "median of {value:.1f} s an answer, below {threshold:g} s",
    Rule.FASTER_THAN_OTHERS: "median of {value:.1f} s an answer, below {threshold:.1f} s by the sample's",
    Rule.QUICK: "{value:.0%} of answers were too quick to have been read (more than {threshold:.0%})",
    Rule.STRAIGHT: "{value:.0%} of all answers are the same (more than {threshold:.0%})",
    Rule.LONGSTRING: "{value:.0f} same answers in a row across axes ({threshold:.0f} or more)",
    Rule.UNRELATED: "answers go with the other raters' by {value:.2f} (below {threshold:g})",
    Rule.ATTENTION: "{value:.0f} attention checks passed, {threshold:.0f} needed",
    Rule.INCOMPLETE: "{value:.0%} of questions skipped (more than {threshold:.0%})",
}


@dataclass(frozen=True)
class Quality:
    """What the rules say of every rater."""

    rules: pl.DataFrame  # rater × rule: value, threshold, flagged, removes, reason
    verdicts: pl.DataFrame  # rater: verdict (kept, flagged, removed), reasons

    @property
    def removed(self) -> list[str]:
        return self.verdicts.filter(pl.col("verdict") == REMOVED)["rater"].to_list()


def quality(
    ratings: pl.DataFrame,
    checks: pl.DataFrame,
    rules: StudyRules,
    removes: Collection[Rule] = REMOVES,
    relative: float = RELATIVELY_FAST,
) -> Quality:
    """Every rule for every rater. A rule that the study does not have is left out; a value that cannot be told is
    null and flags nobody.

    `ratings` has a row per question asked: rater, trial, axis, answer, score, seconds, in the order of answering;
    `checks`: rater, check, passed. `removes`: the rules that remove, where others only flag; as the seed filters,
    add `Rule.STRAIGHT`.
    """
    found = _long(_values(ratings, checks, rules, relative))
    high = pl.col("rule").is_in([rule.value for rule in BY_HIGH_VALUE])
    at_least = pl.col("rule") == Rule.LONGSTRING.value
    value, threshold = pl.col("value"), pl.col("threshold")
    beyond = (
        pl.when(at_least).then(value >= threshold).when(high).then(value > threshold).otherwise(value < threshold)
    )
    marked = found.with_columns(flagged=beyond.fill_null(False))
    removing = pl.col("rule").is_in([Rule(rule).value for rule in removes])
    marked = marked.with_columns(removes=pl.col("flagged") & removing)
    said = [_reason(row) if row["flagged"] else None for row in marked.iter_rows(named=True)]
    table = marked.with_columns(pl.Series("reason", said, dtype=pl.String))
    return Quality(table, verdicts(table))


def verdicts(table: pl.DataFrame) -> pl.DataFrame:
    """One row a rater: removed where any rule removes, flagged where any flags, else kept; and why, in words."""
    word = (
        pl.when(pl.col("removes").any())
        .then(pl.lit(REMOVED))
        .when(pl.col("flagged").any())
        .then(pl.lit(FLAGGED))
        .otherwise(pl.lit(KEPT))
    )
    return table.group_by("rater", maintain_order=True).agg(
        word.alias("verdict"), pl.col("reason").drop_nulls().str.join("; ").alias("reasons")
    )


def with_and_without(
    ratings: pl.DataFrame, removed: Sequence[str], statistic: Callable[[pl.DataFrame], pl.DataFrame]
) -> pl.DataFrame:
    """The statistic twice: `sample` "all" with every rater, "kept" without the removed ones.

    >>> ratings = pl.DataFrame({"rater": ["a", "b"], "score": [1, 5]})
    >>> with_and_without(ratings, ["b"], lambda part: part.select(pl.col("score").mean())).rows()
    [('all', 3.0), ('kept', 1.0)]
    """
    kept = ratings.filter(~pl.col("rater").is_in(list(removed)))
    parts = [
        statistic(part).select(pl.lit(name).alias("sample"), pl.all())
        for name, part in (("all", ratings), (KEPT, kept))
    ]
    return pl.concat(parts)


def quick_answers(ratings: pl.DataFrame, rules: StudyRules) -> pl.DataFrame:
    """The answers that were given in less than the study's seconds, to be looked at; none where there is no
    rule."""
    seconds = rules.exclude.get("flag_response_below_seconds")
    return ratings.clear() if seconds is None else ratings.filter(pl.col("seconds") < seconds)


def _values(
    ratings: pl.DataFrame, checks: pl.DataFrame, rules: StudyRules, relative: float
) -> dict[Rule, pl.DataFrame]:
    """Rule -> rater, value, threshold; only of rules that the study has."""
    least = rules.exclude
    found = {
        Rule.FAST: _medians(ratings, least.get("median_response_below_seconds")),
        Rule.FASTER_THAN_OTHERS: _relative(ratings, relative),
        Rule.QUICK: _quick(ratings, least.get("flag_response_below_seconds")),
        Rule.STRAIGHT: _modal(ratings, least.get("straight_lining_share_above")),
        Rule.LONGSTRING: _longstring(ratings),
        Rule.UNRELATED: _unrelated(ratings),
        Rule.ATTENTION: _attention(
            checks, least.get("attention_pass_share_below", rules.attention_checks.pass_share)
        ),
        Rule.INCOMPLETE: _skipped(ratings, least.get("skipped_share_above")),
    }
    everyone = ratings.select("rater").unique(maintain_order=True)
    return {
        rule: everyone.join(frame, on="rater", how="left", maintain_order="left")
        for rule, frame in found.items()
        if frame is not None
    }


def _long(values: dict[Rule, pl.DataFrame]) -> pl.DataFrame:
    parts = [
        frame.select("rater", pl.lit(rule.value).alias("rule"), pl.col("value", "threshold").cast(pl.Float64))
        for rule, frame in values.items()
    ]
    return pl.concat(parts).sort("rater", maintain_order=True)


def _reason(row: dict[str, float | str]) -> str:
    return _SAID[Rule(str(row["rule"]))].format(value=row["value"], threshold=row["threshold"])


def _each(ratings: pl.DataFrame, value: pl.Expr, threshold: float | None) -> pl.DataFrame | None:
    """One value a rater beside the threshold; None where there is no rule."""
    if threshold is None:
        return None
    found = ratings.group_by("rater", maintain_order=True).agg(value.cast(pl.Float64).alias("value"))
    return found.with_columns(threshold=pl.lit(threshold, pl.Float64))


def _medians(ratings: pl.DataFrame, seconds: float | None) -> pl.DataFrame | None:
    return _each(ratings, pl.col("seconds").median(), seconds)


def _relative(ratings: pl.DataFrame, share: float) -> pl.DataFrame | None:
    """Median seconds beside a share of the median of all raters' medians."""
    found = _each(ratings, pl.col("seconds").median(), 0.0)
    return None if found is None else found.with_columns(threshold=share * pl.col("value").median())


def _quick(ratings: pl.DataFrame, seconds: float | None) -> pl.DataFrame | None:
    return None if seconds is None else _each(ratings, (pl.col("seconds") < seconds).mean(), MANY_QUICK)


def _modal(ratings: pl.DataFrame, share: float | None) -> pl.DataFrame | None:
    """The share of the most frequent score among all scores that a rater gave, whatever the axis."""
    scores = pl.col("score").drop_nulls()
    most = scores.unique_counts().max() / scores.len()
    return _each(ratings, pl.when(scores.len() > 0).then(most), share)


def _skipped(ratings: pl.DataFrame, share: float | None) -> pl.DataFrame | None:
    return _each(ratings, (pl.col("answer") == SKIPPED).mean(), share)


def _longstring(ratings: pl.DataFrame) -> pl.DataFrame:
    """The longest run of one score, in the order of answering; beside it, so many whole outputs of a rater's
    axes."""
    scored = ratings.filter(pl.col("score").is_not_null())
    axes = scored.group_by("rater").agg((pl.col("axis").n_unique() * WHOLE_OUTPUTS).alias("threshold"))
    runs = scored.with_columns(run=pl.col("score").rle_id().over("rater"))
    longest = runs.group_by("rater", "run").len().group_by("rater").agg(pl.col("len").max().alias("value"))
    return longest.join(axes, on="rater", how="left")


def _unrelated(ratings: pl.DataFrame) -> pl.DataFrame:
    """Correlation of a rater's scores with the mean of the others' on the same output and axis, both taken from
    the axis' mean, so that axes that are scored high by everybody do not make anybody agree.

    Null where nobody else rated the same, or where a rater's scores on every axis are one.
    """
    item, scored = ["trial", "axis"], ratings.filter(pl.col("score").is_not_null())
    total, raters = pl.col("score").sum().over(item), pl.len().over(item)
    shared = scored.with_columns(raters=raters, others=(total - pl.col("score")) / (raters - 1))
    shared = shared.filter(pl.col("raters") > 1)
    centred = shared.with_columns(pl.col(name) - pl.col(name).mean().over("rater", "axis") for name in _BOTH)
    products = centred.group_by("rater").agg(
        (pl.col("score") * pl.col("others")).sum().alias("together"),
        *(pl.col(name).pow(2).sum().alias(name) for name in _BOTH),
    )
    spread = (pl.col("score") * pl.col("others")).sqrt()
    value = pl.when(spread > 1e-9).then(pl.col("together") / spread)
    return products.select("rater", value.alias("value"), pl.lit(UNRELATED).alias("threshold"))


_BOTH = ("score", "others")


def needed(checks: int, share: float) -> int:
    """How many of so many attention checks have to be passed: ⌈share · checks⌉.

    >>> [needed(checks, 0.8) for checks in (3, 4, 5)]
    [3, 4, 4]
    """
    return math.ceil(share * checks - 1e-9)


def _attention(checks: pl.DataFrame, share: float) -> pl.DataFrame:
    found = checks.group_by("rater").agg(pl.col("passed").sum().alias("value"), pl.len().alias("asked"))
    thresholds = [needed(asked, share) for asked in found["asked"]]
    return found.select("rater", "value", pl.Series("threshold", thresholds, dtype=pl.Int64))
