"""Images by content: written aside, flushed to disk, then renamed. A file that is there is whole."""

from __future__ import annotations

import hashlib
import itertools
import os
import threading
from pathlib import Path

from stillme.errors import SurroundingsError, disk


class Objects:
    """The folder objects/ of a run. Safe to use from several threads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._aside = folder / "aside"
        self._numbers = itertools.count()

    def make(self) -> None:
        """Makes the folder; clears what a killed process left aside (no row refers to it)."""
        with disk(self.folder):
            self._aside.mkdir(parents=True, exist_ok=True)
            for leftover in self._aside.iterdir():
                leftover.unlink()

    def path(self, sha256: str, extension: str) -> Path:
        return self.folder / sha256[:2] / f"{sha256}.{extension}"

    def put(self, content: bytes, extension: str) -> str:
        """Stores content durably and returns its hash. The same content is stored once."""
        sha256 = hashlib.sha256(content).hexdigest()
        final = self.path(sha256, extension)
        with disk(final):
            if not final.exists():
                self._write(content, final)
        return sha256

    def _write(self, content: bytes, final: Path) -> None:
        name = f"{os.getpid()}-{threading.get_ident()}-{next(self._numbers)}"
        aside = self._aside / name
        try:
            with aside.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            if not final.parent.exists():
                final.parent.mkdir(exist_ok=True)
                flush_folder(self.folder)
            aside.replace(final)
        except OSError:
            aside.unlink(missing_ok=True)
            raise
        flush_folder(final.parent)

    def get(self, sha256: str, extension: str) -> bytes:
        """The content, checked against its name."""
        path = self.path(sha256, extension)
        with disk(path):
            content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != sha256:
            raise SurroundingsError(f"{path} was changed on disk: its content is not what its name says.")
        return content


def flush_folder(folder: Path) -> None:
    """Makes a rename inside a folder survive a power cut (where the system allows it)."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:  # Windows cannot open folders; renames are journalled there
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
