"""What was observed, as the ledger has it: every verdict with its scores, whether or not the newest configuration
asks for it, whom judges saw, and what raters answered. The exported tables have only what the design asks for."""

from __future__ import annotations

from typing import Any

import polars as pl

from stillme.ledger import Run

_TYPES: dict[str, Any] = {"TEXT": pl.String, "INTEGER": pl.Int64, "REAL": pl.Float64}
TABLES = ("edit", "verdict", "score", "depicted", "label", "rating", "rating_check", "rating_exclusion")


def frames(run: Run) -> dict[str, pl.DataFrame]:
    """Table of the ledger -> its rows in the order in which they were written; empty ones are left out."""
    every = {table: _frame(run, table) for table in TABLES}
    return {table: frame for table, frame in every.items() if frame.height}


def _frame(run: Run, table: str) -> pl.DataFrame:
    columns = {name: _TYPES[kind] for _, name, kind, *_ in run.query(f"PRAGMA table_info({table})")}
    named = ", ".join('"{}"'.format(name.replace('"', '""')) for name in columns)  # it may be a stranger's ledger
    return pl.DataFrame(run.query(f"SELECT {named} FROM {table} ORDER BY rowid"), schema=columns, orient="row")  # noqa: S608 (names are ours, values are parameters)
