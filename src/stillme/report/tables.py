"""The one table helper: rows and column specs in, an accessible table out (caption, scopes, sorting, data link).

A cell keeps what it shows apart from what it sorts by. A missing value is a dash that says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

import polars as pl

from stillme.analysis.numbers import (
    DASH,
    bracket,
    count,
    decimal,
    known,
    of,
    p_value,
    percent,
    plural,
    points,
    signed,
    span,
)
from stillme.report.blocks import Block, Data, data
from stillme.stats.intervals import FEWEST_FOR_INTERVAL

Row = Mapping[str, Any]
NOTHING_JUDGED = "no judged edit"
FEW_PERSONS = f"fewer than {FEWEST_FOR_INTERVAL} persons: no interval"
NOTHING_READ = "no edit could be read"


@dataclass(frozen=True)
class Cell:
    """`small`: lines beneath the text, such as the interval and the denominator. `why`: why there is no value.

    `samples`: which edits are behind the number, as a query that the review tool understands; see `samples`.
    """

    text: str
    sort: float | str | None = None
    small: tuple[str, ...] = ()
    why: str = ""
    samples: str = ""

    @property
    def key(self) -> str | None:
        """What the browser sorts by; none sorts last."""
        return (
            f"{self.sort:.6g}" if isinstance(self.sort, float) else None if self.sort is None else str(self.sort)
        )


@dataclass(frozen=True)
class Column:
    """A heading and how a row's cell is read. `note` stands small beneath the heading."""

    label: str
    read: Callable[[Row], Cell]
    numeric: bool = True
    note: str = ""


@dataclass(frozen=True)
class Table(Block):
    """The first column names the row. `foot` rows stay at the bottom however the table is sorted."""

    kind = "table"
    id: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    foot: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...]
    data: Data
    dense: bool
    numbers: pl.DataFrame = field(repr=False, compare=False)  # the tidy frame behind it, for files


def table(
    id: str,
    caption: str,
    rows: Iterable[Row],
    columns: Sequence[Column],
    numbers: pl.DataFrame,
    foot: Sequence[Sequence[Cell]] = (),
    notes: Sequence[str] = (),
    dense: bool = False,
) -> Table:
    """`numbers` is the tidy frame behind the table, offered as CSV. `dense` keeps each row on one line."""
    body = tuple(tuple(column.read(row) for column in columns) for row in rows)
    foot_ = tuple(tuple(cells) for cells in foot)
    return Table(id, caption, tuple(columns), body, foot_, tuple(notes), data(id, numbers), dense, numbers)


def absent(why: str) -> Cell:
    return Cell(DASH, why=why)


# The words of `happened`: the edits that an outcome was read off, by what was read
YES, JUDGED, NO_SCORE, ANY = "yes", "judged", "missing", "any"


def samples(**about: str | Sequence[str]) -> str:
    """A query of the review tool: every filter with its value or values.

    Without `experiment` and `arm` it is about the edits that the main tables are about.
    """
    return urlencode({name: value for name, value in about.items() if value}, doseq=True)


def leads(column: Column, about: Callable[[Row], str]) -> Column:
    """The column with the edits behind each of its numbers; a missing value has none."""

    def read(row: Row) -> Cell:
        found = column.read(row)
        return found if found.why else replace(found, samples=about(row))

    return replace(column, read=read)


def words(label: str, key: str, names: Mapping[str, str] | None = None) -> Column:
    """A text column; with `names` (id -> label) it shows labels and sorts in their order."""
    order = {id: place for place, id in enumerate(names or {})}

    def read(row: Row) -> Cell:
        value = str(row[key])
        return Cell((names or {}).get(value, value), order.get(value, value))

    return Column(label, read, numeric=False)


def tally(label: str, key: str, why: str = "not counted") -> Column:
    def read(row: Row) -> Cell:
        value = row.get(key)
        return absent(why) if value is None else Cell(count(value), value)

    return Column(label, read)


def share(label: str, part: str, whole: str, note: str = "") -> Column:
    """Part ÷ whole in percent, with both counts beneath it."""

    def read(row: Row) -> Cell:
        part_, whole_ = row[part], row[whole]
        if not whole_:
            return absent(f"nothing to divide by: {whole} is 0")
        return Cell(percent(part_ / whole_), part_ / whole_, (of(part_, whole_),))

    return Column(label, read, note=note)


