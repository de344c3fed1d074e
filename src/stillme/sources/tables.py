"""Label tables, row by row: CSV with any usual separator, and Parquet.

Knows rows and columns, not what a column means. A row that cannot be read becomes an issue and the rest is read; a
file that cannot be read at all is a fault that says what to do.
"""

from __future__ import annotations

import csv
import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TextIO

from stillme.core.errors import ConfigIssue, ConfigIssuesError, disk
from stillme.sources import Reason, RowIssue

SEPARATORS = (",", ";", "\t", "|")
MAX_LINE_CHARS = 1_000_000  # a longer line is not a line of a table
BATCH_ROWS = 4096  # rows of labels that are in memory at a time
_MAGIC = b"PAR1"
_PARQUET_SUFFIXES = (".parquet", ".pq")

Values = dict[str, str]  # column -> its text, unchanged


class Table(Protocol):
    def rows(self) -> Iterator[tuple[int, Values] | RowIssue]:
        """Each row's number as an editor of text shows it, and the columns asked for."""
        ...


def open_table(path: Path, columns: Iterable[str]) -> Table:
    """A label table with at least these columns, or a fault that says what is wrong with the file."""
    required = tuple(dict.fromkeys(columns))
    if not path.is_file():
        raise _fault(path, "is a folder, not a table" if path.is_dir() else "does not exist")
    with disk(path), path.open("rb") as file:
        is_parquet = file.read(len(_MAGIC)) == _MAGIC or path.suffix.lower() in _PARQUET_SUFFIXES
    if is_parquet:
        check_columns(path, open_parquet(path).schema_arrow.names, required)
        return _Parquet(path, required)
    separator, header = _header(path, required)
    check_columns(path, header, required)
    return _Csv(path=path, columns=required, separator=separator, header=header)


def check_columns(path: Path, columns: Sequence[str], required: Iterable[str]) -> None:
    """Every required column is there once, or each fault is raised with the columns that there are."""
    required = tuple(required)
    listed = f"columns found: {', '.join(columns) or 'none'}; wanted: {', '.join(required)}"
    by_folded = {column.casefold(): column for column in columns}
    missing, twice = [], []
    for name in required:
        if name not in columns:
            close = difflib.get_close_matches(name.casefold(), by_folded, n=1)
            hint = f" (did you mean '{by_folded[close[0]]}'?)" if close else ""
            missing.append(f"has no column '{name}'{hint}; {listed}")
        elif columns.count(name) > 1:
            twice.append(f"has the column '{name}' more than once; {listed}")
    if missing or twice:
        raise ConfigIssuesError([ConfigIssue(str(path), 0, "", message) for message in missing + twice])


def _fault(path: Path, message: str, line: int = 0) -> ConfigIssuesError:
    return ConfigIssuesError([ConfigIssue(str(path), line, "", message)])


# CSV


@dataclass(frozen=True, kw_only=True)
class _Csv:
    path: Path
    columns: tuple[str, ...]
    separator: str
    header: tuple[str, ...]

    def rows(self) -> Iterator[tuple[int, Values] | RowIssue]:
        index_by_column = {name: self.header.index(name) for name in self.columns}
        records = _records(self.path, self.separator)
        next(records, None)
        for row, fields in records:
            if isinstance(fields, str):
                problem = fields
            elif len(fields) != len(self.header):
                problem = f"the row has {len(fields)} fields and the header {len(self.header)}"
            elif any("\0" in field for field in fields):
                problem = "the row holds a NUL character, which no text has"
            else:
                yield row, {name: fields[index] for name, index in index_by_column.items()}
                continue
            yield RowIssue(file=self.path.name, row=row, reason=Reason.BAD_ROW, said=problem)


