r"""A table as LaTeX: booktabs rules, the page's texts, lines beneath a number as smaller rows beneath it.

Compiles with pdflatex and `\usepackage[utf8]{inputenc}` and `\usepackage{booktabs}`, nothing else. A table that is
taller than a page goes on in a second one; the letters of a wide one are smaller.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from stillme.report.files.escaping import escaped
from stillme.report.files.notes import notes
from stillme.report.tables import Cell, Column, Table

MOST_LINES = 42  # of a table that still has room for its caption and notes on a page
LONG = 34  # characters beyond which a column of words is broken into lines
LINE = 92  # characters of a line across the page, in small letters
SIZES = ((LINE, r"\small"), (LINE * 1.15, r"\footnotesize"), (LINE * 1.4, r"\scriptsize"))
SMALLEST = r"\tiny"
GAP = 3  # characters between columns
_HEAD = (
    r"""% {id}: needs \usepackage[utf8]{{inputenc}} and \usepackage{{booktabs}}; refer to it by \ref{{tab:{id}}}"""
)

Cells = Sequence[Cell]


def latex(table: Table) -> str:
    """The whole file: a table, or several where it is taller than a page."""
    parts = list(_parts(table.rows, len(table.foot)))
    made = [_float(table, rows, place, len(parts)) for place, rows in enumerate(parts)]
    return "\n".join([_HEAD.format(id=table.id), *("\n".join(lines) for lines in made)]) + "\n"


def _parts(rows: Sequence[Cells], foot: int) -> Iterator[list[Cells]]:
    """The rows page by page."""
    part: list[Cells] = []
    lines = foot
    for row in rows:
        if part and lines + _height(row) > MOST_LINES:
            yield part
            part, lines = [], 0
        part.append(row)
        lines += _height(row)
    yield part


def _height(row: Cells) -> int:
    return max(len(_lines(cell)) for cell in row) + max(len(cell.text) // LONG for cell in row)


def _float(table: Table, rows: Sequence[Cells], place: int, parts: int) -> Iterator[str]:
    is_last = place == parts - 1
    yield r"\begin{table}[htbp]"
    yield r"\centering"
    yield _size(table)
    yield from _caption(table, place)
    yield r"\setlength{\tabcolsep}{4pt}"
    yield rf"\begin{{tabular}}{{{''.join(_aligned(table, place) for place in range(len(table.columns)))}}}"
    yield r"\toprule"
    yield from _headings(table)
    yield r"\midrule"
    yield from _body(rows)
    if table.foot and is_last:
        yield r"\midrule"
        yield from _body(table.foot)
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
    width = _width(table, place)
    return "l" if width <= LONG else f"p{{{LONG * 0.5:.0f}em}}"


def _width(table: Table, place: int) -> int:
    """The characters of a column's longest line."""
    lines = [line for row in (*table.rows, *table.foot) for line in _lines(row[place])]
    words = _wrapped(table.columns[place])
    return max((len(text) for text in (*lines, *words)), default=0)


def _size(table: Table) -> str:
    """Letters in which the table fits the page."""
    whole = sum(min(_width(table, place), LONG) + GAP for place in range(len(table.columns)))
    return next((size for most, size in SIZES if whole <= most), SMALLEST)


def _headings(table: Table) -> Iterator[str]:
    """Words over each other, the last of them nearest to the numbers."""
    columns = [_wrapped(column) for column in table.columns]
    most = max(len(words) for words in columns)
    padded = [[""] * (most - len(words)) + words for words in columns]
    for line in zip(*padded, strict=True):
        yield _row([escaped(text) for text in line])
    if any(column.note for column in table.columns):
        yield _row([_small(column.note) for column in table.columns])


def _wrapped(column: Column) -> list[str]:
    """A heading in lines that are no wider than its words need."""
    if not column.numeric:
        return [column.label]
    lines: list[str] = []
    for word in column.label.split(" "):
        if lines and len(lines[-1]) + 1 + len(word) <= 12:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


# Rows


def _body(rows: Sequence[Cells]) -> Iterator[str]:
    for number, row in enumerate(rows):
        tall = any(len(_lines(cell)) > 1 for cell in row)
        if tall and number:
            yield r"\addlinespace"
        yield _row([escaped(cell.text) for cell in row])
        for smaller in zip_longest(*(cell.small for cell in row), fillvalue=""):
            yield _row([_small(text) for text in smaller])


def _lines(cell: Cell) -> tuple[str, ...]:
    return (cell.text, *cell.small)


def _small(text: str) -> str:
    return rf"{{\footnotesize {escaped(text)}}}" if text else ""


def _row(cells: Sequence[str]) -> str:
    return f"{' & '.join(cells)} \\\\"
