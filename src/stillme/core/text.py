"""Text for a terminal: columns, and one line without control characters."""

from __future__ import annotations

from collections.abc import Container, Iterable


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]], right: Container[int] = ()) -> str:
    """Lay out rows in columns; those in `right` are aligned to the right, as numbers are."""
    lines = [head, *rows]
    widths = [max(len(row[column]) for row in lines) for column in range(len(head))]
    sides = [str.rjust if column in right else str.ljust for column in range(len(head))]
    return "\n".join(
        "  ".join(side(cell, width) for side, cell, width in zip(sides, row, widths, strict=True)).rstrip()
        for row in lines
    )


def plainly(text: str) -> str:
    """The text on one line, without control characters that could steer a terminal.

    >>> plainly("a\\x1b[2J\\nb")
    'a[2J b'
    """
    kept = (ch for ch in text if ch.isprintable() or ch.isspace())
    return "".join(" " if ch.isspace() and ch != "\N{NO-BREAK SPACE}" else ch for ch in kept)
