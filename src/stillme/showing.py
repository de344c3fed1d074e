"""What the terminal shows at the end: plain text tables that fit 100 columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from stillme.config import Config
from stillme.pipeline import Outlook
from stillme.records import Status


def outlook(config: Config, plan: Outlook) -> str:
    """The plan: what is asked for, what is done, what is missing, what it costs."""
    lines = [
        f"{config.audit.name}: valid. Protocol {config.protocol.name}, preset {config.audit.preset}.",
        _asked(plan),
        "",
        table(
            ("", "done", "missing"),
            [
                ("edits", f"{plan.edits_done:,}", f"{plan.edits_missing:,}"),
                *_measured(plan),
                ("verdicts", f"{plan.verdicts_done:,}", f"{plan.verdicts_missing:,}"),
            ],
        ),
        "",
        f"Expected for what is missing: {plan.cost_usd:,.2f} USD, about {_duration(plan.seconds)}.",
        f"Run directory: {config.run}",
    ]
    if any(one.simulated for one in (*config.editors.values(), *config.judges.values())):
        lines.insert(1, "Some editors or judges are simulated: what they show was planted, not found.")
    return "\n".join(lines)


def _asked(plan: Outlook) -> str:
    trials = (
        f"{plan.portraits} portraits × {plan.prompts} prompts × {plan.editors} editors: {plan.trials:,} trials"
    )
    return f"{trials}, and {plan.controls:,} negative controls" if plan.controls else trials


def _measured(plan: Outlook) -> Iterable[tuple[str, ...]]:
    if plan.measurements_done or plan.measurements_missing:
        yield "measurements", f"{plan.measurements_done:,}", f"{plan.measurements_missing:,}"


def status(found: Mapping[str, Any]) -> str:
    """How far a run is."""
    rows = [("edits", _counts(found["edits"]), f"{found['edits_missing']:,}")]
    rows += [(f"measure {name}", _counts(counts), "") for name, counts in found["measurements"].items()]
    if found["measurements"]:
        measured = sum(sum(counts.values()) for counts in found["measurements"].values())
        rows.append(("measurements in all", f"{measured:,}", f"{found['measurements_missing']:,}"))
    rows += [(f"verdicts of {judge}", _counts(counts), "") for judge, counts in found["verdicts"].items()]
    rows.append(("verdicts in all", f"{found['verdicts_done']:,}", f"{found['verdicts_missing']:,}"))
    controls = f" and {found['controls']:,} controls" if found["controls"] else ""
    head = f"{found['name']}: {found['trials']:,} trials{controls}, protocol {found['protocol']}"
    head += f", preset {found['preset']}"
    return f"{head}\n{table(('', 'done', 'missing'), rows)}\nSpent: {found['cost_usd']:,.2f} USD"


def _counts(counts: Mapping[str, int]) -> str:
    """ok first, then what else came of it."""
    words = [f"{counts.get(Status.OK, 0):,} ok"]
    words += [f"{number:,} {Status(word).label}" for word, number in counts.items() if word != Status.OK]
    return ", ".join(words)


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    every = [head, *rows]
    widths = [max(len(row[column]) for row in every) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in every
    )


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
