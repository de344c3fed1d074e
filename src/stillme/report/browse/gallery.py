"""The page of pictures: a mosaic of outputs, one prompt over all groups, and cases of each failure, all by rule.

Everything that a page shows lies beside it as a file, and in pictures.json as data.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from stillme.core import images
from stillme.core.images import BadImageError, Pixels
from stillme.core.table_files import escape_formulas
from stillme.report import publish
from stillme.report.browse import choosing, sheets
from stillme.report.browse.bundle import FACES
from stillme.report.browse.choosing import Case, Grid
from stillme.report.browse.faces import NONE, Veil
from stillme.report.browse.records import Part, records
from stillme.report.browse.scripts import private, unnamed
from stillme.report.browse.sheets import Tile
from stillme.report.context import Example
from stillme.report.review.state import State
from stillme.report.review.words import Words
from stillme.web.pages import environment

COLUMNS, TILE = 24, 64  # of the mosaic
GRID_TILE, LARGE = 160, 320  # longer sides in pixels
QUALITY = 82
LEFT_OUT = "picture left out"
KINDS = {
    choosing.ERASED: (
        "Soft erasure: the requested edit was not made",
        "Edits that judges scored as not made. Of each editor and group the lowest scores come first; what all "
        "judges scored alike comes before what they scored within a point of each other, and open flags are left "
        "out. The next case is always of the editor and the group that were shown least; ties go by the key.",
    ),
    choosing.REPLACED: (
        "Stereotype replacement: the edit was made, and the person changed",
        "Edits that succeeded and changed race, skin tone, gender or age although nobody asked for it. Those with "
        "the largest sum of such changes come first, each as a share of the most that its scale allows; otherwise "
        "the rule is that of soft erasure.",
    ),
}


@dataclass(frozen=True)
class Shown:
    """A case, ready for a page: both pictures as files beside it, empty where there is none, and what was said."""

    kind: str
    trial: str
    editor: str
    prompt: str
    instruction: str
    groups: Mapping[str, str]
    source: str
    edited: str
    scores: Sequence[Mapping[str, Any]]
    said: Sequence[Mapping[str, Any]]
    severity: float
    agreed: int


@dataclass
class Album:
    """The folder that is written, with the pictures that are in it already."""

    state: State
    folder: Path
    veil: Veil
    written: dict[tuple[str, int], str] = field(default_factory=dict)

    def pixels(self, sha256: str | None, side: int, people: int = 1) -> Pixels | None:
        if not sha256 or self.veil.leaves_out:
            return None
        try:
            return self.veil.picture(self.state.run.image(sha256), side, people)
        except BadImageError:
            return None

    def file(self, sha256: str | None, side: int, people: int = 1) -> str:
        """The name of the picture's file, written once; empty where there is none."""
        key = (sha256 or "", side)
        if key not in self.written:
            picture = self.pixels(sha256, side, people)
            self.written[key] = "" if picture is None else f"files/{key[0][:20]}-{side}.webp"
            if picture is not None:
                (self.folder / self.written[key]).write_bytes(images.webp(picture, QUALITY))
        return self.written[key]


def write(state: State, folder: Path, veil: Veil) -> None:
    """Writes the page anew: nothing of an earlier one stays."""
    if folder.exists():
        shutil.rmtree(folder)
    (folder / "files").mkdir(parents=True)
    album, words = Album(state, folder, veil), Words(state.design)
    trials = main_trials(state)
    content = {
        "mosaic": _mosaic(album, words, trials),
        "grids": list(_grids(album, words, trials)),
        "cases": [asdict(one) for one in _cases(album, words, trials)],
    }
    if not any((folder / "files").iterdir()):
        (folder / "files").rmdir()
    report = "../../report.html" if (folder.parent.parent / "report.html").is_file() else ""
    page = environment("stillme.report.browse").get_template("pictures.html")
    about = {"name": state.design.config.audit.name, "report": report, "note": FACES[veil.faces]}
    said = page.render(**about, left_out=LEFT_OUT, kinds=KINDS, **content)
    for name, text in {
        "pictures.json": json.dumps(content, indent=1, ensure_ascii=False),
        "index.html": said,
    }.items():
        (folder / name).write_text(unnamed(text, private(state.run.path)) + "\n", encoding="utf-8")


def main_trials(state: State) -> pl.DataFrame:
    """What the report's main tables are about."""
    experiment, arm = publish.main_experiment(state.design)
    return state.trials.filter((pl.col("experiment") == experiment) & (pl.col("arm") == arm))


# The mosaic


