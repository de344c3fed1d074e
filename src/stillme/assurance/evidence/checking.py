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

from stillme.analysis.numbers import plural
from stillme.assurance.evidence import archive, differences, ledger, manifest, packing, page
from stillme.assurance.evidence.archive import Files
from stillme.assurance.evidence.differences import Compared, Difference
from stillme.assurance.evidence.manifest import Manifest
from stillme.core.errors import InputError, StillmeError
from stillme.core.table_files import DamagedError, read_parquet
from stillme.core.text import plainly
from stillme.ledger import Run
from stillme.ledger.run import LEDGER
from stillme.plan.design import Design, load_design
from stillme.report import folder as reporting
from stillme.report import publish

NAMED = 12  # faults and differences that are told one by one
DIFFERS = 2  # the exit code of a bundle that does not hold
_DERIVED = (packing.TABLES, packing.ROWS, packing.SETTINGS, "report/tables", "report/cards", "report/figures")
_ALONE = (LEDGER, packing.REPORT, packing.README, packing.VERSIONS, "report/about.json")
_PICTURES = (packing.OBJECTS, "report/browse")  # of which hashes alone are checked
_DRAWINGS = (".svg", ".pdf", ".png")
_ONE_PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg=="
)
_HOLDS = "Verified: every file is as it was packed, and every printed number is the ledger's."
Say = Callable[[str], None]
Versions = dict[str, Any]


@dataclass(frozen=True)
class Verified:
    """What was found. `faults`: of files and of the ledger, in sentences; `notes`: what a reader should know."""

    path: Path
    manifest: Manifest
    faults: tuple[str, ...]
    keys: int
    compared: Compared = field(default_factory=Compared)
    notes: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        return not self.faults and not self.compared.differences

    @property
    def numbers(self) -> int:
        return sum(self.compared.counts.values())

    def words(self) -> str:
        """What it says may be a stranger's words."""
        return "\n".join(plainly(line) for line in _told(self))

    def plain(self) -> dict[str, Any]:
        """For scripts."""
        return {
            "bundle": str(self.path),
            "holds": self.holds,
            "sha256": self.manifest.sha256,
            "files": len(self.manifest.files),
            "keys": self.keys,
            "numbers": self.compared.counts,
            "faults": list(self.faults),
            "differences": [vars(one) for one in self.compared.differences],
            "notes": list(self.notes),
        }


def verify(path: Path, say: Say = lambda _: None) -> Verified:
    """Checks a bundle, packed or unpacked. Refuses only what is no bundle at all."""
    with archive.opened(path) as files:
        found = manifest.read(files)
        say("Verify: files")
        faults = [str(one) for one in manifest.check(found, files)]
        faults += [*_misnamed(found), *_unknown(found)]
        if LEDGER not in files.sizes():
            return Verified(path, found, tuple(faults or [f"{LEDGER} is missing."]), 0)
        with tempfile.TemporaryDirectory(prefix="stillme-verify-") as aside:
            return _from_ledger(path, files, found, faults, Path(aside), say)


def _from_ledger(path: Path, files: Files, found: Manifest, faults: list[str], aside: Path, say: Say) -> Verified:
    say("Verify: the ledger")
    size = files.sizes()[LEDGER]
    archive.room(aside, size)
    archive.unpack(files, LEDGER, aside / LEDGER, size)
    if broken := list(ledger.damage(aside / LEDGER)):
        return Verified(path, found, (*faults, *broken), 0)
    then = _versions_then(files)
    compared, notes, keys = Compared(), tuple(_other_versions(then)), 0
    try:
        with Run.look(aside) as run:
            run.objects = Blank()  # type: ignore[assignment]
            design = load_design(run)
            strayed = list(ledger.strayed(run, design))
            faults += [*strayed, *_other_run(run, design, found), *_other_pictures(run, found)]
            keys = 0 if strayed else ledger.counted(run)
            say("Verify: making every number anew")
            _derive(run, design, found, then, aside, say)
        _compare(files, found, aside, not notes, compared)
    except StillmeError as error:
        faults.append(f"The numbers could not be made anew from the ledger: {error.sentence}")
    except Exception as error:  # a ledger that somebody changed can break anything that reads it
        faults.append(f"The numbers could not be made anew from the ledger: {type(error).__name__}: {error}.")
    return Verified(path, found, tuple(faults), keys, compared, notes)


