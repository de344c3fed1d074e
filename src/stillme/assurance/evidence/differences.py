"""What is printed compared with what the ledger gives: every cell, sentence and value, and where they differ."""

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

from stillme.assurance.evidence.page import Page, Table, cells, collapse_space

NOTHING = "nothing"
MAX_DIFFERENCES = 500  # of one table or file that are kept
MAX_ALIGNED_LINES = (
    5000  # difflib takes time by the square: of longer texts only lines in the same place are compared
)
MAX_SHOWN_CHARS = 120  # of a text
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_TOLERANCE = 1e-6  # of numbers that are not rounded for print: machines differ in the last digits
# Columns that say which row is meant, the telling ones first.
KEYS = (
    *(
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
    ),
    *(
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
    ),
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
class DiffSummary:
    """What was compared: how many numbers of each kind, and every difference."""

    counts: dict[str, int] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)

    def count(self, kind: str, number: int) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + number

    def note(self, differences: Iterable[Difference]) -> None:
        """What differs in one place; enough of it, should all of it."""
        self.differences.extend(islice(differences, MAX_DIFFERENCES))


def count_numbers(text: str) -> int:
    """How many numbers a text has."""
    return len(_NUMBER.findall(text))


def count_values(frame: pl.DataFrame) -> int:
    """How many numbers a frame has."""
    numeric = frame.select(cs.numeric())
    return numeric.height * numeric.width - sum(numeric.null_count().row(0)) if numeric.width else 0


# The page


def note_page(printed: Page, derived: Page, figures: bool, into: DiffSummary) -> None:
    """Note tables first, then sentences, then the data behind them; `figures`: also what is drawn."""
    for id in dict.fromkeys([*derived.tables, *printed.tables]):
        table = derived.tables.get(id)
        into.note(table_differences(f"table {id}", printed.tables.get(id), table))
        into.count("tables of report.html", _count_in_rows(table.rows if table else ()))
    for section in dict.fromkeys([*derived.sentences, *printed.sentences]):
        sentences = derived.sentences.get(section, [])
        into.note(text_differences(f"section {section}", printed.sentences.get(section, []), sentences))
        into.count("sentences of report.html", sum(map(count_numbers, sentences)))
    for file in dict.fromkeys([*derived.data, *printed.data]):
        rows = derived.data.get(file, ())
        into.note(_row_differences(f"data link {file}", printed.data.get(file, ()), rows))
        into.count("data links of report.html", _count_in_rows(rows))
    if figures:
        into.note(
            Difference(f"figure {name}", "another drawing" if name in printed.drawn else NOTHING, "its own")
            for name in dict.fromkeys([*derived.drawn, *printed.drawn])
            if printed.drawn.get(name) != derived.drawn.get(name)
        )


def _count_in_rows(rows: Sequence[Sequence[str]]) -> int:
    return sum(count_numbers(text) for row in rows for text in row)


def table_differences(where: str, printed: Table | None, derived: Table | None) -> Iterator[Difference]:
    """Every cell by its row and column."""
    if printed is None or derived is None:
        yield Difference(where, "a table" if printed else NOTHING, "a table" if derived else NOTHING)
        return
    if printed.columns != derived.columns:
        heads, own_heads = (_quote(" | ".join(table.columns)) for table in (printed, derived))
        yield Difference(f"{where}, headings", heads, own_heads)
    first, second = ({(row, column): text for row, column, text in cells(t)} for t in (printed, derived))
    for row, column in dict.fromkeys([*second, *first]):
        text, own = first.get((row, column)), second.get((row, column))
        if text != own:
            yield Difference(f"{where}, row {row}, column {column}", text or NOTHING, own or NOTHING)


