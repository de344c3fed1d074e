"""Columns of a table that somebody else made: named as ours, their values as the protocol spells them.

Everything that is wrong is collected, with the first row where it is seen and how many rows it concerns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import polars as pl

from stillme.analysis.numbers import plural
from stillme.analysis.tables.files import Given
from stillme.core.errors import ConfigIssue
from stillme.core.yaml import unknown
from stillme.protocol import Protocol

# How others name what we name; taken only where the column itself is not there.
ALSO = {
    "model": "editor",
    "portrait": "person",
    "source_image": "person",
    "image_id": "person",
    "prompt_id": "prompt",
    "dimension": "axis",
    "rating": "score",
    "annotator": "rater",
    "participant": "rater",
}
MISSING = ("", "na", "n/a", "nan", "null", "none", "missing")  # spellings of a value that is not there
ROW = "_row"
OWN = (ROW, "_value", "_text")  # columns that come and go on the way
MOST = 2**53  # the largest whole number that every program reads alike


class Reader:
    """One table on its way to our columns; `faults` fills as it goes.

    `nested`: columns of lists, records or bytes, which nothing here can read.
    """

    def __init__(self, given: Given, protocol: Protocol) -> None:
        self.given, self.protocol = given, protocol
        self.faults: list[ConfigIssue] = []
        self.notes: list[str] = []
        named = _named(given.frame)
        self.nested = frozenset(name for name, kind in named.schema.items() if kind.is_nested() or kind in _BYTES)
        self.frame = named.drop(*self.nested, *OWN, strict=False).with_row_index(ROW, offset=given.first)

    def has(self, column: str) -> bool:
        return column in self.frame.columns

    def fault(self, column: str, said: str, row: int = 0) -> None:
        self.faults.append(ConfigIssue(self.given.name, row, column, said))

    def faulty(self, column: str, rows: pl.DataFrame, said: str) -> None:
        """The first of the rows, and how many there are."""
        if rows.height:
            more = f" ({rows.height:,} rows)" if rows.height > 1 else ""
            self.fault(column, f"{said}{more}", int(rows[ROW][0]))

    def need(self, columns: Iterable[str]) -> bool:
        lacking = [column for column in columns if not self.has(column)]
        self.plain(*lacking)
        for column in (name for name in lacking if name not in self.nested):
            told = ", ".join(name for name in self.frame.columns if name != ROW)
            self.fault(column, f"the table has no such column; it has: {told}")
        return not lacking

    def plain(self, *columns: str) -> None:
        """A column that is asked for holds words or numbers, or is at fault."""
        for column in columns:
            if column in self.nested:
                self.fault(column, "holds lists, records or bytes; words or numbers are needed")

    def words(self, *columns: str) -> None:
        """Columns of text; a missing value is null, however it is spelled."""
        self.plain(*columns)
        for column in columns:
            if self.has(column):
                self.frame = self.frame.with_columns(_word(column))

    def required(self, *columns: str) -> None:
        for column in columns:
            if self.has(column):
                self.faulty(column, self.frame.filter(pl.col(column).is_null()), "is empty")

    def number(self, column: str, *, whole: bool = False) -> None:
        """A column of numbers; what is no number is a fault."""
        self.plain(column)
        if not self.has(column):
            return
        text = _word(column)
        value = text.cast(pl.Float64, strict=False)
        read = self.frame.with_columns(value.fill_nan(None).alias("_value"), text.alias("_text"))
        self._unreadable(column, read.filter(pl.col("_value").is_null() & pl.col("_text").is_not_null()))
        if whole:
            value = pl.col("_value")
            apart = read.filter((value != value.round()) | (value.abs() > MOST))
            self.faulty(column, apart, f"{_first(apart, '_text')} is not a whole number")
        self.frame = read.with_columns(pl.col("_value").alias(column)).drop("_value", "_text")
        if whole and not self.faults:
            self.frame = self.frame.with_columns(pl.col(column).cast(pl.Int64))

    def _unreadable(self, column: str, rows: pl.DataFrame) -> None:
        self.faulty(column, rows, f"'{_first(rows, '_text')}' is not a number; leave what is missing empty")

    def truth(self, column: str) -> None:
        """A column of yes and no."""
        self.plain(column)
        if not self.has(column) or self.frame.schema[column] == pl.Boolean:
            return
        said = pl.col(column).cast(pl.String).str.strip_chars().str.to_lowercase()
        known = {"true": True, "1": True, "1.0": True, "yes": True, "false": False, "0": False, "0.0": False}
        known |= {"no": False}
        read = said.replace_strict(known, default=None, return_dtype=pl.Boolean)
        odd = self.frame.filter(read.is_null() & said.is_not_null() & ~said.is_in(MISSING))
        self.faulty(column, odd, f"'{_first(odd, column)}' is neither true nor false")
        self.frame = self.frame.with_columns(read.alias(column))

    def spelled(self, column: str, spellings: Mapping[str, str], what: str, known: Sequence[str]) -> None:
        """Values in our words; one that is none of them is a fault."""
        if not self.has(column):
            return
        folded = pl.col(column).str.to_lowercase()
        ours = {spelling.lower(): word for spelling, word in spellings.items()}
        read = folded.replace_strict(ours, default=None, return_dtype=pl.String)
        odd = self.frame.filter(read.is_null() & pl.col(column).is_not_null())
        for (word,), rows in odd.group_by(column, maintain_order=True):
            self.faulty(column, rows, unknown(str(word), what, known))
        self.frame = self.frame.with_columns(read.alias(column))

    def groups(self) -> None:
        """Perceived groups, by ids, labels or aliases. A dimension that is not there is null for everybody."""
        for dimension, groups in self.protocol.groups.dimensions.items():
            if not self.has(dimension):
                self.frame = self.frame.with_columns(pl.lit(None, pl.String).alias(dimension))
                continue
            spellings = {word: g.id for g in groups for word in (g.id, g.label, *g.aliases)}
            self.spelled(dimension, spellings, f"group of {dimension}", [g.id for g in groups])

    def once(self, key: Sequence[str], what: str) -> None:
        """No two rows for the same thing."""
        twice = self.frame.filter(pl.struct(key).is_duplicated())
        if twice.height:
            row = twice.row(0, named=True)
            about = ", ".join(f"{name} {row[name]}" for name in key)
            times = twice.group_by(key, maintain_order=True).len()["len"][0]
            said = f"{times} rows are about the same {what} ({about}): a join may have multiplied rows"
            self.faulty(key[-1], twice, said)

    def one_label(self, person: str = "person") -> None:
        """A person has one label a dimension; two say that persons were mixed up."""
        for dimension in self.protocol.groups.dimensions:
            labels = self.frame.drop_nulls(dimension).group_by(person, maintain_order=True)
            several = labels.agg(pl.col(dimension).unique(maintain_order=True), pl.col(ROW).first())
            for name, found, row in several.filter(pl.col(dimension).list.len() > 1).head(3).iter_rows():
                told = ", ".join(found)
                self.fault(dimension, f"person {name} is {told}: a join may have mixed persons up", int(row))

    def same_label(self, person: str = "person") -> None:
        """Who has a label in some rows has it in all: a person is one person, wherever a label is missing."""
        for dimension in self.protocol.groups.dimensions:
            filled = self.frame.with_columns(pl.col(dimension).drop_nulls().first().over(person))
            gained = self.frame.filter(pl.col(dimension).is_null() & filled[dimension].is_not_null())
            if gained.height:
                whom = plural(gained[person].n_unique(), "persons")
                self.notes.append(f"Some rows of {whom} lack the {dimension} that other rows have: it is taken.")
            self.frame = filled


_BYTES = (pl.Binary, pl.Object)


def _named(frame: pl.DataFrame) -> pl.DataFrame:
    """Column names in lower case, without spaces, and ours where others are known."""
    plain = {name: name.strip().lower().replace(" ", "_") for name in frame.columns}
    taken = set(plain.values())
    ours: dict[str, str] = {}
    for name, word in plain.items():
        better = ALSO.get(word, word)
        word = better if better not in taken and better not in ours.values() else word
        ours[name] = word if word not in ours.values() else name
    return frame.rename(ours)


def _word(column: str) -> pl.Expr:
    text = pl.col(column).cast(pl.String).str.strip_chars()
    return pl.when(text.str.to_lowercase().is_in(MISSING)).then(None).otherwise(text).alias(column)


def _first(rows: pl.DataFrame, column: str) -> str:
    return str(rows[column][0]) if rows.height else ""


def missing_dimensions(frame: pl.DataFrame, dimensions: Iterable[str]) -> Iterator[str]:
    """Dimensions in which nobody has a label."""
    for dimension in dimensions:
        if frame[dimension].null_count() == frame.height:
            yield dimension
