"""The export: the chosen portraits as a folder that stands alone, and that `stillme run` takes as a source.

portraits.parquet, portraits.csv   one row a portrait       images/        the pictures, by SHA-256
actions.csv                        how they were chosen     LICENCE.txt    whose they are, and on which terms
README.md, croissant.json          what it all is           SHA256SUMS     of every other file

The same selection gives the same bytes: nothing in here knows when it was exported.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import polars.selectors as cs

from stillme.core import images
from stillme.core.atomic import new_folder
from stillme.core.errors import InputError, disk
from stillme.core.records import Status, canonical
from stillme.engine.progress import Progress
from stillme.sources.heads import key_in
from stillme.sources.portraits import CSV, PARQUET, guard
from stillme.sources.selection import cards
from stillme.sources.selection.action_log import Action
from stillme.sources.selection.config import Plan, Upscaling
from stillme.sources.selection.manifest import (
    IMAGES,
    Manifest,
    Picture,
    Review,
    SelectedPortrait,
    gather,
    select_chosen,
    undecided_cells,
)
from stillme.sources.selection.store import Store

SUMS = "SHA256SUMS"
MAX_LISTED = 5  # undecided cells that a refusal names


def export_portraits(
    plan: Plan,
    store: Store,
    to: Path,
    partial: bool = False,
    passing: pl.DataFrame | None = None,
    progress: Progress | None = None,
) -> Path:
    """Write the folder whole or not at all. `passing`: how often each group passes, from `stats.passing`."""
    if not (to.is_dir() and not any(to.iterdir())) and (to.exists() or to.is_symlink()):
        raise InputError(f"{to} exists already.", "Give a folder that does not exist yet, or move it away.")
    review = Review.of(store)
    chosen = select_chosen(plan, store, review)
    if not chosen:
        raise InputError("No portrait was chosen yet.", "Choose some with `stillme sources select` first.")
    open_cells = undecided_cells(plan, store, review.state)
    if open_cells and not partial:
        labels = "; ".join(cell.label for cell in open_cells[:MAX_LISTED])
        more = f"; and {len(open_cells) - MAX_LISTED} more" if len(open_cells) > MAX_LISTED else ""
        raise InputError(
            f"{len(open_cells)} of {len(plan.grid.cells)} cells are undecided: {labels}{more}.",
            "Decide them with `stillme sources select`; where too few were drawn, export without them with"
            " --partial.",
        )
    with disk(to), new_folder(to) as folder:
        (folder / IMAGES).mkdir()
        pictures = _write_pictures(plan, store, chosen, folder, progress or Progress())
        manifest = gather(plan, store, review, pictures)
        for name, content in _files(manifest, passing):
            (folder / name).write_bytes(content)
        (folder / cards.CROISSANT).write_bytes(cards.croissant(manifest, _checksums(folder)).encode())
        sums = "".join(f"{sha256}  {name}\n" for name, sha256 in _checksums(folder).items())
        (folder / SUMS).write_bytes(sums.encode())
    return to


def _checksums(folder: Path) -> dict[str, str]:
    """Every file so far -> its SHA-256."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


# The pictures


def _write_pictures(
    plan: Plan, store: Store, chosen: Sequence[SelectedPortrait], folder: Path, progress: Progress
) -> list[tuple[SelectedPortrait, Picture]]:
    with progress.stage("Portraits", len(chosen)) as stage, ThreadPoolExecutor(os.cpu_count()) as pool:

        def write_picture(item: SelectedPortrait) -> Picture:
            portrait = item.candidate.portrait
            try:
                picture, content = enlarge(store.image(portrait.image), plan.selection.upscaling)
            except images.BadImageError as error:
                raise InputError(
                    f"The portrait {portrait.source_id} of {portrait.source}, chosen for {item.candidate.cell},"
                    f" {error}.",
                    "Choose another candidate, or give `upscaling` a smaller side, then export again.",
                ) from None
            (folder / picture.path).write_bytes(content)
            stage.count(Status.OK)
            return picture

        # Encoding takes long, and lets go of Python's lock meanwhile.
        return list(zip(chosen, pool.map(write_picture, chosen), strict=True))


def enlarge(content: bytes, upscaling: Upscaling) -> tuple[Picture, bytes]:
    """The picture with its shorter side at least as long as declared; as it is where it is so already."""
    facts, is_rendered = images.inspect(content), key_in(images.comment(content)) is not None
    if upscaling.method != "none" and min(facts.width, facts.height) < upscaling.to:
        content = images.upscale(content, upscaling.to, upscaling.method)
        facts = images.inspect(content)
    picture = Picture(
        sha256=hashlib.sha256(content).hexdigest(),
        extension=facts.extension,
        width=facts.width,
        height=facts.height,
        is_rendered=is_rendered,
    )
    return picture, content


# The other files


def _files(manifest: Manifest, passing: pl.DataFrame | None) -> Iterator[tuple[str, bytes]]:
    frame = manifest.frame()
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    yield PARQUET, buffer.getvalue()
    yield CSV, _csv(frame)
    yield "actions.csv", _csv(_actions_frame(manifest.actions))
    yield cards.LICENCE, cards.licence(manifest).encode()
    yield cards.README, cards.readme(manifest, passing).encode()


def _csv(frame: pl.DataFrame) -> bytes:
    """Text is guarded, so that no spreadsheet takes it for a formula."""
    guarded = frame.with_columns(cs.string().map_elements(guard, return_dtype=pl.String, skip_nulls=True))
    return guarded.write_csv().encode()


def _actions_frame(actions: Sequence[Action]) -> pl.DataFrame:
    columns = [
        "number",
        "at",
        "reviewer",
        "verb",
        "cell",
        "candidate",
        "before",
        "after",
        "criteria",
        "milliseconds",
        "op",
    ]
    numbers: dict[str, type[pl.DataType]] = dict.fromkeys(("number", "milliseconds"), pl.Int64)
    rows = [
        {
            "number": action.number,
            "at": action.at,
            "reviewer": action.reviewer,
            "verb": action.verb.value,
            "cell": action.cell,
            "candidate": action.candidate,
            "before": canonical(action.before),
            "after": canonical(action.after),
            "criteria": canonical(dict(action.criteria)),
            "milliseconds": action.milliseconds,
            "op": action.op,
        }
        for action in actions
    ]
    return pl.DataFrame(rows, schema={name: numbers.get(name, pl.String) for name in columns})
