"""MANIFEST.json: every file of a bundle with its size and SHA-256, and one hash over all of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from stillme.assurance.evidence.archive import Files, content, pieces
from stillme.core.errors import InputError
from stillme.core.yaml import StrictModel

FILE = "MANIFEST.json"
MAX_MANIFEST_BYTES = 256 * 2**20  # more would be an attempt to fill the memory
_HASH = r"^[0-9a-f]{64}$"


class Entry(StrictModel):
    """One file."""

    path: str
    bytes: int = Field(ge=0)
    sha256: str = Field(pattern=_HASH)


class Manifest(StrictModel):
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
class ManifestProblem:
    """What is wrong with a file."""

    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


def hash_files(folder: Path) -> tuple[Entry, ...]:
    """Every file of a folder, by name, but for the manifest itself."""
    entries = []
    for name in sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()):
        if name != FILE:
            with (folder / name).open("rb") as file:
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            entries.append(Entry(path=name, bytes=(folder / name).stat().st_size, sha256=sha256))
    return tuple(entries)


def over_all(entries: tuple[Entry, ...]) -> str:
    """One hash for the whole bundle: that of the lines `sha256sum` prints, in the order of names."""
    lines = sorted((entry.path, entry.sha256) for entry in entries)
    return hashlib.sha256("".join(f"{sha256}  {path}\n" for path, sha256 in lines).encode()).hexdigest()


def write_manifest(folder: Path, metadata: Mapping[str, Any]) -> Manifest:
    """Write the manifest of everything that is in the folder."""
    entries = hash_files(folder)
    manifest = Manifest(bundle=1, files=entries, sha256=over_all(entries), **metadata)
    (folder / FILE).write_text(manifest.text(), encoding="utf-8")
    return manifest


def read_manifest(files: Files) -> Manifest:
    """The manifest of a bundle, or a sentence about what it is not."""
    sizes = files.sizes()
    if FILE not in sizes or sizes[FILE] > MAX_MANIFEST_BYTES:
        raise InputError(f"{files.where} is no bundle: it has no {FILE}.", "Give what `stillme bundle` wrote.")
    try:
        return Manifest.model_validate_json(content(files, FILE))
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join(str(part) for part in first["loc"]) or "it"
        problem = f"{files.where}: {FILE} cannot be read: {location}: {first['msg']}."
        raise InputError(problem, "A newer stillme may have made it; else it was changed.") from None


def check_files(manifest: Manifest, files: Files) -> Iterator[ManifestProblem]:
    """Every file there, each with its hash, nothing besides; the hash over all."""
    listed, sizes = manifest.named, files.sizes()
    for name in files.odd():
        yield ManifestProblem(name, "is a link or no plain file")
    if len(listed) != len(manifest.files):
        yield ManifestProblem(FILE, "lists a file more than once")
    for name in sorted(listed.keys() - sizes.keys()):
        yield ManifestProblem(name, "is listed in the manifest and not in the bundle")
    for name in sorted(sizes.keys() - listed.keys() - {FILE}):
        yield ManifestProblem(name, "is in the bundle and not listed in the manifest")
    for name in sorted(listed.keys() & sizes.keys()):
        if problem := _file_problem(listed[name], sizes[name], files):
            yield ManifestProblem(name, problem)
    if over_all(manifest.files) != manifest.sha256:
        yield ManifestProblem(FILE, "its hash over all files is not that of the files it lists")


def _file_problem(entry: Entry, size: int, files: Files) -> str:
    if entry.bytes != size:
        return f"has {size:,} bytes, and {entry.bytes:,} by the manifest"
    digest = hashlib.sha256()
    try:
        for piece in pieces(files, entry.path):
            digest.update(piece)
    except InputError as error:
        return error.sentence
    sha256 = digest.hexdigest()
    if sha256 != entry.sha256:
        return f"has the SHA-256 {sha256[:12]}…, and {entry.sha256[:12]}… by the manifest"
    return ""
