"""A table as Markdown, as GitHub, pandoc and notebooks read it. Lines beneath a number stay beneath it."""

from __future__ import annotations

from collections.abc import Iterator

from stillme.report.files.notes import notes
from stillme.report.tables import Cell, Column, Table

BREAK = "<br>"
# What Markdown would read as markup; a backslash before it keeps it as it is
_MARKUP = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_[]|~$#"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"})


def markdown(table: Table) -> str:
    return "\n".join(_lines(table)) + "\n"


def _lines(table: Table) -> Iterator[str]:
    yield f"**{escaped(table.caption)}**"
    yield ""
    yield _row([_heading(column) for column in table.columns])
    yield _row(["---:" if column.numeric else "---" for column in table.columns])
    yield from (_row([_cell(cell) for cell in cells]) for cells in (*table.rows, *table.foot))
    for note in notes(table):
        yield ""
        yield escaped(note)


def escaped(text: str) -> str:
    """
    >>> escaped("p < 0.05 | a_b")
    'p &lt; 0.05 \\\\| a\\\\_b'
    """
    return " ".join(text.split("\n")).translate(_MARKUP)


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _heading(column: Column) -> str:
    return BREAK.join(escaped(text) for text in (column.label, column.note) if text)


def _cell(cell: Cell) -> str:
    return BREAK.join(escaped(text) for text in (cell.text, *cell.small))
