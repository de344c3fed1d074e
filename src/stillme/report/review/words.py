"""Names of everything that can be filtered by, in words and in their order. From the protocol and the audit."""

from __future__ import annotations

from collections.abc import Mapping

from stillme.core.records import CONTROLS, DIAGNOSE, MITIGATE, STEREOTYPE, Status
from stillme.judges.ensemble import ScoreSource
from stillme.plan.design import Design
from stillme.report.review import target
from stillme.report.review.samples import APART, HIGHEST, LOWEST, NO
from stillme.report.review.state import ANSWERED, FAILED, NOT_MADE, REFUSED
from stillme.report.tables import ANY, JUDGED, NO_SCORE, YES

_TITLES = {
    "experiment": "Experiment",
    "editor": "Editor",
    "arm": "Arm",
    "category": "Kind of prompt",
    "prompt": "Prompt",
    "status": "How the edit ended",
    "ended": "Edit",
    "stage": "Refused",
    "person": "Person",
    "trial": "Edit",
    "outcome": "Outcome",
    "happened": "Of the outcome",
    "axis": "Axis",
    "low": "Score at least",
    "high": "Score at most",
    "flag": "Flag",
    "why": "Missing score, and why",
    "standing": "How the score came to be",
    "single": "One judge only",
    "text": "Written by judges",
    "rounding": "Rounding",
    "sort": "Order",
}
_WORDS: dict[str, dict[str, str]] = {
    "experiment": {
        DIAGNOSE: "Diagnosis",
        MITIGATE: "Mitigation",
        STEREOTYPE: "Stereotypes",
        CONTROLS: "Controls (nothing is asked for)",
    },
    "ended": {ANSWERED: "answered", REFUSED: "refused", FAILED: "failed", NOT_MADE: "not made yet"},
    "stage": {"input": "on the way in", "output": "on the way out", "model": "in the model’s own words"},
    "flag": {
        "open": "open: judges apart, nobody has decided",
        "flagged": "flagged: judges apart, decided or not",
        "adjudicated": "decided by a person",
        "contested": "people decided differently",
    },
    "happened": {
        YES: "happened",
        NO: "did not",
        JUDGED: "all with a score",
        NO_SCORE: "no score",
        ANY: "all asked",
    },
    "standing": {
        ScoreSource.AGREED: "judges agreed",
        ScoreSource.PRIMARY: "judges apart: the primary’s",
        ScoreSource.SINGLE: "one judge only",
        ScoreSource.MEDIAN: "median of the judges",
        ScoreSource.ADJUDICATED: "decided by a person",
        ScoreSource.CANNOT_TELL: "a person cannot tell",
        ScoreSource.MISSING: "missing",
    },
    "single": {"yes": "yes"},
    "sort": {
        "": "as planned",
        LOWEST: "lowest score first",
        HIGHEST: "highest score first",
        APART: "judges furthest apart first",
    },
}


class Words:
    """Of one design."""

    def __init__(self, design: Design) -> None:
        protocol, audit = design.config.protocol, design.config.audit
        statuses = {status.value: status.label for status in Status}
        pairs = {one.id: f"{one.id} {one.text}" for one in protocol.winobias.prompts}
        self._dimensions = list(protocol.groups.dimensions)
        self._labels: dict[str, Mapping[str, str]] = {
            **_WORDS,
            "editor": {row.id: row.name for row in audit.editors},
            "judge": {row.id: row.name for row in audit.judges},
            "arm": {arm.id: arm.label for arm in protocol.manifest.arms},
            "prompt": {**{one.id: f"{one.id} {one.label}" for one in protocol.prompts.prompts}, **pairs},
            "status": statuses,
            "why": {
                **statuses,
                **target.WHY,
                ScoreSource.CANNOT_TELL: "a person cannot tell",
                Status.PENDING: "not judged yet",
            },
            "outcome": {name: outcome.label for name, outcome in protocol.rubrics.outcomes.items()},
            "axis": {axis.id: axis.label for axis in (target.AXIS, *protocol.rubrics.axes)},
            **{name: protocol.groups.labels(name) for name in self._dimensions},
        }

    def title(self, name: str) -> str:
        return f"Perceived {name}" if name in self._dimensions else _TITLES[name]

    def label(self, name: str, value: str) -> str:
        """A value in words; one without words of its own, such as a name, with spaces for underscores."""
        if name in ("text", "low", "high"):
            return value
        if name in ("person", "trial"):
            return f"{value[:8]}…"
        return self._labels.get(name, {}).get(value) or value.replace("_", " ")

    def ordered(
        self, name: str, counts: Mapping[str, int], always: tuple[str, ...] = ()
    ) -> list[tuple[str, str, int]]:
        """Value, its words and its count: in the protocol's order, what it does not know after that.

        Values that count nothing are left out, unless they are among `always`: those that are chosen.
        """
        known = [value for value in self._labels.get(name, {}) if value in counts or value in always]
        rest = sorted(value for value in {*counts, *always} if value not in known)
        listed = [(value, self.label(name, value), counts.get(value, 0)) for value in [*known, *rest]]
        return [one for one in listed if one[2] or one[0] in always]
