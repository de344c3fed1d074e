"""Parts of a folder that are taken over into the one that replaces it (`core.atomic.replace_folder`)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


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
