"""Tables as files: CSV and Parquet, written whole or not at all, and Parquet of others read with care."""

from __future__ import annotations

import importlib.util
import io
from pathlib import Path

import polars as pl

from stillme.core.atomic import replace_file

_FORMULA = r"^[=+\-@\t\r]"
_NUMBER = r"^[+-]?([0-9.,]+([eE][+-]?[0-9]+)?%?)?$"  # also a sign alone, which means nothing


def escape_formulas(frame: pl.DataFrame) -> pl.DataFrame:
    """Put an apostrophe before texts that a spreadsheet would take for a formula; numbers stay numbers."""
    columns = []
    for name, kind in frame.schema.items():
        if kind == pl.String:
            text = pl.col(name)
            is_formula = text.str.contains(_FORMULA) & ~text.str.contains(_NUMBER)
            columns.append(pl.when(is_formula).then("'" + text).otherwise(text).alias(name))
    return frame.with_columns(columns)


def write_frame(frame: pl.DataFrame, path: Path) -> Path:
    """Write a table as CSV or Parquet, by the file's ending."""
    buffer = io.BytesIO()
    if path.suffix == ".csv":
        escape_formulas(frame).write_csv(buffer)
    else:
        frame.write_parquet(buffer)
    replace_file(path, buffer.getvalue())
    return path


class DamagedError(ValueError):
    """Not a whole Parquet file; the text says why, in one line."""


def read_parquet(content: bytes) -> pl.DataFrame:
    """Read a file that others wrote: damage is an error, and never the end of the process.

    polars stops the whole program at a size that cannot be true, and believes that text is text. So pyarrow, where
    it is installed, reads and checks the file first; without it polars reads alone.
    """
    has_pyarrow = importlib.util.find_spec("pyarrow") is not None
    try:
        return _read_checked(content) if has_pyarrow else pl.read_parquet(io.BytesIO(content))
    except (Exception, pl.exceptions.PanicException) as error:  # a panic of polars is not an Exception
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise DamagedError(reason.rstrip(".")) from None


def _read_checked(content: bytes) -> pl.DataFrame:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)
    table.validate(full=True)
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame
