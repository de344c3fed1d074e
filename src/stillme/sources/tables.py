"""Label tables, row by row: CSV with any usual separator, and Parquet.

Knows rows and columns, not what a column means. A row that cannot be read becomes a remark and the rest is read; a
file that cannot be read at all is a fault that says what to do.
"""

from __future__ import annotations

import csv
import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TextIO

from stillme.core.errors import Fault, FaultsError, disk
from stillme.sources import Reason, Remark

SEPARATORS = (",", ";", "\t", "|")
LONGEST_LINE = 1_000_000  # characters; a longer line is no line of a table
BATCH = 4096  # rows of labels that are in memory at a time
_MAGIC = b"PAR1"
_PARQUET = (".parquet", ".pq")

Values = dict[str, str]  # column -> what stands there, as it stands there


class Table(Protocol):
    def rows(self) -> Iterator[tuple[int, Values] | Remark]:
        """Each row's number as an editor of text shows it, and the columns asked for."""
        ...


def open_table(path: Path, columns: Iterable[str]) -> Table:
    """A label table with at least these columns, or a fault that says what is wrong with the file."""
    wanted = tuple(dict.fromkeys(columns))
    if not path.is_file():
        raise _fault(path, "is a folder, not a table" if path.is_dir() else "does not exist")
    if _is_parquet(path):
        check_columns(path, open_parquet(path).schema_arrow.names, wanted)
        return _Parquet(path, wanted)
    separator, header = _header(path, wanted)
    check_columns(path, header, wanted)
    return _Csv(path, wanted, separator, header)


def check_columns(path: Path, found: Sequence[str], wanted: Iterable[str]) -> None:
    """Every column wanted is there once, or each fault is said with the columns that there are."""
    wanted = tuple(wanted)
    listed = f"columns found: {', '.join(found) or 'none'}; wanted: {', '.join(wanted)}"
    missing = [f"has no column '{name}'{_near(name, found)}; {listed}" for name in wanted if name not in found]
    twice = [f"has the column '{name}' more than once; {listed}" for name in wanted if found.count(name) > 1]
    if missing or twice:
        raise FaultsError([Fault(str(path), 0, "", said) for said in missing + twice])


def _near(name: str, found: Sequence[str]) -> str:
    folded = {column.casefold(): column for column in found}
    close = difflib.get_close_matches(name.casefold(), folded, n=1)
    return f" (did you mean '{folded[close[0]]}'?)" if close else ""


def _fault(path: Path, said: str, line: int = 0) -> FaultsError:
    return FaultsError([Fault(str(path), line, "", said)])


def _is_parquet(path: Path) -> bool:
    with disk(path), path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC or path.suffix.lower() in _PARQUET


# CSV


@dataclass(frozen=True)
class _Csv:
    path: Path
    columns: tuple[str, ...]
    separator: str
    header: tuple[str, ...]

    def rows(self) -> Iterator[tuple[int, Values] | Remark]:
        places = {name: self.header.index(name) for name in self.columns}
        records = _records(self.path, self.separator)
        next(records, None)
        for row, fields in records:
            flaw = fields if isinstance(fields, str) else self._flaw(fields)
            if flaw:
                yield Remark(self.path.name, row, Reason.BAD_ROW, flaw)
            else:
                yield row, {name: fields[place] for name, place in places.items()}

    def _flaw(self, fields: Sequence[str]) -> str:
        if len(fields) != len(self.header):
            return f"the row has {len(fields)} fields and the header {len(self.header)}"
        return "the row holds a NUL character, which no text has" if any("\0" in field for field in fields) else ""


def _header(path: Path, wanted: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The separator under which most of the columns are found, and the columns."""
    found = {separator: _columns(path, separator) for separator in SEPARATORS}
    return max(found.items(), key=lambda item: (len(set(wanted) & set(item[1])), len(item[1])))


def _columns(path: Path, separator: str) -> tuple[str, ...]:
    _, first = next(_records(path, separator), (0, None))
    if first is None:
        raise _fault(path, "is empty; a table begins with the names of its columns")
    if "\0" in "".join(first):
        raise _fault(path, "is not a text table: it holds NUL characters. Save it as CSV in UTF-8", 1)
    return () if isinstance(first, str) else tuple(name.strip() for name in first)


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
                yield from _lost(row, reader.line_num, error)
            else:
                if fields:
                    yield row, fields


def _lost(first: int, last: int, error: csv.Error) -> Iterator[tuple[int, str]]:
    """A quote without its partner swallows the rows up to the next one: each of them is lost, and said."""
    yield first, f"the row cannot be read: {error}"
    for row in range(first + 1, last + 1):
        yield row, f"the row lies in a quoted field that begins in row {first} and is not closed there"


def _lines(file: TextIO, path: Path) -> Iterator[str]:
    number = 0
    try:
        while line := file.readline(LONGEST_LINE):
            number += 1
            if len(line) == LONGEST_LINE and line[-1] not in "\r\n":
                raise _fault(path, f"has a line of more than {LONGEST_LINE:,} characters; is it a table?", number)
            yield line
    except UnicodeDecodeError:
        said = "is not UTF-8 text from this line on; save it as CSV in UTF-8"
        raise _fault(path, said, _first_undecodable(path)) from None


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


@dataclass(frozen=True)
class Spot:
    """Where a row stands in a Parquet file; rows count from 1, and there is no header."""

    row: int
    group: int
    offset: int  # in the row group


@dataclass(frozen=True)
class _Parquet:
    path: Path
    columns: tuple[str, ...]

    def rows(self) -> Iterator[tuple[int, Values] | Remark]:
        for found in scan(self.path, self.path.name, self.columns):
            if isinstance(found, Remark):
                yield found
            else:
                spot, values = found
                yield spot.row, {name: text(values[name]) for name in self.columns}


def open_parquet(path: Path) -> Any:
    """A pyarrow.parquet.ParquetFile that reads pieces as they are asked for, not whole columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20)
    except (pa.ArrowException, OSError) as error:
        said = f"is not a Parquet file, or not a whole one: {brief(error)}. Fetch or write it again"
        raise _fault(path, said) from None


def scan(path: Path, name: str, columns: Sequence[str]) -> Iterator[tuple[Spot, dict[str, Any]] | Remark]:
    """Every row's values in some columns, a row group at a time. A broken row group is a remark a row."""
    import pyarrow as pa

    first = 1
    with open_parquet(path) as file:
        for group in range(file.num_row_groups):
            count, read = file.metadata.row_group(group).num_rows, 0
            try:
                for batch in file.iter_batches(
                    BATCH, row_groups=[group], columns=list(columns), use_threads=False
                ):
                    for values in batch.to_pylist():
                        yield Spot(first + read, group, read), values
                        read += 1
            except (pa.ArrowException, OSError, ValueError, OverflowError) as error:  # also text that is none
                for row in range(first + read, first + count):
                    yield Remark(name, row, Reason.CORRUPT, f"row group {group} cannot be read: {brief(error)}")
            else:
                if read < count:
                    said = f"row group {group} ends here; {count - read:,} more rows were to come"
                    yield Remark(name, first + read, Reason.CORRUPT, said)
            first += count


def brief(error: BaseException) -> str:
    """The first line of what Arrow says, without its full stop."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(". ")


def text(value: Any) -> str:
    """A value as a table of text would show it; nothing for nothing."""
    if value is None or value != value:  # only NaN differs from itself
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
