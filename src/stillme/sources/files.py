"""Image files in a folder or in a zip, behind one face. Hands out bytes and never looks into them.

A name from a label file stays inside the folder or zip; nothing is ever unpacked to disk; no size that an archive
declares is trusted.
"""

from __future__ import annotations

import os
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import IO, Protocol

from stillme.core.errors import disk, explain_os_error, printable
from stillme.sources import Reason, Remark, Row

LARGEST = 200_000_000  # bytes of one image file
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # the others unpack without a bound
_LITTER = "__MACOSX"
_DRIVE = re.compile("[A-Za-z]:")
_ENCRYPTED = 0x1
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, UnicodeDecodeError)


@dataclass(frozen=True)
class Flaw:
    """Why a file is not read."""

    reason: Reason
    said: str


class Files(Protocol):
    def names(self) -> Sequence[str]:
        """All files, by their names inside, in the same order on every machine."""
        ...

    def has_folder(self, name: str) -> bool: ...

    def flaw(self, name: str) -> Flaw | None:
        """Why a file of this name will not be read, as far as its name tells."""
        ...

    def read(self, names: Sequence[str]) -> Iterator[tuple[int, bytes | Flaw]]:
        """The position in `names` and the content, in the order that is quickest to read."""
        ...


def open_files(path: Path) -> Files:
    """A folder or a zip."""
    if path.is_dir():
        return _Folder(path)
    if not path.is_file():
        raise ValueError(f"{path} does not exist; give a folder or a zip with the images")
    return _open_zip(path)


def inside(name: str) -> str | None:
    """A name as it is looked up, with forward slashes; None where it would lead out."""
    plain = name.strip().replace("\\", "/")
    parts = [part for part in plain.split("/") if part not in ("", ".")]
    if not parts or ".." in parts or "\0" in plain or plain.startswith("/") or _DRIVE.match(plain):
        return None
    return "/".join(parts)


def listed(files: Files, given: str, row: Row) -> Row | Remark:
    """A row with the image that a label file names for it, or a remark if the image is not there."""
    name = inside(given)
    if name is None:
        said = (
            f"{given!r} leads out of the image folder and is not read" if given else "the row names no image file"
        )
        return Remark(row.file, row.row, Reason.MISSING_FILE if given else Reason.BAD_ROW, said)
    if flaw := files.flaw(name):
        return Remark(row.file, row.row, flaw.reason, flaw.said)
    return replace(row, id=name, address=(name,))


def contents(files: Files, rows: Sequence[Row]) -> Iterator[tuple[Row, bytes | Remark]]:
    """The image files of rows that came from `listed`."""
    for place, content in files.read([row.address[0] for row in rows]):
        row = rows[place]
        if isinstance(content, Flaw):
            yield row, Remark(row.file, row.row, content.reason, content.said)
        else:
            yield row, content


def _absent(name: str, where: Path) -> Flaw:
    return Flaw(Reason.MISSING_FILE, f"{name} is not in {printable(where.resolve().name)}")


def _bounded(file: IO[bytes], name: str) -> bytes | Flaw:
    content = file.read(LARGEST + 1)
    return _too_large(name) if len(content) > LARGEST else content


def _too_large(name: str) -> Flaw:
    return Flaw(Reason.TOO_LARGE, f"{name} is larger than {LARGEST // 1_000_000} MB and is not read")


@dataclass(frozen=True)
class _Folder:
    path: Path
    _listed: dict[str, frozenset[str]] = field(default_factory=dict, compare=False)

    def names(self) -> Sequence[str]:
        found: list[str] = []
        for base, _, names in os.walk(self.path, onerror=_raise):
            inner = Path(base).relative_to(self.path)
            found += [(inner / name).as_posix() for name in names]
        return sorted(found)

    def has_folder(self, name: str) -> bool:
        return (self.path / name).is_dir()

    def flaw(self, name: str) -> Flaw | None:
        inner, _, last = name.rpartition("/")
        if inner not in self._listed:
            self._listed[inner] = _files_in(self.path / inner)
        return None if last in self._listed[inner] else _absent(name, self.path)

    def read(self, names: Sequence[str]) -> Iterator[tuple[int, bytes | Flaw]]:
        for place in sorted(range(len(names)), key=names.__getitem__):
            yield place, self.flaw(names[place]) or self._content(names[place])

    def _content(self, name: str) -> bytes | Flaw:
        try:
            with (self.path / name).open("rb") as file:
                return _bounded(file, name)
        except OSError as error:
            return Flaw(Reason.CORRUPT, f"{name} cannot be read: {error.strerror or error}")