def _header(path: Path, required: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The separator that gives most of the required columns, and the columns that it gives."""
    columns_by_separator: dict[str, tuple[str, ...]] = {}
    for separator in SEPARATORS:
        _, first = next(_records(path, separator), (0, None))
        if first is None:
            raise _fault(path, "is empty; a table begins with the names of its columns")
        if "\0" in "".join(first):
            raise _fault(path, "is not a text table: it holds NUL characters. Save it as CSV in UTF-8", 1)
        columns_by_separator[separator] = () if isinstance(first, str) else tuple(name.strip() for name in first)
    return max(columns_by_separator.items(), key=lambda item: (len(set(required) & set(item[1])), len(item[1])))


def _records(path: Path, separator: str) -> Iterator[tuple[int, list[str] | str]]:
    """The row in which each record begins, and its fields, or what is wrong with it. Empty lines are skipped."""
    with disk(path), path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(_lines(file, path), delimiter=separator, strict=True)
        while True:
            row = reader.line_num + 1
            try:
                fields = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield row, f"the row cannot be read: {error}"
                # A quote without its partner swallows the rows up to the next one: each of them is lost.
                for lost in range(row + 1, reader.line_num + 1):
                    yield lost, f"the row lies in a quoted field that begins in row {row} and is not closed there"
            else:
                if fields:
                    yield row, fields


def _lines(file: TextIO, path: Path) -> Iterator[str]:
    number = 0
    try:
        while line := file.readline(MAX_LINE_CHARS):
            number += 1
            if len(line) == MAX_LINE_CHARS and line[-1] not in "\r\n":
                raise _fault(
                    path, f"has a line of more than {MAX_LINE_CHARS:,} characters; is it a table?", number
                )
            yield line
    except UnicodeDecodeError:
        message = "is not UTF-8 text from this line on; save it as CSV in UTF-8"
        raise _fault(path, message, _first_undecodable(path)) from None


def _first_undecodable(path: Path) -> int:
    """Text is decoded in blocks, so the line has to be looked for."""
    with path.open(encoding="latin-1", newline="") as file:
        for number, line in enumerate(file, 1):
            try:
                line.encode("latin-1").decode("utf-8")
            except UnicodeDecodeError:
                return number
    return 0


# Parquet


@dataclass(frozen=True, kw_only=True)
class RowLocation:
    """The position of a row in a Parquet file; rows count from 1, and there is no header."""

    row: int
    group: int
    offset: int  # in the row group


@dataclass(frozen=True)
class _Parquet:
    path: Path
    columns: tuple[str, ...]

    def rows(self) -> Iterator[tuple[int, Values] | RowIssue]:
        for item in scan(self.path, self.path.name, self.columns):
            if isinstance(item, RowIssue):
                yield item
            else:
                spot, values = item
                yield spot.row, {name: text(values[name]) for name in self.columns}


def open_parquet(path: Path) -> Any:
    """A pyarrow.parquet.ParquetFile that reads pieces as they are asked for, not whole columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20)
    except (pa.ArrowException, OSError) as error:
        message = f"is not a Parquet file, or not a whole one: {first_line(error)}. Fetch or write it again"
        raise _fault(path, message) from None


def scan(path: Path, name: str, columns: Sequence[str]) -> Iterator[tuple[RowLocation, dict[str, Any]] | RowIssue]:
    """Every row's values in some columns, a row group at a time. A broken row group gives an issue per row."""
    import pyarrow as pa

    first = 1
    with open_parquet(path) as file:
        for group in range(file.num_row_groups):
            n_rows, n_read = file.metadata.row_group(group).num_rows, 0
            try:
                for batch in file.iter_batches(
                    BATCH_ROWS, row_groups=[group], columns=list(columns), use_threads=False
                ):
                    for values in batch.to_pylist():
                        yield RowLocation(row=first + n_read, group=group, offset=n_read), values
                        n_read += 1
            except (pa.ArrowException, OSError, ValueError, OverflowError) as error:  # also text that is none
                message = f"row group {group} cannot be read: {first_line(error)}"
                for row in range(first + n_read, first + n_rows):
                    yield RowIssue(file=name, row=row, reason=Reason.CORRUPT, said=message)
            else:
                if n_read < n_rows:
                    message = f"row group {group} ends here; {n_rows - n_read:,} more rows were to come"
                    yield RowIssue(file=name, row=first + n_read, reason=Reason.CORRUPT, said=message)
            first += n_rows


def first_line(error: BaseException) -> str:
    """The first line of an error of Arrow, without its full stop."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(". ")


def text(value: Any) -> str:
    """A value as a table of text would show it; empty where it is missing."""
    if value is None or value != value:  # only NaN differs from itself
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
