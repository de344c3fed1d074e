"""Parquet files that others wrote, read whole: damage is an error, and never the end of the process.

polars stops the whole program at a size that cannot be true, and believes that text is text. So pyarrow, where it
is installed, reads and checks the file first; without it polars reads alone, and only its own errors are caught.
"""

from __future__ import annotations

import importlib.util
import io

import polars as pl


class DamagedError(ValueError):
    """No whole Parquet file; the text says why, in one line."""


def read(content: bytes) -> pl.DataFrame:
    checked = importlib.util.find_spec("pyarrow") is not None
    try:
        return _checked(content) if checked else pl.read_parquet(io.BytesIO(content))
    except (Exception, pl.exceptions.PanicException) as error:  # a panic of polars is no Exception
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise DamagedError(said.rstrip(".")) from None


def _checked(content: bytes) -> pl.DataFrame:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)
    table.validate(full=True)
    found = pl.from_arrow(table)
    assert isinstance(found, pl.DataFrame)
    return found
