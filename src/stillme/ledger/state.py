"""Which state of a run something shows, so that it is made anew only when the run has moved on."""

from __future__ import annotations

from pathlib import Path

from stillme import __version__
from stillme.core.records import digest
from stillme.ledger.run import Run

_COUNTS = "SELECT (SELECT max(id) FROM audit), " + ", ".join(  # noqa: S608 (names are ours, values are parameters)
    f"(SELECT count(*) FROM {table})"  # noqa: S608 (names are ours, values are parameters)
    for table in (
        *("trial", "edit", "verdict", "measurement", "feature", "adjudication"),
        *("rating", "rating_check", "rating_exclusion"),
    )
)


def state_of(run: Run) -> str:
    """A name for the run's state; rows are only appended, so counts name it."""
    return digest("state", counts=list(run.query(_COUNTS)[0]), stillme=__version__)


def mark_of(run: Run) -> str:
    """A comment that names the run's state."""
    return f"<!-- stillme-state {state_of(run)} -->"


def shows(path: Path, run: Run) -> bool:
    """True where the file ends with the mark of the run as it is now."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 200))
        return mark_of(run).encode() in file.read()
