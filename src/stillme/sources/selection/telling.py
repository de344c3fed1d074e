"""A reviewer's actions in words, newest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stillme.sources.selection.choices import Action, Verb


@dataclass(frozen=True)
class Line:
    """One action, told."""

    at: str
    cell: str
    said: str
    undone: bool
    milliseconds: int | None

    @property
    def time_on_page(self) -> str:
        return "" if self.milliseconds is None else f"{self.milliseconds / 1000:.1f} s"


@dataclass(frozen=True)
class Teller:
    """Knows candidates by their captions and criteria by their labels."""

    captions: Mapping[str, str]
    criteria: Mapping[str, str]

    def lines(self, actions: Sequence[Action]) -> list[Line]:
        """`actions`: of one reviewer, in order."""
        by_op = {action.op: action for action in actions}
        undone = {a.criteria["undoes"] for a in actions if a.verb is Verb.UNDO}
        return [Line(a.at, a.cell, self.say(a, by_op), a.op in undone, a.milliseconds) for a in reversed(actions)]

    def say(self, action: Action, by_op: Mapping[str, Action]) -> str:
        if action.verb is Verb.UNDO:
            return "took back: " + self.say(by_op[action.criteria["undoes"]], by_op)
        if action.verb is Verb.CHOOSE:
            return self._choice(action.before or (), action.after or ())
        if action.verb is Verb.TICK:
            meets = "meets" if action.after else "does not meet"
            return f"{self._caption(action.candidate)} {meets}: {self._criterion(action)}"
        if action.verb is Verb.FLAG:
            return "needs a second look" if action.after else "needs no second look any more"
        if action.verb is Verb.NOTE:
            return f"noted “{action.after}”" if action.after else "removed the note"
        return "laid the reviewers' choices side by side"

    def _choice(self, before: Sequence[str], after: Sequence[str]) -> str:
        new, gone = (
            [self._caption(key) for key in a if key not in b] for a, b in ((after, before), (before, after))
        )
        if new and gone:
            return f"chose {', '.join(new)} instead of {', '.join(gone)}"
        return f"chose {', '.join(new)}" if new else f"gave up {', '.join(gone)}"

    def _caption(self, key: str) -> str:
        return self.captions.get(key, "a candidate")

    def _criterion(self, action: Action) -> str:
        name = str(action.criteria["criterion"])
        return self.criteria.get(name, name).lower()
