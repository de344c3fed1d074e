"""The whole analysis of a table of scores, whoever made it: read, compute, write, say. `stillme analyse`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stillme.analysis.tables import saying, whole, writing
from stillme.analysis.tables.inputs import Asked, Inputs, gather
from stillme.analysis.tables.tables import Tabled

__all__ = ["Analysed", "Asked", "analyse"]
FOLDER = "analysis"


@dataclass(frozen=True)
class Analysed:
    """What was computed, and where it was written."""

    inputs: Inputs
    tables: tuple[Tabled, ...]
    page: Path

    def words(self) -> str:
        """For a terminal."""
        return saying.words(self.tables, self.inputs, self.page)

    def to_dict(self) -> dict[str, Any]:
        """For scripts: every table, row by row."""
        return {"page": str(self.page), "tables": {table.id: table.frame.to_dicts() for table in self.tables}}


def analyse(
    asked: Asked,
    to: Path | None = None,
    ending: str = "csv",
    seed: int = 0,
    say: Callable[[str], None] | None = None,
) -> Analysed:
    """Reads the tables, computes everything that they allow, and writes it into a folder."""
    inputs = gather(asked)
    tables = whole.tables(inputs, seed, say)
    beside = asked.path if asked.path.is_dir() else asked.path.parent
    said = saying.sentences(tables, inputs)
    page = writing.write(to or beside / FOLDER, tables, said, inputs, seed, ending)
    return Analysed(inputs, tuple(tables), page)
