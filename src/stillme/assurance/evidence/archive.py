"""A bundle's files, in a zip or in a folder: written so that the same content gives the same bytes, read so that
nothing in them can reach outside.

What was given may come from a stranger. Names are checked before anything is opened, no link is followed, sizes
are believed only as far as they fit the archive, and nothing is unpacked but the one file that is asked for.
"""

from __future__ import annotations

import os
import shutil
import stat
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Protocol

from stillme.core.atomic import open_replacement
from stillme.core.errors import InputError, SetupError, disk

MAX_FILES = 1_000_000
MAX_RATIO = 200  # unpacked to packed; tables and ledgers have 5 to 30
ALLOWANCE = 64 * 2**20  # bytes that are unpacked however small the archive is
PIECE_BYTES = 1 << 20
_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip can say: nothing tells when it was packed
_PLAIN_FILE = (stat.S_IFREG | 0o644) << 16
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # others unpack without a bound
_STORED = (".png", ".jpg", ".jpeg", ".webp", ".parquet", ".zip")  # compressed already
_BROKEN = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, RuntimeError, ValueError)
_AGAIN = "Ask whoever made it for the bundle again."


class Files(Protocol):
    """The files of a bundle, by their names inside it."""

    where: str

    def sizes(self) -> Mapping[str, int]: ...

    def open(self, name: str) -> IO[bytes]: ...

    def odd(self) -> tuple[str, ...]:
        """The names of what is in it and is no plain file."""
        ...


def pieces(files: Files, name: str) -> Iterator[bytes]:
    """The content of a file, a piece at a time; damage is a sentence."""
    try:
        with damaged(f"{files.where}: {name}"), files.open(name) as file:
            while piece := file.read(PIECE_BYTES):
                yield piece
    except OSError as error:  # also of an archive that says its files begin before it does
        problem = f"{files.where}: {name} cannot be read: {error.strerror or error}."
        raise InputError(problem, _AGAIN) from error


def content(files: Files, name: str) -> bytes:
    return b"".join(pieces(files, name))


@contextmanager
def damaged(what: str) -> Iterator[None]:
    try:
        yield
    except _BROKEN as error:
        raise InputError(f"{what} is damaged: {error}.", _AGAIN) from error


# Reading


@contextmanager
def open_bundle(path: Path) -> Iterator[Files]:
    """The files of a zip or of a folder."""
    if path.is_dir():
        yield Folder(path)
    elif not path.is_file():
        raise InputError(f"{path} is neither a bundle nor an unpacked one.", "Give what `stillme bundle` wrote.")
    else:
        with disk(path), damaged(str(path)):
            archive = zipfile.ZipFile(path)
        with archive:
            yield ZipBundle(path, archive)


class Folder:
    """An unpacked bundle."""

    def __init__(self, path: Path) -> None:
        self.where = str(path)
        self._path = path
        self._sizes: dict[str, int] = {}
        self._odd: list[str] = []
        self._scan(path)

    def _scan(self, folder: Path) -> None:
        with disk(folder), os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                name = Path(entry.path).relative_to(self._path).as_posix()
                if entry.is_dir(follow_symlinks=False):
                    self._scan(Path(entry.path))
                elif entry.is_file(follow_symlinks=False):
                    self._sizes[name] = entry.stat(follow_symlinks=False).st_size
                else:
                    self._odd.append(name)

    def sizes(self) -> Mapping[str, int]:
        return self._sizes

    def open(self, name: str) -> IO[bytes]:
        with disk(self._path / name):
            return (self._path / name).open("rb")

    def odd(self) -> tuple[str, ...]:
        return tuple(self._odd)


class ZipBundle:
    """A zip. Refuses one whose names lead elsewhere or whose sizes cannot be true."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.where = str(path)
        self._archive = archive
        entries = archive.infolist()
        if problem := _name_problem(entries) or _size_problem(entries, path.stat().st_size):
            raise InputError(f"{path} was not opened: {problem}.", f"Nothing was unpacked. {_AGAIN}")
        self._entries = {entry.filename: entry for entry in entries if not entry.is_dir()}

    def sizes(self) -> Mapping[str, int]:
        return {name: entry.file_size for name, entry in self._entries.items()}

    def open(self, name: str) -> IO[bytes]:
        return self._archive.open(self._entries[name])

    def odd(self) -> tuple[str, ...]:
        return ()


def is_inside(name: str) -> bool:
    """Whether a name stays in the folder that it is unpacked to, on every system."""
    parts = PurePosixPath(name).parts
    plain = name.isprintable() and "\\" not in name and ":" not in name and not name.startswith("/")
    return plain and bool(parts) and ".." not in parts


def _name_problem(entries: list[zipfile.ZipInfo]) -> str:
    names = Counter(entry.filename.casefold() for entry in entries)
    for entry in entries:
        if not is_inside(entry.filename):
            return f"the name {entry.filename!r} leads out of the bundle"
        if stat.S_ISLNK(entry.external_attr >> 16):
            return f"{entry.filename} is a link"
        if entry.flag_bits & 0x1:
            return f"{entry.filename} is encrypted"
        if entry.compress_type not in _COMPRESSIONS:
            return f"{entry.filename} is packed in a way that no bundle is"
        if names[entry.filename.casefold()] > 1:
            return f"{entry.filename} is in it more than once"
    return ""


def _size_problem(entries: list[zipfile.ZipInfo], packed_bytes: int) -> str:
    if len(entries) > MAX_FILES:
        return f"it lists {len(entries):,} files"
    unpacked_bytes = sum(entry.file_size for entry in entries)
    if unpacked_bytes > packed_bytes * MAX_RATIO + ALLOWANCE:
        return f"it claims {unpacked_bytes:,} bytes unpacked, more than any bundle of its size has"
    return ""


# Writing


def pack(folder: Path, target: Path) -> None:
    """The folder as a zip, whole or not at all: names in order, no times, the same bytes for the same files."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    with disk(target), open_replacement(target) as file, zipfile.ZipFile(file, "w") as archive:
        for name in names:
            _add(archive, folder / name, name)


def _add(archive: zipfile.ZipFile, path: Path, name: str) -> None:
    entry = zipfile.ZipInfo(name, _TIME)
    entry.create_system = 3  # Unix, wherever it is packed
    entry.external_attr = _PLAIN_FILE
    entry.compress_type = zipfile.ZIP_STORED if path.suffix in _STORED else zipfile.ZIP_DEFLATED
    entry.file_size = path.stat().st_size
    with path.open("rb") as source, archive.open(entry, "w") as packed:
        while piece := source.read(PIECE_BYTES):
            packed.write(piece)


def unpack(files: Files, name: str, target: Path, size: int) -> None:
    """One file of the bundle as a file of one's own, of no more than the given size."""
    written = 0
    with disk(target), target.open("wb") as file:
        for piece in pieces(files, name):
            written += len(piece)
            if written > size:
                raise InputError(f"{files.where}: {name} is larger than it says.", _AGAIN)
            file.write(piece)


def text(files: Files, name: str) -> str:
    """A file as text; what is none is a sentence."""
    try:
        return content(files, name).decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{files.where}: {name} is not text (UTF-8).", _AGAIN) from error


def refuse_full_disk(folder: Path, n_bytes: int) -> None:
    """Refuse before a disk is filled."""
    with disk(folder):
        free = shutil.disk_usage(folder).free
    if n_bytes > free:
        raise SetupError(
            f"{n_bytes:,} bytes are needed beside {folder}, and {free:,} are free.",
            "Free some space, then try again.",
        )
