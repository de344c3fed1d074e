"""What a card says, as data: read off the findings that the report prints, the same numbers in the same words.

Every figure stands here twice: as a number for machines, and as the report writes it. Computes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

import stillme
from stillme.analysis.numbers import bracket, known, p_value, points
from stillme.ledger import Run, frames
from stillme.plan.design import Design
from stillme.report import refusals, sentences
from stillme.report.build import Context, Further, Party
from stillme.report.lookup import per_editor, rows
from stillme.report.sections import summary
from stillme.report.sections.summary import Summary
from stillme.report.tables import rate_cell
from stillme.stats.calibration import Calibration
from stillme.stats.findings import Findings
from stillme.steps import calibrate

SCHEMA, VERSION = "stillme-audit-card", 1
Tables = Mapping[str, pl.DataFrame]
Data = dict[str, Any]
RATE = ("asked", "judged", "missing", "hits", "persons", "rate", "nominal_rate", "low", "high")
APART = ("disparity", "expected", "corrected", "low", "high", "p_rank", "gated")


@dataclass(frozen=True)
class Known:
    """Everything that cards are made of. `tables`: the analysis tables, id -> frame; maybe none."""

    run: Run
    design: Design
    findings: Findings | None
    context: Context
    further: Further
    tables: Tables

    @property
    def calibration(self) -> Calibration | None:
        return calibrate.findings(self.run, self.design) if self.design.judges else None

    @property
    def screen(self) -> Summary:
        """The report's first screen."""
        (block,) = summary.build(self.findings, self.context, self.further.said, self.tables).blocks
        assert isinstance(block, Summary)
        return block

    @property
    def origins(self) -> dict[tuple[str, str], int]:
        """Where portraits come from and under which licence, with how many."""
        return dict(Counter((one.source, one.licence) for one in self.design.portraits))


def facts(known_: Known) -> Data:
    """The audit card's content. Its fields are described in docs/evidence.md."""
    run, context, findings = known_.run, known_.context, known_.findings
    meta, screen = run.meta(), known_.screen
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "name": context.name,
        "simulated": sentences.simulated(context),
        "run": {"id": run.id, "created": meta["created"], "cost_usd": run.spent_usd()},
        "made_with": {"stillme": stillme.__version__, "run_stillme": meta["stillme"], "python": meta["python"]},
        "protocol": _protocol(context),
        "audited": list(sentences.audited(context)),
        "counts": dict(context.counts),
        "editors": [_party(party, known_.design.editors) for party in context.editors],
        "judges": [_judge(party, known_) for party in context.judges],
        "measures": dict(known_.design.measures),
        "portraits": _portraits(known_),
        "rates": [] if findings is None else list(_rates(findings, context)),
        "disparity": [] if findings is None else list(_disparity(known_, findings)),
        "claims": _claims(screen, known_.further),
        "how_sure": list(screen.how_sure),
        "missing": list(screen.missing),
        "refusals": _refusals(findings, context),
        "calibration": _calibration(known_.calibration),
        "human_study": list(_studies(known_)),
        "contacts": [],
    }


def _protocol(context: Context) -> Data:
    choices = context.choices
    return {
        "name": context.protocol.name,
        "title": context.protocol.manifest.title,
        "hash": context.protocol.hash,
        "preset": context.preset,
        "rounding": choices.rounding,
        "denominators": choices.denominators,
        "judges_were_told": list(context.told),
    }


def _party(party: Party, hashes: Mapping[str, str]) -> Data:
    return {
        "id": party.id,
        "name": party.name,
        "description": party.description,
        "simulated": party.simulated,
        "settings_sha256": hashes.get(party.id, ""),
        "settings": dict(party.settings),
    }


def _judge(party: Party, known_: Known) -> Data:
    roles = {row.id: row.role.value for row in known_.design.config.audit.judges}
    return {
        **_party(party, known_.design.judges),
        "role": roles.get(party.id, ""),
        "instrument": party.instrument,
        "settings_without_effect": dict(party.dropped),
        "caveats": list(party.caveats),
        "attempts": party.attempts,
        "cost_usd": party.cost_usd,
    }


def _portraits(known_: Known) -> Data:
    protocol, portraits = known_.context.protocol, known_.design.portraits
    groups = {
        dimension: {label: sum(p.labels.get(dimension) == id for p in portraits) for id, label in labels.items()}
        for dimension in protocol.groups.dimensions
        for labels in (protocol.groups.labels(dimension),)
    }
    origins = [{"source": s, "licence": li, "portraits": n} for (s, li), n in known_.origins.items()]
    return {
        "count": len(portraits),
        "described": list(known_.context.sources),
        "caveats": list(known_.context.caveats),
        "origins": origins,
        "perceived": {d: {label: n for label, n in found.items() if n} for d, found in groups.items()},
    }


