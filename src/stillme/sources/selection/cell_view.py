"""What a reviewer sees of a cell: candidates with their criteria, what is chosen, what was noted. Plain data.

Made from one reviewer's state alone, so that nothing of another reviewer can be in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stillme.protocol.schema import Criterion
from stillme.sources.selection.action_log import State
from stillme.sources.selection.pools import Cell
from stillme.sources.selection.screen import Screened
from stillme.sources.selection.store import Candidate


@dataclass(frozen=True, kw_only=True)
class Check:
    """One criterion of one candidate: the tick that counts, and the numbers behind the first one."""

    id: str
    label: str
    description: str
    met: bool | None  # None: neither measured nor ticked
    measured: str
    by_reviewer: bool  # the reviewer decided it, not the pre-screen

    @property
    def note(self) -> str:
        """What is shown next to the box where the tick alone would not say it."""
        if self.by_reviewer:
            return "by you"
        return "not measured" if self.met is None else ""


@dataclass(frozen=True, kw_only=True)
class Card:
    """One candidate as it is shown."""

    candidate: Candidate
    number: int
    rank: int | None
    n_candidates: int  # of the cell
    checks: tuple[Check, ...]
    chosen: bool

    @property
    def key(self) -> str:
        return self.candidate.key

    @property
    def image(self) -> str:
        return self.candidate.portrait.image

    @property
    def caption(self) -> str:
        return f"{self.number} · pool {self.candidate.pool}"

    @property
    def failed(self) -> tuple[str, ...]:
        return tuple(check.label for check in self.checks if check.met is False)

    @property
    def summary(self) -> str:
        """The criteria in a line."""
        n_met = sum(check.met is True for check in self.checks)
        parts = [f"{n_met} of {len(self.checks)} criteria met"]
        if self.failed:
            parts.append("not: " + ", ".join(label.lower() for label in self.failed))
        if n_unmeasured := sum(check.met is None for check in self.checks):
            parts.append(f"{n_unmeasured} not measured")
        return "; ".join(parts)


@dataclass(frozen=True, kw_only=True)
class CellView:
    """One cell as one reviewer has it."""

    cell: Cell
    cards: tuple[Card, ...]
    needed: int
    chosen: tuple[Card, ...]
    flagged: bool
    note: str

    @property
    def decided(self) -> bool:
        return self.needed > 0 and len(self.chosen) == self.needed

    @property
    def failed(self) -> tuple[str, ...]:
        """Criteria that a chosen candidate does not meet, by the ticks that count."""
        return tuple(dict.fromkeys(label for card in self.chosen for label in card.failed))

    @property
    def status(self) -> str:
        """How far the cell is, in words."""
        if not self.cards:
            return "no candidate"
        if self.needed == 1:
            return f"chosen: {self.chosen[0].caption}" if self.chosen else "undecided"
        return f"{len(self.chosen)} of {self.needed} chosen"

    @property
    def marks(self) -> tuple[tuple[str, str], ...]:
        """What deserves attention: a shape and words."""
        marks = []
        if self.failed:
            marks.append(("▲", "fails: " + ", ".join(label.lower() for label in self.failed)))
        if self.flagged:
            marks.append(("◆", "second look"))
        if self.note:
            marks.append(("✎", "note"))
        return tuple(marks)


def needed(candidates: Sequence[Candidate], per_cell: int) -> int:
    """How many portraits a cell can get: a short cell is decided with what it has."""
    return min(per_cell, len(candidates))


def is_decided(state: State, cell: str, candidates: Sequence[Candidate], per_cell: int) -> bool:
    """Whether a cell has all that it can get; one without candidates is never decided."""
    return 0 < needed(candidates, per_cell) == len(state.chosen.get(cell, ()))


def tick(state: State, screened: Screened, candidate: str, criterion: str) -> bool | None:
    """The tick that counts: the reviewer's own, else the pre-screen's; None where there is neither."""
    by_reviewer = state.ticks.get((candidate, criterion))
    return screened.of(candidate, criterion).passed if by_reviewer is None else by_reviewer


def view_cell(
    cell: Cell,
    candidates: Sequence[Candidate],
    per_cell: int,
    criteria: Sequence[Criterion],
    state: State,
    screened: Screened,
) -> CellView:
    chosen = state.chosen.get(cell.id, ())
    cards = {}
    for number, candidate in enumerate(candidates, start=1):
        key = candidate.key
        checks = tuple(
            Check(
                id=criterion.id,
                label=criterion.label,
                description=criterion.description,
                met=tick(state, screened, key, criterion.id),
                measured=screened.of(key, criterion.id).measured,
                by_reviewer=(key, criterion.id) in state.ticks,
            )
            for criterion in criteria
        )
        cards[key] = Card(
            candidate=candidate,
            number=number,
            rank=screened.ranks.get(key),
            n_candidates=len(candidates),
            checks=checks,
            chosen=key in chosen,
        )
    return CellView(
        cell=cell,
        cards=tuple(cards.values()),
        needed=needed(candidates, per_cell),
        chosen=tuple(cards[key] for key in chosen),
        flagged=state.flagged.get(cell.id, False),
        note=state.notes.get(cell.id, ""),
    )