def text_differences(where: str, printed: Sequence[str], derived: Sequence[str]) -> Iterator[Difference]:
    """Sentences in their order; a changed one stands beside what it should be, from where they part."""
    if list(printed) == list(derived):
        return
    if max(len(printed), len(derived)) > MAX_ALIGNED_LINES:
        pairs = zip_longest(printed, derived, fillvalue="")
        yield from (_text_difference(where, text, own) for text, own in pairs if text != own)
        return
    matcher = difflib.SequenceMatcher(a=printed, b=derived, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind != "equal":
            for text, own in zip_longest(printed[a:b], derived[c:d], fillvalue=""):
                yield _text_difference(where, text, own)


def _text_difference(where: str, printed: str, derived: str) -> Difference:
    """Shown from a little before the first place in which they differ."""
    same = next((i for i, (x, y) in enumerate(zip(printed, derived, strict=False)) if x != y), 0)
    start = max(0, printed.rfind(" ", 0, max(0, same - 40)) + 1) if printed and derived else 0
    return Difference(where, _quote(printed, start), _quote(derived, start))


def _quote(text: str, start: int = 0) -> str:
    if not text:
        return NOTHING
    end = start + MAX_SHOWN_CHARS
    return f"“{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}”"


# Files


def line_differences(where: str, printed: str, derived: str) -> Iterator[Difference]:
    """Text, line by line."""
    lines, own = ([collapse_space(line) for line in text.splitlines()] for text in (printed, derived))
    yield from text_differences(where, lines, own)


def csv_differences(where: str, printed: str, derived: str) -> Iterator[Difference]:
    """CSV, row by row."""
    rows, own = (list(csv.reader(io.StringIO(text))) for text in (printed, derived))
    yield from _row_differences(where, rows, own)


def _row_differences(
    where: str, printed: Sequence[Sequence[str]], derived: Sequence[Sequence[str]]
) -> Iterator[Difference]:
    """Numbers that are not rounded for print may differ in their last digits."""
    if len(printed) != len(derived):
        yield Difference(where, f"{max(0, len(printed) - 1):,} rows", f"{max(0, len(derived) - 1):,} rows")
        return
    for number, (first, second) in enumerate(zip(printed, derived, strict=True)):
        if first == second:
            continue
        for column, (text, own) in enumerate(zip_longest(first, second, fillvalue="")):
            if text != own and not _is_near(text, own):
                name = derived[0][column] if column < len(derived[0]) else f"column {column + 1}"
                row = f"row {number} ({' '.join(word for word in second[:2] if word)})"
                yield Difference(f"{where}, {row}, column {name}", text or NOTHING, own or NOTHING)


def _is_near(text: str, own: str) -> bool:
    try:
        return math.isclose(float(text), float(own), rel_tol=_TOLERANCE, abs_tol=2 * _TOLERANCE)
    except ValueError:
        return False


def frame_differences(where: str, printed: pl.DataFrame, derived: pl.DataFrame) -> Iterator[Difference]:
    """Every value of a table in a file, named by the row's keys."""
    if printed.schema != derived.schema:
        columns, own_columns = (
            _quote(", ".join(f"{name} {kind}" for name, kind in frame.schema.items()))
            for frame in (printed, derived)
        )
        yield Difference(f"{where}, columns", columns, own_columns)
        return
    if printed.height != derived.height:
        yield Difference(where, f"{printed.height:,} rows", f"{derived.height:,} rows")
        return
    if printed.equals(derived):
        return
    for column in derived.columns:
        for index in _differs(printed[column], derived[column]).arg_true():
            keys = [(key, derived[key][index]) for key in KEYS if key in derived.columns and key != column]
            named = [f"{key} {_shorten(value)}" for key, value in keys if value not in (None, "")][:4]
            row = ", ".join(named) or f"row {index + 1}"
            value, own = printed[column][index], derived[column][index]
            yield Difference(f"{where}, {row}, column {column}", _format(value), _format(own))


def _differs(printed: pl.Series, derived: pl.Series) -> pl.Series:
    differs = printed.ne_missing(derived)
    if printed.dtype.is_float():
        is_near = (printed - derived).abs() <= _TOLERANCE * (1 + derived.abs())
        return differs & ~is_near.fill_null(False)
    return differs


def _shorten(value: object) -> str:
    """Hashes by their beginnings."""
    text = str(value)
    return f"{text[:12]}…" if len(text) > 40 else text


def _format(value: object) -> str:
    if value is None or value == "":
        return NOTHING
    return f"{value:.6g}" if isinstance(value, float) else _shorten(value)
