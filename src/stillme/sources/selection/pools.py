"""Pools: which rows of a data set are candidates. Pure: the same rows and seeds give the same pools everywhere.

Each pool orders the rows of a cell by a hash and its seed, and takes the first ones that no earlier pool
has taken and that were not rejected. So a pool never changes when pools are added after it, and the order in which
a data set is read does not matter. Only the head of each order is kept: memory does not grow with the data set.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from stillme.sources import Row
from stillme.sources.selection.grid import Grid

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


BITS = 128
MASK = (1 << BITS) - 1


def spread(word: str) -> int:
    """A number that looks drawn at random, and is the same for the same word on every machine."""
    return int.from_bytes(blake2b(word.encode("utf-8", "surrogatepass"), digest_size=BITS // 8).digest(), "big")


def stir(seed: int) -> int:
    """What makes the order of a pool: an odd number, so that no two rows share a place."""
    return spread(f"seed {seed}") | 1


def position(seed: int, key: str) -> int:
    """Where a row stands in the order of a pool: a random odd factor shuffles random numbers anew."""
    return spread(key) * stir(seed) & MASK


_Heap = list[tuple[int, int, Entry]]  # place in the order, negative, so that the last one kept comes first


class Heads:
    """The first rows of every cell in every pool's order, and how many rows each cell has."""

    def __init__(self, grid: Grid, seeds: Sequence[int], spare: int = SPARE) -> None:
        self.grid = grid
        self.seeds = tuple(seeds)
        self._stirs = [stir(seed) for seed in seeds]
        self._size = grid.per_cell * len(seeds) + spare
        self._heaps: dict[str, list[_Heap]] = {cell.id: [[] for _ in seeds] for cell in grid.cells}
        self.listed: Counter[str] = Counter()

    def add(self, entry: Entry) -> bool:
        """Takes note of a row; False where it belongs to no cell."""
        cell = self.grid.cell_of(entry.row.labels)
        if cell is None:
            return False
        self.listed[cell] += 1
        number = spread(entry.key)
        for heap, factor in zip(self._heaps[cell], self._stirs, strict=True):
            place = -(number * factor & MASK)
            if len(heap) < self._size:
                heapq.heappush(heap, (place, -self.listed[cell], entry))
            elif place > heap[0][0]:
                heapq.heapreplace(heap, (place, -self.listed[cell], entry))
        return True

    def ordered(self, pool: int, cell: str) -> list[Entry]:
        """The rows of a cell that were kept, in the order of a pool; pools count from 1."""
        kept = self._heaps[cell][pool - 1]
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
    for number in range(1, len(heads.seeds) + 1):
        found = [entry for entry in heads.ordered(number, cell) if entry.key not in taken][: heads.grid.per_cell]
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
