"""Even samples and even tasks: as many of every editor, prompt and group as can be. Pure; looks at no outcome.

What is random is an order that hangs on hashes of the seed and of names, so it is the same on every machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from stillme.core.records import digest
from stillme.plan.mitigation.sampling import Cell, stratified
from stillme.protocol import Protocol
from stillme.study.builder.cases import EDITOR, PROMPT, Case

Members = NDArray[np.float32]
PASSES = 4  # through all rows, in search of an exchange that makes things more even


def shuffled(cases: Sequence[Case], seed: int) -> list[Case]:
    return sorted(cases, key=lambda case: digest("study", seed=seed, case=case.key))


def sample(cases: Sequence[Case], size: int, seed: int, protocol: Protocol) -> list[Case]:
    """`size` of the cases, even in editors, prompts, categories and groups; all where there are no more.

    It starts from the stratified sample of the whole grid (S0 H.2). What of that cannot be shown is replaced by
    what makes the margins most even, and then cases are exchanged while that makes them more even.
    """
    if size >= len(cases):
        return list(cases)
    order = shuffled(cases, seed)
    member = members([_strata(case, protocol) for case in order])
    chosen = np.zeros(len(order), bool)
    drawn = _on_the_grid(cases, size, seed, protocol)
    chosen[[place for place, case in enumerate(order) if _cell(case) in drawn]] = True
    _fill(chosen, member, size)
    _exchange(chosen, member)
    kept = {case.key for case, is_in in zip(order, chosen, strict=True) if is_in}
    return [case for case in cases if case.key in kept]


def _cell(case: Case) -> Cell:
    return Cell(case.portrait.key, case.prompt, case.editor)


def _on_the_grid(cases: Sequence[Case], size: int, seed: int, protocol: Protocol) -> set[Cell]:
    """Of experiments that ask the protocol's diagnostic prompts; others have no grid."""
    prompts = [protocol.prompt[name] for name in dict.fromkeys(c.prompt for c in cases) if name in protocol.prompt]
    people = list({case.portrait.key: case.portrait for case in cases}.values())
    editors = list(dict.fromkeys(case.editor for case in cases))
    return set(stratified(people, prompts, editors, size, seed, protocol.groups)) if prompts else set()


def _strata(case: Case, protocol: Protocol) -> dict[str, str]:
    own = case.traits(protocol.groups.dimensions)
    cell = "\0".join(own[name] for name in protocol.groups.dimensions)
    return {**own, "cell": cell, "person": case.portrait.key, "made": f"{own[EDITOR]}\0{own[PROMPT]}"}


def members(rows: Sequence[Mapping[str, str]]) -> Members:
    """rows × values of all traits: 1 where a row has the value."""
    named = [list(row.items()) for row in rows]
    columns = {pair: place for place, pair in enumerate(dict.fromkeys(pair for row in named for pair in row))}
    found = np.zeros((len(rows), len(columns)), np.float32)
    for place, row in enumerate(named):
        found[place, [columns[pair] for pair in row]] = 1
    return found


def _fill(chosen: NDArray[np.bool_], member: Members, size: int) -> None:
    """One by one, whatever is lacking most."""
    counts = member[chosen].sum(0)
    while int(chosen.sum()) < size:
        place = int(np.where(chosen, np.inf, member @ counts).argmin())
        chosen[place] = True
        counts += member[place]


def _exchange(chosen: NDArray[np.bool_], member: Members) -> None:
    counts, own = member[chosen].sum(0), member.sum(1)
    for _ in range(PASSES):
        moved = False
        for place in np.flatnonzero(chosen):
            without = counts - member[place]
            cost = np.where(chosen, np.inf, 2 * (member @ without) + own)
            other = int(cost.argmin())
            if cost[other] < 2 * float(member[place] @ without) + own[place]:
                chosen[place], chosen[other] = False, True
                counts, moved = without + member[other], True
        if not moved:
            return


