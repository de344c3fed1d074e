"""One process at a time writes a run, a selection, or serves a study.

The kernel drops the lock when its holder dies, however it dies. Not `filelock`: it empties the lock file at every
try (and removes it at release), so the process that waits could not be told which process it waits for.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from stillme.core.errors import SetupError, disk

if sys.platform == "win32":  # pragma: no cover (there is no Windows where the tests run)
    import msvcrt

    def take_lock(descriptor: int) -> None:
        os.lseek(descriptor, 1 << 20, os.SEEK_SET)  # behind what is signed: a locked byte can't be read by others
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def take_lock(descriptor: int) -> None:
        """Lock an open file for as long as it is open; OSError where another process has it."""
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


_TAKEN = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK)  # how systems say that another has it


class InUseError(SetupError):
    """Another process has the lock."""


class Lock:
    """`with Lock(run):` keeps other processes out of the run directory, or says which one is there.

    Args:
        run: the folder that is locked, by a file in it.
        what: what the folder is called in the message.
    """

    def __init__(self, run: Path, name: str = "lock", what: str = "The run") -> None:
        self.path = run / name
        self.what = what
        self.run = run
        self._descriptor = -1

    def __enter__(self) -> Lock:
        with disk(self.path):
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            self._acquire()
        except BaseException:
            os.close(self._descriptor)  # what stayed open would stay locked
            raise
        return self

    def _acquire(self) -> None:
        """Take the lock and sign it with this process, for the message to others."""
        try:
            take_lock(self._descriptor)
        except OSError as error:
            if error.errno not in _TAKEN:
                raise SetupError(
                    f"{self.path} cannot be locked: {error.strerror}.",
                    "Choose a folder on a disk that knows locks; some network disks have to be mounted with them.",
                ) from error
            raise InUseError(
                f"{self.what} {self.run} is in use by {holder(self.path)}.",
                "Wait until it ends, or stop it; then run the same command again.",
            ) from None
        now = datetime.now(UTC).isoformat(timespec="seconds")
        signature = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": now})
        with disk(self.path):
            os.ftruncate(self._descriptor, 0)
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            os.write(self._descriptor, signature.encode())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)


def holder(path: Path) -> str:
    """The process that signed the lock, in words."""
    try:
        signature = json.loads(path.read_text())
        return f"process {signature['pid']} on {signature['host']}, since {signature['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
