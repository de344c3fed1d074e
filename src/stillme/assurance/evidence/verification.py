"""`stillme verify`: is a bundle whole, is its ledger sound, and does the ledger give every number that is printed?

Needs no picture, no key and no network. What is in the bundle may come from a stranger: it is read, never run.
"""

from __future__ import annotations

import base64
import io
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from stillme.assurance.evidence import contents
from stillme.assurance.evidence.archive import Files, content, open_bundle, refuse_full_disk, text, unpack
from stillme.assurance.evidence.differences import (
    NOTHING,
    Difference,
    DiffSummary,
    count_numbers,
    count_values,
    csv_differences,
    frame_differences,
    line_differences,
    note_page,
)
from stillme.assurance.evidence.ledger import count_keys, integrity_errors, rows_with_wrong_key
from stillme.assurance.evidence.manifest import FILE, Manifest, check_files, read_manifest
from stillme.assurance.evidence.page import Page, read_page
from stillme.core.errors import InputError, StillmeError
from stillme.core.table_files import DamagedError, read_parquet
from stillme.ledger import Run
from stillme.ledger.run import LEDGER
from stillme.plan.design import Design, load_design
from stillme.report import folder as report_folder
from stillme.report import publish

DIFFERS = 2  # the exit code of a bundle that does not hold
_DERIVED = (contents.TABLES, contents.ROWS, contents.SETTINGS, "report/tables", "report/cards", "report/figures")
_ALONE = (LEDGER, contents.REPORT, contents.README, contents.VERSIONS, "report/about.json")
_PICTURES = (contents.OBJECTS, "report/browse")  # of which hashes alone are checked
_DRAWINGS = (".svg", ".pdf", ".png")
_ONE_PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg=="
)
Say = Callable[[str], None]
Versions = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class VerificationResult:
    """What was found. `faults`: of files and of the ledger, in sentences; `notes`: what a reader should know."""

    path: Path
    manifest: Manifest
    faults: tuple[str, ...]
    keys: int = 0
    compared: DiffSummary = field(default_factory=DiffSummary)
    notes: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        return not self.faults and not self.compared.differences

    @property
    def numbers(self) -> int:
        return sum(self.compared.counts.values())

    def to_dict(self) -> dict[str, Any]:
        return {
            "bundle": self.path,
            "holds": self.holds,
            "sha256": self.manifest.sha256,
            "files": len(self.manifest.files),
            "keys": self.keys,
            "numbers": self.compared.counts,
            "faults": self.faults,
            "differences": self.compared.differences,
            "notes": self.notes,
        }


def verify(path: Path, say: Say = lambda _: None) -> VerificationResult:
    """Check a bundle, packed or unpacked. Refuses only what is no bundle at all."""
    with open_bundle(path) as files:
        manifest = read_manifest(files)
        say("Verify: files")
        faults = [str(problem) for problem in check_files(manifest, files)]
        faults += _unexpected_files(manifest)
        if LEDGER not in files.sizes():
            faults = faults or [f"{LEDGER} is missing."]
            return VerificationResult(path=path, manifest=manifest, faults=tuple(faults))
        with tempfile.TemporaryDirectory(prefix="stillme-verify-") as folder:
            return _verify_ledger(path, files, manifest, faults, Path(folder), say)


def _verify_ledger(
    path: Path, files: Files, manifest: Manifest, faults: list[str], folder: Path, say: Say
) -> VerificationResult:
    """Check the ledger, then everything that is derived from it, in a folder of its own."""
    say("Verify: the ledger")
    size = files.sizes()[LEDGER]
    refuse_full_disk(folder, size)
    unpack(files, LEDGER, folder / LEDGER, size)
    if broken := list(integrity_errors(folder / LEDGER)):
        return VerificationResult(path=path, manifest=manifest, faults=(*faults, *broken))
    versions = _read_versions(files)
    compared, notes, keys = DiffSummary(), tuple(_version_changes(versions)), 0
    try:
        with Run.open_readonly(folder) as run:
            run.objects = PlaceholderImages()  # type: ignore[assignment]
            design = load_design(run)
            wrong_rows = list(rows_with_wrong_key(run, design))
            faults += [*wrong_rows, *_mismatches(run, design, manifest)]
            keys = 0 if wrong_rows else count_keys(run)
            say("Verify: making every number anew")
            _derive(run, design, manifest, versions, folder, say)
        _compare(files, manifest, folder, not notes, compared)
    except StillmeError as error:
        faults.append(f"The numbers could not be made anew from the ledger: {error.sentence}")
    except Exception as error:  # a ledger that somebody changed can break anything that reads it
        faults.append(f"The numbers could not be made anew from the ledger: {type(error).__name__}: {error}.")
    return VerificationResult(
        path=path, manifest=manifest, faults=tuple(faults), keys=keys, compared=compared, notes=notes
    )


class PlaceholderImages:
    """In place of the pictures, which nothing that is compared depends on."""

    def get(self, sha256: str, extension: str) -> bytes:
        return _ONE_PIXEL


