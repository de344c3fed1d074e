"""The run as frames in memory: a row a trial, and a row for every axis that a trial is judged on.

What people decide is folded in anew without reading the run again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import polars as pl

from stillme.analysis import experiments
from stillme.analysis.frames import Tidy, adjudicated, ensembles, kept, tidy
from stillme.core.records import CALIBRATE, STEREOTYPE, TARGET_GENDER, Adjudication, Status, Trial
from stillme.judges.ensemble import ScoreSource
from stillme.ledger import Run
from stillme.plan.design import Design, load_design
from stillme.protocol import Protocol
from stillme.protocol.schema import Axis
from stillme.report.review import target
from stillme.stats.stereotype import classify
from stillme.steps import judge as judging

_KEPT = ["trial", "edit", "prompt", "axis", "requested", "score", "mean", "spread", "judges", "single", "why"]
_KEPT += ["standing", "flagged", "open", "adjudicated", "contested"]
ANSWERED, REFUSED, FAILED, NOT_MADE = "answered", "refused", "failed", "pending"


@dataclass(frozen=True)
class State:
    """A run as it stood when it was read.

    `trials` has `row`, its own number, and `ended`: answered, refused, failed or pending, as under Refusals in the
    report. `axes`: rounding -> a row per trial and axis, with the trial's `row` and `why` there is no score.
    `seen`: a row per trial of the stereotype experiment and judge, as `target.scored` makes it. `looks`: edit ->
    (judge, key of its verdict), the primary first.
    """

    run: Run
    design: Design
    trials: pl.DataFrame
    asked: pl.DataFrame
    judged: pl.DataFrame
    seen: pl.DataFrame
    measured: pl.DataFrame | None
    looks: Mapping[str, Sequence[tuple[str, str]]]
    axes: Mapping[str, pl.DataFrame]
    adjudications: Sequence[Adjudication]

    @property
    def protocol(self) -> Protocol:
        return self.design.config.protocol

    @property
    def rounding(self) -> str:
        """The one that the audit's preset wants."""
        return self.protocol.presets[self.design.config.audit.preset].rounding

    def axis(self, trial: Trial, name: str) -> Axis | None:
        """The axis of this name, where the trial is judged on it."""
        if trial.experiment == STEREOTYPE:
            return target.axis_of(trial) if name == TARGET_GENDER else None
        known = trial.prompt in self.protocol.prompt and name in self.protocol.axes_of(trial.prompt)
        return self.protocol.axes[name] if known else None

    @cached_property
    def trial(self) -> dict[str, Trial]:
        return {trial.key: trial for trial in self.design.trials if trial.experiment != CALIBRATE}

    @cached_property
    def row(self) -> dict[str, int]:
        return {key: row for row, key in enumerate(self.trials["trial"])}

    @cached_property
    def images(self) -> frozenset[str]:
        """Everything that may be shown."""
        shown = [*self.trials["image"].drop_nulls(), *self.trials["source_image"].drop_nulls()]
        return frozenset([*shown, *(t.partner_image for t in self.design.trials if t.partner_image)])

    @cached_property
    def decided(self) -> dict[tuple[str, str, str], list[Adjudication]]:
        """(edit, prompt, axis) -> all that people said of it, the oldest first."""
        found: dict[tuple[str, str, str], list[Adjudication]] = {}
        for one in self.adjudications:
            found.setdefault((one.edit, one.prompt, one.axis), []).append(one)
        return found

    @cached_property
    def texts(self) -> pl.Series:
        """What judges wrote of each trial, in small letters."""
        rows = self.run.query("SELECT key, observations, evidence FROM verdict")
        said = {key: f"{seen}\n{evidence}".lower() for key, seen, evidence in rows}
        by_edit = {edit: "\n".join(said.get(key, "") for _, key in listed) for edit, listed in self.looks.items()}
        return pl.Series("text", [by_edit.get(edit, "") for edit in self.trials["edit"]], dtype=pl.String)

    @cached_property
    def flags(self) -> tuple[int, int, int]:
        """How many scores are flagged and open, how many people have decided, how many of those are contested."""
        axes = self.axes[self.rounding].unique(["edit", "prompt", "axis"])
        return tuple(int(axes[name].sum()) for name in ("open", "adjudicated", "contested"))  # type: ignore[return-value]

    def anew(self) -> State:
        """With what people have decided meanwhile: only what they have looked at is made anew."""
        adjudications = tuple(self.run.adjudications())
        edits = list({one.edit for one in (*self.adjudications, *adjudications)})
        trials = self.trials.filter(pl.col("edit").is_in(edits))
        about = pl.col("trial").is_in(trials["trial"].to_list())
        part = [frame.filter(about) for frame in (self.asked, self.judged, self.seen)]
        fresh = _axes(self.run, trials, *part)
        axes = {mode: _replaced(frame, fresh[mode]) for mode, frame in self.axes.items()}
        return replace(self, axes=axes, adjudications=adjudications)


