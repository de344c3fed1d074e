"""A page of results: sections of plain tables, with what they found as data and the targets that they missed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.figures import Row

GAP = 2  # spaces between columns


@dataclass
class Section:
    """One part of the page. `figures` is the same for scripts; `missed`: sentences, one a target."""

    title: str
    lines: list[str] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)  # for the page of all benches

    def say(self, *lines: str) -> None:
        self.lines += lines

    def want(self, is_met: bool, target: str) -> None:
        if not is_met:
            self.missed.append(target)

    def text(self) -> str:
        missed = [f"MISSED: {one}" for one in self.missed]
        return "\n".join([f"== {self.title}", *self.lines, *missed, ""])


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as they need to be; the first to the left, the others to the right."""
    widths = [max(len(row[n]) for row in (head, *rows)) for n in range(len(head))]
    return [_line(row, widths) for row in (head, *rows)]


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = zip(row, widths, strict=True)
    return first[0].ljust(first[1]) + "".join(cell.rjust(width + GAP) for cell, width in others)


def number(value: float | None, digits: int = 2, sign: bool = False) -> str:
    """A dash where there is none; no sign at zero."""
    if value is None:
        return "-"
    return f"{round(value, digits) + 0.0:{'+' if sign else ''}.{digits}f}"


def share(part: int, whole: int) -> str:
    return f"{part}/{whole} = {part / whole:.1%}" if whole else "0/0"