def margins(cases: Iterable[Case], dimensions: Iterable[str]) -> dict[str, dict[str, int]]:
    """Trait -> value -> how many cases have it (as S0 table 11 tells it)."""
    names = list(dimensions)
    counts: dict[str, Counter[str]] = {}
    for case in cases:
        for trait, value in case.traits(names).items():
            counts.setdefault(trait, Counter())[value] += 1
    return {trait: dict(sorted(found.items())) for trait, found in counts.items()}


# Tasks


def deal(
    cases: Sequence[Case], copies: Sequence[int], tasks: int, seed: int, dimensions: Iterable[str]
) -> list[list[Case]]:
    """Cases into tasks of equal size, each as even as can be in what the whole sample has.

    `copies`: in how many tasks a case stands; never twice in one.
    """
    names = list(dimensions)
    turns = {case.key: copies[place] for place, case in enumerate(cases)}
    order = sorted(shuffled(cases, seed), key=lambda case: -turns[case.key])
    rows = [case for case in order for _ in range(turns[case.key])]
    member = members([case.traits(names) for case in rows])
    numbers = {case.key: number for number, case in enumerate(order)}
    keys = np.array([numbers[case.key] for case in rows], np.int64)
    placed = _placed(member, keys, tasks)
    _swap(placed, member, keys, tasks)
    return [[case for case, where in zip(rows, placed, strict=True) if where == task] for task in range(tasks)]


def _placed(member: Members, keys: NDArray[np.int64], tasks: int) -> NDArray[np.int64]:
    """Row by row into the task with room that has the least of what the row has.

    A case that stands in several tasks goes to those with the most room, so that there is always another task.
    """
    rooms = [len(keys) // tasks + (task < len(keys) % tasks) for task in range(tasks)]
    counts = np.zeros((tasks, member.shape[1]), np.float32)
    placed = np.full(len(keys), -1, np.int64)
    several = np.bincount(keys) > 1
    for row, key in enumerate(keys):
        used = set(placed[keys == key].tolist())
        alike = counts @ member[row]
        free = [task for task in range(tasks) if rooms[task] and task not in used]
        ranked = [(-rooms[task] if several[key] else 0, float(alike[task]), -rooms[task], task) for task in free]
        task = min(ranked)[-1]
        placed[row] = task
        rooms[task] -= 1
        counts[task] += member[row]
    return placed


def _swap(placed: NDArray[np.int64], member: Members, keys: NDArray[np.int64], tasks: int) -> None:
    """Rows of two tasks change places while that makes the tasks more alike."""
    counts = np.stack([member[placed == task].sum(0) for task in range(tasks)])
    for _ in range(PASSES):
        moved = False
        for row in range(len(placed)):
            change = member - member[row]
            here = counts[placed[row]]
            gain = ((here - counts[placed]) * change).sum(1) + (change * change).sum(1)
            gain[_barred(row, placed, keys)] = 0
            other = int(gain.argmin())
            if gain[other] < 0:
                counts[placed[row]] += change[other]
                counts[placed[other]] -= change[other]
                placed[row], placed[other] = placed[other], placed[row]
                moved = True
        if not moved:
            return


def _barred(row: int, placed: NDArray[np.int64], keys: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Rows of the same task, and those with which a swap would put a case twice into one task."""
    same = placed == placed[row]
    has_row = np.isin(placed, placed[keys == keys[row]])
    has_other = np.isin(keys, keys[same])
    barred: NDArray[np.bool_] = same | has_row | has_other
    return barred


def widest(dealt: Sequence[Sequence[Case]], dimensions: Iterable[str]) -> dict[str, int]:
    """Trait -> by how many cases two tasks differ at most in any value of it."""
    names = list(dimensions)
    found: dict[str, int] = {}
    each = [margins(cases, names) for cases in dealt]
    for trait in each[0] if each else ():
        values = {value for one in each for value in one[trait]}
        counts = [[one[trait].get(value, 0) for one in each] for value in values]
        found[trait] = max(max(row) - min(row) for row in counts)
    return found
