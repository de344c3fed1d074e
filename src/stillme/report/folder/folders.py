"""A folder that is replaced whole: written aside, then swapped. A crash leaves the old one as it was."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stillme.core.atomic import beside


@contextmanager
def swapped(folder: Path) -> Iterator[Path]:
    """A new folder to write into; it takes the old one's place when everything is written, and only then."""
    _recover(folder)
    with beside(folder, folder=True) as part:
        yield part
        _swap(part, folder)


def _swap(aside: Path, folder: Path) -> None:
    old = _old(folder)
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    aside.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def _recover(folder: Path) -> None:
    """Puts back what a crash between the two renames left under another name."""
    old = _old(folder)
    if old.exists() and not folder.exists():
        old.rename(folder)


def _old(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.old")


def kept(folder: Path, aside: Path, name: str) -> None:
    """Takes a part over as it is, without copying what is in its files where the disk allows that."""
    if (folder / name).is_dir():
        shutil.copytree(folder / name, aside / name, copy_function=linked, dirs_exist_ok=True)


def linked(source: str, target: str) -> None:
    """The same file under a second name; a copy of it where the disk has no such names."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
