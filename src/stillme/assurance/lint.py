"""`stillme lint`: reads tables of results from files, checks them, and says what was found.

CSV is read as it is written, because the digits of a number say how far it was rounded; parquet holds numbers that
were not. All tables given together are also checked against each other.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl

from stillme.core.errors import InputError, disk
from stillme.core.table_files import DamagedError, read_parquet
from stillme.protocol import Protocol, builtin
from stillme.stats import printed
from stillme.stats.lint import Finding, Linted, Ran, Severity
from stillme.stats.printed import Table
from stillme.stats.together import lint_together

KINDS = (".csv", ".parquet")
WIDTH = 100


def lint(paths: Sequence[Path], n: int | None = None, totals: Path | None = None) -> list[Linted]:
    """Every table in the files and folders, by itself and against the others. `totals` is read too."""
    files = [file for path in paths for file in _files(path)]
    if totals is not None:
        files.append(totals)
    distinct = list({file.resolve(): file for file in files}.values())
    names = _names(distinct)
    tables = [_read(file, name) for file, name in zip(distinct, names, strict=True)]
    only = None if totals is None else names[[file.resolve() for file in distinct].index(totals.resolve())]
    return lint_together(tables, n, only, _splits(builtin()))


def _splits(protocol: Protocol) -> list[str]:
    return [*protocol.groups.dimensions, "prompt", "category", "subcategory"]


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        found = sorted(file for file in path.iterdir() if file.suffix in KINDS)
        if not found:
            raise InputError(f"There is no table in {path}.", "Give a folder with .csv or .parquet files.")
        return found
    if not path.is_file():
        raise InputError(f"There is no file {path}.", "Give a .csv or .parquet file, or a folder of them.")
    if path.suffix not in KINDS:
        raise InputError(f"{path} is neither CSV nor parquet.", "Give a .csv or .parquet file.")
    return [path]


def _names(files: Sequence[Path]) -> list[str]:
    """File names, with their folder where two are called the same."""
    names = [file.name for file in files]
    return [name if names.count(name) == 1 else str(file) for file, name in zip(files, names, strict=True)]


def _read(file: Path, name: str) -> Table:
    if not file.is_file():
        raise InputError(f"There is no file {file}.", "Give a .csv or .parquet file.")
    with disk(file):
        try:
            if file.suffix == ".parquet":
                return printed.typed(name, read_parquet(file.read_bytes()))
            return printed.read(name, pl.read_csv(file, infer_schema=False))
        except (pl.exceptions.PolarsError, DamagedError, UnicodeDecodeError) as error:
            raise InputError(f"{file} cannot be read as a table: {_first(error)}.", "Check the file.") from None


def _first(error: Exception) -> str:
    return (str(error).splitlines() or ["it is damaged"])[0].rstrip(".")


def failed(linted: Sequence[Linted]) -> bool:
    """Whether an error was found; warnings alone are none."""
    return any(one.errors for one in linted)


def plain(linted: Sequence[Linted]) -> dict[str, Any]:
    """For scripts."""
    tables = [
        {"table": one.table, "passes": not one.findings, "ran": [_plain_rule(ran) for ran in one.ran]}
        for one in linted
    ]
    return {"errors": sum(len(one.errors) for one in linted), "tables": tables}


def _plain_rule(ran: Ran) -> dict[str, Any]:
    return {**asdict(ran), "findings": [asdict(finding) for finding in ran.findings]}


def words(linted: Sequence[Linted]) -> str:
    """Table by table: what was checked, what was found, what fits."""
    lines = [line for one in linted for line in (*_table(one), "")]
    return "\n".join([*lines, _overall(linted)])


def _table(linted: Linted) -> Iterator[str]:
    yield f"{linted.table}: {_verdict(linted)}"
    checked = ", ".join(f"{ran.rule} ({ran.checked:,})" for ran in linted.ran if ran.checked)
    yield from _wrapped(f"checked: {checked or 'nothing that these columns allow'}")
    for finding in sorted(linted.findings, key=lambda one: one.severity is Severity.WARNING):
        yield from _wrapped(_finding(finding))
    for ran in linted.ran:
        if ran.said:
            yield from _wrapped(f"fits: {ran.said}." if ran.checked else f"not checked: {ran.said}.")


def _finding(finding: Finding) -> str:
    return f"{finding.severity.value.upper()}, {finding.rule}: {finding.said}"


def _wrapped(sentence: str) -> list[str]:
    return textwrap.wrap(sentence, WIDTH, initial_indent="  ", subsequent_indent="      ")


def _verdict(linted: Linted) -> str:
    errors, warnings = len(linted.errors), len(linted.findings) - len(linted.errors)
    if not errors:
        return "passes" if not warnings else f"passes, with {_count(warnings, 'warning')}"
    return f"{_count(errors, 'error')}" + (f", {_count(warnings, 'warning')}" if warnings else "")


def _overall(linted: Sequence[Linted]) -> str:
    bad = [one for one in linted if one.errors]
    if not bad:
        return f"{_count(len(linted), 'table')}: no errors."
    return f"{_count(len(linted), 'table')}: {len(bad)} cannot be right as printed."


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" + ("" if number == 1 else "s")
