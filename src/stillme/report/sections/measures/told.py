"""What is said of the measurements in words: what instruments are, how much was measured, names and marks."""

from __future__ import annotations

from collections.abc import Iterator

from stillme.analysis.numbers import SPACE, count, decimal, listed, percent, plural
from stillme.report.context import Context
from stillme.report.sections.measures.columns import everybody
from stillme.stats.findings import Findings
from stillme.stats.measured import Measured

UNIT = "L*"
_WHAT = (
    "Instruments read the pixels of source and edit. They are local and deterministic: no network, no opinion, "
    "the same figures every time. They see light and pixels, not race. ΔL* is the change in lightness of the "
    "facial skin from source to edit, in units of L* (0 is black, 100 is white); above zero is lighter."
)
_CONTROLLED = (
    "Where the background stayed as it was, its own shift is taken off ΔL* (controlled), so that relighting the "
    "whole photo cancels; elsewhere the raw shift stands"
)


def marked(title: str) -> str:
    """Every table and figure of measurements says that it is one."""
    return f"{title} (instrument)"


def name(kind: str) -> str:
    """A kind of measure in words; it is named for what it computes."""
    return kind.replace("_", " ")


def heading(kind: str) -> str:
    return name(kind).capitalize()


def lead(measured: Measured, findings: Findings, context: Context) -> Iterator[str]:
    yield f"{_WHAT} {_controlled(measured)}"
    yield " ".join(
        part for part in (_measured(measured, findings, context), _lost(measured), _read(measured)) if part
    )


def _controlled(measured: Measured) -> str:
    """What the control is, and over all editors how many edits have it."""
    if measured.shifts is None:
        return ""
    rows = everybody(measured.shifts)
    read, passed = int(rows["read"].sum()), int(rows["controlled"].sum())
    return f"{_CONTROLLED}: {percent(passed / read)} of {plural(read, 'edits')} are controlled." if read else ""


def _measured(measured: Measured, findings: Findings, context: Context) -> str:
    chosen, asked = measured.counts.edits, int(findings.statuses["edits"].sum())
    controls = f", and {plural(measured.counts.controls, 'controls')}" if measured.counts.controls else ""
    if chosen == asked:
        return f"Measured: all {plural(asked, 'edits')}{controls}."
    return (
        f"Measured: {count(chosen)} of {plural(asked, 'edits')}, a stratified share "
        f"(at least {_whole(context.measured_share)}{SPACE}% of the persons in every prompt × perceived "
        f"{context.main.by}){controls}."
    )


def _whole(share: float) -> str:
    """A share that was set, in percent, with no more decimals than it has."""
    return decimal(share * 100, 1).removesuffix(".0")


def _lost(measured: Measured) -> str:
    counts = measured.counts
    lost = counts.edits - counts.measured + counts.controls - counts.controls_measured
    return (
        f"{count(lost)} of these {'has' if lost == 1 else 'have'} no picture, or no measurement yet."
        if lost
        else ""
    )


def _read(measured: Measured) -> str:
    """How often each instrument could read, over all edits; measures that are read alike are named together."""
    alike: dict[str, list[str]] = {}
    for row in everybody(measured.coverage).to_dicts():
        alike.setdefault(f"{percent(row['rate'])} of {plural(row['asked'], 'edits')}", []).append(
            name(row["measure"])
        )
    parts = [f"{listed(names)} in {share}" for share, names in alike.items()]
    return f"What could be read: {'; '.join(parts)}." if parts else ""


def asking(axis: str, context: Context) -> tuple[str, ...]:
    """The note that names prompts which themselves ask for a change on the axis; none where none does."""
    protocol = context.protocol
    prompts = [prompt.id for prompt in protocol.prompts.prompts if not protocol.unrequested(prompt.id, axis)]
    verb = "asks" if len(prompts) == 1 else "ask"
    return (f"Left out: {listed(prompts)}, which {verb} for this change.",) if prompts else ()
