"""Who passes the pre-screen: the rate of each criterion by group, and sentences where a group passes less often.

A filter that passes one group less often than the others is itself a finding: it may be the photographs, the
instrument, or both. Either way the chosen portraits carry it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from stillme.core.records import Reading, Status
from stillme.sources.selection.config import Plan
from stillme.sources.selection.criteria import judge
from stillme.sources.selection.store import Candidate, Store
from stillme.stats.passing import passing


@dataclass(frozen=True)
class Screening:
    """What the pre-screen gave. `rates`: as `stats.passing` makes them; `findings`: sentences, maybe none."""

    candidates: int
    statuses: Mapping[str, int]
    overall: Mapping[str, tuple[int, int]]  # criterion -> passed, measured
    rates: pl.DataFrame
    findings: Sequence[str]


def screening(plan: Plan, store: Store, readings: Mapping[str, Reading]) -> Screening | None:
    """Of everything drawn so far; None where nothing was screened. `readings`: image -> what was read."""
    candidates = store.candidates()
    if not any(one.portrait.image in readings for one in candidates):
        return None
    judged = _judged(plan, candidates, readings)
    rates = passing(judged, list(plan.grid.axes))
    overall = {
        str(criterion): (int(part["passed"].sum() or 0), int(part["passed"].count()))
        for (criterion,), part in judged.group_by("criterion", maintain_order=True)
    }
    counted = _statuses(candidates, readings)
    return Screening(len(candidates), counted, overall, rates, findings(rates, plan))


def _judged(plan: Plan, candidates: Sequence[Candidate], readings: Mapping[str, Reading]) -> pl.DataFrame:
    """A row a candidate and criterion. Candidates that were not looked at are not there."""
    rows = [
        {"criterion": criterion, "passed": outcome.passed, **one.portrait.labels}
        for one in candidates
        if one.portrait.image in readings
        for criterion, outcome in judge(readings[one.portrait.image].figures, plan.rules.criteria).items()
    ]
    text = dict.fromkeys(("criterion", *plan.grid.axes), pl.String)
    return pl.DataFrame(rows, schema={**text, "passed": pl.Boolean})


def _statuses(candidates: Sequence[Candidate], readings: Mapping[str, Reading]) -> dict[str, int]:
    found = [readings[one.portrait.image].status for one in candidates if one.portrait.image in readings]
    return {status.value: found.count(status) for status in Status if status in found}


def findings(rates: pl.DataFrame, plan: Plan) -> list[str]:
    """A sentence for each criterion that a group passes less often than the others."""
    labels = {one.id: one.label.lower() for one in plan.protocol.groups.selection_criteria}
    return [
        _finding(row, plan, labels[row["criterion"]]) for row in rates.filter("less_often").iter_rows(named=True)
    ]


def _finding(row: Mapping[str, Any], plan: Plan, criterion: str) -> str:
    who = f"{plan.grid.axes[row['dimension']][row['group']]} ({row['dimension']})"
    own = f"{row['passed']} of {row['measured']} candidates ({row['rate']:.0%})"
    others = f"{row['others_rate']:.0%} of the others (p {_p(row['p_holm'])}, corrected)"
    return f"{who}: {criterion} holds for {own}, against {others}."


def _p(value: float) -> str:
    return "below 0.001" if value < 0.001 else f"{value:.3f}"
