"""The grid of cells, and pools: which rows of a data set are candidates for which cell. Pure.

The same rows and seeds give the same pools everywhere. Each pool orders the rows of a cell by a hash and its seed,
and takes the first ones that no earlier pool has taken and that were not rejected. So a pool never changes when
pools are added after it, and the order in which a data set is read does not matter. Only the head of each order is
kept: memory does not grow with the data set.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import product

from stillme.sources import Row

SPARE = 32  # rows kept per cell beyond those needed: a trade of memory against reading the data set once more
HASH_BITS = 128  # wide enough that two of a data set's rows practically never share a hash
HASH_MASK = (1 << HASH_BITS) - 1


@dataclass(frozen=True)
class Cell:
    """One combination of groups, e.g. one perceived race, gender presentation and apparent age."""

    id: str  # groups are words without hyphens, so an id belongs to one combination only
    groups: Mapping[str, str]  # axis -> group
    label: str


@dataclass(frozen=True)
class Grid:
    """Axes with their groups (id -> label), in the order of every page and table, and how many a cell gets."""

    axes: Mapping[str, Mapping[str, str]]
    per_cell: int = 1

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        cells = []
        for groups in product(*self.axes.values()):
            group_by_axis = dict(zip(self.axes, groups, strict=True))
            label = " · ".join(self.axes[axis][group] for axis, group in group_by_axis.items())
            cells.append(Cell(id="-".join(groups), groups=group_by_axis, label=label))
        return tuple(cells)

    @cached_property
    def cell(self) -> Mapping[str, Cell]:
        return {cell.id: cell for cell in self.cells}

    @cached_property
    def _id_by_groups(self) -> dict[tuple[str | None, ...], str]:
        return {tuple(cell.groups.values()): cell.id for cell in self.cells}

    def cell_of(self, labels: Mapping[str, str]) -> str | None:
        """The cell of these labels; None where one of them is missing or not asked for."""
        return self._id_by_groups.get(tuple(labels.get(axis) for axis in self.axes))


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of one reader; `key` names it among all readers."""

    reader: str
    row: Row

    @property
    def key(self) -> str:
        return f"{self.reader}\0{self.row.id}"


@dataclass(frozen=True, slots=True)
class SampledRow:
    """A candidate: a row in a slot of a pool."""

    pool: int  # counted from 1
    cell: str
    entry: Entry


@dataclass(frozen=True, slots=True)
class UnderfilledCell:
    """A cell that has fewer candidates than were asked for. The field names are keys of `sample --json`."""

    cell: str
    wanted: int
    drawn: int
    listed: int  # rows of the data set in this cell
    rejected: int  # of those that were looked at


class TooFewKeptError(Exception):
    """So many rows were rejected that the kept heads do not reach: keep more of them and read again."""


def _hash_number(word: str) -> int:
    """A number that looks drawn at random, and is the same for the same word on every machine."""
    digest = blake2b(word.encode("utf-8", "surrogatepass"), digest_size=HASH_BITS // 8).digest()
    return int.from_bytes(digest, "big")


def _pool_factor(seed: int) -> int:
    """What orders the rows of a pool: an odd number, so that no two rows share a position."""
    return _hash_number(f"seed {seed}") | 1


def position(seed: int, key: str) -> int:
    """Where a row stands in the order of a pool: a random odd factor reshuffles random numbers."""
    return _hash_number(key) * _pool_factor(seed) & HASH_MASK


_Heap = list[tuple[int, int, Entry]]  # negative position in the order, so that the last row kept comes first


class PoolHeads:
    """The first rows of every cell in every pool's order, and how many rows each cell has."""

    def __init__(self, grid: Grid, seeds: Sequence[int], spare: int = SPARE) -> None:
        self.grid = grid
        self.seeds = tuple(seeds)
        self._factors = [_pool_factor(seed) for seed in seeds]
        self._size = grid.per_cell * len(seeds) + spare
        self._heaps: dict[str, list[_Heap]] = {cell.id: [[] for _ in seeds] for cell in grid.cells}
        self.listed: Counter[str] = Counter()

    def add(self, entry: Entry) -> bool:
        """Count a row and keep it if it is among the first; False where it belongs to no cell."""
        cell = self.grid.cell_of(entry.row.labels)
        if cell is None:
            return False
        self.listed[cell] += 1
        number = _hash_number(entry.key)
        for heap, factor in zip(self._heaps[cell], self._factors, strict=True):
            rank = -(number * factor & HASH_MASK)
            if len(heap) < self._size:
                heapq.heappush(heap, (rank, -self.listed[cell], entry))
            elif rank > heap[0][0]:
                heapq.heapreplace(heap, (rank, -self.listed[cell], entry))
        return True

    def ordered(self, pool: int, cell: str) -> list[Entry]:
        """The rows of a cell that were kept, in the order of a pool; pools count from 1."""
        heap = self._heaps[cell][pool - 1]
        return [entry for _, _, entry in sorted(heap, key=lambda item: (-item[0], -item[1]))]

    def is_cut(self, cell: str) -> bool:
        """Whether the cell has rows that were not kept."""
        return self.listed[cell] > self._size


def draw(heads: PoolHeads, rejected: Collection[str]) -> list[SampledRow]:
    """The candidates of every pool, pool by pool and cell by cell, without the rejected rows."""
    sample: list[SampledRow] = []
    per_cell = heads.grid.per_cell
    for cell in heads.grid.cells:
        taken = set(rejected)
        for pool in range(1, len(heads.seeds) + 1):
            entries = [entry for entry in heads.ordered(pool, cell.id) if entry.key not in taken][:per_cell]
            if len(entries) < per_cell and heads.is_cut(cell.id):
                raise TooFewKeptError
            taken.update(entry.key for entry in entries)
            sample += [SampledRow(pool=pool, cell=cell.id, entry=entry) for entry in entries]
    order = {cell.id: index for index, cell in enumerate(heads.grid.cells)}
    return sorted(sample, key=lambda row: (row.pool, order[row.cell]))


def shortages(grid: Grid, pools: int, counts: Mapping[str, Mapping[str, int]]) -> list[UnderfilledCell]:
    """The cells that the data set cannot fill. `counts`: what a census has under drawn, cell and rejected."""
    wanted = grid.per_cell * pools
    drawn, listed, rejected = (counts.get(kind, {}) for kind in ("drawn", "cell", "rejected"))
    return [
        UnderfilledCell(
            cell=cell.id,
            wanted=wanted,
            drawn=drawn.get(cell.id, 0),
            listed=listed.get(cell.id, 0),
            rejected=rejected.get(cell.id, 0),
        )
        for cell in grid.cells
        if drawn.get(cell.id, 0) < wanted
    ]