def _unexpected_files(manifest: Manifest) -> Iterator[str]:
    for entry in manifest.files:  # pictures are named by their hash
        if entry.path.startswith(f"{contents.OBJECTS}/") and Path(entry.path).stem != entry.sha256:
            yield f"{entry.path}: is not the picture that its name says"
    folders = tuple(f"{part}/" for part in (*_DERIVED, *(_PICTURES if manifest.images else ())))
    for entry in manifest.files:  # a file that is compared with nothing might print anything
        if entry.path not in _ALONE and not entry.path.startswith(folders):
            yield f"{entry.path}: is no part of a bundle, so nothing in it was checked"


def _mismatches(run: Run, design: Design, manifest: Manifest) -> Iterator[str]:
    """What the manifest says of the run, and which pictures are there: all that the ledger names, and no other."""
    config = design.config
    of_ledger = {
        "name": config.audit.name,
        "run": run.id,
        "protocol": config.protocol.name,
        "protocol_hash": config.protocol.hash,
        "preset": config.audit.preset,
    }
    for name, value in of_ledger.items():
        if getattr(manifest, name) != value:
            yield f"{FILE}: {name} is {getattr(manifest, name)!r}, and {value!r} by the ledger"
    folder = f"{contents.OBJECTS}/"
    present = {Path(entry.path).stem for entry in manifest.files if entry.path.startswith(folder)}
    expected = run.keys("object") if manifest.images else set()
    if lacking := expected - present:
        yield f"{len(lacking):,} pictures of the ledger are not in {folder}, first {min(lacking)[:12]}…"
    if other := present - expected:
        yield f"{len(other):,} pictures in {folder} are not the ledger's, first {min(other)[:12]}…"


def _read_versions(files: Files) -> Versions:
    """What computed the bundle, as it says; nothing where it does not."""
    if contents.VERSIONS not in files.sizes():
        return {}
    try:
        versions = json.loads(text(files, contents.VERSIONS))
        publish.made_with(versions)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(
            f"{files.where}: {contents.VERSIONS} cannot be read.", "Ask for the bundle again."
        ) from None
    return dict(versions)


def _version_changes(versions: Versions) -> Iterator[str]:
    """What computed the numbers then and computes them now; another version may round otherwise."""
    if not versions:
        return
    then, now = (dict(publish.made_with(one)) for one in (versions, publish.versions()))
    for name in dict.fromkeys([*then, *now]):
        if then.get(name) != now.get(name):
            yield f"Made with {name} {then.get(name, 'unknown')}; verified with {now.get(name, 'none')}."


# Recomputing


def _derive(run: Run, design: Design, manifest: Manifest, versions: Versions, folder: Path, say: Say) -> None:
    """Write everything that is compared, next to the ledger that it is made from. `versions`: what computed the
    bundle, which no ledger knows; what is printed of it has to be what the bundle says elsewhere."""
    made_with = publish.made_with(versions) if versions else None
    faces = "none" if manifest.faces == "none" else "show"  # there are no images here; only a sentence differs
    page = folder / contents.REPORT
    report_folder.write(run, design, page, faces, only=contents.PARTS, say=say, made_with=made_with)
    contents.write_tables(run, design, folder)
    contents.write_settings(run, folder)


def _compare(files: Files, manifest: Manifest, folder: Path, figures: bool, into: DiffSummary) -> None:
    """`figures`: drawings, too, which other versions of what draws them draw otherwise."""
    sizes = files.sizes()
    printed = read_page(text(files, contents.REPORT)) if contents.REPORT in sizes else Page()
    derived = read_page((folder / contents.REPORT).read_text(encoding="utf-8"))
    note_page(printed, derived, figures, into)
    if contents.README in sizes:
        readme = contents.readme(manifest.model_dump())
        into.note(line_differences(contents.README, text(files, contents.README), readme))
    for part in _DERIVED:
        made = {path.relative_to(folder).as_posix() for path in (folder / part).rglob("*") if path.is_file()}
        given = {name for name in sizes if name.startswith(f"{part}/")}
        for name in sorted(made | given):
            if name not in made:
                into.note([Difference(name, "a file", NOTHING)])
            elif name not in given:
                into.note([Difference(name, NOTHING, "a file")])
            else:
                _compare_file(files, folder, name, figures, part, into)


def _compare_file(files: Files, folder: Path, name: str, figures: bool, part: str, into: DiffSummary) -> None:
    printed, derived = content(files, name), (folder / name).read_bytes()
    suffix = Path(name).suffix
    if suffix == ".parquet":
        frame = pl.read_parquet(io.BytesIO(derived))
        into.note(_parquet_differences(name, printed, frame) if printed != derived else ())
        into.count(f"{part}/", count_values(frame))
    elif suffix in _DRAWINGS:
        into.note([Difference(name, "another drawing", "its own")] if figures and printed != derived else [])
    else:
        own = derived.decode()
        if printed != derived:
            compare = csv_differences if suffix == ".csv" else line_differences
            into.note(compare(name, text(files, name), own))
        into.count(f"{part}/", count_numbers(own))


def _parquet_differences(name: str, printed: bytes, derived: pl.DataFrame) -> Iterator[Difference]:
    try:
        frame = read_parquet(printed)
    except DamagedError:
        yield Difference(name, "what is no Parquet file", "a table")
        return
    yield from frame_differences(name, frame, derived)
