"""A selection of rendered heads that somebody has decided, made through the real reader, draw and store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from stillme.core import images
from stillme.engine.progress import Progress
from stillme.sources.heads import signature
from stillme.sources.selection import config, flow
from stillme.sources.selection.action_log import Action, Verb
from stillme.sources.selection.config import Plan
from stillme.sources.selection.store import Candidate, Store
from tests.sources.selection import data
from tests.sources.selection.data import KEYS

CHOICES = (1, 2, 2, 1)  # which pool, cell by cell


def signed(key: str) -> data.Spoil:
    """The same picture with the mark by which planted editors recognise a head."""
    return lambda content: images.encode(images.pixels(content), quality=92, comment=signature(key))


def selection(folder: Path, copies: int = 2, is_signed: bool = True, **changes: object) -> Plan:
    """Two pools of rendered heads, drawn."""
    names = [f"train/{number}.jpg" for number in range(1, copies * len(KEYS) + 1)]
    spoil = {name: signed(key) for name, key in zip(names, KEYS * copies, strict=True)} if is_signed else None
    made = data.fairface(folder / "fairface", KEYS, copies, spoil)
    return sampled(data.selection(folder / "selection.yaml", made, **changes))


def sampled(file: Path) -> Plan:
    flow.sample(file, None, False, Progress())
    return config.load(file)


def at(second: int) -> str:
    return f"2026-01-05T10:{second // 60:02}:{second % 60:02}.000+00:00"


def act(store: Store, number: int, verb: Verb, cell: str, **about: object) -> None:
    reviewer = str(about.pop("reviewer", "anna"))
    action = Action(op=f"op-{number}", at=at(number * 10), reviewer=reviewer, verb=verb, cell=cell, **about)  # type: ignore[arg-type]
    store.add_action(action).result()


def decide(
    store: Store, plan: Plan, pools: Sequence[int] = CHOICES, reviewer: str = "anna", first: int = 0
) -> None:
    """Chooses a pool's candidate in each cell, in order; cells beyond `pools` stay undecided."""
    store.add_reviewer(reviewer)
    by_place = by_cell(store)
    for number, (cell, pool) in enumerate(zip(plan.grid.cells, pools, strict=False), start=first):
        key = next(one.key for one in by_place[cell.id] if one.pool == pool)
        act(store, number, Verb.CHOOSE, cell.id, candidate=key, before=[], after=[key], reviewer=reviewer)


def by_cell(store: Store) -> Mapping[str, Sequence[Candidate]]:
    found: dict[str, list[Candidate]] = {}
    for one in store.candidates():
        found.setdefault(one.cell, []).append(one)
    return found
