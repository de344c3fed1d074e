"""The analysis on disk: a page that people read, a file a table, and what it all was made from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import stillme
from stillme.analysis.tables.inputs import Inputs
from stillme.analysis.tables.tables import MOST_ROWS, Tabled, markdown
from stillme.core.atomic import replace_file
from stillme.core.errors import InputError, disk
from stillme.core.table_files import write_frame

PAGE = "analysis.md"
ABOUT = "analysis.json"
FILES = "tables"
ENDINGS = ("csv", "parquet")


def write(
    folder: Path, tables: Iterable[Tabled], said: Iterable[str], inputs: Inputs, seed: int, ending: str
) -> Path:
    """The folder with everything in it; the page's path."""
    if ending not in ENDINGS:
        raise InputError(f"'{ending}' is not a format; known: {', '.join(ENDINGS)}.")
    listed = list(tables)
    with disk(folder):
        (folder / FILES).mkdir(parents=True, exist_ok=True)
        clear(folder, ABOUT)
        for table in listed:
            write_frame(table.frame, folder / FILES / f"{table.id}.{ending}")
        about = {
            "stillme": stillme.__version__,
            "protocol": inputs.protocol.name,
            "protocol_hash": inputs.protocol.hash,
            "preset": inputs.preset,
            "seed": seed,
            "inputs": dict(inputs.used),
            "tables": {table.id: table.title for table in listed},
        }
        replace_file(folder / ABOUT, (json.dumps(about, indent=2, ensure_ascii=False) + "\n").encode())
        replace_file(folder / PAGE, "\n".join(page(listed, said, inputs, ending)).encode())
    return folder / PAGE


def clear(folder: Path, about: str) -> None:
    """Takes away the tables that `about` names, and nothing else: what is not computed now must not stay."""
    if not (folder / about).is_file():
        return
    try:
        earlier = list(json.loads((folder / about).read_text(encoding="utf-8"))["tables"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return
    named = [id for id in earlier if isinstance(id, str) and Path(id).name == id]  # nothing outside the folder
    for path in (folder / FILES / f"{id}.{ending}" for id in named for ending in ENDINGS):
        path.unlink(missing_ok=True)


def page(tables: list[Tabled], said: Iterable[str], inputs: Inputs, ending: str) -> Iterator[str]:
    """Everything in one Markdown page."""
    yield f"# Analysis: {inputs.protocol.name}, preset {inputs.preset}"
    yield ""
    yield from (f"- {sentence}" for sentence in said)
    part = ""
    for table in tables:
        if table.part != part:
            part = table.part
            yield from ("", f"## {part}")
        yield from _shown(table, ending)
    yield ""


def _shown(table: Tabled, ending: str) -> Iterator[str]:
    file = f"{FILES}/{table.id}.{ending}"
    yield from ("", f"### {table.title}", "")
    if not table.shown or not table.frame.height:
        yield f"{'No rows' if not table.frame.height else 'Only as a file'}: [{file}]({file})"
    else:
        yield from markdown(table)
        more = f"The first {MOST_ROWS} of {table.frame.height:,} rows; all" if table.cut else "All columns"
        yield from ("", f"{more} in [{file}]({file}).")
    yield from (f"{note}" for note in ("", *table.notes) if table.notes)
