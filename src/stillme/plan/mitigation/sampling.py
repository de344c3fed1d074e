"""Draws the cases of the mitigation experiment: portraits × prompts × editors, even in every margin (S0 H.2).

In two steps. First, how many cases each portrait gets: the same for every group of every dimension, and within
the groups for every person, as far as the portraits allow. Then one walk through all prompts × editors, group by
group and person by person: any stretch of that walk is even in prompts, in their categories and in editors, so
every group and every person is. Of several such walks the most even one is taken.

What is random is the order of everything that is walked through. It hangs on hashes of the seed and of names, not
on a random generator, so it is the same on every machine. Nobody's outcome is looked at.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, combinations
from typing import NamedTuple

import numpy as np

from stillme.core.records import Portrait, digest
from stillme.protocol.schema import Groups, Prompt

WALKS = 8  # of which the most even one is taken; each costs as much time as the first
_Kind = tuple[str, ...]  # a person's group in each dimension


class Cell(NamedTuple):
    """One case: keys of a portrait, a prompt and an editor."""

    portrait: str
    prompt: str
    editor: str


def stratified(
    portraits: Sequence[Portrait],
    prompts: Sequence[Prompt],
    editors: Sequence[str],
    size: int,
    seed: int,
    groups: Groups,
) -> list[Cell]:
    """`size` cells of the grid, or all where it has fewer; in the grid's order, the same for the same seed."""
    length = len(prompts) * len(editors)
    size = min(size, len(portraits) * length)
    slots = _slots(portraits, size, length, seed, groups)
    traits = {one.key: _traits(one, groups) for one in portraits} | {p.id: (p.id, p.category) for p in prompts}
    walks = []
    for turn in range(WALKS if size < len(portraits) * length else 1):
        circle = _circle(prompts, editors, seed, turn)
        # Everybody in turn takes as many steps along the circle as they have cases.
        keys = chain.from_iterable([key] * slots[key] for key in _in_turn(portraits, seed, turn, groups))
        cells = [Cell(key, *circle[step % len(circle)]) for step, key in enumerate(keys)]
        walks.append((_unevenness(cells, traits), turn, set(cells)))
    chosen = min(walks)[2]
    grid = (Cell(p.key, prompt.id, editor) for p in portraits for prompt in prompts for editor in editors)
    return [cell for cell in grid if cell in chosen]


def _chance(seed: int, *of: str | int) -> str:
    """A place in a random order that hangs on nothing but the seed and names."""
    return digest("drawn", seed=seed, of=list(of))


def _unevenness(cells: Iterable[Cell], traits: Mapping[str, tuple[str, ...]]) -> int:
    """The sum of squares of all tables of two traits of a case: the lower, the more even they are."""
    counts: Counter[tuple[int, int, str, str]] = Counter()
    for cell in cells:
        own = (*traits[cell.portrait], *traits[cell.prompt], cell.editor)
        counts.update((a, b, own[a], own[b]) for a, b in combinations(range(len(own)), 2))
    return sum(count * count for count in counts.values())


# Which prompt and editor comes next