def load(run: Run, design: Design | None = None, found: Tidy | None = None) -> State:
    """The run as it stands now. `design`, `found`: the run's own and its tidy frames, where they are at hand."""
    design = design or load_design(run)
    found = found or tidy(run, design)
    trials = _numbered(found.edits.filter(pl.col("experiment") != CALIBRATE))
    asked = _asked(found)
    looks: dict[str, list[tuple[str, str]]] = {}
    for look in judging.judge_tasks(run, design):
        looks.setdefault(look.trial.edit, []).append((look.judge, look.key))
    seen = _seen(run, design, found)
    axes = _axes(run, trials, asked, found.judged, seen)
    told = (trials, asked, found.judged, seen, found.measured, looks, axes)
    return State(run, design, *told, tuple(run.adjudications()))


def _asked(found: Tidy) -> pl.DataFrame:
    """What was asked of every trial: columns that scores have as well, and that are not copied."""
    scores = next(iter(found.scores.values()))
    first = scores.columns.index("requested") + 1
    return kept(scores.select(scores.columns[:first]), pl.col("experiment") != CALIBRATE)


def _seen(run: Run, design: Design, found: Tidy) -> pl.DataFrame:
    part = design.only([STEREOTYPE])
    depicted = experiments.depicted(run, part, found, judging.judge_tasks(run, part))
    return target.scored(classify(depicted, design.config.protocol))


def _numbered(edits: pl.DataFrame) -> pl.DataFrame:
    untried = (pl.col("status") == Status.PENDING.value) & (pl.col("last_status") == "")
    ended = (
        pl.when(pl.col("status") == Status.OK.value)
        .then(pl.lit(ANSWERED))
        .when(pl.col("stage") != "")
        .then(pl.lit(REFUSED))
        .when(untried)
        .then(pl.lit(NOT_MADE))
        .otherwise(pl.lit(FAILED))
    )
    return edits.with_columns(ended=ended).with_row_index("row")


def _axes(
    run: Run, trials: pl.DataFrame, asked: pl.DataFrame, judged: pl.DataFrame, seen: pl.DataFrame
) -> dict[str, pl.DataFrame]:
    """The rubric's axes by rounding, and with each the targets of scenes, which nothing rounds."""
    decided = adjudicated(run, asked)
    told = judged.select("trial", "axis", "neutral", "rank", "score", "status")
    known = told.join(trials.select("trial"), on="trial", how="semi")
    why = known.sort("rank").group_by("trial", "axis").agg(why=pl.col("status").first())
    rows = trials.select("trial", "row")
    targets = target.rows(seen, experiments.decided(run, seen)).join(rows, on="trial", maintain_order="left")
    told_of: dict[str, Any] = {"how": "left", "maintain_order": "left"}
    beside = asked.select("trial", "axis").join(rows, on="trial", validate="m:1", **told_of)
    beside = beside.join(why, on=["trial", "axis"], validate="1:1", **told_of).select("row", "why")
    by_mode = {mode: _axis_rows(frame, beside) for mode, frame in ensembles(asked, known, decided)}
    return {mode: _with(frame, targets) for mode, frame in by_mode.items()}


def _with(axes: pl.DataFrame, targets: pl.DataFrame) -> pl.DataFrame:
    """In the plan's order."""
    return pl.concat([axes, targets.select(axes.columns).cast(axes.schema)]).sort("row", maintain_order=True)


def _replaced(frame: pl.DataFrame, fresh: pl.DataFrame) -> pl.DataFrame:
    """The same rows in the same order, those of some trials as they are now."""
    rest = frame.join(fresh.select("row").unique(), on="row", how="anti")
    return pl.concat([rest, fresh]).sort("row", maintain_order=True)


def _axis_rows(scores: pl.DataFrame, beside: pl.DataFrame) -> pl.DataFrame:
    """`beside`: of every score its trial's row, and why it is missing where it is: how the first judge's look
    ended, unless a person cannot tell."""
    found = scores.select([name for name in _KEPT if name != "why"]).hstack(beside)
    cannot = pl.col("standing") == ScoreSource.CANNOT_TELL.value
    reason = pl.when(cannot).then(pl.lit(ScoreSource.CANNOT_TELL.value)).otherwise(pl.col("why"))
    missing = pl.when(pl.col("score").is_null()).then(reason.fill_null(Status.PENDING.value))
    return found.with_columns(why=missing).select("row", *_KEPT)
