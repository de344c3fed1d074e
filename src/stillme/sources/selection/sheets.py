"""What a reviewer sees of a cell: candidates with their criteria, what is chosen, what was noted. Plain data.

Made from one reviewer's state alone, so that nothing of another reviewer can be in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from stillme.protocol.schema import Criterion
from stillme.sources.selection.choices import State
from stillme.sources.selection.criteria import Outcome
from stillme.sources.selection.grid import Cell
from stillme.sources.selection.store import Candidate

NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Found:
    """What the pre-screen found of one criterion. `passed` None: not measured. `said`: the numbers, in words."""

    passed: bool | None = None
    said: str = NOT_MEASURED

    @classmethod
    def of(cls, outcome: Outcome, status: str) -> Found:
        """`status`: why nothing could be read, or empty."""
        words = "; ".join(check.words for check in outcome.checks)
        return cls(outcome.passed, f"{words} ({status})" if status else words)


NOTHING = Found()


@dataclass(frozen=True)
class Screened:
    """What the pre-screen says of the candidates; empty where it did not run."""

    found: Mapping[str, Mapping[str, Found]] = field(default_factory=dict)  # candidate, criterion
    ranks: Mapping[str, int] = field(default_factory=dict)  # candidate -> its place in its cell, best first

    def of(self, candidate: str, criterion: str) -> Found:
        return self.found.get(candidate, {}).get(criterion, NOTHING)


@dataclass(frozen=True)
class Check:
    """One criterion of one candidate: the tick that counts, and the numbers behind the first one."""

    id: str
    label: str
    description: str
    met: bool | None  # None: neither measured nor said
    said: str
    own: bool  # the reviewer decided it, not the pre-screen

    @property
    def note(self) -> str:
        """What stands beside the box where the tick alone would not say it."""
        if self.own:
            return "by you"
        return "not measured" if self.met is None else ""


@dataclass(frozen=True)
class Card:
    """One candidate as it is shown."""

    candidate: Candidate
    number: int
    rank: int | None
    of: int
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
        met = sum(check.met is True for check in self.checks)
        said = [f"{met} of {len(self.checks)} criteria met"]
        if self.failed:
            said.append("not: " + ", ".join(label.lower() for label in self.failed))
        if unsaid := sum(check.met is None for check in self.checks):
            said.append(f"{unsaid} not measured")
        return "; ".join(said)


@dataclass(frozen=True)
class Sheet:
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
    def standing(self) -> str:
        """How far the cell is, in words."""
        if not self.cards:
            return "no candidate"
        if self.needed == 1:
            return f"chosen: {self.chosen[0].caption}" if self.chosen else "undecided"
        return f"{len(self.chosen)} of {self.needed} chosen"

    @property
    def marks(self) -> tuple[tuple[str, str], ...]:
        """What deserves a look: a shape and words."""
        found = []
        if self.failed:
            found.append(("▲", "fails: " + ", ".join(label.lower() for label in self.failed)))
        if self.flagged:
            found.append(("◆", "second look"))
        if self.note:
            found.append(("✎", "note"))
        return tuple(found)


def needed(candidates: Sequence[Candidate], per_cell: int) -> int:
    """How many a cell can get: a short cell is decided with what it has."""
    return min(per_cell, len(candidates))


def is_decided(state: State, cell: str, candidates: Sequence[Candidate], per_cell: int) -> bool:
    """Whether a cell has all that it can get; one without candidates is never decided."""
    return 0 < needed(candidates, per_cell) == len(state.chosen.get(cell, ()))


def tick(state: State, screened: Screened, candidate: str, criterion: str) -> bool | None:
    """The tick that counts: the reviewer's own, else the pre-screen's; None where nobody said."""
    own = state.ticks.get((candidate, criterion))
    return screened.of(candidate, criterion).passed if own is None else own


def sheet(
    cell: Cell,
    candidates: Sequence[Candidate],
    per_cell: int,
    criteria: Iterable[Criterion],
    state: State,
    screened: Screened,
) -> Sheet:
    criteria = tuple(criteria)
    chosen = state.chosen.get(cell.id, ())
    cards = tuple(
        Card(
            one,
            number,
            screened.ranks.get(one.key),
            len(candidates),
            tuple(_checks(one.key, criteria, state, screened)),
            one.key in chosen,
        )
        for number, one in enumerate(candidates, start=1)
    )
    by_key = {card.key: card for card in cards}
    return Sheet(
        cell,
        cards,
        needed(candidates, per_cell),
        tuple(by_key[key] for key in chosen),
        state.flagged.get(cell.id, False),
        state.notes.get(cell.id, ""),
    )


def _checks(key: str, criteria: Iterable[Criterion], state: State, screened: Screened) -> Iterator[Check]:
    for one in criteria:
        met = tick(state, screened, key, one.id)
        own = (key, one.id) in state.ticks
        yield Check(one.id, one.label, one.description, met, screened.of(key, one.id).said, own)
