"""What an audit has besides its main tables: experiments of their own, as sections of the report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import polars as pl

from stillme import calibrate
from stillme import judge as judging
from stillme.analysis.mitigation import Mitigation, mitigation_findings
from stillme.analysis.stereotype import Stereotypes, stereotype_findings
from stillme.design import Design
from stillme.ledger import Run, frames
from stillme.records import MITIGATE, STEREOTYPE, TARGET_GENDER
from stillme.report.blocks import Section
from stillme.report.build import Context, Further
from stillme.report.sections import calibration as calibration_section
from stillme.report.sections import mitigation as mitigation_section
from stillme.report.sections import stereotypes as stereotype_section
from stillme.tidy import Tidy, adjudicated


def further(run: Run, design: Design, found: Tidy, context: Context) -> Further:
    """The sections, and what they say on the first screen."""
    told = list(_experiments(run, design, found, context))
    said = [sentence for _, some in told for sentence in some]
    calibrated = calibrate.findings(run, design)
    return Further(
        experiments=tuple(section for section, _ in told),
        judging=(calibration_section.build(calibrated, context),) if design.judges else (),
        said=(*said, *(calibration_section.said(calibrated, context) if design.judges else ())),
    )


def _experiments(
    run: Run, design: Design, found: Tidy, context: Context
) -> Iterator[tuple[Section, tuple[str, ...]]]:
    mitigated = mitigation(design, found)
    if mitigated is not None:
        yield mitigation_section.build(mitigated, context), mitigation_section.said(mitigated, context)
    depicted = stereotypes(run, design, found)
    if depicted is not None:
        yield stereotype_section.build(depicted, context), stereotype_section.said(depicted, context)


def mitigation(design: Design, found: Tidy) -> Mitigation | None:
    """None where the audit does not mitigate, and where its cases are not drawn yet."""
    config = design.config
    scores = found.of(MITIGATE).scores[config.protocol.presets[config.audit.preset].rounding]
    if not scores.height:
        return None
    marked = {one.image for one in design.known.features.values() if one.is_marked}
    persons = [portrait.key for portrait in design.portraits if portrait.image in marked]
    chosen = config.select == "drifted"
    return mitigation_findings(scores, config.protocol, selected_on_outcome=chosen, marked=persons)


def stereotypes(run: Run, design: Design, found: Tidy) -> Stereotypes | None:
    """None where the audit does not ask for it."""
    part = design.only([STEREOTYPE])
    seen = depicted(run, part, found, judging.looks(run, part))
    again = depicted(run, part, found, judging.repeated(run, part))
    if not seen.height:
        return None
    return stereotype_findings(seen, design.config.protocol, again, decided(run, seen))


def depicted(run: Run, design: Design, found: Tidy, looks: Iterable[judging.Look]) -> pl.DataFrame:
    """Whom judges saw in these looks, one row a trial and judge."""
    keys = [(look.key, look.trial.edit, look.judge) for look in looks]
    return frames.depicted(run, design.trials, found.edits, list(design.judges), keys)


def decided(run: Run, depicted: pl.DataFrame) -> pl.DataFrame:
    """What people decided about the target of these trials: trial, decided, contested."""
    trials = depicted.select("trial", "edit", "prompt").unique("trial", maintain_order=True)
    return adjudicated(run, trials.with_columns(axis=pl.lit(TARGET_GENDER))).drop("edit", "prompt", "axis")
