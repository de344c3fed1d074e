"""Files of rows, written as they come: CSV that a spreadsheet may open safely, or Parquet in row groups.

At any time only a row group is in memory. Knows the columns of a sheet and nothing of what is in them.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Protocol

from stillme.core.errors import SetupError
from stillme.study.server.codebook import Column, Sheet

Form = Literal["parquet", "csv"]
GROUP = 10_000  # rows of a row group
RUNS = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet would take for a formula


class Writer(Protocol):
    """Takes a sheet's rows one at a time. `count`: how many it took."""

    count: int

    def add(self, row: Mapping[str, Any]) -> None: ...
    def close(self) -> None: ...


@contextmanager
def writing(sheet: Sheet, folder: Path, form: Form) -> Iterator[Writer]:
    """A writer for `<sheet>.<form>` in the folder."""
    path = folder / f"{sheet.name}.{form}"
    writer: Writer = CsvWriter(path, sheet) if form == "csv" else ParquetWriter(path, sheet)
    try:
        yield writer
    finally:
        writer.close()


def safe(text: str) -> str:
    """A cell that no spreadsheet runs.

    >>> safe("=1+1"), safe("a=b"), safe("- a point")
    ("'=1+1", 'a=b', "'- a point")
    """
    return f"'{text}" if text.startswith(RUNS) else text


def cell(column: Column, value: Any) -> Any:
    """A value as CSV has it: nothing is an empty cell, truth is true or false, numbers stay numbers."""
    if value is None:
        return ""
    if column.kind == "truth":
        return "true" if value else "false"
    return safe(str(value)) if column.kind == "text" else value


class CsvWriter:
    def __init__(self, path: Path, sheet: Sheet) -> None:
        self.count = 0
        self._sheet = sheet
        self._file = path.open("w", encoding="utf-8", newline="")
        self._rows = csv.writer(self._file, lineterminator="\n")
        self._rows.writerow(sheet.names)

    def add(self, row: Mapping[str, Any]) -> None:
        self._rows.writerow([cell(column, row[column.name]) for column in self._sheet.columns])
        self.count += 1

    def close(self) -> None:
        self._file.close()


class ParquetWriter:
    """Row groups by pyarrow; text is not changed here, for no spreadsheet opens it."""

    def __init__(self, path: Path, sheet: Sheet) -> None:
        self.count = 0
        self._arrow, parquet = _pyarrow()
        kinds = {
            "text": self._arrow.string(),
            "integer": self._arrow.int64(),
            "number": self._arrow.float64(),
            "truth": self._arrow.bool_(),
        }
        self._schema = self._arrow.schema([(column.name, kinds[column.kind]) for column in sheet.columns])
        self._file = parquet.ParquetWriter(path, self._schema)
        self._names = sheet.names
        self._waiting: list[Mapping[str, Any]] = []

    def add(self, row: Mapping[str, Any]) -> None:
        self._waiting.append(row)
        self.count += 1
        if len(self._waiting) >= GROUP:
            self._flush()

    def close(self) -> None:
        if self._waiting:
            self._flush()
        self._file.close()

    def _flush(self) -> None:
        columns = {name: [row[name] for row in self._waiting] for name in self._names}
        self._file.write_table(self._arrow.table(columns, schema=self._schema))
        self._waiting = []


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise SetupError(
            "Parquet files are written by pyarrow, which is not installed.",
            "Install it with: pip install pyarrow. Or export with --format csv.",
        ) from None
    return pyarrow, pyarrow.parquet
