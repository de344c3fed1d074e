"""Text in columns, for a terminal. Knows nothing of what it shows."""

from __future__ import annotations

from collections.abc import Container, Iterable


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]], right: Container[int] = ()) -> str:
    """Columns beside each other; those in `right` end together, as numbers do."""
    every = [head, *rows]
    widths = [max(len(row[column]) for row in every) for column in range(len(head))]
    sides = [str.rjust if column in right else str.ljust for column in range(len(head))]
    return "\n".join(
        "  ".join(side(cell, width) for side, cell, width in zip(sides, row, widths, strict=True)).rstrip()
        for row in every
    )


def plainly(text: str) -> str:
    """On one line, without what could steer a terminal.

    >>> plainly("a\\x1b[2J\\nb")
    'a[2J b'
    """
    return "".join(" " if ch.isspace() and ch != "\N{NO-BREAK SPACE}" else ch for ch in text if _is_shown(ch))


def _is_shown(ch: str) -> bool:
    return ch.isprintable() or ch.isspace()
