"""What the commands of `stillme sources` print: plain text that fits 100 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import polars as pl

from stillme.core.records import Status
from stillme.core.text import table
from stillme.sources import Reason
from stillme.sources.selection.config import Plan
from stillme.sources.selection.pools import Grid
from stillme.sources.selection.progress import Standing
from stillme.sources.selection.sample import Sampled
from stillme.sources.selection.screen import Screening

MAX_QUOTED = 5  # issues per reason that are printed; more are kept in the selection
MAX_LABELS = 6  # labels outside the grid that are printed


def to_json_value(value: Any) -> Any:
    """A result as JSON for scripts: the same facts under the names of its fields."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json_value(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, pl.DataFrame):
        return value.to_dicts()
    if isinstance(value, Mapping):
        return {str(key): to_json_value(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [to_json_value(item) for item in value]
    return value


def sampled(result: Sampled, grid: Grid, file: Path) -> str:
    """A draw: pools, what was skipped, which cells stay short, what the size can resolve."""
    seeds = ", ".join(str(seed) for seed in result.pools.values())
    lines = [
        f"{result.candidates:,} candidates in {_count_pools(result.pools)} (seeds {seeds}) for"
        f" {len(grid.cells)} cells, from {result.rows:,} rows."
    ]
    if result.outside:
        by_count = sorted(result.outside.items(), key=lambda item: -item[1])
        labels = "; ".join(f"{label} {count:,}" for label, count in by_count[:MAX_LABELS])
        rest = f"; {len(by_count) - MAX_LABELS} more" if len(by_count) > MAX_LABELS else ""
        lines.append(f"Outside the grid: {sum(result.outside.values()):,} rows ({labels}{rest}).")
    lines += _issue_lines(result)
    lines += _short_cell_lines(result, grid)
    lines += _power_lines(grid)
    return "\n".join([*lines, "", f"Next: stillme sources screen {file}"])


def _count_pools(pools: Mapping[int, int]) -> str:
    return "1 pool" if len(pools) == 1 else f"{len(pools)} pools"


def _issue_lines(result: Sampled) -> Iterator[str]:
    for keeps, heading in ((False, "Skipped"), (True, "Changed, and kept")):
        counts = {Reason(word): count for word, count in result.reasons.items() if Reason(word).keeps is keeps}
        if counts:
            yield f"{heading}: {', '.join(f'{count:,} {reason.label}' for reason, count in counts.items())}."
        for reason, count in counts.items():
            yield from [f"  {issue}" for issue in result.remarks if issue.reason is reason][:MAX_QUOTED]
            if count > MAX_QUOTED:
                yield f"  … and {count - MAX_QUOTED:,} more like these"


def _short_cell_lines(result: Sampled, grid: Grid) -> Iterator[str]:
    if not result.shorts:
        yield "Every cell has all its candidates."
        return
    rows = [
        (
            grid.cell[short.cell].label,
            f"{short.drawn} of {short.wanted}",
            f"{short.listed:,}",
            f"{short.rejected:,}",
        )
        for short in result.shorts
    ]
    unfilled = sum(short.drawn < grid.per_cell for short in result.shorts)
    consequence = f"{unfilled} of them cannot be filled:" if unfilled else "each of them can still be filled:"
    yield f"{len(rows)} of {len(grid.cells)} cells have fewer candidates than asked for; {consequence}"
    yield _table(("", "candidates", "rows", "unusable"), rows)


def _power_lines(grid: Grid) -> Iterator[str]:
    """What this number of portraits per cell can resolve, by the groups of the first axis."""
    from stillme.stats.power import PERSONS_ALIKE, detectable

    axis, groups = next(iter(grid.axes.items()))
    persons = grid.per_cell * len(grid.cells) // len(groups)
    others = persons * (len(groups) - 1)
    if others:
        least = 100 * detectable(persons, others, edits=20)
        yield (
            f"With {grid.per_cell} a cell, a group of {axis} has {persons} persons. With 20 edits each, an audit"
            f" would probably\nmiss a difference to the other {others} below {least:.0f} percentage points"
            f" (rates near 20 %, power 80 %, edits\nof one person correlated by {PERSONS_ALIKE:g})."
        )


def screened(result: Screening, plan: Plan, file: Path) -> str:
    """How many pass each criterion, by group, and where a group passes less often."""
    statuses = ", ".join(f"{count:,} {Status(word).label}" for word, count in result.statuses.items())
    labels = {criterion.id: criterion.label for criterion in plan.protocol.groups.selection_criteria}
    # The first word of a label is enough for a column.
    head = ("", *(f"{labels[name].split()[0].lower()} " for name in result.overall))
    rows = [("all", *(f"{_share(passed, measured)} " for passed, measured in result.overall.values()))]
    rates = {(row["dimension"], row["group"], row["criterion"]): row for row in result.rates.iter_rows(named=True)}
    for axis, groups in plan.grid.axes.items():
        for group, label in groups.items():
            cells = [rates.get((axis, group, criterion)) for criterion in result.overall]
            shares = (
                _share(cell["passed"], cell["measured"]) + ("*" if cell["less_often"] else " ") if cell else ""
                for cell in cells
            )
            rows.append((f"{axis} {label}", *shares))
    findings = ["No group meets a criterion less often than the others, as far as so few candidates can tell."]
    if result.findings:
        findings = [
            "* A filter that passes a group less often is itself a finding, of the photographs or of the"
            " instrument:",
            *(f"  {sentence}" for sentence in result.findings),
        ]
    return "\n".join(
        [
            f"{result.candidates:,} candidates: {statuses}.",
            "",
            "Share that meets each criterion:",
            _table(head, rows),
            "",
            *findings,
            "",
            f"Next: stillme sources select {file} --reviewer NAME",
        ]
    )


def _share(passed: int, measured: int) -> str:
    return f"{passed / measured:.0%}" if measured else "none"


def render_progress(result: Standing) -> str:
    """How far a selection is."""
    lines = [
        f"{result.name}: {result.cells} cells, {result.cells * result.per_cell} portraits to choose,"
        f" {result.candidates:,} candidates in {_count_pools(result.pools)}, {result.screened:,} screened"
    ]
    head = ("", "decided", "second look", *(f"pool {pool}" for pool in result.pools), "actions", "hours")
    rows = [
        (
            reviewer.name,
            f"{reviewer.decided} of {result.cells}",
            f"{reviewer.flagged}",
            *(str(count) for count in reviewer.by_pool.values()),
            f"{reviewer.actions:,}",
            f"{reviewer.hours:.1f}",
        )
        for reviewer in result.reviewers
    ]
    lines.append(_table(head, rows) if rows else "Nobody has begun to choose: stillme sources select")
    agreement = result.agreement
    if agreement is not None and agreement.agreement is not None:
        kappa = "not defined"
        if agreement.kappa is not None:
            kappa = f"{agreement.kappa:.2f} ({agreement.low:.2f} to {agreement.high:.2f})"
        lines.append(
            f"While blind, both chose alike in {agreement.agreement:.0%} of {agreement.n} cells;"
            f" Cohen's kappa {kappa}."
        )
    return "\n".join(lines)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Words to the left, numbers to the right, indented a little."""
    return textwrap.indent(table(head, rows, range(1, len(head))), "  ")
