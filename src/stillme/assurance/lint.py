"""`stillme lint`: reads tables of results from files, checks them, and returns what was found.

CSV is read as it is written, because the digits of a number say how far it was rounded; parquet holds numbers that
were not. All tables given together are also checked against each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl

from stillme.core.errors import InputError, disk
from stillme.core.table_files import DamagedError, read_parquet
from stillme.protocol import builtin
from stillme.stats import printed
from stillme.stats.lint import Linted
from stillme.stats.printed import Table
from stillme.stats.together import lint_together

KINDS = (".csv", ".parquet")


def lint(paths: Sequence[Path], n: int | None = None, totals: Path | None = None) -> list[Linted]:
    """Every table in the files and folders, by itself and against the others. `totals` is read too."""
    files = [file for path in paths for file in _files(path)]
    if totals is not None:
        files.append(totals)
    distinct = list({file.resolve(): file for file in files}.values())
    names = [file.name for file in distinct]  # with their folder where two are called the same
    names = [name if names.count(name) == 1 else str(file) for file, name in zip(distinct, names, strict=True)]
    tables = [_read(file, name) for file, name in zip(distinct, names, strict=True)]
    only = None if totals is None else names[[file.resolve() for file in distinct].index(totals.resolve())]
    splits = [*builtin().groups.dimensions, "prompt", "category", "subcategory"]
    return lint_together(tables, n, only, splits)


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in KINDS)
        if not files:
            raise InputError(f"There is no table in {path}.", "Give a folder with .csv or .parquet files.")
        return files
    if not path.is_file():
        raise InputError(f"There is no file {path}.", "Give a .csv or .parquet file, or a folder of them.")
    if path.suffix not in KINDS:
        raise InputError(f"{path} is neither CSV nor parquet.", "Give a .csv or .parquet file.")
    return [path]


def _read(file: Path, name: str) -> Table:
    if not file.is_file():
        raise InputError(f"There is no file {file}.", "Give a .csv or .parquet file.")
    with disk(file):
        try:
            if file.suffix == ".parquet":
                return printed.typed(name, read_parquet(file.read_bytes()))
            return printed.read(name, pl.read_csv(file, infer_schema=False))
        except (pl.exceptions.PolarsError, DamagedError, UnicodeDecodeError) as error:
            reason = (str(error).splitlines() or ["it is damaged"])[0].rstrip(".")
            raise InputError(f"{file} cannot be read as a table: {reason}.", "Check the file.") from None


def failed(linted: Sequence[Linted]) -> bool:
    """Whether an error was found; warnings alone are none."""
    return any(one.errors for one in linted)


def to_dict(linted: Sequence[Linted]) -> dict[str, Any]:
    tables = [
        {"table": one.table, "passes": not one.findings, "ran": [asdict(ran) for ran in one.ran]} for one in linted
    ]
    return {"errors": sum(len(one.errors) for one in linted), "tables": tables}
