"""What the commands of `stillme sources` print: plain text that fits 100 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from stillme.core.records import Status
from stillme.core.text import table
from stillme.sources import Reason, Remark
from stillme.sources.selection.config import Plan
from stillme.sources.selection.grid import Grid
from stillme.sources.selection.sample import Sampled
from stillme.sources.selection.standing import Standing

if TYPE_CHECKING:
    from stillme.sources.selection.rates import Screening
    from stillme.stats.agreement import Kappa

QUOTED = 5  # remarks a reason that are printed; all are kept in the selection


def plain(found: Any) -> Any:
    """For scripts: the same facts as JSON."""
    if is_dataclass(found) and not isinstance(found, type):
        return {field.name: plain(getattr(found, field.name)) for field in fields(found)}
    if isinstance(found, pl.DataFrame):
        return found.to_dicts()
    if isinstance(found, Mapping):
        return {str(key): plain(value) for key, value in found.items()}
    if isinstance(found, Sequence) and not isinstance(found, str):
        return [plain(value) for value in found]
    return found


def sampled(found: Sampled, grid: Grid, file: Path) -> str:
    """What a draw gave: pools, what was skipped, which cells stay short, what the size can resolve."""
    seeds = ", ".join(str(seed) for seed in found.pools.values())
    pools = f"{len(found.pools)} pools" if len(found.pools) > 1 else "1 pool"
    lines = [
        f"{found.candidates:,} candidates in {pools} (seeds {seeds}) for {len(grid.cells)} cells,"
        f" from {found.rows:,} rows."
    ]
    lines += _outside(found.outside)
    lines += _skipped(found.reasons, found.remarks)
    lines += _short(found, grid)
    lines += _power(grid)
    return "\n".join([*lines, "", f"Next: stillme sources screen {file}"])


def _outside(outside: Mapping[str, int]) -> Iterator[str]:
    if outside:
        most = sorted(outside.items(), key=lambda item: -item[1])
        named = "; ".join(f"{label} {count:,}" for label, count in most[:6])
        rest = f"; {len(most) - 6} more" if len(most) > 6 else ""
        yield f"Outside the grid: {sum(outside.values()):,} rows ({named}{rest})."


def _skipped(reasons: Mapping[str, int], remarks: Sequence[Remark]) -> Iterator[str]:
    for keeps, head in ((False, "Skipped"), (True, "Changed, and kept")):
        named = {Reason(word): count for word, count in reasons.items() if Reason(word).keeps is keeps}
        if named:
            counts = ", ".join(f"{count:,} {reason.label}" for reason, count in named.items())
            yield f"{head}: {counts}."
            for reason in named:
                yield from _quoted([remark for remark in remarks if remark.reason is reason], named[reason])


def _quoted(remarks: Sequence[Remark], count: int) -> Iterator[str]:
    yield from (f"  {remark}" for remark in remarks[:QUOTED])
    if count > QUOTED:
        yield f"  … and {count - QUOTED:,} more like these"


def _short(found: Sampled, grid: Grid) -> Iterator[str]:
    if not found.shorts:
        yield "Every cell has all its candidates."
        return
    rows = [
        (grid.cell[s.cell].label, f"{s.drawn} of {s.wanted}", f"{s.listed:,}", f"{s.rejected:,}")
        for s in found.shorts
    ]
    unfilled = sum(short.drawn < grid.per_cell for short in found.shorts)
    yield f"{len(rows)} of {len(grid.cells)} cells have fewer candidates than asked for; {_cannot(unfilled)}"
    yield _listed(("", "candidates", "rows", "unusable"), rows)


def _cannot(unfilled: int) -> str:
    return f"{unfilled} of them cannot be filled:" if unfilled else "each of them can still be filled:"


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


def screened(found: Screening, plan: Plan, file: Path) -> str:
    """How many pass each criterion, by group, and where a group passes less often."""
    seen = ", ".join(f"{count:,} {Status(word).label}" for word, count in found.statuses.items())
    labels = {one.id: one.label for one in plan.protocol.groups.selection_criteria}
    lines = [f"{found.candidates:,} candidates: {seen}.", "", "Share that meets each criterion:"]
    head = ("", *(f"{_wrapped(labels[name])} " for name in found.overall))
    rows = [("all", *(f"{_share(passed, measured)} " for passed, measured in found.overall.values()))]
    rows += [(label, *shares) for label, shares in _by_group(found, plan)]
    lines.append(_listed(head, rows))
    lines += ["", *_finding(found.findings)]
    return "\n".join([*lines, "", f"Next: stillme sources select {file} --reviewer NAME"])


def _wrapped(label: str) -> str:
    """The first word is enough for a column."""
    return label.split()[0].lower()


def _by_group(found: Screening, plan: Plan) -> Iterator[tuple[str, list[str]]]:
    rates = {(r["dimension"], r["group"], r["criterion"]): r for r in found.rates.iter_rows(named=True)}
    for axis, groups in plan.grid.axes.items():
        for group, label in groups.items():
            rows = [rates.get((axis, group, criterion)) for criterion in found.overall]
            yield f"{axis} {label}", [_marked(row) if row else "" for row in rows]


def _marked(row: Mapping[str, Any]) -> str:
    return _share(row["passed"], row["measured"]) + ("*" if row["less_often"] else " ")


def _share(passed: int, measured: int) -> str:
    return f"{passed / measured:.0%}" if measured else "none"


def _finding(findings: Sequence[str]) -> Iterator[str]:
    if not findings:
        yield "No group meets a criterion less often than the others, as far as so few candidates can tell."
        return
    yield "* A filter that passes a group less often is itself a finding, of the photographs or of the instrument:"
    yield from (f"  {sentence}" for sentence in findings)


def standing(found: Standing) -> str:
    """How far a selection is."""
    places = found.cells * found.per_cell
    pools = f"{len(found.pools)} pools" if len(found.pools) != 1 else "1 pool"
    lines = [
        f"{found.name}: {found.cells} cells, {places} portraits to choose, {found.candidates:,} candidates in"
        f" {pools}, {found.screened:,} screened"
    ]
    head = ("", "decided", "second look", *(f"pool {pool}" for pool in found.pools), "actions", "hours")
    rows = [
        (
            one.name,
            f"{one.decided} of {found.cells}",
            f"{one.flagged}",
            *(str(count) for count in one.by_pool.values()),
            f"{one.actions:,}",
            f"{one.hours:.1f}",
        )
        for one in found.reviewers
    ]
    lines.append(_listed(head, rows) if rows else "Nobody has begun to choose: stillme sources select")
    return "\n".join([*lines, *_agreement(found.agreement)])


def _agreement(found: Kappa | None) -> Iterator[str]:
    if found is not None and found.agreement is not None:
        kappa = (
            "not defined" if found.kappa is None else f"{found.kappa:.2f} ({found.low:.2f} to {found.high:.2f})"
        )
        yield f"While blind, both chose alike in {found.agreement:.0%} of {found.n} cells; Cohen's kappa {kappa}."


def _listed(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Words to the left, numbers to the right, a little set in."""
    return textwrap.indent(table(head, rows, range(1, len(head))), "  ")
