"""Tables of the report as files: CSV and Parquet hold the numbers, Markdown and LaTeX the very texts of the page.

Nothing is computed or rounded here: a `report.tables.Table` comes in, and every file is written from it.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path

from stillme.report.blocks import Block, csv
from stillme.report.files.latex import latex
from stillme.report.files.markdown import markdown
from stillme.report.tables import Table

__all__ = ["ENDINGS", "flat", "latex", "markdown", "write"]
ENDINGS = ("csv", "parquet", "md", "tex")


def write(table: Table, folder: Path) -> list[Path]:
    """The table in every format, in a folder that exists."""
    texts = {"csv": csv(table.numbers), "md": markdown(table), "tex": latex(table)}
    paths = [folder / f"{table.id}.{ending}" for ending in ENDINGS]
    for path in paths:
        ending = path.suffix[1:]
        if ending in texts:
            path.write_text(texts[ending], encoding="utf-8", newline="\n")
        else:
            path.write_bytes(_parquet(table))
    return paths


def _parquet(table: Table) -> bytes:
    """In memory first: a full disk is then told by the disk, in its own words."""
    buffer = io.BytesIO()
    table.numbers.write_parquet(buffer)
    return buffer.getvalue()


def flat(blocks: Iterable[Block]) -> Iterable[Block]:
    """The blocks, and whatever stands inside them."""
    for block in blocks:
        yield block
        yield from flat(getattr(block, "blocks", ()))
