"""Thumbnails by the hash of the picture that they show: made once, kept in a folder that may be deleted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from stillme.core import images
from stillme.core.atomic import replace_file
from stillme.core.errors import disk

SIDES = (96, 192, 384)  # pixels: a closed list, so that nobody can ask for work without end
AT_ONCE = 2  # pictures that are decoded at a time: a large photograph takes 200 MB


class Thumbnails:
    """Safe to use from several threads; two that make the same one make the same bytes."""

    def __init__(self, folder: Path, load: Callable[[str], bytes]) -> None:
        """`load` gives the picture of a hash."""
        self._folder = folder
        self._load = load
        self._decoding = threading.BoundedSemaphore(AT_ONCE)

    def get(self, sha256: str, side: int) -> bytes:
        path = self._folder / f"{sha256}.{side}.webp"
        with disk(path):
            if path.exists():
                return path.read_bytes()
            with self._decoding:
                made = images.thumbnail(self._load(sha256), side)
            self._write(path, made)
        return made

    def _write(self, path: Path, content: bytes) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        replace_file(path, content, durable=False)
