"""Image files in a folder or in a zip, with one interface for both. Hands out bytes and never decodes them.

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
from stillme.sources import Reason, Row, RowIssue

MAX_IMAGE_BYTES = 200_000_000  # of one image file: far above any photograph, and it fits in memory
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # the others unpack without a bound
_DRIVE = re.compile("[A-Za-z]:")
_ENCRYPTED_FLAG = 0x1
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, UnicodeDecodeError)


@dataclass(frozen=True)
class FileProblem:
    """Why a file is not read."""

    reason: Reason
    message: str


class Files(Protocol):
    def names(self) -> Sequence[str]:
        """All files, by their names inside, in the same order on every machine."""
        ...

    def has_folder(self, name: str) -> bool: ...

    def flaw(self, name: str) -> FileProblem | None:
        """Why a file of this name will not be read, as far as its name tells."""
        ...

    def read(self, names: Sequence[str]) -> Iterator[tuple[int, bytes | FileProblem]]:
        """The position in `names` and the content, in the order that is quickest to read."""
        ...


def open_files(path: Path) -> Files:
    """A folder or a zip."""
    if path.is_dir():
        return _Folder(path)
    if not path.is_file():
        raise ValueError(f"{path} does not exist; give a folder or a zip with the images")
    return _open_zip(path)


def safe_member_name(name: str) -> str | None:
    """A name as it is looked up, with forward slashes; None where it would lead out."""
    plain = name.strip().replace("\\", "/")
    parts = [part for part in plain.split("/") if part not in ("", ".")]
    if not parts or ".." in parts or "\0" in plain or plain.startswith("/") or _DRIVE.match(plain):
        return None
    return "/".join(parts)


def locate_image(files: Files, name: str, row: Row) -> Row | RowIssue:
    """A row with the image that a label file names for it, or an issue if the image is not there."""
    if not name:
        return row.issue(Reason.BAD_ROW, "the row names no image file")
    safe_name = safe_member_name(name)
    if safe_name is None:
        return row.issue(Reason.MISSING_FILE, f"{name!r} leads out of the image folder and is not read")
    if flaw := files.flaw(safe_name):
        return row.issue(flaw.reason, flaw.message)
    return replace(row, id=safe_name, address=(safe_name,))


def read_images(files: Files, rows: Sequence[Row]) -> Iterator[tuple[Row, bytes | RowIssue]]:
    """The image files of rows that came from `locate_image`."""
    for position, content in files.read([row.address[0] for row in rows]):
        row = rows[position]
        yield row, row.issue(content.reason, content.message) if isinstance(content, FileProblem) else content


def _missing(name: str, path: Path) -> FileProblem:
    return FileProblem(Reason.MISSING_FILE, f"{name} is not in {printable(path.resolve().name)}")


def _read_bounded(file: IO[bytes], name: str) -> bytes | FileProblem:
    content = file.read(MAX_IMAGE_BYTES + 1)
    return too_large(name) if len(content) > MAX_IMAGE_BYTES else content


def too_large(name: str) -> FileProblem:
    return FileProblem(
        Reason.TOO_LARGE, f"{name} is larger than {MAX_IMAGE_BYTES // 1_000_000} MB and is not read"
    )


@dataclass(frozen=True)
class _Folder:
    path: Path
    _names_by_folder: dict[str, frozenset[str]] = field(default_factory=dict, compare=False)

    def names(self) -> Sequence[str]:
        def fail(error: OSError) -> None:
            raise explain_os_error(error, Path(error.filename or ".")) from error

        found: list[str] = []
        for base, _, names in os.walk(self.path, onerror=fail):
            inner = Path(base).relative_to(self.path)
            found += [(inner / name).as_posix() for name in names]
        return sorted(found)

    def has_folder(self, name: str) -> bool:
        return (self.path / name).is_dir()

    def flaw(self, name: str) -> FileProblem | None:
        """Each folder is listed once, not once per row."""
        inner, _, file_name = name.rpartition("/")
        if inner not in self._names_by_folder:
            try:
                with os.scandir(self.path / inner) as entries:
                    names = frozenset(entry.name for entry in entries if entry.is_file())
            except PermissionError as error:
                raise explain_os_error(error, self.path / inner) from error
            except OSError:  # no such folder, or a name that no folder can have
                names = frozenset()
            self._names_by_folder[inner] = names
        return None if file_name in self._names_by_folder[inner] else _missing(name, self.path)

    def read(self, names: Sequence[str]) -> Iterator[tuple[int, bytes | FileProblem]]:
        for position in sorted(range(len(names)), key=names.__getitem__):
            name = names[position]
            content: bytes | FileProblem | None = self.flaw(name)
            if content is None:
                try:
                    with (self.path / name).open("rb") as file:
                        content = _read_bounded(file, name)
                except OSError as error:
                    content = FileProblem(Reason.CORRUPT, f"{name} cannot be read: {error.strerror or error}")
            yield position, content


@dataclass(frozen=True)
class _Zip:
    """Members are looked up by name, also below a folder that holds them all, or without the zip's own name."""

    path: Path
    members: Mapping[str, str]  # name with forward slashes -> name in the archive
    oversized: frozenset[str]  # those that say so themselves

    def names(self) -> Sequence[str]:
        return sorted(name.removeprefix(self._top) for name in self.members)

    def has_folder(self, name: str) -> bool:
        prefixes = self._spellings(f"{name}/")
        return any(member.startswith(prefixes) for member in self.members)

    def flaw(self, name: str) -> FileProblem | None:
        member = self._find(name)
        if member is None:
            return _missing(name, self.path)
        return too_large(name) if member in self.oversized else None

    def read(self, names: Sequence[str]) -> Iterator[tuple[int, bytes | FileProblem]]:
        with disk(self.path), zipfile.ZipFile(self.path) as archive:
            members: list[tuple[int, int, zipfile.ZipInfo]] = []
            for position, name in enumerate(names):
                flaw, member_name = self.flaw(name), self._find(name)
                if flaw or member_name is None:
                    yield position, flaw or _missing(name, self.path)
                else:
                    member = archive.getinfo(self.members[member_name])
                    members.append((member.header_offset, position, member))
            for _, position, member in sorted(members, key=lambda item: item[:2]):
                yield position, _unpack(archive, member, names[position])

    def _find(self, name: str) -> str | None:
        return next((spelling for spelling in self._spellings(name) if spelling in self.members), None)

    def _spellings(self, name: str) -> tuple[str, ...]:
        zip_name = f"{self.path.stem}/"
        return (name, self._top + name, *((name.removeprefix(zip_name),) if name.startswith(zip_name) else ()))

    @cached_property
    def _top(self) -> str:
        """The folder that holds all members, where there is one."""
        tops = {name.partition("/")[0] if "/" in name else "" for name in self.members}
        only = tops.pop() if len(tops) == 1 else ""
        return f"{only}/" if only else ""


