"""Tables as files: reads them as text and numbers, knows nothing of what they mean."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from stillme.core.errors import InputError, disk
from stillme.core.table_files import DamagedError, read_parquet

FORMATS = (".parquet", ".csv", ".tsv")


@dataclass(frozen=True)
class Given:
    """A table and where it comes from. `first`: the number that people see beside its first row."""

    name: str
    frame: pl.DataFrame
    first: int = 1
    sha256: str = ""


def read(path: Path) -> Given:
    """One table. Columns of text files stay text: what a word means is for the reader of the table to say."""
    wanted = "Give a table of scores, a folder of exported tables, or a run."
    if not path.exists():
        raise InputError(f"{path} does not exist.", wanted)
    if path.suffix not in FORMATS or not path.is_file():
        raise InputError(f"{path} is no table: one is a file that ends in {', '.join(FORMATS)}.", wanted)
    with disk(path):
        content = path.read_bytes()
    frame = _parsed(path, content)
    if not frame.width:
        raise InputError(f"{path}: the table is empty.", "It needs a first line that names its columns.")
    return Given(str(path), frame, 1 if path.suffix == ".parquet" else 2, hashlib.sha256(content).hexdigest())


def _parsed(path: Path, content: bytes) -> pl.DataFrame:
    try:
        if path.suffix == ".parquet":
            return read_parquet(content)
        separator = "\t" if path.suffix == ".tsv" else ","
        return pl.read_csv(content, separator=separator, infer_schema=False)
    except pl.exceptions.NoDataError:
        return pl.DataFrame()
    except (pl.exceptions.PolarsError, DamagedError, OSError, UnicodeDecodeError) as error:
        said = str(error).strip().split("\n")[0]
        raise InputError(f"{path} cannot be read as a table: {said}.") from error


def typed(given: Given, types: Mapping[str, pl.DataType | type[pl.DataType]]) -> pl.DataFrame:
    """A table that stillme exported, with the types that its columns had; text files forget them."""
    lacking = [name for name in types if name not in given.frame.columns]
    if lacking:
        raise InputError(f"{given.name} lacks the columns {', '.join(lacking)}.", "Export the run's tables again.")
    try:
        return given.frame.with_columns(
            _typed(name, kind, given.frame.schema[name]) for name, kind in types.items()
        )
    except pl.exceptions.PolarsError as error:
        said = str(error).strip().split("\n")[0]
        raise InputError(f"{given.name} is not as it was exported: {said}.") from error


def _typed(name: str, kind: pl.DataType | type[pl.DataType], found: pl.DataType) -> pl.Expr:
    if kind == pl.Boolean and found == pl.String:
        return pl.col(name).replace_strict({"true": True, "false": False}, return_dtype=pl.Boolean)
    return pl.col(name).cast(kind)


def found(folder: Path, name: str) -> Path | None:
    """The file of a table in a folder, in whatever format."""
    files = (folder / f"{name}{ending}" for ending in FORMATS)
    return next((path for path in files if path.is_file()), None)
