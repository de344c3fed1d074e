"""The desk at which reviewers choose: what they see, and what they do. No HTTP here.

Actions go to the store first; what is shown is folded from what is stored. A reviewer is shown nothing that was
not made from that reviewer's own actions, until both have decided everything and one of them ends the blindness.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal
from uuid import UUID

from pydantic import Field, StrictBool

from stillme.core.errors import InputError, StillmeError
from stillme.core.records import Reading, Status
from stillme.core.yaml import Frozen
from stillme.ledger.run import now
from stillme.sources.selection import criteria
from stillme.sources.selection.choices import (
    Action,
    State,
    Verb,
    blind,
    counts_by_pool,
    fold,
    last_undoable,
    seconds_at_work,
)
from stillme.sources.selection.comparison import Beside, Comparison, agreement_on_choices, agreement_on_ticks
from stillme.sources.selection.config import Plan
from stillme.sources.selection.sheets import Found, Screened, Sheet, is_decided, sheet, tick
from stillme.sources.selection.store import Store, by_cell
from stillme.sources.selection.telling import Line, Teller

MOST_REVIEWERS = 2
LONGEST_NOTE = 2000
A_DAY = 24 * 3600 * 1000
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,39}")


class UnknownError(StillmeError):
    """Asked for what is not there, or not the reviewer's."""


class RefusedError(StillmeError):
    """Understood, and not possible as things stand; the sentence says why."""


class Filter(StrEnum):
    """Which cells are shown."""

    ALL = "all"
    UNDECIDED = "undecided"
    FAILS = "fails"
    FLAGGED = "second-look"
    DIFFERS = "differ"

    @property
    def label(self) -> str:
        return _LABELS[self]


_LABELS = {
    Filter.ALL: "all",
    Filter.UNDECIDED: "undecided",
    Filter.FAILS: "fails a criterion",
    Filter.FLAGGED: "needs a second look",
    Filter.DIFFERS: "reviewers differ",
}


class Asked(Frozen):
    """What a browser asks for. `value`: whether, or the text of a note."""

    op: UUID
    verb: Literal["choose", "tick", "flag", "note", "undo"]
    cell: str = Field(default="", max_length=400)
    candidate: str = Field(default="", max_length=100)
    criterion: str = Field(default="", max_length=100)
    value: StrictBool | str | None = Field(default=None)
    milliseconds: int | None = Field(default=None, ge=0, le=A_DAY)


@dataclass(frozen=True)
class Progress:
    decided: int
    cells: int  # that have a candidate
    empty: int

    @property
    def words(self) -> str:
        none = f", {self.empty} without a candidate" if self.empty else ""
        return f"{self.decided} of {self.cells} decided{none}"


