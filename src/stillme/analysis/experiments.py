"""The findings of the experiments besides the main tables; how they are shown is for the report."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from stillme.analysis.frames import Tidy, adjudicated
from stillme.core.records import MITIGATE, STEREOTYPE, TARGET_GENDER
from stillme.ledger import Run, frames
from stillme.plan.design import Design
from stillme.stats.mitigation import Mitigation, mitigation_findings
from stillme.stats.stereotype import Stereotypes, stereotype_findings
from stillme.steps import judge as judging


def mitigation(design: Design, found: Tidy) -> Mitigation | None:
    """None where the audit does not mitigate, and where its cases are not drawn yet."""
    config = design.config
    scores = found.of(MITIGATE).scores[config.protocol.presets[config.audit.preset].rounding]
    if not scores.height:
        return None
    marked = {one.image for one in design.inputs.features.values() if one.is_marked}
    persons = [portrait.key for portrait in design.portraits if portrait.image in marked]
    chosen = config.select == "drifted"
    return mitigation_findings(scores, config.protocol, selected_on_outcome=chosen, marked=persons)


def stereotypes(run: Run, design: Design, found: Tidy) -> Stereotypes | None:
    """None where the audit does not ask for it."""
    part = design.only([STEREOTYPE])
    seen = depicted(run, part, found, judging.judge_tasks(run, part))
    again = depicted(run, part, found, judging.repeat_tasks(run, part))
    if not seen.height:
        return None
    return stereotype_findings(seen, design.config.protocol, again, decided(run, seen))


def depicted(run: Run, design: Design, found: Tidy, looks: Iterable[judging.JudgeTask]) -> pl.DataFrame:
    """Whom judges saw in these looks, one row a trial and judge."""
    keys = [(look.key, look.trial.edit, look.judge) for look in looks]
    return frames.depicted(run, design.trials, found.edits, list(design.judges), keys)


def decided(run: Run, depicted: pl.DataFrame) -> pl.DataFrame:
    """What people decided about the target of these trials: trial, decided, contested."""
    trials = depicted.select("trial", "edit", "prompt").unique("trial", maintain_order=True)
    return adjudicated(run, trials.with_columns(axis=pl.lit(TARGET_GENDER))).drop("edit", "prompt", "axis")