class Blank:
    """In place of the pictures, which nothing that is compared depends on."""

    def get(self, sha256: str, extension: str) -> bytes:
        return _ONE_PIXEL


def _misnamed(found: Manifest) -> Iterator[str]:
    """Pictures are named by their hash."""
    for entry in found.files:
        if entry.path.startswith(f"{packing.OBJECTS}/") and Path(entry.path).stem != entry.sha256:
            yield f"{entry.path}: is not the picture that its name says"


def _unknown(found: Manifest) -> Iterator[str]:
    """A file that nothing here is held against might print anything."""
    parts = (*_DERIVED, *(_PICTURES if found.images else ()))
    for entry in found.files:
        if entry.path not in _ALONE and not entry.path.startswith(tuple(f"{part}/" for part in parts)):
            yield f"{entry.path}: is no part of a bundle, so nothing in it was checked"


def _other_run(run: Run, design: Design, found: Manifest) -> Iterator[str]:
    """What the manifest says of the run."""
    config = design.config
    own = {"name": config.audit.name, "run": run.id, "protocol": config.protocol.name}
    own |= {"protocol_hash": config.protocol.hash, "preset": config.audit.preset}
    for name, value in own.items():
        if getattr(found, name) != value:
            yield f"{manifest.FILE}: {name} is {getattr(found, name)!r}, and {value!r} by the ledger"


def _other_pictures(run: Run, found: Manifest) -> Iterator[str]:
    """Where pictures are in it: all that the ledger names, and no other."""
    there = {Path(entry.path).stem for entry in found.files if entry.path.startswith(f"{packing.OBJECTS}/")}
    named = run.keys("object") if found.images else set()
    if lacking := named - there:
        yield f"{len(lacking):,} pictures of the ledger are not in {packing.OBJECTS}/, first {min(lacking)[:12]}…"
    if other := there - named:
        yield f"{len(other):,} pictures in {packing.OBJECTS}/ are not the ledger's, first {min(other)[:12]}…"


def _versions_then(files: Files) -> Versions:
    """What computed the bundle, as it says; nothing where it does not."""
    if packing.VERSIONS not in files.sizes():
        return {}
    try:
        then = json.loads(archive.text(files, packing.VERSIONS))
        publish.made_with(then)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(
            f"{files.where}: {packing.VERSIONS} cannot be read.", "Ask for the bundle again."
        ) from None
    return dict(then)


def _other_versions(then: Versions) -> Iterator[str]:
    """What computed the numbers then and computes them now; another version may round otherwise."""
    if not then:
        return
    made, here = (dict(publish.made_with(one)) for one in (then, publish.versions()))
    for name in dict.fromkeys([*made, *here]):
        if made.get(name) != here.get(name):
            yield f"Made with {name} {made.get(name, 'unknown')}; verified with {here.get(name, 'none')}."


# Making anew


def _derive(run: Run, design: Design, found: Manifest, then: Versions, folder: Path, say: Say) -> None:
    """Everything that is compared, beside the ledger that it is made from. `then`: what computed the bundle, which
    no ledger knows; what is printed of it has to be what the bundle says elsewhere."""
    made = publish.made_with(then) if then else None
    faces = "none" if found.faces == "none" else "show"  # there are no faces here; only what is said differs
    reporting.write(run, design, folder / packing.REPORT, faces, only=packing.PARTS, say=say, made_with=made)
    packing.write_tables(run, design, folder)
    packing.write_settings(run, folder)


