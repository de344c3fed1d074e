"""The factorial grid: which cells there are, and which of them a portrait belongs to. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product


@dataclass(frozen=True)
class Cell:
    """One combination of groups, e.g. one perceived race, gender presentation and apparent age."""

    id: str
    groups: Mapping[str, str]  # axis -> group
    label: str


@dataclass(frozen=True)
class Grid:
    """Axes with their groups (id -> label), in the order of every page and table, and how many a cell gets."""

    axes: Mapping[str, Mapping[str, str]]
    per_cell: int = 1

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        return tuple(self._cell(groups) for groups in product(*self.axes.values()))

    @cached_property
    def cell(self) -> Mapping[str, Cell]:
        return {cell.id: cell for cell in self.cells}

    def cell_of(self, labels: Mapping[str, str]) -> str | None:
        """The cell of these labels; None where one of them is missing or not asked for."""
        return self._ids.get(tuple(labels.get(axis) for axis in self.axes))

    @cached_property
    def _ids(self) -> dict[tuple[str | None, ...], str]:
        return {tuple(cell.groups.values()): cell.id for cell in self.cells}

    def _cell(self, groups: tuple[str, ...]) -> Cell:
        named = dict(zip(self.axes, groups, strict=True))
        label = " · ".join(self.axes[axis][group] for axis, group in named.items())
        return Cell(_id(groups), named, label)


def _id(groups: Iterable[str]) -> str:
    """Groups are words without hyphens, so an id belongs to one combination only."""
    return "-".join(groups)
