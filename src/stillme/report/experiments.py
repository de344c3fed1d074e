"""What an audit has besides its main tables: experiments of their own, as sections of the report."""

from __future__ import annotations

from collections.abc import Iterator

from stillme.analysis.experiments import mitigation, stereotypes
from stillme.analysis.frames import Tidy
from stillme.ledger import Run
from stillme.plan.design import Design
from stillme.report.blocks import Section
from stillme.report.build import Context, Further
from stillme.report.sections import calibration as calibration_section
from stillme.report.sections import mitigation as mitigation_section
from stillme.report.sections import stereotypes as stereotype_section
from stillme.steps import calibrate


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