def _compare(files: Files, found: Manifest, folder: Path, figures: bool, into: Compared) -> None:
    printed = page.read(archive.text(files, packing.REPORT)) if packing.REPORT in files.sizes() else page.Page()
    differences.pages(printed, page.read((folder / packing.REPORT).read_text(encoding="utf-8")), figures, into)
    own = packing.readme(found.model_dump())
    if packing.README in files.sizes():
        into.note(differences.lines(packing.README, archive.text(files, packing.README), own))
    for part in _DERIVED:
        for name in _both(files, folder, part):
            _compare_one(files, folder, name, figures, part, into)


def _both(files: Files, folder: Path, part: str) -> list[str]:
    made = {path.relative_to(folder).as_posix() for path in (folder / part).rglob("*") if path.is_file()}
    given = {name for name in files.sizes() if name.startswith(f"{part}/")}
    return sorted(made | given)


def _compare_one(files: Files, folder: Path, name: str, figures: bool, part: str, into: Compared) -> None:
    there, made = name in files.sizes(), (folder / name).is_file()
    if not (there and made):
        into.note(
            [Difference(name, *(("a file", differences.NOTHING) if there else (differences.NOTHING, "a file")))]
        )
        return
    given, own = archive.content(files, name), (folder / name).read_bytes()
    suffix = Path(name).suffix
    if suffix == ".parquet":
        derived = pl.read_parquet(io.BytesIO(own))
        into.note(_frames(name, given, derived) if given != own else ())
        into.count(f"{part}/", differences.values(derived))
    elif suffix in _DRAWINGS:
        into.note([Difference(name, "another drawing", "its own")] if figures and given != own else [])
    else:
        text = own.decode()
        if given != own:
            into.note(_texts(name, archive.text(files, name), text))
        into.count(f"{part}/", differences.numbers(text))


def _texts(name: str, printed: str, derived: str) -> Iterator[Difference]:
    if name.endswith(".csv"):
        return differences.sheets(name, differences.csv_rows(printed), differences.csv_rows(derived))
    return differences.lines(name, printed, derived)


def _frames(name: str, given: bytes, derived: pl.DataFrame) -> Iterator[Difference]:
    try:
        printed = read_parquet(given)
    except DamagedError:
        yield Difference(name, "what is no Parquet file", "a table")
        return
    yield from differences.frames(name, printed, derived)


# In words


def _told(found: Verified) -> Iterator[str]:
    yield f"{found.path}: {len(found.manifest.files):,} files, SHA-256 over all {found.manifest.sha256}"
    yield from found.notes
    for fault in found.faults[:NAMED]:
        yield f"  {fault}"
    if len(found.faults) > NAMED:
        yield f"  and {len(found.faults) - NAMED:,} more faults"
    if found.keys:
        yield f"{found.keys:,} rows of the ledger have the key that their content gives."
    if found.numbers:
        parts = ", ".join(f"{number:,} in {kind}" for kind, number in found.compared.counts.items() if number)
        yield f"{found.numbers:,} numbers were made anew from the ledger: {parts}."
    yield from _differing(found.compared.differences)
    yield _ending(found)


def _differing(found: list[Difference]) -> Iterator[str]:
    for one in found[:NAMED]:
        yield f"  {one}"
    if len(found) > NAMED:
        yield f"  and {len(found) - NAMED:,} more differences"


def _ending(found: Verified) -> str:
    if found.holds and found.manifest.images:
        return f"{_HOLDS} Of pictures, and of pages to browse them, only the hashes were checked."
    if found.holds:
        return _HOLDS
    counts = ((found.faults, "faults"), (found.compared.differences, "differences"))
    wrong = [plural(len(some), noun) for some, noun in counts if some]
    newer = " Verify it with the versions that made it before you conclude anything." if found.notes else ""
    return f"Not verified: {' and '.join(wrong)}.{newer}"
