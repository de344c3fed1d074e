"""A number with its interval and its threshold, and how rows are found in the tables that it is read off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stillme.analysis.numbers import listed
from stillme.assurance.gate.evidence import Evidence
from stillme.assurance.gate.policy import Rule
from stillme.assurance.gate.verdicts import Verdict
from stillme.stats.extremes import Ends
from stillme.stats.intervals import FEWEST_FOR_INTERVAL

Row = Mapping[str, Any]
Bounds = Mapping[str, float | None]
FEW = f"fewer than {FEWEST_FOR_INTERVAL} persons carry no interval"
ALIKE = "no two persons differ, which says nothing of others"
NOBODY = "nothing is judged"


@dataclass(frozen=True)
class Figure:
    """A number with its interval and its threshold. `what`: in words; `who`: of whom, and `brief`: in few
    words; `n`: of how many `things`.

    `is_difference`: it is printed in percentage points. `is_counted`: it is a fact of the run. `why`: why there is
    no interval. `more`: what else a reader should know. `verdict`: where it does not follow from bounds.
    """

    what: str
    editor: str | None = None
    dimension: str | None = None
    group: str | None = None
    who: str = ""
    brief: str = ""
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    persons: int | None = None
    at_least: float | None = None
    at_most: float | None = None
    is_difference: bool = False
    is_counted: bool = False
    things: str = "edits"
    why: str = ""
    more: str = ""
    verdict: Verdict | None = None


def editors(rule: Rule, evidence: Evidence) -> Sequence[str]:
    return evidence.editors if rule.editor is None else rule.editor


def rows_of(evidence: Evidence, id: str, **about: str) -> list[Row]:
    frame = evidence.table(id)
    return [] if frame is None else list(frame.filter(**about).iter_rows(named=True))


def whole(value: Any) -> int | None:
    return None if value is None else int(value)


def perceived(evidence: Evidence, dimension: str, group: str) -> str:
    return f"perceived {dimension} {evidence.protocol.groups.labels(dimension).get(group, group)}"


def is_beyond(ends: Ends, threshold: float, sign: float) -> bool:
    end = ends.low if sign > 0 else ends.high
    return end is not None and sign * end > sign * threshold


def also_beyond(groups: Sequence[str], evidence: Evidence, dimension: str) -> str:
    """Groups that are not the worst one, and still wholly on the bad side."""
    labels = evidence.protocol.groups.labels(dimension)
    return f"Wholly beyond it too: {listed([labels[group] for group in groups])}." if groups else ""
