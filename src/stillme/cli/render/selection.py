"""What the commands of `stillme sources` print."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stillme.core.records import Status
from stillme.core.text import table
from stillme.sources import Reason, RowIssue
from stillme.sources.selection.config import Plan
from stillme.sources.selection.pools import Grid
from stillme.sources.selection.progress import SelectionProgress
from stillme.sources.selection.sample import Sampled

if TYPE_CHECKING:
    from stillme.sources.selection.screen import Screening

MAX_REMARKS = 5  # per reason that are printed; all are kept in the selection


def render_sample(sample: Sampled, grid: Grid, file: Path) -> str:
    """What a draw gave: pools, what was skipped, which cells stay short, what the size can resolve."""
    seeds = ", ".join(str(seed) for seed in sample.pools.values())
    pools = f"{len(sample.pools)} pools" if len(sample.pools) > 1 else "1 pool"
    lines = [
        f"{sample.candidates:,} candidates in {pools} (seeds {seeds}) for {len(grid.cells)} cells,"
        f" from {sample.rows:,} rows.",
        *_outside_the_grid(sample.outside),
        *_skipped_rows(sample.reasons, sample.remarks),
        *_short_cells(sample, grid),
        *_power(grid),
    ]
    return "\n".join([*lines, "", f"Next: stillme sources screen {file}"])


def _outside_the_grid(outside: Mapping[str, int]) -> Iterator[str]:
    if outside:
        largest_first = sorted(outside.items(), key=lambda item: -item[1])
        listed = "; ".join(f"{label} {count:,}" for label, count in largest_first[:6])
        rest = f"; {len(outside) - 6} more" if len(outside) > 6 else ""
        yield f"Outside the grid: {sum(outside.values()):,} rows ({listed}{rest})."


def _skipped_rows(reasons: Mapping[str, int], remarks: Sequence[RowIssue]) -> Iterator[str]:
    for keeps, head in ((False, "Skipped"), (True, "Changed, and kept")):
        counts = {Reason(word): count for word, count in reasons.items() if Reason(word).keeps is keeps}
        if counts:
            yield f"{head}: {', '.join(f'{count:,} {reason.label}' for reason, count in counts.items())}."
        for reason, count in counts.items():
            examples = [remark for remark in remarks if remark.reason is reason][:MAX_REMARKS]
            yield from (f"  {remark}" for remark in examples)
            if count > MAX_REMARKS:
                yield f"  … and {count - MAX_REMARKS:,} more like these"


def _short_cells(sample: Sampled, grid: Grid) -> Iterator[str]:
    if not sample.shorts:
        yield "Every cell has all its candidates."
        return
    rows = [
        (
            grid.cell[short.cell].label,
            f"{short.drawn} of {short.wanted}",
            f"{short.listed:,}",
            f"{short.rejected:,}",
        )
        for short in sample.shorts
    ]
    unfilled = sum(short.drawn < grid.per_cell for short in sample.shorts)
    ending = f"{unfilled} of them cannot be filled:" if unfilled else "each of them can still be filled:"
    yield f"{len(rows)} of {len(grid.cells)} cells have fewer candidates than asked for; {ending}"
    yield _indented_table(("", "candidates", "rows", "unusable"), rows)


def _power(grid: Grid) -> Iterator[str]:
    """What so many portraits a cell can resolve, by the groups of the first axis."""
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


def render_screening(screening: Screening, plan: Plan, file: Path) -> str:
    """How many pass each criterion, by group, and where a group passes less often."""
    statuses = ", ".join(f"{count:,} {Status(word).label}" for word, count in screening.statuses.items())
    labels = {one.id: one.label for one in plan.protocol.groups.selection_criteria}
    # The first word of a label is enough for a column.
    head = ("", *(f"{labels[name].split()[0].lower()} " for name in screening.overall))
    rows = [("all", *(f"{_share(passed, measured)} " for passed, measured in screening.overall.values()))]
    rates = {(r["dimension"], r["group"], r["criterion"]): r for r in screening.rates.iter_rows(named=True)}
    for axis, groups in plan.grid.axes.items():
        for group, label in groups.items():
            cells = [rates.get((axis, group, criterion)) for criterion in screening.overall]
            shares = (
                f"{_share(row['passed'], row['measured'])}{'*' if row['less_often'] else ' '}" if row else ""
                for row in cells
            )
            rows.append((f"{axis} {label}", *shares))
    lines = [f"{screening.candidates:,} candidates: {statuses}.", "", "Share that meets each criterion:"]
    lines += [_indented_table(head, rows), ""]
    if screening.findings:
        lines.append(
            "* A filter that passes a group less often is itself a finding, of the photographs or of the "
            "instrument:"
        )
        lines += [f"  {sentence}" for sentence in screening.findings]
    else:
        lines.append(
            "No group meets a criterion less often than the others, as far as so few candidates can tell."
        )
    return "\n".join([*lines, "", f"Next: stillme sources select {file} --reviewer NAME"])


def _share(passed: int, measured: int) -> str:
    return f"{passed / measured:.0%}" if measured else "none"


def render_progress(standing: SelectionProgress) -> str:
    """How far a selection is."""
    places = standing.cells * standing.per_cell
    pools = f"{len(standing.pools)} pools" if len(standing.pools) != 1 else "1 pool"
    lines = [
        f"{standing.name}: {standing.cells} cells, {places} portraits to choose,"
        f" {standing.candidates:,} candidates in {pools}, {standing.screened:,} screened"
    ]
    head = ("", "decided", "second look", *(f"pool {pool}" for pool in standing.pools), "actions", "hours")
    rows = [
        (
            reviewer.name,
            f"{reviewer.decided} of {standing.cells}",
            f"{reviewer.flagged}",
            *(str(count) for count in reviewer.by_pool.values()),
            f"{reviewer.actions:,}",
            f"{reviewer.hours:.1f}",
        )
        for reviewer in standing.reviewers
    ]
    nobody = "Nobody has begun to choose: stillme sources select"
    lines.append(_indented_table(head, rows) if rows else nobody)
    kappa = standing.agreement
    if kappa is not None and kappa.agreement is not None:
        text = "not defined" if kappa.kappa is None else f"{kappa.kappa:.2f} ({kappa.low:.2f} to {kappa.high:.2f})"
        both = f"both chose alike in {kappa.agreement:.0%} of {kappa.n} cells"
        lines.append(f"While blind, {both}; Cohen's kappa {text}.")
    return "\n".join(lines)


def _indented_table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Words to the left, numbers to the right."""
    return textwrap.indent(table(head, rows, range(1, len(head))), "  ")
