"""Measurements: what instruments read off the pixels, beside what judges said. Only in audits that measure."""

from __future__ import annotations

from collections.abc import Iterator

from stillme.report.blocks import Beside, Block, Heading, Section, prose
from stillme.report.context import Context
from stillme.report.sections.measures import (
    attributes,
    beside,
    change,
    controls,
    coverage,
    described,
    identity,
    skin,
    told,
)
from stillme.stats.findings import Findings
from stillme.stats.measured import Measured


def build(findings: Findings, context: Context) -> Section:
    assert findings.measured is not None
    return Section("measures", "Measurements", "Measures", tuple(_blocks(findings.measured, findings, context)))


def _blocks(measured: Measured, findings: Findings, context: Context) -> Iterator[Block]:
    yield prose(*told.lead(measured, findings, context))
    yield from coverage.warning(measured, context)
    if measured.shifts is not None and measured.controls is not None:
        shown = skin.figure(measured, measured.shifts, context)
        yield Beside((controls.beside_real(measured.shifts, measured.controls, context), shown))
    for part in (skin.planted, change.blocks, beside.blocks):
        yield from part(measured, context)
    yield Beside((*identity.blocks(measured, context), *coverage.blocks(measured, context)))
    yield Heading("measures-more", "More measurements")
    for folded in (skin, controls, described, change, identity, attributes, coverage):
        yield from folded.folds(measured, context)
