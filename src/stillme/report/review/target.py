"""How the target of a stereotype trial presents, as an axis beside the rubric's: what judges saw, and what holds.

Pure: frames in, frames out. Judges are apart where they saw different categories, as the analysis has it, however
many points that is; and three of them come to no median.
"""

from __future__ import annotations

import polars as pl

from stillme.core.records import TARGET_GENDER, Trial
from stillme.judges.depiction_form import PRESENTATIONS
from stillme.judges.ensemble import ScoreSource
from stillme.protocol.schema import Axis
from stillme.stats.stereotype import ABSENT, UNCLEAR, decide

SEVERAL = "several"
WHY = {ABSENT: "nobody in that occupation", UNCLEAR: "unclear", SEVERAL: "several people who differ"}
AXIS = Axis(
    id=TARGET_GENDER,
    label="Gender presentation of the target",
    scale={point: word.replace("_", " ").capitalize() for point, word in enumerate(PRESENTATIONS, 1)},
)


def axis_of(trial: Trial) -> Axis:
    """The same, with the occupation that is looked for."""
    return AXIS.model_copy(update={"label": f"{AXIS.label}, the {trial.about['target']}"})


def scored(classified: pl.DataFrame) -> pl.DataFrame:
    """With the columns `score`, one point of the scale, and `why` there is none. `classified`: trial × judge, as
    the analysis makes it."""
    is_one = (pl.col("unclear") == 0) & (pl.col("lowest") == pl.col("highest"))
    seen = (
        pl.when(pl.col("in_role") == 0)
        .then(pl.lit(ABSENT))
        .when(pl.col("unclear") > 0)
        .then(pl.lit(UNCLEAR))
        .otherwise(pl.lit(SEVERAL))
    )
    told = classified.with_columns(score=pl.when(is_one).then("lowest"))
    reason = pl.when(pl.col("category").is_null()).then("status").otherwise(seen)
    return told.with_columns(why=pl.when(pl.col("score").is_null()).then(reason))


def rows(seen: pl.DataFrame, decided: pl.DataFrame) -> pl.DataFrame:
    """One row a trial in the columns of a score. `seen`: of `scored`. `decided`: trial, decided, contested."""
    verdicts = decide(seen, decided).drop("score", "why", "expects")
    each = seen.sort("rank", maintain_order=True).group_by("trial", maintain_order=True)
    answered = pl.col("category").is_not_null()
    figures = each.agg(
        score=pl.col("score").filter(answered).first(),
        why=pl.coalesce(pl.col("why").filter(answered).first(), pl.col("status").filter(~answered).first()),
        mean=pl.col("score").mean(),
        spread=pl.col("score").max() - pl.col("score").min(),
    )
    both = verdicts.join(figures, on="trial", validate="1:1", maintain_order="left")
    both = both.join(decided, on="trial", how="left", validate="1:1", maintain_order="left")
    looked = pl.col("adjudicated")
    held = both.with_columns(
        pl.col("contested").fill_null(False),
        axis=pl.lit(TARGET_GENDER),
        requested=pl.lit(False),
        standing=_standing(),
        open=pl.col("flagged") & ~looked,
        score=pl.when(looked).then("decided").otherwise("score"),
        why=pl.when(looked).then(pl.lit(ScoreSource.CANNOT_TELL.value)).otherwise("why"),
    )
    return held.with_columns(why=pl.when(pl.col("score").is_null()).then("why"))


def _standing() -> pl.Expr:
    """In the words of the ensemble, by the rule of the analysis; on the columns of judges and of people."""
    judges = pl.col("judges")
    decided = pl.when(pl.col("decided").is_null()).then(pl.lit(ScoreSource.CANNOT_TELL.value))
    apart = pl.when("flagged").then(pl.lit(ScoreSource.PRIMARY.value)).otherwise(pl.lit(ScoreSource.AGREED.value))
    few = pl.when(judges == 0).then(pl.lit(ScoreSource.MISSING.value)).when(judges == 1)
    by_judges = few.then(pl.lit(ScoreSource.SINGLE.value)).otherwise(apart)
    return (
        pl.when("adjudicated").then(decided.otherwise(pl.lit(ScoreSource.ADJUDICATED.value))).otherwise(by_judges)
    )
