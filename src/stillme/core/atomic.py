"""Atomic files, folders and database copies: a reader finds the old one or the new one, never a half.

The content is written under a temporary name (`.NAME.PID-RANDOM.part`), flushed to the disk and renamed. A killed
process leaves its part behind; the next one that writes there removes it. Whether a part is still being written
the kernel tells: every part is locked, and the kernel drops a lock when its holder dies, however it dies.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import BinaryIO

from stillme.core.lock import take_lock

ENDING = ".part"


@contextmanager
def temporary_path(path: Path, folder: bool = False, private: bool = False) -> Iterator[Path]:
    """Yield a temporary file or folder next to `path`; what is still there in the end is removed.

    Args:
        folder: a folder instead of a file.
        private: for its owner alone.
    """
    remove_stale_parts(path)
    part, descriptor = _create_locked(path, folder, private)
    try:
        yield part
    finally:
        _remove(part)
        os.close(descriptor)


def _create_locked(path: Path, folder: bool, private: bool) -> tuple[Path, int]:
    """A new part and the descriptor that locks it.

    Between its creation and its lock another writer may take a part for a leftover; then the next name is tried.
    """
    while True:
        part = _part_name(path, path.parent)
        if folder:
            part.mkdir(mode=0o700 if private else 0o777, parents=True)
        else:
            part.touch(mode=0o600 if private else 0o666)
        try:
            descriptor = os.open(part, os.O_RDONLY)
        except FileNotFoundError:
            continue
        try:
            take_lock(descriptor)
        except BlockingIOError:
            os.close(descriptor)
            continue
        except OSError:  # a disk without locks: there, parts of killed processes stay
            return part, descriptor
        if part.exists():
            return part, descriptor
        os.close(descriptor)


def remove_stale_parts(path: Path) -> None:
    """Remove the parts of `path` that killed processes left."""
    with suppress(OSError):
        for part in path.parent.glob(f".{escape(path.name)}.*{ENDING}"):
            with suppress(OSError):
                descriptor = os.open(part, os.O_RDONLY)
                try:
                    take_lock(descriptor)
                    _remove(part)
                finally:
                    os.close(descriptor)


def _part_name(path: Path, folder: Path) -> Path:
    """Random, too: threads may write the same file, and process ids repeat (in containers nearly always)."""
    return folder / f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}{ENDING}"


def _remove(part: Path) -> None:
    if part.is_dir():
        shutil.rmtree(part, ignore_errors=True)
    else:
        with suppress(OSError):
            part.unlink(missing_ok=True)


# Files


@contextmanager
def open_replacement(
    path: Path, *, private: bool = False, durable: bool = True, aside: Path | None = None
) -> Iterator[BinaryIO]:
    """Yield a binary file that takes the place of `path` when the block ends; after an error `path` is as it was.

    Args:
        private: for its owner alone.
        durable: False for caches: nothing is flushed, and no leftovers are looked for.
        aside: another folder of the same disk for the part, whose owner clears it. Looking for leftovers takes
            too long where a folder has very many files.
    """
    locked = durable and aside is None
    with temporary_path(path, private=private) if locked else _unlocked(path, aside or path.parent) as part:
        with open(part, "wb", opener=_open_private if private else None) as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        part.replace(path)
    if durable:
        flush_folder(path.parent)


@contextmanager
def _unlocked(path: Path, folder: Path) -> Iterator[Path]:
    part = _part_name(path, folder)
    try:
        yield part
    finally:
        _remove(part)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def replace_file(
    path: Path, content: bytes, *, private: bool = False, durable: bool = True, aside: Path | None = None
) -> None:
    """Write a file whole, or leave it as it was. The options are those of `open_replacement`."""
    with open_replacement(path, private=private, durable=durable, aside=aside) as file:
        file.write(content)


# Folders


@contextmanager
def new_folder(folder: Path, *, private: bool = False) -> Iterator[Path]:
    """Yield a folder to fill; flushed, it becomes `folder`, which must be empty or not there.

    Renaming refuses to replace a folder that somebody has filled meanwhile.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with temporary_path(folder, folder=True, private=private) as part:
        yield part
        for place, _, names in os.walk(part):
            for name in names:
                flush_file(Path(place, name))
            flush_folder(Path(place))
        part.rename(folder)
        flush_folder(folder.parent)


@contextmanager
def replace_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder to fill; it takes the place of `folder`, which is removed. For what can be made again: its
    files are not flushed."""
    old = folder.with_name(f".{folder.name}.old")
    if old.exists() and not folder.exists():  # a process was killed between the two renames below
        old.rename(folder)
    with temporary_path(folder, folder=True) as part:
        yield part
        shutil.rmtree(old, ignore_errors=True)
        if folder.exists():
            folder.rename(old)
        part.rename(folder)
        shutil.rmtree(old, ignore_errors=True)


# Databases


def copy_database(source: sqlite3.Connection, target: Path) -> None:
    """Copy all pages of one state into one new file; processes that write meanwhile are not held up."""
    with closing(sqlite3.connect(target, isolation_level=None)) as copy:
        source.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")  # no further files beside it, wherever it is read


@contextmanager
def replace_database(source: sqlite3.Connection, path: Path, *, private: bool = False) -> Iterator[Path]:
    """Yield a copy of a database, to be checked; flushed, it takes the place of `path` when the block ends.

    The part is a folder: a lock on the file itself could keep SQLite from locking it (macOS, NFS).
    """
    with temporary_path(path, folder=True, private=private) as part:
        copy = part / path.name
        if private:
            copy.touch(mode=0o600)
        copy_database(source, copy)
        yield copy
        flush_file(copy)
        copy.replace(path)
        flush_folder(path.parent)


# Flushing


def flush_file(path: Path) -> None:
    """Bring a file to the disk, so that it survives a power cut."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def flush_folder(folder: Path) -> None:
    """Bring renames inside a folder to the disk (where the system allows it)."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:  # Windows cannot open folders; renames are journalled there
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
