"""MANIFEST.json: every file of a bundle with its size and SHA-256, and one hash over all of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from stillme.assurance.evidence import archive
from stillme.assurance.evidence.archive import Files
from stillme.core.errors import InputError
from stillme.core.yaml import Frozen

FILE = "MANIFEST.json"
LARGEST = 256 * 2**20  # bytes of a manifest
_HASH = r"^[0-9a-f]{64}$"


class Entry(Frozen):
    """One file."""

    path: str
    bytes: int = Field(ge=0)
    sha256: str = Field(pattern=_HASH)


class Manifest(Frozen):
    """`bundle`: the version of this form. `stillme`: the version that made it. `sha256`: over all files."""

    bundle: int = Field(ge=1, le=1)
    stillme: str
    name: str
    run: str
    protocol: str
    protocol_hash: str
    preset: str
    faces: str
    images: bool
    files: tuple[Entry, ...]
    sha256: str = Field(pattern=_HASH)

    @property
    def named(self) -> dict[str, Entry]:
        return {entry.path: entry for entry in self.files}

    def text(self) -> str:
        return json.dumps(self.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n"


@dataclass(frozen=True)
class Said:
    """What is wrong with a file."""

    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


def hashed(folder: Path) -> tuple[Entry, ...]:
    """Every file of a folder, by name, but for the manifest itself."""
    found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return tuple(_entry(folder, name) for name in found if name != FILE)


def _entry(folder: Path, name: str) -> Entry:
    with (folder / name).open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return Entry(path=name, bytes=(folder / name).stat().st_size, sha256=sha256)


def over_all(entries: tuple[Entry, ...]) -> str:
    """One hash for the whole bundle: that of the lines `sha256sum` prints, in the order of names."""
    lines = sorted((entry.path, entry.sha256) for entry in entries)
    return hashlib.sha256("".join(f"{sha256}  {path}\n" for path, sha256 in lines).encode()).hexdigest()


def write(folder: Path, about: Mapping[str, Any]) -> Manifest:
    """Writes the manifest of everything that is in the folder."""
    entries = hashed(folder)
    made = Manifest(bundle=1, files=entries, sha256=over_all(entries), **about)
    (folder / FILE).write_text(made.text(), encoding="utf-8")
    return made


def read(files: Files) -> Manifest:
    """The manifest of a bundle, or a sentence about what it is not."""
    sizes = files.sizes()
    if FILE not in sizes or sizes[FILE] > LARGEST:
        raise InputError(f"{files.where} is no bundle: it has no {FILE}.", "Give what `stillme bundle` wrote.")
    try:
        return Manifest.model_validate_json(archive.content(files, FILE))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        said = f"{files.where}: {FILE} cannot be read: {place or 'it'}: {first['msg']}."
        raise InputError(said, "A newer stillme may have made it; else it was changed.") from None


def check(manifest: Manifest, files: Files) -> Iterator[Said]:
    """Every file there, each with its hash, nothing besides; the hash over all."""
    listed, there = manifest.named, files.sizes()
    for name in files.odd():
        yield Said(name, "is a link or no plain file")
    if len(listed) != len(manifest.files):
        yield Said(FILE, "lists a file more than once")
    for name in sorted(listed.keys() - there.keys()):
        yield Said(name, "is listed in the manifest and not in the bundle")
    for name in sorted(there.keys() - listed.keys() - {FILE}):
        yield Said(name, "is in the bundle and not listed in the manifest")
    for name in sorted(listed.keys() & there.keys()):
        yield from _check_one(listed[name], there[name], files)
    if over_all(manifest.files) != manifest.sha256:
        yield Said(FILE, "its hash over all files is not that of the files it lists")


def _check_one(entry: Entry, size: int, files: Files) -> Iterator[Said]:
    if entry.bytes != size:
        yield Said(entry.path, f"has {size:,} bytes, and {entry.bytes:,} by the manifest")
        return
    found = hashlib.sha256()
    try:
        for piece in archive.pieces(files, entry.path):
            found.update(piece)
    except InputError as error:
        yield Said(entry.path, error.sentence)
        return
    if found.hexdigest() != entry.sha256:
        yield Said(
            entry.path, f"has the SHA-256 {found.hexdigest()[:12]}…, and {entry.sha256[:12]}… by the manifest"
        )
