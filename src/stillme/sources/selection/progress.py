"""How far a selection is, and how far its reviewers agree. Counts from the log, nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stillme.sources.selection.action_log import State, Verb, blind, counts_by_pool, fold, seconds_at_work
from stillme.sources.selection.cell_view import CellView, is_decided, tick
from stillme.sources.selection.config import Plan
from stillme.sources.selection.screen import Screened
from stillme.sources.selection.store import Candidate, Store, by_cell
from stillme.stats.agreement import Kappa, cohen


@dataclass(frozen=True, kw_only=True)
class Reviewed:
    """One reviewer's part. The field names are keys of `status --json`."""

    name: str
    decided: int
    flagged: int
    by_pool: Mapping[int, int]
    actions: int
    hours: float


@dataclass(frozen=True, kw_only=True)
class SelectionProgress:
    """Where a selection is; it has cells × per_cell portraits. The field names are keys of `status --json`."""

    name: str
    cells: int
    per_cell: int
    pools: Mapping[int, int]
    candidates: int
    screened: int
    reviewers: Sequence[Reviewed]
    undecided: Sequence[str]  # cells that the first reviewer has not decided
    agreement: Kappa | None  # of the choices while blind; only once the reviewers were compared


def load_progress(plan: Plan, store: Store) -> SelectionProgress:
    actions, candidates, names = store.actions(), store.candidates(), store.reviewers()
    pool_of = {candidate.key: candidate.pool for candidate in candidates}
    pools, cells = store.pools(), [cell.id for cell in plan.grid.cells]
    candidates_by_cell, per_cell = by_cell(plan.grid, candidates), plan.grid.per_cell
    reviewed, undecided = [], cells
    for name in names:
        state = fold(actions, name)
        own_actions = [action for action in actions if action.reviewer == name]
        open_cells = [cell for cell in cells if not is_decided(state, cell, candidates_by_cell[cell], per_cell)]
        undecided = open_cells if name == names[0] else undecided
        reviewed.append(
            Reviewed(
                name=name,
                decided=len(cells) - len(open_cells),
                flagged=sum(state.flagged.values()),
                by_pool=counts_by_pool(state, pool_of, pools),
                actions=len(own_actions),
                hours=seconds_at_work(own_actions) / 3600,
            )
        )
    # A number would tell one reviewer about the other, so there is none while they are blind.
    agreement = None
    if len(names) > 1 and any(action.verb is Verb.COMPARE for action in actions):
        while_blind = blind(actions)
        states = fold(while_blind, names[0]), fold(while_blind, names[1])
        agreement = agreement_on_choices(states, candidates_by_cell, per_cell)
    return SelectionProgress(
        name=plan.selection.name,
        cells=len(cells),
        per_cell=per_cell,
        pools=pools,
        candidates=len(candidates),
        screened=store.query("SELECT count(DISTINCT image) FROM screening")[0][0],
        reviewers=reviewed,
        undecided=undecided,
        agreement=agreement,
    )


# Two reviewers


@dataclass(frozen=True)
class DisagreedCell:
    """A cell in which the reviewers differ."""

    first: CellView
    second: CellView


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Kappas are of blind actions; `differing` is as of now."""

    choices: Kappa
    criteria: Mapping[str, Kappa]  # by label
    changed: int  # ticks that at least one of them set by hand
    differing: tuple[DisagreedCell, ...]


def agreement_on_choices(
    states: tuple[State, State], candidates: Mapping[str, Sequence[Candidate]], per_cell: int
) -> Kappa:
    """Over the cells that both decided; the category is the pool, with the number in it where it has several."""
    categories: dict[str, tuple[int, int]] = {}
    for cell_candidates in candidates.values():
        per_pool = Counter[int]()
        for candidate in cell_candidates:
            per_pool[candidate.pool] += 1
            categories[candidate.key] = (candidate.pool, per_pool[candidate.pool])
    pairs = [
        tuple(tuple(sorted(categories[key] for key in state.chosen[cell])) for state in states)
        for cell, cell_candidates in candidates.items()
        if all(is_decided(state, cell, cell_candidates, per_cell) for state in states)
    ]
    return cohen([first for first, _ in pairs], [second for _, second in pairs])


def agreement_on_ticks(
    states: tuple[State, State], screened: Screened, keys: Sequence[str], criterion: str
) -> Kappa:
    """Over the candidates of which both have a tick or the pre-screen gave them one."""
    pairs = [tuple(tick(state, screened, key, criterion) for state in states) for key in keys]
    complete = [pair for pair in pairs if None not in pair]
    return cohen([first for first, _ in complete], [second for _, second in complete])