def proportion(label: str, key: str, of_: str, why: str, unit: str) -> Column:
    """A share that comes without its hits; the denominator and its unit stand beneath it."""

    def read(row: Row) -> Cell:
        value = row[key]
        return Cell(percent(value), value, (f"{count(row[of_])} {unit}",)) if known(value) else absent(why)

    return Column(label, read)


def percentage(label: str, key: str, why: str) -> Column:
    """A share that was set, not counted, and so has no denominator."""

    def read(row: Row) -> Cell:
        found = row.get(key)
        return Cell(percent(found), found) if known(found) else absent(why)

    return Column(label, read)


def value(label: str, key: str, why: str, digits: int = 2, note: str = "") -> Column:
    def read(row: Row) -> Cell:
        found = row.get(key)
        return Cell(decimal(found, digits), found) if known(found) else absent(why)

    return Column(label, read, note=note)


def change(label: str, key: str, why: str, digits: int = 2, note: str = "") -> Column:
    """A number with its sign."""

    def read(row: Row) -> Cell:
        found = row.get(key)
        return Cell(signed(found, digits), found) if known(found) else absent(why)

    return Column(label, read, note=note)


def probability(label: str, key: str, why: str) -> Column:
    def read(row: Row) -> Cell:
        return Cell(p_value(row[key]), row[key]) if known(row[key]) else absent(why)

    return Column(label, read)


def difference(label: str, why: str, note: str) -> Column:
    """`difference` in percentage points with `low` and `high` beneath it."""

    def read(row: Row) -> Cell:
        if not known(row["difference"]):
            return absent(why)
        spread = bracket(row["low"], row["high"]) if known(row["low"]) else "no interval"
        return Cell(points(row["difference"]), row["difference"], (spread,))

    return Column(label, read, note=note)


def rate(
    label: str, pick: Callable[[Row], Row | None], nominal: bool = False, note: str = "", why: str = NOTHING_JUDGED
) -> Column:
    """A rate with its interval and denominator; `pick` finds the row of `stats.rates` that it shows."""

    def read(row: Row) -> Cell:
        found = pick(row)
        return absent(why) if found is None else rate_cell(found, nominal)

    return Column(label, read, note=note)


def rate_cell(row: Row, nominal: bool = False) -> Cell:
    """Judged denominators, or nominal ones with the judged beneath them."""
    if not known(row["rate"]):
        return absent(f"{NOTHING_JUDGED} of {count(row['asked'])} asked")
    spread = bracket(row["low"], row["high"]) if known(row["low"]) else FEW_PERSONS
    judged = of(row["hits"], row["judged"])
    if not nominal:
        return Cell(percent(row["rate"]), row["rate"], (spread, judged))
    asked = f"{of(row['hits'], row['asked'])} asked"
    small = (asked, f"judged {percent(row['rate'])}", spread, judged)
    return Cell(percent(row["nominal_rate"]), row["nominal_rate"], small)


def mean(
    label: str, pick: Callable[[Row], Row | None], digits: int = 2, note: str = "", why: str = NOTHING_READ
) -> Column:
    """A mean change with its interval, persons and edits; `pick` finds the row of `stats.means` to show."""

    def read(row: Row) -> Cell:
        found = pick(row)
        return absent(why) if found is None else mean_cell(found, digits)

    return Column(label, read, note=note)


def mean_cell(row: Row, digits: int = 2) -> Cell:
    if not known(row["mean"]):
        return absent(f"{NOTHING_READ} of {count(row['asked'])} asked")
    spread = span(row["low"], row["high"], digits) if known(row["low"]) else FEW_PERSONS
    counts = (plural(row["persons"], "persons"), f"{of(row['read'], row['asked'])} edits")
    return Cell(signed(row["mean"], digits), row["mean"], (spread, *counts))


def counted(
    label: str,
    pick: Callable[[Row], Row | None],
    part: str,
    whole: str,
    note: str = "",
    why: str = NOTHING_READ,
    few: str = FEW_PERSONS,
) -> Column:
    """A share of measured edits with its interval; `part` and `whole` name the counts beneath it.

    `few`: why there is a share without an interval.
    """

    def read(row: Row) -> Cell:
        found = pick(row)
        if found is None or not known(found["rate"]):
            return absent(why)
        spread = bracket(found["low"], found["high"]) if known(found["low"]) else few
        return Cell(percent(found["rate"]), found["rate"], (spread, of(found[part], found[whole])))

    return Column(label, read, note=note)