class Desk:
    """Shared by all reviewers of a selection; safe to use from several threads."""

    def __init__(
        self, plan: Plan, store: Store, reviewers: Iterable[str], screened: Screened | None = None
    ) -> None:
        self.plan = plan
        self._store = store
        _admit(store, reviewers)
        self.reviewers = tuple(store.reviewers())
        self.screened = screen(plan, store) if screened is None else screened
        self.candidates = by_cell(plan.grid, store.candidates())
        self.criteria = plan.protocol.groups.selection_criteria
        self._acting = threading.Lock()
        self._actions = store.actions()
        self._states = {name: fold(self._actions, name) for name in self.reviewers}

    # What there is

    @cached_property
    def _where(self) -> Mapping[str, str]:
        """Candidate -> cell."""
        return {one.key: cell for cell, listed in self.candidates.items() for one in listed}

    @cached_property
    def images(self) -> frozenset[str]:
        return frozenset(one.portrait.image for listed in self.candidates.values() for one in listed)

    @cached_property
    def _teller(self) -> Teller:
        captions = {
            one.key: f"{number} (pool {one.pool})"
            for listed in self.candidates.values()
            for number, one in enumerate(listed, start=1)
        }
        return Teller(captions, {one.id: one.label for one in self.criteria})

    # What a reviewer sees

    def sheet(self, reviewer: str, cell: str) -> Sheet:
        if cell not in self.plan.grid.cell:
            raise UnknownError(f"There is no cell {cell}.")
        return self._sheet(self._states[reviewer], cell)

    def _sheet(self, state: State, cell: str) -> Sheet:
        grid = self.plan.grid
        return sheet(grid.cell[cell], self.candidates[cell], grid.per_cell, self.criteria, state, self.screened)

    def sheets(self, reviewer: str, show: Filter = Filter.ALL) -> list[Sheet]:
        """The cells under a filter, in the order of the grid."""
        state = self._states[reviewer]
        return self.keep([self._sheet(state, cell.id) for cell in self.plan.grid.cells], show)

    def keep(self, sheets: Iterable[Sheet], show: Filter) -> list[Sheet]:
        """Those under a filter."""
        keeps = self._keeping(show)
        return [one for one in sheets if keeps(one)]

    def _keeping(self, show: Filter) -> Callable[[Sheet], bool]:
        if show is Filter.UNDECIDED:
            return lambda one: bool(one.cards) and not one.decided
        if show is Filter.FAILS:
            return lambda one: bool(one.failed)
        if show is Filter.FLAGGED:
            return lambda one: one.flagged
        if show is Filter.DIFFERS:
            differing = {beside.first.cell.id for beside in self._differing()} if self.compared else set()
            return lambda one: one.cell.id in differing
        return lambda one: True

    @property
    def filters(self) -> list[Filter]:
        """Those that may be asked for now."""
        return [show for show in Filter if show is not Filter.DIFFERS or self.compared]

    def neighbour(self, reviewer: str, cell: str, show: Filter, step: int) -> str | None:
        """The next (1) or previous (-1) cell under the filter, round the end; None where there is no other."""
        order = [one.id for one in self.plan.grid.cells]
        if cell not in order:
            raise UnknownError(f"There is no cell {cell}.")
        kept = {one.cell.id for one in self.sheets(reviewer, show)} - {cell}
        here = order.index(cell)
        turned = order[here + 1 :] + order[:here]
        return next((one for one in turned[::step] if one in kept), None)

    def progress(self, reviewer: str) -> Progress:
        state = self._states[reviewer]
        full = {cell: listed for cell, listed in self.candidates.items() if listed}
        decided = sum(is_decided(state, cell, listed, self.plan.grid.per_cell) for cell, listed in full.items())
        return Progress(decided, len(full), len(self.candidates) - len(full))

    def by_pool(self, reviewer: str) -> list[tuple[int, int, int]]:
        """Pool, seed, how many of its portraits are chosen (the paper's table 2)."""
        pools = self._store.pools()
        of = {one.key: one.pool for listed in self.candidates.values() for one in listed}
        counts = counts_by_pool(self._states[reviewer], of, pools)
        return [(pool, seed, counts[pool]) for pool, seed in pools.items()]

    def effort(self, reviewer: str) -> tuple[int, float]:
        """How many actions, in how many seconds of work."""
        mine = [action for action in self._actions if action.reviewer == reviewer]
        return len(mine), seconds_at_work(mine)

    def log(self, reviewer: str) -> list[Line]:
        return self._teller.lines([action for action in self._actions if action.reviewer == reviewer])

    def undoable(self, reviewer: str) -> str:
        """What undoing would take back, in words; empty where there is nothing."""
        last = last_undoable(self._actions, reviewer)
        if last is None:
            return ""
        return f"{self.plan.grid.cell[last.cell].label}: {self._teller.say(last, {})}"

    # What a reviewer does

    def act(self, reviewer: str, asked: Asked) -> str:
        """Does what was asked, once, and returns the cell concerned after it is on disk."""
        with self._acting:
            done = next((a for a in self._actions if a.op == str(asked.op)), None)
            if done is not None:
                if done.reviewer != reviewer:
                    raise RefusedError("This request was used before.", "Please try once more.")
                return done.cell
            action = self._action(reviewer, asked)
            if action.before != action.after:
                self._record(action)
            return action.cell

    def _record(self, action: Action) -> None:
        """Stored, then shown: an action that the disk refused has not happened."""
        self._store.add_action(action).result()
        self._actions.append(action)
        self._states[action.reviewer] = fold(self._actions, action.reviewer)

    def _action(self, reviewer: str, asked: Asked) -> Action:
        verb = Verb(asked.verb)
        if verb is Verb.UNDO:
            return self._undo(reviewer, asked)
        if asked.cell not in self.candidates:
            raise UnknownError("There is no such cell.")
        make = {Verb.CHOOSE: self._choose, Verb.TICK: self._tick, Verb.FLAG: self._flag, Verb.NOTE: self._note}
        changes = make[verb](self._states[reviewer], asked)
        return Action(
            str(asked.op),
            now(),
            reviewer,
            verb,
            asked.cell,
            asked.candidate,
            milliseconds=asked.milliseconds,
            **changes,
        )

    def _choose(self, state: State, asked: Asked) -> dict[str, Any]:
        self._check_candidate(asked)
        before = list(state.chosen.get(asked.cell, ()))
        after = [key for key in before if key != asked.candidate]
        if _yes(asked):
            after = self._with(before, asked)
        ticks = {key: self._ticks(state, key) for key in after}
        return {"before": before, "after": after, "criteria": ticks}

    def _with(self, before: list[str], asked: Asked) -> list[str]:
        """One more; where a cell takes a single portrait, another one instead."""
        if asked.candidate in before:
            return before
        if self.plan.grid.per_cell == 1:
            return [asked.candidate]
        if len(before) >= self.plan.grid.per_cell:
            said = f"This cell has its {self.plan.grid.per_cell} portraits already."
            raise RefusedError(said, "Take one of them back first.")
        return [*before, asked.candidate]

    def _ticks(self, state: State, key: str) -> dict[str, bool | None]:
        return {one.id: tick(state, self.screened, key, one.id) for one in self.criteria}

    def _tick(self, state: State, asked: Asked) -> dict[str, Any]:
        self._check_candidate(asked)
        if asked.criterion not in {one.id for one in self.criteria}:
            raise UnknownError("There is no such criterion.")
        value = _yes(asked)
        before = state.ticks.get((asked.candidate, asked.criterion))
        same = tick(state, self.screened, asked.candidate, asked.criterion) is value
        return {"before": before, "after": before if same else value, "criteria": {"criterion": asked.criterion}}

    def _flag(self, state: State, asked: Asked) -> dict[str, Any]:
        return {"before": state.flagged.get(asked.cell, False), "after": _yes(asked)}

    def _note(self, state: State, asked: Asked) -> dict[str, Any]:
        if not isinstance(asked.value, str):
            raise RefusedError("A note is a text.")
        if len(asked.value) > LONGEST_NOTE:
            raise RefusedError(f"A note has at most {LONGEST_NOTE:,} characters.", "Please shorten it.")
        return {"before": state.notes.get(asked.cell, ""), "after": asked.value}

    def _undo(self, reviewer: str, asked: Asked) -> Action:
        last = last_undoable(self._actions, reviewer)
        if last is None:
            raise RefusedError("There is nothing to take back.")
        about = (Verb.UNDO, last.cell, last.candidate, last.after, last.before, {"undoes": last.op})
        return Action(str(asked.op), now(), reviewer, *about, milliseconds=asked.milliseconds)

    def _check_candidate(self, asked: Asked) -> None:
        if self._where.get(asked.candidate) != asked.cell:
            raise UnknownError("There is no such candidate in this cell.")

    # Two reviewers

    @property
    def compared(self) -> bool:
        return any(action.verb is Verb.COMPARE for action in self._actions)

    @property
    def is_comparable(self) -> bool:
        """Whether there are two reviewers and both have decided every cell."""
        every = [self.progress(name) for name in self.reviewers]
        return len(every) == MOST_REVIEWERS and all(one.decided == one.cells for one in every)

    def compare(self, reviewer: str, op: str) -> None:
        """Ends the blindness, once."""
        with self._acting:
            if self.compared:
                return
            if not self.is_comparable:
                raise RefusedError("Choices are compared once both reviewers have decided every cell.")
            self._record(Action(op, now(), reviewer, Verb.COMPARE, cell="", before=False, after=True))

    def comparison(self) -> Comparison:
        if not self.compared:
            raise UnknownError("Nothing was compared yet.")
        before = blind(self._actions)
        first, second = (fold(before, name) for name in self.reviewers)
        keys = list(self._where)
        return Comparison(
            agreement_on_choices((first, second), self.candidates, self.plan.grid.per_cell),
            {one.label: agreement_on_ticks((first, second), self.screened, keys, one.id) for one in self.criteria},
            len({*first.ticks, *second.ticks}),
            tuple(self._differing()),
        )

    def _differing(self) -> list[Beside]:
        pairs = [
            Beside(*(self._sheet(self._states[name], cell) for name in self.reviewers)) for cell in self.candidates
        ]
        return [one for one in pairs if {c.key for c in one.first.chosen} != {c.key for c in one.second.chosen}]


