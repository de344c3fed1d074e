"""What reviewers chose: the log of actions folded into a state, and the questions that the log answers. Pure.

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

BREAK = 15 * 60  # seconds: a longer pause between two actions is not counted as time at work


class Verb(StrEnum):
    """What a reviewer can do. The closed list."""

    CHOOSE = "choose"  # before, after: the candidates chosen in the cell
    TICK = "tick"  # before, after: whether the candidate meets the criterion named in `criteria`
    FLAG = "flag"  # before, after: whether the cell needs a second look
    NOTE = "note"  # before, after: the note on the cell
    UNDO = "undo"  # before, after: as in the action that it undoes, the other way round
    COMPARE = "compare"  # the reviewers' choices were laid side by side; what follows is no longer blind


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that one reviewer did. `op` is the browser's own name for it, so that asking twice does it once.

    `criteria`: for `choose` the ticks of the chosen candidates at that time, by candidate and criterion; for
    `tick`
    {"criterion": its id}; for `undo` {"undoes": the op of the action that it takes back}.
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
    meant = by_op[action.criteria["undoes"]] if action.verb is Verb.UNDO else action
    if meant.verb is Verb.CHOOSE:
        state.chosen[action.cell] = tuple(action.after or ())
    elif meant.verb is Verb.TICK:
        _set_tick(state, meant, action.after)
    elif meant.verb is Verb.FLAG:
        state.flagged[action.cell] = bool(action.after)
    elif meant.verb is Verb.NOTE:
        state.notes[action.cell] = str(action.after or "")


def _set_tick(state: State, meant: Action, after: bool | None) -> None:
    """None: as the pre-screen has it."""
    place = (meant.candidate, meant.criteria["criterion"])
    if after is None:
        state.ticks.pop(place, None)
    else:
        state.ticks[place] = after


def last_undoable(actions: Sequence[Action], reviewer: str) -> Action | None:
    """The newest action of a reviewer that was not taken back."""
    undone = {a.criteria["undoes"] for a in actions if a.verb is Verb.UNDO and a.reviewer == reviewer}
    mine = [a for a in actions if a.reviewer == reviewer and a.verb not in (Verb.UNDO, Verb.COMPARE)]
    return next((a for a in reversed(mine) if a.op not in undone), None)


def blind(actions: Sequence[Action]) -> list[Action]:
    """What was done before the reviewers' choices were first laid side by side."""
    first = next((n for n, action in enumerate(actions) if action.verb is Verb.COMPARE), len(actions))
    return list(actions[:first])


def counts_by_pool(state: State, pool_of: Mapping[str, int], pools: Iterable[int]) -> dict[int, int]:
    """Pool -> how many of the chosen portraits are its (the paper's table 2)."""
    found = Counter(pool_of[key] for keys in state.chosen.values() for key in keys)
    return {pool: found[pool] for pool in pools}


def seconds_at_work(actions: Iterable[Action]) -> float:
    """Time between actions, without breaks: what "n actions in m hours" means."""
    times = sorted(datetime.fromisoformat(action.at) for action in actions)
    gaps = ((b - a).total_seconds() for a, b in pairwise(times))
    return sum(gap for gap in gaps if gap <= BREAK)
