"""Two reviewers beside each other: how far they agreed while they were blind, and where they differ now. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stillme.sources.selection.choices import State
from stillme.sources.selection.sheets import Screened, Sheet, is_decided, tick
from stillme.sources.selection.store import Candidate
from stillme.stats.agreement import Kappa, cohen


@dataclass(frozen=True)
class Beside:
    """A cell in which the reviewers differ."""

    first: Sheet
    second: Sheet


@dataclass(frozen=True)
class Comparison:
    """Kappas are of blind actions; `differing` is as things stand."""

    choices: Kappa
    criteria: Mapping[str, Kappa]  # by label
    changed: int  # ticks that at least one of them set by hand
    differing: tuple[Beside, ...]


def agreement_on_choices(
    states: tuple[State, State], candidates: Mapping[str, Sequence[Candidate]], per_cell: int
) -> Kappa:
    """Over the cells that both decided; the category is the pool, with the place in it where it has several."""
    places = {key: place for listed in candidates.values() for key, place in _places(listed).items()}
    both = [
        tuple(tuple(sorted(places[key] for key in state.chosen[cell])) for state in states)
        for cell, listed in candidates.items()
        if all(is_decided(state, cell, listed, per_cell) for state in states)
    ]
    return cohen([first for first, _ in both], [second for _, second in both])


def _places(listed: Sequence[Candidate]) -> dict[str, tuple[int, int]]:
    pools: dict[int, int] = {}
    found: dict[str, tuple[int, int]] = {}
    for one in listed:
        pools[one.pool] = pools.get(one.pool, 0) + 1
        found[one.key] = (one.pool, pools[one.pool])
    return found


def agreement_on_ticks(
    states: tuple[State, State], screened: Screened, keys: Sequence[str], criterion: str
) -> Kappa:
    """Over the candidates of which both have a tick or the pre-screen gave them one."""
    pairs = [tuple(tick(state, screened, key, criterion) for state in states) for key in keys]
    both = [pair for pair in pairs if None not in pair]
    return cohen([first for first, _ in both], [second for _, second in both])
