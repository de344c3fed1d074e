"""What reviewers see and do, without any HTTP.

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
from stillme.core.yaml import StrictModel
from stillme.ledger.run import now
from stillme.sources.selection.action_log import (
    Action,
    ActionDescriber,
    Line,
    State,
    Verb,
    blind,
    counts_by_pool,
    fold,
    last_undoable,
    seconds_at_work,
)
from stillme.sources.selection.cell_view import CellView, is_decided, tick, view_cell
from stillme.sources.selection.config import Plan
from stillme.sources.selection.progress import Comparison, DisagreedCell, agreement_on_choices, agreement_on_ticks
from stillme.sources.selection.screen import Screened, load_screened
from stillme.sources.selection.store import Store, by_cell

MAX_REVIEWERS = 2  # agreement is computed between two
MAX_NOTE_CHARS = 2000  # as the page's text field has it
MS_PER_DAY = 24 * 3600 * 1000  # the page counts no further, either
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,39}")


class UnknownError(StillmeError):
    """Asked for what does not exist, or is not the reviewer's."""


class RefusedError(StillmeError):
    """Understood, and not possible now; the sentence says why."""


class Filter(StrEnum):
    """Which cells are shown."""

    ALL = "all"
    UNDECIDED = "undecided"
    FAILS = "fails"
    FLAGGED = "second-look"
    DIFFERS = "differ"

    @property
    def label(self) -> str:
        return {
            Filter.ALL: "all",
            Filter.UNDECIDED: "undecided",
            Filter.FAILS: "fails a criterion",
            Filter.FLAGGED: "needs a second look",
            Filter.DIFFERS: "reviewers differ",
        }[self]


class SelectionRequest(StrictModel):
    """A request of a browser. `value`: yes or no, or the text of a note."""

    op: UUID
    verb: Literal["choose", "tick", "flag", "note", "undo"]
    cell: str = Field(default="", max_length=400)
    candidate: str = Field(default="", max_length=100)
    criterion: str = Field(default="", max_length=100)
    value: StrictBool | str | None = Field(default=None)
    milliseconds: int | None = Field(default=None, ge=0, le=MS_PER_DAY)


@dataclass(frozen=True)
class Progress:
    decided: int
    cells: int  # that have a candidate
    empty: int

    @property
    def words(self) -> str:
        none = f", {self.empty} without a candidate" if self.empty else ""
        return f"{self.decided} of {self.cells} decided{none}"


