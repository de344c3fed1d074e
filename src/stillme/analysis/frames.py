"""The run as tidy frames: what was asked, what came of it, what judges and instruments said. Decides nothing.

Negative controls stand in `edits` and `measured`; nothing judged has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_args

import polars as pl

from stillme.core.records import CONTROLS, Role, Status
from stillme.judges import INSTRUMENT, instrument
from stillme.judges.ensemble import ScoreSource, collect_scores, decisions, rounded_by
from stillme.ledger import Run, frames
from stillme.measures import FIGURES
from stillme.measures.skin_tone_shift import subtract_background_shift
from stillme.plan.audit import JudgeRow
from stillme.plan.design import Design
from stillme.protocol.schema import Rounding
from stillme.steps import judge as judging
from stillme.steps import measure as measuring

ROUNDINGS: tuple[Rounding, ...] = get_args(Rounding)


@dataclass(frozen=True)
class Tidy:
    """One run. `judged` has a row per trial, axis and judge of the ensemble; `scores` the ensemble's by rounding.

    `instrument` has the instrument's own scores in the columns of `judged`, whether or not it is in the ensemble.
    """

    edits: pl.DataFrame
    judged: pl.DataFrame
    scores: dict[str, pl.DataFrame]
    measured: pl.DataFrame | None = None
    instrument: pl.DataFrame | None = None

    @property
    def asked_for(self) -> pl.DataFrame:
        """The edits that ask for something: all but the controls."""
        return kept(self.edits, pl.col("experiment") != CONTROLS)

    def of(self, experiment: str, *arms: str) -> Tidy:
        """One experiment, or some arms of it; the controls stay with whatever is measured."""
        chosen = pl.col("experiment") == experiment
        chosen &= pl.col("arm").is_in(list(arms)) if arms else pl.lit(True)
        measured = chosen | (pl.col("experiment") == CONTROLS)
        return Tidy(
            kept(self.edits, measured),
            kept(self.judged, chosen),
            {mode: kept(frame, chosen) for mode, frame in self.scores.items()},
            None if self.measured is None else kept(self.measured, measured),
            None if self.instrument is None else kept(self.instrument, measured),
        )

    @property
    def every_judge(self) -> pl.DataFrame:
        """The scores of all judges, the instrument's among them."""
        if self.instrument is None or set(self.instrument["judge"]) <= set(self.judged["judge"]):
            return self.judged
        return pl.concat([self.judged, self.instrument])


def kept(frame: pl.DataFrame, rows: pl.Expr) -> pl.DataFrame:
    """The rows that are meant; where all of them are it is the very frame, not a copy of so many edits."""
    meant = frame.select(rows).to_series()
    return frame if meant.all(ignore_nulls=False) else frame.filter(meant)


def tidy(run: Run, design: Design) -> Tidy:
    protocol = design.config.protocol
    edits = frames.edits(run, protocol, design.trials, design.portraits)
    asked = frames.trial_axis_frame(protocol, edits)
    looks = [(look.key, look.trial.edit, look.judge) for look in judging.judge_tasks(run, design)]
    judged = frames.judge_scores(run, protocol, asked, list(design.judges), looks)
    measured = measurements(run, design, edits)
    row = next((row for row in design.config.audit.judges if row.kind == INSTRUMENT), None)
    own = None if row is None or measured is None else read_by(row, design, asked, measured)
    if own is not None and row is not None and row.role is not Role.INSTRUMENT:
        judged = pl.concat([judged, own])
    decided = adjudicated(run, asked)
    scores: dict[str, pl.DataFrame] = dict(ensembles(asked, judged, decided))
    return Tidy(edits, judged, scores, measured, own)


def adjudicated(run: Run, asked: pl.DataFrame) -> pl.DataFrame:
    """What people decided, of every trial and axis that it is about; trials that share an edit share it."""
    held = decisions(run.adjudications())
    return asked.select("trial", "edit", "prompt", "axis").join(held, on=["edit", "prompt", "axis"], how="inner")


def ensembles(
    asked: pl.DataFrame, judged: pl.DataFrame, decided: pl.DataFrame | None = None
) -> Iterator[tuple[Rounding, pl.DataFrame]]:
    """By rounding: ensemble scores with everything that is known of their trials, in the plan's order.

    What is the same for every rounding is found once, and not copied: a large run has a million scores.
    """
    gathered, keys = collect_scores(judged), ["trial", "axis"]
    numbered = gathered.select(keys).with_row_index("row")
    asked_for = asked.select(keys).join(numbered, on=keys, how="left", validate="1:1", maintain_order="left")[
        "row"
    ]
    about = asked.drop("edit_status", strict=False)
    for rounding in ROUNDINGS:
        combined = rounded_by(gathered, rounding, decided).drop(*keys, "neutral")
        yield rounding, _or_nobody(about.hstack(combined.select(pl.all().gather(asked_for))))


def _or_nobody(joined: pl.DataFrame) -> pl.DataFrame:
    """What nobody judged is said to be so."""
    nobody: dict[str, object] = dict.fromkeys(("flagged", "single", "adjudicated", "open", "contested"), False)
    nobody |= {"judges": 0, "standing": ScoreSource.MISSING.value}
    return joined.with_columns(pl.col(name).fill_null(value) for name, value in nobody.items())


def measurements(run: Run, design: Design, edits: pl.DataFrame) -> pl.DataFrame | None:
    """One row a measured trial, controls among them; None where the audit measures nothing."""
    rules = design.config.protocol.measures
    if not design.measures or rules is None:
        return None
    trials = [trial.key for trial in measuring.select_measured_trials(design)]
    chosen = edits.filter(pl.col("trial").is_in(trials)).drop(frames.CALL)
    keys: dict[str, dict[str, str]] = {row.kind: {} for row in design.config.audit.measures}
    kinds = {row.id: row.kind for row in design.config.audit.measures}
    for trial, sitting in measuring.measure_tasks(run, design).items():
        for name, key in sitting.measures.items():
            keys[kinds[name]][trial] = key
    return subtract_background_shift(frames.measurements(run, chosen, keys, FIGURES), rules.skin_tone.background)


def read_by(row: JudgeRow, design: Design, asked: pl.DataFrame, measured: pl.DataFrame) -> pl.DataFrame:
    """The instrument's scores in the columns of a judge's; what lies outside the measured share says so."""
    protocol = design.config.protocol
    read = instrument.scores(measured, protocol).drop("detail")
    known = asked.filter(pl.col("axis").is_in(read["axis"].unique().to_list()))
    found = known.join(read, on=["trial", "axis"], how="left", validate="1:1", maintain_order="left")
    status = pl.col("status").fill_null(Status.LEFT_OUT.value)
    rank = len(design.judges)
    named = found.with_columns(status, rank=pl.lit(rank, pl.Int64), judge=pl.lit(row.id))
    return named.select(*asked.drop("edit_status").columns, "rank", "judge", "score", "status")
