"""The part of the inputs that the main tables are about, and what every table needs to know of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import polars as pl

from stillme.analysis.frames import kept
from stillme.analysis.tables.inputs import Inputs
from stillme.core.records import DIAGNOSE, MITIGATE, Status
from stillme.protocol import Protocol
from stillme.stats.modelled import Model, model
from stillme.stats.outcomes import mark
from stillme.stats.raters import REMOVES, Quality, Rule, quality

# Columns that no number hangs on: whatever filters or sorts a million scores would copy them.
LISTED = ("edit", "source", "source_id", "seed", "spread", "standing", "open", "contested")
OF_PROMPT = ("category", "subcategory")  # which judges' own scores are not counted by


@dataclass(frozen=True)
class Audit:
    """The diagnosis: the prompt alone, asked of everybody. Other experiments stay in `inputs`."""

    inputs: Inputs
    seed: int = 0

    @property
    def protocol(self) -> Protocol:
        return self.inputs.protocol

    @cached_property
    def about(self) -> pl.Expr:
        """Which rows of a frame the main tables are about."""
        frame = self.inputs.main
        experiments = frame["experiment"].unique(maintain_order=True).to_list()
        chosen = next((e for e in (DIAGNOSE, MITIGATE) if e in experiments), experiments[0])
        arms = frame.filter(pl.col("experiment") == chosen)["arm"].unique(maintain_order=True).to_list()
        plain = [arm.id for arm in self.protocol.manifest.arms if not arm.lead and not arm.prefix]
        arm = next((arm for arm in plain if arm in arms), arms[0])
        return (pl.col("experiment") == chosen) & (pl.col("arm") == arm)

    @cached_property
    def scores(self) -> pl.DataFrame:
        return kept(self.inputs.main, self.about).drop(LISTED, strict=False)

    @cached_property
    def by_rounding(self) -> dict[str, pl.DataFrame]:
        found = self.inputs.scores.scores
        return {mode: kept(frame, self.about).drop(LISTED, strict=False) for mode, frame in found.items()}

    @cached_property
    def judged(self) -> pl.DataFrame | None:
        """What judges gave, row by row; None where the table does not say."""
        rows = self.inputs.scores.judged
        return None if rows is None else kept(rows, self.about).drop(LISTED, OF_PROMPT, strict=False)

    @cached_property
    def judge_rows(self) -> pl.DataFrame:
        """The same; of a table of finished scores, those, as if one judge had given them."""
        if self.judged is not None:
            return self.judged
        given = pl.when(pl.col("score").is_null()).then(pl.lit(Status.MALFORMED.value))
        return self.scores.with_columns(
            judge=pl.lit("ensemble"), rank=pl.lit(0, pl.Int64), status=given.otherwise(pl.lit(Status.OK.value))
        )

    @cached_property
    def marked(self) -> pl.DataFrame:
        return mark(self.scores.drop("experiment", "arm"), self.protocol.rubrics.outcomes)

    @cached_property
    def statuses(self) -> pl.DataFrame | None:
        """How edits ended, or, where that is not known, how judges' looks did; None where neither is."""
        if self.edits is not None:
            return self.edits.select("trial", "status")
        return None if self.judged is None else self.judged.select("trial", "axis", "status")

    @cached_property
    def model(self) -> Model:
        """The ordinal mixed model of every axis: it takes longest, and two parts read it."""
        return model(self.judge_rows, self.protocol, seed=self.seed)

    @cached_property
    def quality(self) -> Quality | None:
        """What is known of raters; None where nobody rated."""
        ratings, checks = self.inputs.ratings, self.inputs.checks
        if ratings is None:
            return None
        none = pl.DataFrame(schema={"rater": pl.String, "check": pl.String, "passed": pl.Boolean})
        removes = REMOVES | ({Rule.STRAIGHT} if self.inputs.removes_straight_liners else set())
        return quality(ratings, none if checks is None else checks, self.protocol.study_rules, removes)

    @cached_property
    def edits(self) -> pl.DataFrame | None:
        edits = self.inputs.edits
        return None if edits is None else kept(edits, self.about)

    @cached_property
    def dimensions(self) -> list[str]:
        """Those in which there is something to compare."""
        return [d for d in self.protocol.groups.dimensions if self.scores[d].drop_nulls().n_unique() > 1]

    @property
    def dimension(self) -> str:
        """That of the reference group: what the fixed contrast is about."""
        return next(iter(self.protocol.groups.reference_group))

    @property
    def has_reference(self) -> bool:
        """Whether the reference group can be held against anybody."""
        reference = self.protocol.groups.reference_group[self.dimension]
        return self.dimension in self.dimensions and reference in set(self.scores[self.dimension])

    @cached_property
    def labels(self) -> dict[str, str]:
        """Words for groups, outcomes and axes."""
        groups = {g.id: g.label for d in self.protocol.groups.dimensions.values() for g in d}
        outcomes = {name: outcome.label for name, outcome in self.protocol.rubrics.outcomes.items()}
        return {**groups, **outcomes, **{axis.id: axis.label for axis in self.protocol.rubrics.axes}}
