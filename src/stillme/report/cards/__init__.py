"""Cards of an audit, for people and machines that meet its results elsewhere: an audit card (Markdown and JSON), a
dataset card, Croissant metadata, CITATION.cff. Every number is one of the report's."""

from __future__ import annotations

from pathlib import Path

from stillme.analysis.frames import Tidy, tidy
from stillme.core.atomic import replace_file
from stillme.core.errors import disk
from stillme.ledger import Run
from stillme.plan.design import Design
from stillme.report import publish
from stillme.report.build import Context, Further
from stillme.report.cards import audit, citation, croissant, dataset
from stillme.report.cards.facts import Known, Tables, facts
from stillme.stats.findings import Findings

__all__ = ["write"]


def write(
    run: Run,
    design: Design,
    folder: Path,
    found: tuple[Findings | None, Context, Further] | None = None,
    tables: Tables | None = None,
    every: Tidy | None = None,
) -> list[Path]:
    """Writes every card into the folder. `found`: what `publish.findings_and_context` gives, where it is at hand;
    `tables`: the analysis tables, id -> frame, for the disparity's gate and raters' reliability; `every`: the tidy
    frames, where they are at hand."""
    findings, context, further = found or publish.findings_and_context(run, design)
    known = Known(run, design, findings, context, further, tables or {})
    told = facts(known)
    exported = publish.tables_of(run, design, every or tidy(run, design))
    contents = {
        "audit-card.json": audit.data(told),
        "audit-card.md": audit.page(told, context),
        "dataset-card.md": dataset.page(known, told, exported),
        "croissant.json": croissant.metadata(known, exported),
        "CITATION.cff": citation.text(known),
    }
    with disk(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in contents.items():
            replace_file(folder / name, text.encode())
    return [folder / name for name in contents]