def _yes(asked: Asked) -> bool:
    if not isinstance(asked.value, bool):
        raise RefusedError("Say whether: the value has to be true or false.")
    return asked.value


def _admit(store: Store, names: Iterable[str]) -> None:
    """Enters reviewers under pseudonyms. A third one has nobody to be compared with."""
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        if not _NAME.fullmatch(name):
            said = f"'{name}' cannot name a reviewer: up to 40 letters, digits, dots, hyphens and underscores can."
            raise InputError(said, "Pseudonyms do.")
    every = list(dict.fromkeys((*store.reviewers(), *wanted)))
    if not wanted or len(every) > MOST_REVIEWERS:
        said = f"A selection has one or two reviewers; this one would have {len(every)}: {', '.join(every)}."
        raise InputError(said, "Give --reviewer with one of the names that it has.")
    for name in wanted:
        store.add_reviewer(name)


def screen(plan: Plan, store: Store) -> Screened:
    """What the pre-screen measured, read by the protocol's rules."""
    from stillme.sources.selection import screen as screening

    readings = screening.readings(store)
    listed = [one for one in store.candidates() if one.portrait.image in readings]
    outcomes = {
        one.key: criteria.judge(readings[one.portrait.image].figures, plan.rules.criteria) for one in listed
    }
    ranks: dict[str, int] = {}
    for keys in by_cell(plan.grid, listed).values():
        ranked = criteria.rank((one.key, outcomes[one.key]) for one in keys)
        ranks.update({key: place for place, key in enumerate(ranked, start=1)})
    statuses = {one.key: _status(readings[one.portrait.image]) for one in listed}
    found = {
        key: {name: Found.of(outcome, statuses[key]) for name, outcome in judged.items()}
        for key, judged in outcomes.items()
    }
    return Screened(found, ranks)


def _status(reading: Reading) -> str:
    """Why there are no figures; empty where there are."""
    return "" if reading.status is Status.OK else reading.detail or reading.status.value.replace("_", " ")