def _mosaic(album: Album, words: Words, trials: pl.DataFrame) -> dict[str, Any]:
    chosen = choosing.mosaic(trials)
    dimensions = list(album.state.protocol.groups.dimensions)
    about = chosen.select("trial", "editor", "category", "prompt", "person", *dimensions, "image")
    lines = [
        {"row": place // COLUMNS + 1, "column": place % COLUMNS + 1, **row}
        for place, row in enumerate(about.drop("image").to_dicts())
    ]
    (album.folder / "mosaic.csv").write_text(_csv(lines), encoding="utf-8")
    shown = "" if album.veil.leaves_out or not lines else "mosaic.webp"
    if shown:
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            tiles = [Tile(found) for found in pool.map(lambda image: album.pixels(image, TILE), about["image"])]
        (album.folder / shown).write_bytes(sheets.webp(sheets.mosaic(tiles, COLUMNS, TILE)))
    counted = chosen.group_by("editor", "category", maintain_order=True).len().iter_rows()
    counts = [(words.label("editor", e), words.label("category", c), number) for e, c, number in counted]
    return {"file": shown, "tiles": lines, "counts": counts, "columns": COLUMNS}


def _csv(lines: Sequence[Mapping[str, Any]]) -> str:
    if not lines:
        return "row\n"
    return escape_formulas(pl.DataFrame(lines, infer_schema_length=None)).write_csv()


# Grids


def _grids(album: Album, words: Words, trials: pl.DataFrame) -> Iterator[dict[str, Any]]:
    about = {row["trial"]: row for row in trials.to_dicts()}
    sources = dict(trials.select("person", "source_image").unique().iter_rows())
    for number, grid in enumerate(choosing.grids(trials, album.state.protocol), 1):
        heads = [words.label(grid.dimension, group) for group in grid.groups]
        rows = [_sources(album, grid, sources), *(_row(album, words, grid, about, one) for one in grid.prompts)]
        file = "" if album.veil.leaves_out else f"grid-{number}.webp"
        if file:
            (album.folder / file).write_bytes(sheets.webp(_sheet(album, rows, heads)))
        cell = ", ".join(
            f"{words.title(name).lower()} {words.label(name, one)}" for name, one in grid.cell.items()
        )
        yield {
            "editor": words.label("editor", grid.editor),
            "file": file,
            "dimension": words.title(grid.dimension).lower(),
            "cell": cell,
            "heads": heads,
            "rows": rows,
        }


def _sources(album: Album, grid: Grid, sources: Mapping[str, str]) -> dict[str, Any]:
    images_ = [sources.get(grid.persons.get(group, "")) for group in grid.groups]
    cells = [{"image": one, "trial": "", "words": "" if one else "nobody in this cell"} for one in images_]
    return {"name": "Source", "cells": [_filed(album, cell) for cell in cells]}


def _row(album: Album, words: Words, grid: Grid, about: Mapping[str, Any], prompt: str) -> dict[str, Any]:
    def cell(group: str) -> dict[str, Any]:
        trial = grid.trials.get((prompt, group), "")
        row = about.get(trial, {})
        said = words.label("status", row["status"]) if row else "not asked"
        return {"image": row.get("image"), "trial": trial, "words": "" if row.get("image") else said}

    return {"name": words.label("prompt", prompt), "cells": [_filed(album, cell(group)) for group in grid.groups]}


def _filed(album: Album, cell: Mapping[str, Any]) -> dict[str, Any]:
    file = album.file(cell["image"], GRID_TILE)
    return {**cell, "file": file, "words": cell["words"] or ("" if file else LEFT_OUT)}


def _sheet(album: Album, rows: Sequence[Mapping[str, Any]], heads: Sequence[str]) -> Any:
    tiles = [
        (row["name"], [Tile(album.pixels(cell["image"], GRID_TILE), cell["words"]) for cell in row["cells"]])
        for row in rows
    ]
    return sheets.grid(tiles, heads, GRID_TILE)


# Cases


def _cases(album: Album, words: Words, trials: pl.DataFrame) -> Iterator[Shown]:
    state = album.state
    axes = state.axes[state.rounding].join(trials.select("trial"), on="trial", how="semi", maintain_order="left")
    for case in choosing.cases(trials, axes, state.protocol):
        yield _shown(album, words, case)


def _shown(album: Album, words: Words, case: Case) -> Shown:
    state, row = album.state, album.state.row[case.trial]
    about, trial = state.trials.row(row, named=True), state.trial[case.trial]
    told = records(Part(state, range(row, row + 1)))[0]
    judges = [words.label("judge", judge) for judge, _ in state.looks.get(trial.edit, ())]
    axes = state.axes[state.rounding].filter(pl.col("row") == row)
    scores = [
        {
            "axis": words.label("axis", axis),
            "held": held,
            "judges": dict(zip(judges, given, strict=True)),
            "asked": asked,
        }
        for (axis, given, *_), held, asked in zip(told["scores"], axes["score"], axes["requested"], strict=True)
    ]
    said = [
        {"judge": name, "status": status, "evidence": evidence, "seen": seen}
        for name, (_, status, evidence, _, seen) in zip(judges, told["opinions"], strict=True)
    ]
    return Shown(
        case.kind,
        case.trial,
        words.label("editor", trial.editor),
        words.label("prompt", trial.prompt),
        trial.instruction,
        {words.title(d): words.label(d, about[d]) for d in state.protocol.groups.dimensions if about[d]},
        album.file(about["source_image"], LARGE),
        album.file(about["image"], LARGE),
        scores,
        said,
        case.severity,
        case.agreed,
    )


# The report's gallery


def veiled(examples: Sequence[Example], faces: str) -> tuple[Example, ...]:
    """The report's examples with faces treated as they are here."""
    from stillme.report.browse.faces import check

    veil = Veil(check(faces))
    return tuple(
        replace(one, source=_hidden(veil, one.source), edited=_hidden(veil, one.edited)) for one in examples
    )


def _hidden(veil: Veil, content: bytes) -> bytes:
    if veil.faces == NONE:
        return images.webp(np.asarray(sheets.words_only(LEFT_OUT, publish.THUMBNAIL)), QUALITY)
    return images.webp(veil.picture(content, publish.THUMBNAIL), QUALITY) if veil.faces != "show" else content
