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
from stillme.sources.heads.signature import key_in
from stillme.sources.portraits import CSV, PARQUET, guard
from stillme.sources.selection import card, croissant, table
from stillme.sources.selection.choices import Action
from stillme.sources.selection.config import Plan, Upscaling
from stillme.sources.selection.grid import Cell
from stillme.sources.selection.store import Store
from stillme.sources.selection.table import IMAGES, Chosen, Manifest, Picture, Review

SUMS = "SHA256SUMS"
NAMED = 5  # undecided cells that are named


def export(
    plan: Plan,
    store: Store,
    to: Path,
    partial: bool = False,
    passing: pl.DataFrame | None = None,
    progress: Progress | None = None,
) -> Path:
    """Writes the folder whole or not at all. `passing`: how often each group passes, from `stats.passing`."""
    _refuse_taken(to)
    review = Review.of(store)
    chosen = table.choose(plan, store, review)
    _refuse_undecided(table.undecided(plan, store, review.state), chosen, plan, partial)
    with disk(to), new_folder(to) as folder:
        (folder / IMAGES).mkdir()
        pictures = _put_pictures(plan, store, chosen, folder, progress or Progress())
        manifest = table.gather(plan, store, review, pictures)
        for name, content in _files(manifest, passing):
            (folder / name).write_bytes(content)
        (folder / croissant.FILE).write_bytes(croissant.metadata(manifest, _sums(folder)).encode())
        (folder / SUMS).write_bytes("".join(f"{sha}  {name}\n" for name, sha in _sums(folder).items()).encode())
    return to


def _refuse_taken(to: Path) -> None:
    if to.is_dir() and not any(to.iterdir()):
        return
    if to.exists() or to.is_symlink():
        raise InputError(f"{to} exists already.", "Give a folder that does not exist yet, or move it away.")


def _refuse_undecided(cells: Sequence[Cell], chosen: Sequence[Chosen], plan: Plan, partial: bool) -> None:
    if not chosen:
        raise InputError("No portrait was chosen yet.", "Choose some with `stillme sources select` first.")
    if not cells or partial:
        return
    named = "; ".join(cell.label for cell in cells[:NAMED])
    more = f"; and {len(cells) - NAMED} more" if len(cells) > NAMED else ""
    raise InputError(
        f"{len(cells)} of {len(plan.grid.cells)} cells are undecided: {named}{more}.",
        "Decide them with `stillme sources select`; where too few were drawn, export without them with --partial.",
    )


def _sums(folder: Path) -> dict[str, str]:
    """Every file so far -> its SHA-256."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


# The pictures


def _put_pictures(
    plan: Plan, store: Store, chosen: Sequence[Chosen], folder: Path, progress: Progress
) -> list[tuple[Chosen, Picture]]:
    with progress.stage("Portraits", len(chosen)) as stage, ThreadPoolExecutor(os.cpu_count()) as pool:

        def put(one: Chosen) -> Picture:
            picture, content = _enlarged(one, store, plan.selection.upscaling)
            (folder / picture.path).write_bytes(content)
            stage.count(Status.OK)
            return picture

        # Encoding takes long, and lets go of Python's lock meanwhile.
        return list(zip(chosen, pool.map(put, chosen), strict=True))


def _enlarged(one: Chosen, store: Store, upscaling: Upscaling) -> tuple[Picture, bytes]:
    portrait = one.candidate.portrait
    try:
        return enlarge(store.image(portrait.image), upscaling)
    except images.BadImageError as error:
        raise InputError(
            f"The portrait {portrait.source_id} of {portrait.source}, chosen for {one.candidate.cell}, {error}.",
            "Choose another candidate, or give `upscaling` a smaller side, then export again.",
        ) from None


def enlarge(content: bytes, upscaling: Upscaling) -> tuple[Picture, bytes]:
    """The picture with its shorter side at least as long as declared; as it is where it is so already."""
    facts, is_rendered = images.inspect(content), key_in(images.comment(content)) is not None
    if upscaling.method != "none" and min(facts.width, facts.height) < upscaling.to:
        content = images.enlarged(content, upscaling.to, upscaling.method)
        facts = images.inspect(content)
    sha256 = hashlib.sha256(content).hexdigest()
    return Picture(sha256, facts.extension, facts.width, facts.height, is_rendered), content


# The other files


def _files(manifest: Manifest, passing: pl.DataFrame | None) -> Iterator[tuple[str, bytes]]:
    frame = manifest.frame()
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    yield PARQUET, buffer.getvalue()
    yield CSV, _csv(frame)
    yield "actions.csv", _csv(_log(manifest.actions))
    yield card.LICENCE, card.licence(manifest).encode()
    yield card.FILE, card.describe(manifest, passing).encode()


def _csv(frame: pl.DataFrame) -> bytes:
    """Text is guarded, so that no spreadsheet takes it for a formula."""
    guarded = frame.with_columns(cs.string().map_elements(guard, return_dtype=pl.String, skip_nulls=True))
    return guarded.write_csv().encode()


_ACTION: dict[str, type[pl.DataType]] = dict.fromkeys(("number", "milliseconds"), pl.Int64)
_LOG = (
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
)


def _logged(a: Action) -> tuple[str | int | None, ...]:
    states = canonical(a.before), canonical(a.after), canonical(dict(a.criteria))
    return a.number, a.at, a.reviewer, a.verb.value, a.cell, a.candidate, *states, a.milliseconds, a.op


def _log(actions: Sequence[Action]) -> pl.DataFrame:
    return pl.DataFrame(
        [_logged(action) for action in actions],
        schema={name: _ACTION.get(name, pl.String) for name in _LOG},
        orient="row",
    )
