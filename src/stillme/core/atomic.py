"""Files and folders that are written under another name first: whoever looks finds the old one or the new, never a
half. What a killed process left under such a name is cleared away by the next one that writes there.

The kernel says who still writes: it drops a lock when its holder dies, however it dies.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path

if sys.platform == "win32":

    def _take(descriptor: int) -> None:
        """Folders cannot be locked there: nothing is cleared away."""
        raise BlockingIOError
else:
    import fcntl

    def _take(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


ENDING = ".part"


@contextmanager
def beside(path: Path, folder: bool = False) -> Iterator[Path]:
    """A name beside `path` to write a file or a folder under; what is still there in the end is removed."""
    clear(path)
    part = path.with_name(f".{path.name}.{os.getpid()}{ENDING}")
    _remove(part)
    if folder:
        part.mkdir(parents=True)
    else:
        part.touch()
    descriptor = os.open(part, os.O_RDONLY)
    try:
        with suppress(OSError):
            _take(descriptor)
        yield part
    finally:
        _remove(part)
        os.close(descriptor)


def clear(path: Path) -> None:
    """Removes what was begun for `path` by processes that are dead."""
    with suppress(OSError):
        for found in path.parent.glob(f".{escape(path.name)}.*{ENDING}"):
            if _is_left(found):
                _remove(found)


def _is_left(part: Path) -> bool:
    try:
        descriptor = os.open(part, os.O_RDONLY)
    except OSError:
        return False
    try:
        _take(descriptor)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _remove(part: Path) -> None:
    if part.is_dir():
        shutil.rmtree(part, ignore_errors=True)
    else:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def replace_file(path: Path, content: bytes) -> None:
    """The file whole, or as it was."""
    with beside(path) as part:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
