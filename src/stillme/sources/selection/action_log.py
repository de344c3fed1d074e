"""The log of reviewers' actions: what was chosen, folded into a state, and described in sentences. Pure.

An action says what was and what is: undoing one appends its mirror image. A reviewer's state depends on that
reviewer's actions alone, so reviewers are blind to each other by construction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from itertools import pairwise
from typing import Any

# Seconds. A longer pause between two actions is not counted as time at work; texts of pages and cards say
# "a quarter of an hour".
MAX_PAUSE_S = 15 * 60


class Verb(StrEnum):
    """What a reviewer can do. The closed list."""

    CHOOSE = "choose"  # before, after: the candidates chosen in the cell
    TICK = "tick"  # before, after: whether the candidate meets the criterion named in `criteria`
    FLAG = "flag"  # before, after: whether the cell needs a second look
    NOTE = "note"  # before, after: the note on the cell
    UNDO = "undo"  # before, after: as in the action that it undoes, the other way round
    COMPARE = "compare"  # the reviewers' choices were laid side by side; what follows is no longer blind


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One thing that one reviewer did. `op` is the browser's own name for it, so that asking twice does it once.

    `criteria`: for `choose` the ticks of the chosen candidates at that time, by candidate and criterion; for
    `tick` {"criterion": its id}; for `undo` {"undoes": the op of the action that it takes back}.
    """

    op: str
    at: str
    reviewer: str
    verb: Verb
    cell: str
    candidate: str = ""
    before: Any = None
    after: Any = None
    criteria: Mapping[str, Any] = field(default_factory=dict)
    milliseconds: int | None = None
    number: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "verb", Verb(self.verb))


@dataclass
class State:
    """Where one reviewer is. Cells and candidates that are not in here are untouched."""

    chosen: dict[str, tuple[str, ...]] = field(default_factory=dict)  # cell -> candidates, first choice first
    ticks: dict[tuple[str, str], bool] = field(default_factory=dict)  # candidate, criterion -> met
    flagged: dict[str, bool] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)


def fold(actions: Iterable[Action], reviewer: str) -> State:
    """The state of one reviewer after these actions."""
    state = State()
    by_op: dict[str, Action] = {}
    for action in actions:
        if action.reviewer == reviewer:
            by_op[action.op] = action
            _apply(state, action, by_op)
    return state


def _apply(state: State, action: Action, by_op: Mapping[str, Action]) -> None:
    subject = by_op[action.criteria["undoes"]] if action.verb is Verb.UNDO else action
    if subject.verb is Verb.CHOOSE:
        state.chosen[action.cell] = tuple(action.after or ())
    elif subject.verb is Verb.TICK:
        key = (subject.candidate, subject.criteria["criterion"])
        if action.after is None:  # as the pre-screen has it
            state.ticks.pop(key, None)
        else:
            state.ticks[key] = action.after
    elif subject.verb is Verb.FLAG:
        state.flagged[action.cell] = bool(action.after)
    elif subject.verb is Verb.NOTE:
        state.notes[action.cell] = str(action.after or "")


def last_undoable(actions: Sequence[Action], reviewer: str) -> Action | None:
    """The newest action of a reviewer that was not taken back."""
    own_actions = [action for action in actions if action.reviewer == reviewer and action.verb is not Verb.COMPARE]
    undone = {action.criteria["undoes"] for action in own_actions if action.verb is Verb.UNDO}
    done = (action for action in reversed(own_actions) if action.verb is not Verb.UNDO)
    return next((action for action in done if action.op not in undone), None)


def blind(actions: Sequence[Action]) -> list[Action]:
    """What was done before the reviewers' choices were first laid side by side."""
    first = next((n for n, action in enumerate(actions) if action.verb is Verb.COMPARE), len(actions))
    return list(actions[:first])


def counts_by_pool(state: State, pool_of: Mapping[str, int], pools: Iterable[int]) -> dict[int, int]:
    """Pool -> how many of the chosen portraits are its (the paper's table 2)."""
    counts = Counter(pool_of[key] for keys in state.chosen.values() for key in keys)
    return {pool: counts[pool] for pool in pools}


def seconds_at_work(actions: Iterable[Action]) -> float:
    """Time between actions, without breaks: what "n actions in m hours" means."""
    times = sorted(datetime.fromisoformat(action.at) for action in actions)
    gaps = ((b - a).total_seconds() for a, b in pairwise(times))
    return sum(gap for gap in gaps if gap <= MAX_PAUSE_S)


# Actions in sentences


@dataclass(frozen=True, kw_only=True)
class Line:
    """One action, as the page of the log shows it."""

    at: str
    cell: str
    text: str
    undone: bool
    milliseconds: int | None

    @property
    def time_on_page(self) -> str:
        return "" if self.milliseconds is None else f"{self.milliseconds / 1000:.1f} s"


@dataclass(frozen=True)
class ActionDescriber:
    """Describes actions; knows candidates by their captions and criteria by their labels."""

    captions: Mapping[str, str]
    criteria: Mapping[str, str]

    def lines(self, actions: Sequence[Action]) -> list[Line]:
        """`actions`: of one reviewer, in order. The lines are newest first."""
        by_op = {action.op: action for action in actions}
        undone = {action.criteria["undoes"] for action in actions if action.verb is Verb.UNDO}
        return [
            Line(
                at=action.at,
                cell=action.cell,
                text=self.describe(action, by_op),
                undone=action.op in undone,
                milliseconds=action.milliseconds,
            )
            for action in reversed(actions)
        ]

    def describe(self, action: Action, by_op: Mapping[str, Action]) -> str:
        match action.verb:
            case Verb.UNDO:
                return "took back: " + self.describe(by_op[action.criteria["undoes"]], by_op)
            case Verb.CHOOSE:
                return self._describe_choice(action.before or (), action.after or ())
            case Verb.TICK:
                criterion = str(action.criteria["criterion"])
                meets = "meets" if action.after else "does not meet"
                return (
                    f"{self._caption(action.candidate)} {meets}: {self.criteria.get(criterion, criterion).lower()}"
                )
            case Verb.FLAG:
                return "needs a second look" if action.after else "needs no second look any more"
            case Verb.NOTE:
                return f"noted “{action.after}”" if action.after else "removed the note"
        return "laid the reviewers' choices side by side"

    def _describe_choice(self, before: Sequence[str], after: Sequence[str]) -> str:
        new = ", ".join(self._caption(key) for key in after if key not in before)
        gone = ", ".join(self._caption(key) for key in before if key not in after)
        if new and gone:
            return f"chose {new} instead of {gone}"
        return f"chose {new}" if new else f"gave up {gone}"

    def _caption(self, key: str) -> str:
        return self.captions.get(key, "a candidate")
