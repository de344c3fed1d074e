"""Pools: which rows of a data set are candidates. Pure: the same rows and seeds give the same pools everywhere.

Each pool orders the rows of a cell by a hash keyed with its seed, and takes the first ones that no earlier pool
has taken and that were not rejected. So a pool never changes when pools are added after it, and the order in which
a data set is read does not matter. Only the head of each order is kept: memory does not grow with the data set.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from stillme.select.grid import Grid
from stillme.sources import Row

SPARE = 32  # rows of a cell that may turn out unusable before the data set has to be read once more


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of one reader; `key` names it among all readers."""

    reader: str
    row: Row

    @property
    def key(self) -> str:
        return f"{self.reader}\0{self.row.id}"


@dataclass(frozen=True, slots=True)
class Drawn:
    """A candidate: a row in a place of a pool."""

    pool: int  # counted from 1
    cell: str
    entry: Entry


@dataclass(frozen=True, slots=True)
class Short:
    """A cell that has fewer candidates than were asked for."""

    cell: str
    wanted: int
    drawn: int
    listed: int  # rows of the data set in this cell
    rejected: int  # of those that were looked at


class TooFewKeptError(Exception):
    """So many rows were rejected that the kept heads do not reach: keep more of them and read again."""


def position(seed: int, key: str) -> bytes:
    """Where a row stands in the order of a pool."""
    return blake2b(key.encode(), digest_size=12, key=str(seed).encode()).digest()


class Heads:
    """The first rows of every cell in every pool's order, and how many rows each cell has."""

    def __init__(self, grid: Grid, seeds: Sequence[int], spare: int = SPARE) -> None:
        self.grid = grid
        self.seeds = tuple(seeds)
        self._size = grid.per_cell * len(seeds) + spare
        self._heaps: dict[tuple[int, str], list[tuple[int, int, Entry]]] = {}
        self.listed: Counter[str] = Counter()

    def add(self, entry: Entry) -> bool:
        """Takes note of a row; False where it belongs to no cell."""
        cell = self.grid.cell_of(entry.row.labels)
        if cell is None:
            return False
        self.listed[cell] += 1
        key = entry.key
        for seed in self.seeds:
            self._push(seed, cell, -int.from_bytes(position(seed, key), "big"), entry)
        return True

    def _push(self, seed: int, cell: str, rank: int, entry: Entry) -> None:
        heap = self._heaps.setdefault((seed, cell), [])
        if len(heap) < self._size:
            heapq.heappush(heap, (rank, -self.listed[cell], entry))
        elif rank > heap[0][0]:
            heapq.heapreplace(heap, (rank, -self.listed[cell], entry))

    def ordered(self, seed: int, cell: str) -> list[Entry]:
        kept = self._heaps.get((seed, cell), [])
        return [entry for _, _, entry in sorted(kept, key=lambda one: (-one[0], -one[1]))]

    def is_cut(self, cell: str) -> bool:
        """Whether the cell has rows that were not kept."""
        return self.listed[cell] > self._size


def draw(heads: Heads, rejected: Collection[str]) -> list[Drawn]:
    """The candidates of every pool, pool by pool and cell by cell, without the rejected rows."""
    drawn: list[Drawn] = []
    for cell in heads.grid.cells:
        drawn += _draw_cell(heads, cell.id, rejected)
    places = {cell.id: number for number, cell in enumerate(heads.grid.cells)}
    return sorted(drawn, key=lambda one: (one.pool, places[one.cell]))


def _draw_cell(heads: Heads, cell: str, rejected: Collection[str]) -> Iterator[Drawn]:
    taken: set[str] = set(rejected)
    for number, seed in enumerate(heads.seeds, start=1):
        found = [entry for entry in heads.ordered(seed, cell) if entry.key not in taken][: heads.grid.per_cell]
        if len(found) < heads.grid.per_cell and heads.is_cut(cell):
            raise TooFewKeptError
        taken.update(entry.key for entry in found)
        yield from (Drawn(number, cell, entry) for entry in found)


def shortages(heads: Heads, drawn: Sequence[Drawn], rejected: Mapping[str, str]) -> list[Short]:
    """The cells that the data set cannot fill; `rejected`: key -> cell."""
    wanted = heads.grid.per_cell * len(heads.seeds)
    have, lost = Counter(one.cell for one in drawn), Counter(rejected.values())
    return [
        Short(cell.id, wanted, have[cell.id], heads.listed[cell.id], lost[cell.id])
        for cell in heads.grid.cells
        if have[cell.id] < wanted
    ]
