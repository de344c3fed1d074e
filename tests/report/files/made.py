"""Tables for the tests of files: one with every character that could go wrong, one that is tall, one that is wide."""

from __future__ import annotations

import polars as pl

from stillme.report.tables import Cell, Column, Table, absent, table

NASTY = "50 % & $5 #1 a_b {x} ~y ^z \\n <p> >q “quoted” ‘so’ − – — ≥ ≤ ± × ÷ Δ κ ² | * [0, 1] -- '' ` … é ş 中"


def nasty() -> Table:
    columns = (
        Column("Name & co.", lambda row: Cell(row["name"]), numeric=False, note="a_b"),
        Column(
            "Rate of something long", lambda row: Cell("41.2\N{NO-BREAK SPACE}%", 0.4, ("[−1.0, 2.5]", "12/34"))
        ),
        Column("p", lambda row: absent("no judged edit")),
    )
    frame = pl.DataFrame({"name": [NASTY, "plain"], "rate": [0.123456789012, 1 / 3]})
    foot = ((Cell("All"), Cell("40.0 %"), Cell("–")),)
    notes = ("100 % of {them} & more_of it.",)
    return table("nasty-table", f"A caption: {NASTY}", frame.to_dicts(), columns, frame, foot, notes)


def tall(rows: int = 150) -> Table:
    frame = pl.DataFrame({"n": list(range(rows))})
    columns = (
        Column("Row", lambda row: Cell(f"row {row['n']}"), numeric=False),
        Column("n", lambda row: Cell(str(row["n"]), row["n"], ("beneath",))),
    )
    foot = ((Cell("In all"), Cell(str(rows))),)
    return table("tall", "Tall", frame.to_dicts(), columns, frame, foot)


def wide(columns: int = 30) -> Table:
    made = tuple(Column(f"Column {n}", lambda row: Cell("123,456.7")) for n in range(columns))
    return table("wide", "Wide", [{}], made, pl.DataFrame({"n": [1]}))
