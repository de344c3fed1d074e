r"""A table as LaTeX: booktabs rules, the page's texts, lines beneath a number as smaller rows beneath it.

Compiles with pdflatex and `\usepackage[utf8]{inputenc}` and `\usepackage{booktabs}`, nothing else. A table that is
taller than a page goes on in a second one; the letters of a wide one are smaller.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from stillme.report.files.escaping import escaped
from stillme.report.files.notes import notes
from stillme.report.tables import Cell, Column, Table

MOST_LINES = 42  # of a table that still has room for its caption and notes on a page
LONG = 34  # characters beyond which a column of words is broken into lines
NARROW = 16  # characters beyond which what stands beneath a number, or above it, is broken into lines
GAP = 2  # characters between columns


class Size(NamedTuple):
    """Letters, those of the lines beneath a number, and how many characters fit across an A4 page."""

    name: str
    small: str
    characters: int


SIZES = (
    Size("small", "footnotesize", 84),
    Size("footnotesize", "scriptsize", 94),
    Size("scriptsize", "tiny", 104),
    Size("tiny", "tiny", 128),
)
_HEAD = (
    r"""% {id}: needs \usepackage[utf8]{{inputenc}} and \usepackage{{booktabs}}; refer to it by \ref{{tab:{id}}}"""
)

_WIDE = "% wider than a page even in the smallest letters: turn it, or leave columns out"

Cells = Sequence[Cell]
Lines = list[list[str]]  # of a row: per column its lines, the first one large


def latex(table: Table) -> str:
    """The whole file: a table, or several where it is taller than a page."""
    size, is_wide = _size(table)
    parts = list(_parts(table))
    made = [_float(table, rows, place, len(parts), size) for place, rows in enumerate(parts)]
    head = [_HEAD.format(id=table.id), *([_WIDE] if is_wide else [])]
    return "\n".join([*head, *("\n".join(lines) for lines in made)]) + "\n"


def _parts(table: Table) -> Iterator[list[Cells]]:
    """The rows page by page."""
    part: list[Cells] = []
    lines = len(table.foot)
    for row in table.rows:
        height = _height(row, table.columns)
        if part and lines + height > MOST_LINES:
            yield part
            part, lines = [], 0
        part.append(row)
        lines += height
    yield part


def _height(row: Cells, columns: Sequence[Column]) -> int:
    broken = max(len(cell.text) // LONG for cell in row)
    return max(len(lines) for lines in _lines(row, columns)) + broken


def _float(table: Table, rows: Sequence[Cells], place: int, parts: int, size: Size) -> Iterator[str]:
    is_last = place == parts - 1
    yield r"\begin{table}[htbp]"
    yield r"\centering"
    yield rf"\{size.name}"
    yield from _caption(table, place)
    yield r"\setlength{\tabcolsep}{3pt}"
    yield rf"\begin{{tabular}}{{{''.join(_aligned(table, place) for place in range(len(table.columns)))}}}"
    yield r"\toprule"
    yield from _headings(table, size)
    yield r"\midrule"
    yield from _body(rows, table.columns, size)
    if table.foot and is_last:
        yield r"\midrule"
        yield from _body(table.foot, table.columns, size)
    yield r"\bottomrule"
    yield r"\end{tabular}"
    yield from _notes(table) if is_last else ()
    yield r"\end{table}"


def _caption(table: Table, place: int) -> Iterator[str]:
    """Parts of one table have one number; what refers to it finds the first."""
    if not place:
        yield rf"\caption{{{escaped(table.caption)}}}"
        yield rf"\label{{tab:{table.id}}}"
    else:
        yield r"\addtocounter{table}{-1}"
        yield rf"\caption{{{escaped(table.caption)} (continued)}}"


def _notes(table: Table) -> Iterator[str]:
    for note in notes(table):
        yield rf"\par\smallskip\parbox{{\linewidth}}{{\footnotesize {escaped(note)}}}"


# Columns


def _aligned(table: Table, place: int) -> str:
    if table.columns[place].numeric:
        return "r"
    return "l" if _width(table, place) <= LONG else f"p{{{LONG * 0.5:.0f}em}}"


def _width(table: Table, place: int) -> int:
    """The characters of a column's longest line."""
    lines = [line for row in (*table.rows, *table.foot) for line in _lines(row, table.columns)[place]]
    return max((len(text) for text in (*lines, *_heading(table.columns[place]))), default=0)


def _size(table: Table) -> tuple[Size, bool]:
    """Letters in which the table fits the page, and whether none do."""
    places = range(len(table.columns))
    whole = sum(_kept(table.columns[place], _width(table, place)) + GAP for place in places)
    fitting = next((size for size in SIZES if whole <= size.characters), None)
    return fitting or SIZES[-1], fitting is None


def _kept(column: Column, width: int) -> int:
    """Words are broken into lines, numbers are not."""
    return width if column.numeric else min(width, LONG)


def _headings(table: Table, size: Size) -> Iterator[str]:
    """Words over each other, the last of them nearest to the numbers."""
    yield from _upwards([[escaped(text) for text in _heading(column)] for column in table.columns])
    small = [[_small(text, size) for text in _broken(column.note, column)] for column in table.columns]
    if any(small):
        yield from _downwards(small)


def _heading(column: Column) -> list[str]:
    return _broken(column.label, column) if column.numeric else [column.label]


def _upwards(columns: Lines) -> Iterator[str]:
    most = max(len(lines) for lines in columns)
    return (_row(list(line)) for line in zip(*([""] * (most - len(one)) + one for one in columns), strict=True))


def _downwards(columns: Lines) -> Iterator[str]:
    return (_row(list(line)) for line in zip_longest(*columns, fillvalue=""))


# Rows


def _body(rows: Sequence[Cells], columns: Sequence[Column], size: Size) -> Iterator[str]:
    for number, row in enumerate(rows):
        lines = _lines(row, columns)
        if number and any(len(one) > 1 for one in lines):
            yield r"\addlinespace"
        yield from _downwards([[_worded(first), *(_small(text, size) for text in more)] for first, *more in lines])


def _lines(row: Cells, columns: Sequence[Column]) -> Lines:
    """Of each cell its text, and what stands beneath it in lines of its own."""
    return [
        [cell.text, *(line for text in cell.small for line in _broken(text, column))]
        for cell, column in zip(row, columns, strict=True)
    ]


def _broken(text: str, column: Column) -> list[str]:
    """At spaces that may be broken; a number and its unit stay together."""
    most, lines = NARROW if column.numeric else LONG, list[str]()
    for word in text.split(" ") if text else ():
        if lines and len(lines[-1]) + 1 + len(word) <= most:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def _worded(text: str) -> str:
    """A word that is longer than a column, such as a hash, may be broken anywhere."""
    return " ".join(_breakable(word) if len(word) > LONG else escaped(word) for word in text.split(" "))


def _breakable(word: str) -> str:
    pieces = [word[start : start + NARROW] for start in range(0, len(word), NARROW)]
    return r"\allowbreak ".join(escaped(piece) for piece in pieces)


def _small(text: str, size: Size) -> str:
    return rf"{{\{size.small} {escaped(text)}}}" if text else ""


def _row(cells: Sequence[str]) -> str:
    return f"{' & '.join(cells)} \\\\"
