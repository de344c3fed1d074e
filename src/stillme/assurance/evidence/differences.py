"""What is printed held against what the ledger gives: every cell, sentence and value, and where they differ."""

from __future__ import annotations

import csv
import difflib
import io
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, zip_longest

import polars as pl
import polars.selectors as cs

from stillme.assurance.evidence.page import Page, Table, cells, plain

NOTHING = "nothing"
MOST = 500  # differences of one table or file that are kept
MANY = 5000  # lines beyond which changed ones are looked for in their places only
LONGEST = 120  # characters of a text that are shown
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_NEAR = 1e-6  # of numbers that are not rounded for print: machines differ in the last digits
KEYS: tuple[str, ...] = (
    "trial",
    "verdict",
    "key",
    "edit",
    "study",
    "rater",
    "item",
    "output",
    "question",
    "axis",
    "judge",
    "prompt",
)
KEYS += (
    "editor",
    "outcome",
    "dimension",
    "group",
    "portrait",
    "subject",
    "quantity",
    "source_image",
    "place",
    "name",
)


@dataclass(frozen=True)
class Difference:
    """One thing that is printed otherwise than the ledger gives it."""

    where: str
    printed: str
    derived: str

    def __str__(self) -> str:
        return f"{self.where}: printed {self.printed}, the ledger gives {self.derived}"


@dataclass
class Compared:
    """What was held against what: how many numbers of each kind, and every difference."""

    counts: dict[str, int] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)

    def count(self, kind: str, number: int) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + number

    def note(self, differences: Iterable[Difference]) -> None:
        """What differs in one place; enough of it, should all of it."""
        self.differences.extend(islice(differences, MOST))


def numbers(text: str) -> int:
    """How many numbers a text has."""
    return len(_NUMBER.findall(text))


# The page


def pages(printed: Page, derived: Page, figures: bool, into: Compared) -> None:
    """Tables first, then sentences, then the data behind them; `figures`: also what is drawn."""
    for id in dict.fromkeys([*derived.tables, *printed.tables]):
        one, other = printed.tables.get(id), derived.tables.get(id)
        into.note(tables(f"table {id}", one, other))
        into.count(
            "tables of report.html", sum(numbers(text) for row in other.rows for text in row) if other else 0
        )
    for section in dict.fromkeys([*derived.sentences, *printed.sentences]):
        said, again = printed.sentences.get(section, []), derived.sentences.get(section, [])
        into.note(texts(f"section {section}", said, again))
        into.count("sentences of report.html", sum(numbers(text) for text in again))
    for file in dict.fromkeys([*derived.data, *printed.data]):
        into.note(sheets(f"data link {file}", printed.data.get(file, ()), derived.data.get(file, ())))
        into.count(
            "data links of report.html", sum(numbers(text) for row in derived.data.get(file, ()) for text in row)
        )
    if figures:
        into.note(_drawn(printed.drawn, derived.drawn))


def _drawn(printed: dict[str, str], derived: dict[str, str]) -> Iterator[Difference]:
    for name in dict.fromkeys([*derived, *printed]):
        if printed.get(name) != derived.get(name):
            yield Difference(f"figure {name}", "another drawing" if name in printed else NOTHING, "its own")


def tables(where: str, printed: Table | None, derived: Table | None) -> Iterator[Difference]:
    """Every cell by its row and column."""
    if printed is None or derived is None:
        yield Difference(
            where, NOTHING if printed is None else "a table", "a table" if printed is None else NOTHING
        )
        return
    if printed.columns != derived.columns:
        yield Difference(
            f"{where}, headings", _quoted(" | ".join(printed.columns)), _quoted(" | ".join(derived.columns))
        )
    one, other = ({(row, column): text for row, column, text in cells(t)} for t in (printed, derived))
    for row, column in dict.fromkeys([*other, *one]):
        said, again = one.get((row, column)), other.get((row, column))
        if said != again:
            yield Difference(f"{where}, row {row}, column {column}", said or NOTHING, again or NOTHING)