def _raise(error: OSError) -> None:
    raise explain_os_error(error, Path(error.filename or ".")) from error


def _files_in(folder: Path) -> frozenset[str]:
    """The names in one folder: asked for once, not once a row."""
    try:
        with os.scandir(folder) as entries:
            return frozenset(entry.name for entry in entries if entry.is_file())
    except PermissionError as error:
        raise explain_os_error(error, folder) from error
    except OSError:  # no such folder, or a name that no folder can have
        return frozenset()


@dataclass(frozen=True)
class _Zip:
    """Members are found by name, also below a folder that holds them all, or without the zip's own name."""

    path: Path
    members: Mapping[str, str]  # name with forward slashes -> name in the archive
    oversized: frozenset[str]  # those that say so themselves

    def names(self) -> Sequence[str]:
        return sorted(name.removeprefix(self._top) for name in self.members)

    def has_folder(self, name: str) -> bool:
        starts = self._spellings(f"{name}/")
        return any(member.startswith(starts) for member in self.members)

    def flaw(self, name: str) -> Flaw | None:
        found = self._find(name)
        if found is None:
            return _absent(name, self.path)
        return _too_large(name) if found in self.oversized else None

    def read(self, names: Sequence[str]) -> Iterator[tuple[int, bytes | Flaw]]:
        with disk(self.path), zipfile.ZipFile(self.path) as archive:
            members: list[tuple[int, int, zipfile.ZipInfo]] = []
            for place, name in enumerate(names):
                flaw, found = self.flaw(name), self._find(name)
                if flaw or found is None:
                    yield place, flaw or _absent(name, self.path)
                else:
                    member = archive.getinfo(self.members[found])
                    members.append((member.header_offset, place, member))
            for _, place, member in sorted(members, key=lambda one: one[:2]):
                yield place, _unpack(archive, member, names[place])

    def _find(self, name: str) -> str | None:
        return next((spelled for spelled in self._spellings(name) if spelled in self.members), None)

    def _spellings(self, name: str) -> tuple[str, ...]:
        own = f"{self.path.stem}/"
        return (name, self._top + name, *((name.removeprefix(own),) if name.startswith(own) else ()))

    @cached_property
    def _top(self) -> str:
        tops = {name.partition("/")[0] if "/" in name else "" for name in self.members}
        only = tops.pop() if len(tops) == 1 else ""
        return f"{only}/" if only else ""


def _open_zip(path: Path) -> _Zip:
    try:
        with disk(path), zipfile.ZipFile(path) as archive:
            named = [one for one in archive.infolist() if one.filename]  # a damaged zip may have one without
            members = [one for one in named if not one.is_dir() and not _is_litter(one.filename)]
    except (zipfile.BadZipFile, UnicodeDecodeError, NotImplementedError) as error:
        raise ValueError(f"{path} is neither a folder nor a whole zip: {error}") from None
    large = frozenset(_slashed(one.filename) for one in members if one.file_size > LARGEST)
    return _Zip(path, {_slashed(one.filename): one.filename for one in members}, large)


def _slashed(name: str) -> str:
    return name.replace("\\", "/")


def _is_litter(name: str) -> bool:
    return _slashed(name).startswith(f"{_LITTER}/")


def _unpack(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> bytes | Flaw:
    if member.flag_bits & _ENCRYPTED:
        return Flaw(Reason.CORRUPT, f"{name} is encrypted in {Path(archive.filename or '').name}")
    if member.compress_type not in _PACKINGS:
        return Flaw(Reason.CORRUPT, f"{name} is packed in a way that is not read; pack the zip with 'deflate'")
    try:
        with archive.open(member) as file:
            return _bounded(file, name)
    except _DAMAGE as error:
        return Flaw(Reason.CORRUPT, f"{name} cannot be unpacked: {error or type(error).__name__}")