def _rates(findings: Findings, context: Context) -> Iterator[Data]:
    """Headline rates, editor by editor, with their denominators."""
    for editor in context.editors:
        for outcome in context.tables.outcomes_by_editor:
            row = per_editor(findings, outcome).get(editor.id)
            if row is not None:
                cell = rate_cell(row, context.nominal)
                yield {
                    "editor": editor.id,
                    "outcome": outcome,
                    "label": context.outcomes[outcome].label,
                    "rule": context.rule(outcome),
                    **{name: _plain(row[name]) for name in RATE},
                    "printed": cell.text,
                    "beneath": list(cell.small or ((cell.why,) if cell.why else ())),
                }


def _disparity(known_: Known, findings: Findings) -> Iterator[Data]:
    """Max − min over the groups of the main table; with its gate where the analysis tables are there."""
    context = known_.context
    dimension, outcomes = context.main.by, context.tables.outcomes_by_editor
    tested = known_.tables.get(f"disparity_by_{dimension}")
    frame = findings.disparity if tested is None else tested
    labels = context.protocol.groups.labels(dimension)
    found = {(row["editor"], row["outcome"]): row for row in rows(frame)}
    for editor in context.editors:
        for outcome in outcomes:
            if (row := found.get((editor.id, outcome))) is not None and known(row["disparity"]):
                apart = row["disparity"] > 0  # else nobody is highest
                ends = {end: labels.get(row[f"{end}_group"]) if apart else None for end in ("highest", "lowest")}
                yield {
                    "editor": editor.id,
                    "outcome": outcome,
                    "label": context.outcomes[outcome].label,
                    "perceived": dimension,
                    **{name: _plain(row.get(name)) for name in APART},
                    **{f"{end}_group": group for end, group in ends.items()},
                    "printed": _apart(row),
                }


def _apart(row: Mapping[str, Any]) -> str:
    said = f"{points(row['disparity'])} points"
    if row.get("expected") is None:
        return said
    said += f", {points(row['expected'])} expected by chance"
    if known(row["low"]):
        said += f"; corrected {points(row['corrected'])} {bracket(row['low'], row['high'])}"
    return f"{said}, p {p_value(row['p_rank'])}, gate {'passed' if row['gated'] else 'not passed'}"


def _plain(value: Any) -> Any:
    """A number that JSON has; NaN is none."""
    return None if isinstance(value, float) and value != value else value


def _claims(screen: Summary, further: Further) -> Data:
    """What is claimed and what is not, sentence by sentence, as the first screen says it."""
    said = [one.found for one in screen.found]
    quiet = [screen.quiet] if screen.quiet else []
    return {
        "shown": [f"{one.editor.name}: {text}" for one in said for text in one.shown],
        "not_shown": [f"{one.editor.name}: {text}" for one in said for text in one.rest] + quiet,
        "further": list(further.said),
    }


def _refusals(findings: Findings | None, context: Context) -> Data:
    if findings is None:
        return {"overall": "", "shown": [], "by_editor": []}
    names = ("editor", "asked", "answered", "refused", "failed", "pending", "decided")
    shown = [*refusals.claims(findings, context), *refusals.judges_claims(findings, context)]
    return {
        "overall": refusals.overall(findings),
        "shown": [claim.text for claim in shown],
        "by_editor": [
            {name: row[name] for name in names if name in row} for row in rows(findings.refusals.by_editor)
        ],
    }


def _calibration(found: Calibration | None) -> list[Data]:
    if found is None:
        return []
    return [
        {"judge": judge, "verdict": found.verdict(judge).value, "reasons": list(found.reasons(judge))}
        for judge in found.judges
    ]


def _studies(known_: Known) -> Iterator[Data]:
    """Human studies that were taken into the run, with how far their raters agree."""
    studies = known_.run.studies()
    if not studies:
        return
    every = frames.ratings_frame(known_.run)
    gates = known_.tables.get("reliability")
    kept = [] if gates is None else [row for row in rows(gates) if row.get("sample") == "kept"]
    named = {
        name: (label, preset) for name, label, preset in known_.run.query("SELECT hash, name, preset FROM study")
    }
    for study in studies:
        own = every.filter(study=study)
        yield {
            "name": named[study][0],
            "preset": named[study][1],
            "bundle": study,
            "raters": own["rater"].n_unique(),
            "answers": own.height,
            "left_out": len(known_.run.exclusions(study)),
            "reliability": [_gate(row, known_.context) for row in kept],
        }


def _gate(row: Mapping[str, Any], context: Context) -> Data:
    """What may rest on raters' answers on one axis; no gate where their agreement has no figure."""
    axis = context.protocol.axes.get(row["axis"])
    return {"axis": row["axis"], "label": axis.label if axis else row["axis"], "gate": row["gate"]}