def texts(where: str, printed: Sequence[str], derived: Sequence[str]) -> Iterator[Difference]:
    """Sentences in their order; a changed one stands beside what it should be, from where they part."""
    if list(printed) == list(derived):
        return
    if max(len(printed), len(derived)) > MANY:
        pairs = zip_longest(printed, derived, fillvalue="")
        yield from (_parted(where, one, other) for one, other in pairs if one != other)
        return
    matcher = difflib.SequenceMatcher(a=printed, b=derived, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind == "equal":
            continue
        said, again = list(printed[a:b]), list(derived[c:d])
        for place in range(max(len(said), len(again))):
            yield _parted(
                where, said[place] if place < len(said) else "", again[place] if place < len(again) else ""
            )


def _parted(where: str, printed: str, derived: str) -> Difference:
    """Shown from a little before the first place in which they differ."""
    same = next((i for i, (x, y) in enumerate(zip(printed, derived, strict=False)) if x != y), 0)
    start = max(0, printed.rfind(" ", 0, max(0, same - 40)) + 1) if printed and derived else 0
    return Difference(where, _quoted(printed, start), _quoted(derived, start))


def _quoted(text: str, start: int = 0) -> str:
    if not text:
        return NOTHING
    cut = text[start : start + LONGEST]
    return f"“{'…' if start else ''}{cut}{'…' if start + LONGEST < len(text) else ''}”"


# Files


def sheets(where: str, printed: Sequence[Sequence[str]], derived: Sequence[Sequence[str]]) -> Iterator[Difference]:
    """CSV, row by row; numbers that are not rounded for print may differ in their last digits."""
    if len(printed) != len(derived):
        yield Difference(where, f"{max(0, len(printed) - 1):,} rows", f"{max(0, len(derived) - 1):,} rows")
        return
    for place, (one, other) in enumerate(zip(printed, derived, strict=True)):
        if one == other:
            continue
        head = derived[0]
        for column in range(max(len(one), len(other))):
            said, again = (row[column] if column < len(row) else "" for row in (one, other))
            if said != again and not _near(said, again):
                name = head[column] if column < len(head) else f"column {column + 1}"
                label = " ".join(word for word in other[:2] if word)
                yield Difference(
                    f"{where}, row {place} ({label}), column {name}", said or NOTHING, again or NOTHING
                )


def _near(one: str, other: str) -> bool:
    try:
        return math.isclose(float(one), float(other), rel_tol=_NEAR, abs_tol=2 * _NEAR)
    except ValueError:
        return False


def lines(where: str, printed: str, derived: str) -> Iterator[Difference]:
    """Text, line by line."""
    said, again = ([plain(line) for line in text.splitlines()] for text in (printed, derived))
    yield from texts(where, said, again)


def csv_rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def frames(where: str, printed: pl.DataFrame, derived: pl.DataFrame) -> Iterator[Difference]:
    """Every value of a table in a file, named by the row's keys."""
    if printed.schema != derived.schema:
        yield Difference(f"{where}, columns", _quoted(_schema(printed)), _quoted(_schema(derived)))
        return
    if printed.height != derived.height:
        yield Difference(where, f"{printed.height:,} rows", f"{derived.height:,} rows")
        return
    if printed.equals(derived):
        return
    for column in derived.columns:
        for place in _apart(printed[column], derived[column]).arg_true():
            row = _row(derived, place, column)
            said, again = printed[column][place], derived[column][place]
            yield Difference(f"{where}, {row}, column {column}", _value(said), _value(again))


def _apart(one: pl.Series, other: pl.Series) -> pl.Series:
    differs = one.ne_missing(other)
    if one.dtype.is_float():
        near = (one - other).abs() <= _NEAR * (1 + other.abs())
        return (
            differs & ~near.fill_null(False).fill_nan(False)
            if near.dtype.is_float()
            else differs & ~near.fill_null(False)
        )
    return differs


def _schema(frame: pl.DataFrame) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in frame.schema.items())


def _row(frame: pl.DataFrame, place: int, column: str) -> str:
    """A row by the values of its keys; hashes by their beginnings."""
    named = [(key, frame[key][place]) for key in KEYS if key in frame.columns and key != column]
    told = [f"{key} {_short(value)}" for key, value in named if value not in (None, "")][:4]
    return ", ".join(told) or f"row {place + 1}"


def _short(value: object) -> str:
    text = str(value)
    return f"{text[:12]}…" if len(text) > 40 else text


def _value(value: object) -> str:
    return (
        NOTHING
        if value is None or value == ""
        else _short(value)
        if not isinstance(value, float)
        else f"{value:.6g}"
    )


def values(frame: pl.DataFrame) -> int:
    """How many numbers a frame has."""
    chosen = frame.select(cs.numeric())
    return chosen.height * chosen.width - sum(chosen.null_count().row(0)) if chosen.width else 0