def _open_zip(path: Path) -> _Zip:
    try:
        with disk(path), zipfile.ZipFile(path) as archive:
            members = [
                (member.filename.replace("\\", "/"), member)
                for member in archive.infolist()
                if member.filename and not member.is_dir()  # a damaged zip may have a member without a name
            ]
    except (zipfile.BadZipFile, UnicodeDecodeError, NotImplementedError) as error:
        raise ValueError(f"{path} is neither a folder nor a whole zip: {error}") from None
    # macOS adds a file of its own for each file.
    members = [(name, member) for name, member in members if not name.startswith("__MACOSX/")]
    return _Zip(
        path=path,
        members={name: member.filename for name, member in members},
        oversized=frozenset(name for name, member in members if member.file_size > MAX_IMAGE_BYTES),
    )


def _unpack(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> bytes | FileProblem:
    if member.flag_bits & _ENCRYPTED_FLAG:
        return FileProblem(Reason.CORRUPT, f"{name} is encrypted in {Path(archive.filename or '').name}")
    if member.compress_type not in _COMPRESSIONS:
        return FileProblem(
            Reason.CORRUPT, f"{name} is packed in a way that is not read; pack the zip with 'deflate'"
        )
    try:
        with archive.open(member) as file:
            return _read_bounded(file, name)
    except _DAMAGE as error:
        return FileProblem(Reason.CORRUPT, f"{name} cannot be unpacked: {error or type(error).__name__}")
