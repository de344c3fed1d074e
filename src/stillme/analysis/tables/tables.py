"""A table with its name, its numbers, and how they are written: the same in a terminal, a page and a file.

Files hold the frame as it was computed. What is printed is chosen and rounded here, and nothing is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from stillme.analysis.numbers import DASH, bracket, count, decimal, known, p_value, percent, points, signed, span
from stillme.core.text import table as text_table

Row = Mapping[str, Any]
MOST_ROWS = 40  # of a printed table; the file has them all


@dataclass(frozen=True)
class Shown:
    """A column as people read it. `wide`: a terminal has no room for it."""

    heading: str
    read: Callable[[Row], str]
    is_number: bool = True
    wide: bool = False


@dataclass(frozen=True)
class Tabled:
    """One table of the analysis. `part`: the heading under which it stands. Without `shown` it is a file only.

    `first`: it is also printed in a terminal, because a reader needs it first; `brief`: only these rows of it.
    """

    id: str
    part: str
    title: str
    frame: pl.DataFrame
    shown: tuple[Shown, ...] = ()
    notes: tuple[str, ...] = ()
    first: bool = False
    brief: pl.Expr | None = None

    def rows(self) -> list[tuple[str, ...]]:
        return [
            tuple(column.read(row) for column in self.shown)
            for row in self.frame.head(MOST_ROWS).iter_rows(named=True)
        ]

    def briefly(self) -> Tabled:
        """As a terminal has room for it."""
        kept = self.frame if self.brief is None else self.frame.filter(self.brief)
        return replace(self, frame=kept, shown=tuple(column for column in self.shown if not column.wide))

    @property
    def cut(self) -> int:
        """Rows that only the file has."""
        return max(0, self.frame.height - MOST_ROWS)


def text(table: Tabled) -> str:
    """For a terminal."""
    right = {place for place, column in enumerate(table.shown) if column.is_number}
    return text_table(tuple(column.heading for column in table.shown), table.rows(), right)


def markdown(table: Tabled) -> Iterator[str]:
    yield "| " + " | ".join(column.heading for column in table.shown) + " |"
    yield "|" + "|".join("---:" if column.is_number else "---" for column in table.shown) + "|"
    for row in table.rows():
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


# How columns are written


def wide(*columns: Shown) -> tuple[Shown, ...]:
    return tuple(replace(column, wide=True) for column in columns)


def word(key: str, heading: str = "", names: Mapping[str, str] | None = None) -> Shown:
    def read(row: Row) -> str:
        value = row[key]
        return DASH if value is None else (names or {}).get(str(value), str(value))

    return Shown(heading or key.replace("_", " "), read, is_number=False)


def yes(key: str, heading: str = "") -> Shown:
    return Shown(
        heading or key.replace("_", " "),
        lambda row: DASH if row[key] is None else "yes" if row[key] else "no",
        is_number=False,
    )


def whole(key: str, heading: str = "") -> Shown:
    return Shown(heading or key.replace("_", " "), lambda row: DASH if row[key] is None else count(int(row[key])))


def number(key: str, heading: str = "", digits: int = 2) -> Shown:
    return Shown(heading or key.replace("_", " "), lambda row: decimal(row[key], digits))


def change(key: str, heading: str = "", digits: int = 2) -> Shown:
    return Shown(heading or key.replace("_", " "), lambda row: signed(row[key], digits))


def share(key: str, heading: str = "") -> Shown:
    return Shown(heading or key.replace("_", " "), lambda row: percent(row[key]))


def apart(key: str, heading: str = "") -> Shown:
    """A difference of shares, in percentage points."""
    return Shown(heading or f"{key.replace('_', ' ')} (points)", lambda row: points(row[key]))


def within(low: str = "low", high: str = "high", heading: str = "95 % interval") -> Shown:
    """An interval of shares, in percent or percentage points."""
    return Shown(heading, lambda row: bracket(row[low], row[high]) if known(row[low]) else DASH)


def around(low: str = "low", high: str = "high", heading: str = "95 % interval", digits: int = 2) -> Shown:
    """An interval of anything else."""
    return Shown(heading, lambda row: span(row[low], row[high], digits) if known(row[low]) else DASH)


def probability(key: str, heading: str = "") -> Shown:
    return Shown(heading or key.replace("_", " "), lambda row: p_value(row[key]))


def plain(
    frame: pl.DataFrame, names: Mapping[str, str] | None = None, leave: Collection[str] = ()
) -> tuple[Shown, ...]:
    """All columns, by their kinds: words, whole numbers, numbers with three decimals."""
    return tuple(_plain(name, kind, names) for name, kind in frame.schema.items() if name not in leave)


def plain_tables(
    found: object, part: str, prefix: str, titles: Mapping[str, str], names: Mapping[str, str]
) -> Iterator[Tabled]:
    """The named frames of what an analysis found, those that are there, each with all of its columns."""
    for name, title in titles.items():
        frame = getattr(found, name)
        if frame is not None:
            yield Tabled(f"{prefix}_{name}", part, title, frame, plain(frame, names))


def _plain(name: str, kind: pl.DataType, names: Mapping[str, str] | None) -> Shown:
    if kind == pl.Boolean:
        return yes(name)
    if kind.is_integer():
        return whole(name)
    if kind.is_float():
        return probability(name) if name == "p" or name.startswith("p_") else number(name, digits=3)
    return word(name, names=names)