def _circle(prompts: Sequence[Prompt], editors: Sequence[str], seed: int, turn: int) -> list[tuple[str, str]]:
    """Every prompt × editor once, as a circle: neighbours differ in both, and every stretch of it is even.

    Both advance at every step; after each common period the editors are shifted by one, else some would never meet
    some prompts. A stretch no longer than the circle meets nothing twice.
    """
    asked = _alternating(prompts, seed, turn)
    makers = sorted(editors, key=lambda name: _chance(seed, turn, "editor", name))
    period = math.lcm(len(asked), len(makers)) or 1
    length = len(asked) * len(makers)
    return [(asked[n % len(asked)], makers[(n + n // period) % len(makers)]) for n in range(length)]


def _alternating(prompts: Sequence[Prompt], seed: int, turn: int) -> list[str]:
    """Prompts in a random order in which every stretch has its share of every category."""
    by_category: dict[str, list[str]] = {}
    for prompt in sorted(prompts, key=lambda prompt: _chance(seed, turn, "prompt", prompt.id)):
        by_category.setdefault(prompt.category, []).append(prompt.id)
    places = {
        id: ((place + 0.5) / len(ids), _chance(seed, turn, "place", id))
        for ids in by_category.values()
        for place, id in enumerate(ids)
    }
    return sorted(places, key=places.__getitem__)


# Whose turn it is


def _traits(portrait: Portrait, groups: Groups) -> _Kind:
    """A person's groups; persons without a label count as a group."""
    return tuple(portrait.labels.get(dimension, "") for dimension in groups.dimensions)


def _in_turn(portraits: Sequence[Portrait], seed: int, turn: int, groups: Groups) -> list[str]:
    """Portraits group by group: the reference dimension first, then the dimension with the most groups.

    So the groups of the smallest dimension alternate, and each of them meets all parts of the circle.
    """
    names = list(groups.dimensions)
    order = sorted(names, key=lambda name: (name not in groups.reference_group, -len(groups.ids(name))))

    def place(portrait: Portrait) -> tuple[str, ...]:
        own = (_chance(seed, turn, "group", name, portrait.labels.get(name, "")) for name in order)
        return (*own, _chance(seed, turn, "portrait", portrait.key))

    return [portrait.key for portrait in sorted(portraits, key=place)]


# How many cases each portrait gets


def _slots(portraits: Sequence[Portrait], size: int, most: int, seed: int, groups: Groups) -> Mapping[str, int]:
    """Portrait -> its number of cases, at most `most`; `size` in all."""
    people: dict[_Kind, list[str]] = {}
    for portrait in sorted(portraits, key=lambda portrait: _chance(seed, "slot", portrait.key)):
        people.setdefault(_traits(portrait, groups), []).append(portrait.key)
    kinds = sorted(people, key=lambda kind: _chance(seed, "kind", *kind))
    cases = _cases_by_kind(kinds, np.array([len(people[kind]) for kind in kinds], np.int64), size, most)
    slots: dict[str, int] = {}
    for kind, n_cases in zip(kinds, cases, strict=True):
        # Evenly; the first in the (random) order get what is left over.
        each, remainder = divmod(int(n_cases), len(people[kind]))
        slots |= {key: each + (place < remainder) for place, key in enumerate(people[kind])}
    return slots


def _cases_by_kind(kinds: Sequence[_Kind], people: np.ndarray, size: int, most: int) -> np.ndarray:
    """How many cases each kind of person gets, e.g. each race × gender × age.

    Everybody starts alike; what is left over goes one by one to where it is lacking most; then cases move from one
    kind to another while that makes the margins more even.
    """
    if not kinds:
        return people
    member = _membership(kinds)
    each = size // int(people.sum())
    cases = people * each
    for _ in range(size - int(cases.sum())):
        free = cases < people * (each + 1)
        lacking = np.where(free, member @ (cases @ member), np.iinfo(np.int64).max)
        cases[int(lacking.argmin())] += 1
    while (move := _best_move(cases, people, member, most)) is not None:
        cases[move[0]] -= 1
        cases[move[1]] += 1
    return cases


def _membership(kinds: Sequence[_Kind]) -> np.ndarray:
    """kinds × groups of all dimensions: 1 where a kind belongs to a group."""
    named = [[(place, group) for place, group in enumerate(kind)] for kind in kinds]
    groups = {group: place for place, group in enumerate(dict.fromkeys(chain.from_iterable(named)))}
    member = np.zeros((len(kinds), len(groups)), np.int64)
    for row, own in enumerate(named):
        member[row, [groups[group] for group in own]] = 1
    return member


def _best_move(cases: np.ndarray, people: np.ndarray, member: np.ndarray, most: int) -> tuple[int, int] | None:
    """The move of one case that lowers the sum of squares of the groups' counts, and then of the persons', most.

    Moves that make persons less even are taken only where no other is left. In a full factorial design it never
    comes to that: while two groups are two cases apart, some person of the larger one has a case more than a
    person of the smaller one who is alike in everything else.
    """
    counts = cases @ member
    alone = member @ counts
    shared = member @ member.T
    groups = 2 * (alone[None, :] - alone[:, None]) + 2 * (member.sum(axis=1)[:, None] - shared)
    highest, lowest = -(-cases // people), cases // people
    persons = 2 * (lowest[None, :] - highest[:, None]) + 2
    heavy = 4 * (most + 2)  # more than persons can weigh: groups come first
    gain = groups * heavy + persons
    possible = (cases > 0)[:, None] & (cases < people * most)[None, :] & (gain < 0)
    np.fill_diagonal(possible, False)
    if not possible.any():
        return None
    ranked = np.where(possible, gain + (persons > 0) * (-gain.min() + 1), np.iinfo(np.int64).max)
    giver, taker = divmod(int(ranked.argmin()), len(cases))
    return giver, taker
