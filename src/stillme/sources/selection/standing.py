"""How far a selection is: cells decided, choices by pool, actions and hours. Counts from the log, nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stillme.sources.selection import choices
from stillme.sources.selection.comparison import agreement_on_choices
from stillme.sources.selection.config import Plan
from stillme.sources.selection.sheets import is_decided
from stillme.sources.selection.store import Candidate, Store, by_cell
from stillme.stats.agreement import Kappa


@dataclass(frozen=True)
class Reviewed:
    """One reviewer's part."""

    name: str
    decided: int
    flagged: int
    by_pool: Mapping[int, int]
    actions: int
    hours: float


@dataclass(frozen=True)
class Standing:
    """Where a selection is. `cells`: how many portraits' places there are is cells × per_cell."""

    name: str
    cells: int
    per_cell: int
    pools: Mapping[int, int]
    candidates: int
    screened: int
    reviewers: Sequence[Reviewed]
    undecided: Sequence[str]
    agreement: Kappa | None  # of the choices while blind; only once the reviewers were compared


def standing(plan: Plan, store: Store) -> Standing:
    actions, candidates = store.actions(), store.candidates()
    pool_of = {one.key: one.pool for one in candidates}
    pools, cells = store.pools(), [cell.id for cell in plan.grid.cells]
    listed, per_cell = by_cell(plan.grid, candidates), plan.grid.per_cell
    reviewed, undecided = [], cells
    for place, name in enumerate(store.reviewers()):
        state = choices.fold(actions, name)
        mine = [action for action in actions if action.reviewer == name]
        open_cells = [cell for cell in cells if not is_decided(state, cell, listed[cell], per_cell)]
        undecided = open_cells if place == 0 else undecided
        hours = choices.seconds_at_work(mine) / 3600
        by_pool = choices.counts_by_pool(state, pool_of, pools)
        flagged = sum(state.flagged.values())
        reviewed.append(Reviewed(name, len(cells) - len(open_cells), flagged, by_pool, len(mine), hours))
    screened = store.query("SELECT count(DISTINCT image) FROM screening")[0][0]
    about = (plan.selection.name, len(cells), per_cell, pools, len(candidates), screened)
    return Standing(*about, reviewed, undecided, _agreement(store.reviewers(), actions, listed, per_cell))


def _agreement(
    reviewers: Sequence[str],
    actions: Sequence[choices.Action],
    candidates: Mapping[str, Sequence[Candidate]],
    per_cell: int,
) -> Kappa | None:
    """Said only when blindness is over: a number would tell one reviewer about the other."""
    compared = any(action.verb is choices.Verb.COMPARE for action in actions)
    if not compared or len(reviewers) < 2:
        return None
    before = choices.blind(actions)
    states = choices.fold(before, reviewers[0]), choices.fold(before, reviewers[1])
    return agreement_on_choices(states, candidates, per_cell)