class SelectionService:
    """Shared by all reviewers of a selection; safe to use from several threads."""

    def __init__(
        self, plan: Plan, store: Store, reviewers: Iterable[str], screened: Screened | None = None
    ) -> None:
        self.plan = plan
        self._store = store
        _admit(store, reviewers)
        self.reviewers = tuple(store.reviewers())
        self.screened = load_screened(plan, store) if screened is None else screened
        self.candidates = by_cell(plan.grid, store.candidates())
        self.criteria = plan.protocol.groups.selection_criteria
        self._acting = threading.Lock()  # one action at a time: each is checked against the state before it
        self._actions = store.actions()
        self._states = {name: fold(self._actions, name) for name in self.reviewers}

    @cached_property
    def _cell_by_candidate(self) -> Mapping[str, str]:
        return {candidate.key: cell for cell, listed in self.candidates.items() for candidate in listed}

    @cached_property
    def images(self) -> frozenset[str]:
        return frozenset(candidate.portrait.image for listed in self.candidates.values() for candidate in listed)

    @cached_property
    def _teller(self) -> ActionDescriber:
        captions = {
            candidate.key: f"{number} (pool {candidate.pool})"
            for listed in self.candidates.values()
            for number, candidate in enumerate(listed, start=1)
        }
        return ActionDescriber(captions, {criterion.id: criterion.label for criterion in self.criteria})

    # What a reviewer sees

    def sheet(self, reviewer: str, cell: str) -> CellView:
        if cell not in self.plan.grid.cell:
            raise UnknownError(f"There is no cell {cell}.")
        grid, state = self.plan.grid, self._states[reviewer]
        return view_cell(
            grid.cell[cell], self.candidates[cell], grid.per_cell, self.criteria, state, self.screened
        )

    def sheets(self, reviewer: str, show: Filter = Filter.ALL) -> list[CellView]:
        """The cells under a filter, in the order of the grid."""
        return self.keep([self.sheet(reviewer, cell.id) for cell in self.plan.grid.cells], show)

    def keep(self, sheets: Iterable[CellView], show: Filter) -> list[CellView]:
        """Those under a filter."""
        differing = set()
        if show is Filter.DIFFERS and self.compared:
            differing = {pair.first.cell.id for pair in self._differing()}
        conditions: dict[Filter, Callable[[CellView], bool]] = {
            Filter.ALL: lambda sheet: True,
            Filter.UNDECIDED: lambda sheet: bool(sheet.cards) and not sheet.decided,
            Filter.FAILS: lambda sheet: bool(sheet.failed),
            Filter.FLAGGED: lambda sheet: sheet.flagged,
            Filter.DIFFERS: lambda sheet: sheet.cell.id in differing,
        }
        return [sheet for sheet in sheets if conditions[show](sheet)]

    @property
    def filters(self) -> list[Filter]:
        """Those that may be asked for now."""
        return [show for show in Filter if show is not Filter.DIFFERS or self.compared]

    def neighbour(self, reviewer: str, cell: str, show: Filter, step: int) -> str | None:
        """The next (1) or previous (-1) cell under the filter, round the end; None where there is no other."""
        order = [cell.id for cell in self.plan.grid.cells]
        if cell not in order:
            raise UnknownError(f"There is no cell {cell}.")
        allowed = {sheet.cell.id for sheet in self.sheets(reviewer, show)} - {cell}
        index = order.index(cell)
        others = order[index + 1 :] + order[:index]
        return next((other for other in others[::step] if other in allowed), None)

    def progress(self, reviewer: str) -> Progress:
        state = self._states[reviewer]
        full = {cell: listed for cell, listed in self.candidates.items() if listed}
        decided = sum(is_decided(state, cell, listed, self.plan.grid.per_cell) for cell, listed in full.items())
        return Progress(decided=decided, cells=len(full), empty=len(self.candidates) - len(full))

    def by_pool(self, reviewer: str) -> list[tuple[int, int, int]]:
        """Pool, seed, how many of its portraits are chosen (the paper's table 2)."""
        pools = self._store.pools()
        pool_of = {candidate.key: candidate.pool for listed in self.candidates.values() for candidate in listed}
        counts = counts_by_pool(self._states[reviewer], pool_of, pools)
        return [(pool, seed, counts[pool]) for pool, seed in pools.items()]

    def effort(self, reviewer: str) -> tuple[int, float]:
        """How many actions, in how many seconds of work."""
        actions = self._actions_of(reviewer)
        return len(actions), seconds_at_work(actions)

    def log(self, reviewer: str) -> list[Line]:
        return self._teller.lines(self._actions_of(reviewer))

    def _actions_of(self, reviewer: str) -> list[Action]:
        return [action for action in self._actions if action.reviewer == reviewer]

    def undoable(self, reviewer: str) -> str:
        """What undoing would take back, in words; empty where there is nothing."""
        last = last_undoable(self._actions, reviewer)
        return f"{self.plan.grid.cell[last.cell].label}: {self._teller.describe(last, {})}" if last else ""

    # What a reviewer does

    def act(self, reviewer: str, request: SelectionRequest) -> str:
        """Do what was asked, once, and return the cell concerned after the action is on disk."""
        with self._acting:
            done = next((action for action in self._actions if action.op == str(request.op)), None)
            if done is not None:
                if done.reviewer != reviewer:
                    raise RefusedError("This request was used before.", "Please try once more.")
                return done.cell
            action = self._action(reviewer, request)
            if action.before != action.after:
                self._record(action)
            return action.cell

    def _record(self, action: Action) -> None:
        """Stored, then shown: an action that the disk refused has not happened."""
        self._store.add_action(action).result()
        self._actions.append(action)
        self._states[action.reviewer] = fold(self._actions, action.reviewer)

    def _action(self, reviewer: str, request: SelectionRequest) -> Action:
        """The action that a request asks for, with the state before and after it."""
        verb, cell, candidate, state = Verb(request.verb), request.cell, request.candidate, self._states[reviewer]
        if verb is not Verb.UNDO and cell not in self.candidates:
            raise UnknownError("There is no such cell.")
        changes: dict[str, Any]
        match verb:
            case Verb.UNDO:
                last = last_undoable(self._actions, reviewer)
                if last is None:
                    raise RefusedError("There is nothing to take back.")
                cell, candidate = last.cell, last.candidate
                changes = {"before": last.after, "after": last.before, "criteria": {"undoes": last.op}}
            case Verb.CHOOSE:
                changes = self._choose(state, request)
            case Verb.TICK:
                changes = self._tick(state, request)
            case Verb.FLAG:
                changes = {"before": state.flagged.get(cell, False), "after": _yes_or_no(request)}
            case _:
                if not isinstance(request.value, str):
                    raise RefusedError("A note is a text.")
                if len(request.value) > MAX_NOTE_CHARS:
                    raise RefusedError(f"A note has at most {MAX_NOTE_CHARS:,} characters.", "Please shorten it.")
                changes = {"before": state.notes.get(cell, ""), "after": request.value}
        return Action(
            op=str(request.op),
            at=now(),
            reviewer=reviewer,
            verb=verb,
            cell=cell,
            candidate=candidate,
            milliseconds=request.milliseconds,
            **changes,
        )

    def _choose(self, state: State, request: SelectionRequest) -> dict[str, Any]:
        """Where a cell takes a single portrait, choosing another one replaces it."""
        self._check_candidate(request)
        per_cell = self.plan.grid.per_cell
        before = list(state.chosen.get(request.cell, ()))
        if not _yes_or_no(request):
            after = [key for key in before if key != request.candidate]
        elif request.candidate in before:
            after = before
        elif per_cell == 1:
            after = [request.candidate]
        elif len(before) >= per_cell:
            raise RefusedError(f"This cell has its {per_cell} portraits already.", "Take one of them back first.")
        else:
            after = [*before, request.candidate]
        ticks = {
            key: {criterion.id: tick(state, self.screened, key, criterion.id) for criterion in self.criteria}
            for key in after
        }
        return {"before": before, "after": after, "criteria": ticks}

    def _tick(self, state: State, request: SelectionRequest) -> dict[str, Any]:
        self._check_candidate(request)
        if request.criterion not in {criterion.id for criterion in self.criteria}:
            raise UnknownError("There is no such criterion.")
        value = _yes_or_no(request)
        before = state.ticks.get((request.candidate, request.criterion))
        is_same = tick(state, self.screened, request.candidate, request.criterion) is value
        after = before if is_same else value
        return {"before": before, "after": after, "criteria": {"criterion": request.criterion}}

    def _check_candidate(self, request: SelectionRequest) -> None:
        if self._cell_by_candidate.get(request.candidate) != request.cell:
            raise UnknownError("There is no such candidate in this cell.")

    # Two reviewers

    @property
    def compared(self) -> bool:
        return any(action.verb is Verb.COMPARE for action in self._actions)

    @property
    def is_comparable(self) -> bool:
        """Whether there are two reviewers and both have decided every cell."""
        progress = [self.progress(name) for name in self.reviewers]
        return len(progress) == MAX_REVIEWERS and all(part.decided == part.cells for part in progress)

    def compare(self, reviewer: str, op: str) -> None:
        """End the blindness, once."""
        with self._acting:
            if self.compared:
                return
            if not self.is_comparable:
                raise RefusedError("Choices are compared once both reviewers have decided every cell.")
            self._record(
                Action(op=op, at=now(), reviewer=reviewer, verb=Verb.COMPARE, cell="", before=False, after=True)
            )

    def comparison(self) -> Comparison:
        if not self.compared:
            raise UnknownError("Nothing was compared yet.")
        while_blind = blind(self._actions)
        first, second = (fold(while_blind, name) for name in self.reviewers)
        states, keys = (first, second), list(self._cell_by_candidate)
        return Comparison(
            choices=agreement_on_choices(states, self.candidates, self.plan.grid.per_cell),
            criteria={
                criterion.label: agreement_on_ticks(states, self.screened, keys, criterion.id)
                for criterion in self.criteria
            },
            changed=len({*first.ticks, *second.ticks}),
            differing=tuple(self._differing()),
        )

    def _differing(self) -> list[DisagreedCell]:
        name, other_name = self.reviewers
        pairs = [
            DisagreedCell(first=self.sheet(name, cell), second=self.sheet(other_name, cell))
            for cell in self.candidates
        ]
        return [
            pair
            for pair in pairs
            if {card.key for card in pair.first.chosen} != {card.key for card in pair.second.chosen}
        ]


def _yes_or_no(request: SelectionRequest) -> bool:
    if not isinstance(request.value, bool):
        raise RefusedError("Say whether: the value has to be true or false.")
    return request.value


def _admit(store: Store, names: Iterable[str]) -> None:
    """Enter reviewers under pseudonyms; a third one would have nobody to be compared with."""
    requested = list(dict.fromkeys(names))
    for name in requested:
        if not _NAME.fullmatch(name):
            message = (
                f"'{name}' cannot name a reviewer: up to 40 letters, digits, dots, hyphens and underscores can."
            )
            raise InputError(message, "Pseudonyms do.")
    all_names = list(dict.fromkeys((*store.reviewers(), *requested)))
    if not requested or len(all_names) > MAX_REVIEWERS:
        message = (
            f"A selection has one or two reviewers; this one would have {len(all_names)}: {', '.join(all_names)}."
        )
        raise InputError(message, "Give --reviewer with one of the names that it has.")
    for name in requested:
        store.add_reviewer(name)
