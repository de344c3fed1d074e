"""Tables as files: CSV that no spreadsheet takes for formulas, or Parquet. Whole, or as it was."""

from __future__ import annotations

import io
from pathlib import Path

import polars as pl

from stillme.core.atomic import replace_file


def guarded(frame: pl.DataFrame) -> pl.DataFrame:
    """Words that a spreadsheet would take for a formula, with an apostrophe before them; numbers stay numbers."""
    return frame.with_columns(_guarded(name) for name, kind in frame.schema.items() if kind == pl.String)


_FORMULA = r"^[=+\-@\t\r]"
_NUMBER = r"^[+-]?([0-9.,]+([eE][+-]?[0-9]+)?%?)?$"  # also a sign alone, which stands for nothing


def _guarded(name: str) -> pl.Expr:
    text = pl.col(name)
    is_formula = text.str.contains(_FORMULA) & ~text.str.contains(_NUMBER)
    return pl.when(is_formula).then("'" + text).otherwise(text).alias(name)


def write_frame(frame: pl.DataFrame, path: Path) -> Path:
    """As CSV or Parquet, by the file's ending."""
    buffer = io.BytesIO()
    if path.suffix == ".csv":
        guarded(frame).write_csv(buffer)
    else:
        frame.write_parquet(buffer)
    replace_file(path, buffer.getvalue())
    return path
