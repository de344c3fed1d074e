"""A comparison on disk: a page that people read, and every table as CSV and Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import stillme
from stillme.analysis.tables.tables import MOST_ROWS, Tabled, markdown
from stillme.analysis.tables.writing import ENDINGS, FILES, clear
from stillme.assurance.compare.compared import Compared
from stillme.assurance.compare.saying import plain, sentences
from stillme.assurance.compare.tables import tables
from stillme.core.atomic import replace_file
from stillme.core.errors import disk
from stillme.core.table_files import write_frame

PAGE, ABOUT = "compare.md", "compare.json"


def write(compared: Compared, folder: Path) -> Path:
    """The folder with everything in it; the page's path."""
    listed = tables(compared)
    with disk(folder):
        (folder / FILES).mkdir(parents=True, exist_ok=True)
        clear(folder, ABOUT)
        for table in listed:
            for ending in ENDINGS:
                write_frame(table.frame, folder / FILES / f"{table.id}.{ending}")
        about = {"stillme": stillme.__version__, **plain(compared)}
        about["tables"] = {table.id: table.title for table in listed}
        replace_file(folder / ABOUT, (json.dumps(about, indent=2, ensure_ascii=False) + "\n").encode())
        replace_file(folder / PAGE, "\n".join(page(compared, listed)).encode())
    return folder / PAGE


def page(compared: Compared, listed: list[Tabled]) -> Iterator[str]:
    """Everything in one Markdown page."""
    yield f"# {compared.b.editor} (B) against {compared.a.editor} (A)"
    yield ""
    yield from (f"- {sentence}" for sentence in sentences(compared))
    part = ""
    for table in listed:
        if table.part != part:
            part = table.part
            yield from ("", f"## {part}")
        yield from _shown(table)
    yield ""


def _shown(table: Tabled) -> Iterator[str]:
    file = f"{FILES}/{table.id}"
    yield from ("", f"### {table.title}", "")
    if table.shown and table.frame.height:
        yield from markdown(table)
        yield ""
    more = f"The first {MOST_ROWS} of {table.frame.height:,} rows; all" if table.shown and table.cut else "Numbers"
    yield f"{more} in [{table.id}.csv]({file}.csv) and [{table.id}.parquet]({file}.parquet)."
