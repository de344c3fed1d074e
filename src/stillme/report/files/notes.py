"""What stands beneath a table on paper: its notes, and why a value is missing, which the page says on the cell."""

from __future__ import annotations

from stillme.report.tables import Table

MOST_REASONS = 6


def notes(table: Table) -> tuple[str, ...]:
    """The table's notes, and one line that explains its dashes."""
    return (*table.notes, *_reasons(table))


def _reasons(table: Table) -> tuple[str, ...]:
    cells = [cell for cells in (*table.rows, *table.foot) for cell in cells if cell.why]
    told = list(dict.fromkeys(cell.why for cell in cells))
    if not told:
        return ()
    more = f"; and {len(told) - MOST_REASONS} more reasons" if len(told) > MOST_REASONS else ""
    return (f"{cells[0].text}: {'; '.join(told[:MOST_REASONS])}{more}.",)
