"""The error tree. An error is a sentence with what is wrong and where, and a next step.

StillmeError              exit 1
├── InputError            exit 2   something the user wrote: audit.yaml, protocol, command line
│   └── ConfigIssuesError          several faults, each with its file and field, all at once
├── SetupError            exit 3   what the machine lacks: a lock, disk space, a key, an extra, a file
└── IncompleteError       exit 4   stopped with work left; running again resumes
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class StillmeError(Exception):
    """A sentence for the user, with the next step after it."""

    exit_code = 1

    def __init__(self, sentence: str, next_step: str = "") -> None:
        self.sentence = printable(sentence)
        self.next_step = printable(next_step)
        super().__init__(self.sentence)

    def __str__(self) -> str:
        return f"{self.sentence} {self.next_step}".strip()


def printable(text: str) -> str:
    """The text with control characters and lone surrogates (JSON can hold them) written as escapes."""
    encodable = text.encode("utf-8", "backslashreplace").decode()
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", encodable)


class InputError(StillmeError):
    """Something that the user wrote is wrong."""

    exit_code = 2


class SetupError(StillmeError):
    """The machine lacks something: disk space, a permission, a key, an extra."""

    exit_code = 3


class IncompleteError(StillmeError):
    """Stopped with work left; running again resumes."""

    exit_code = 4


@dataclass(frozen=True, order=True)
class ConfigIssue:
    """One problem in a file that the user wrote."""

    file: str
    line: int
    field: str
    problem: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.field}: {self.problem}" if self.field else f"{place}: {self.problem}"


class ConfigIssuesError(InputError):
    """All faults of a file at once, so that one round of fixing is enough."""

    def __init__(self, faults: Sequence[ConfigIssue], next_step: str = "") -> None:
        self.faults = tuple(sorted(set(faults)))
        count = "1 fault" if len(self.faults) == 1 else f"{len(self.faults)} faults"
        lines = "\n".join(f"  {fault}" for fault in self.faults)
        super().__init__(f"{count}, nothing was changed:\n{lines}", next_step and f"\n{next_step}")


def explain_os_error(error: OSError, path: Path) -> SetupError:
    """A sentence for an error of the file system."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return SetupError(
            f"The disk that holds {path} is full.",
            "Everything recorded so far is kept: free some space and run the same command again.",
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return SetupError(
            f"{path} cannot be written or read: {error.strerror}.",
            "Check the permissions, or choose another run directory.",
        )
    return SetupError(f"{path}: {error.strerror or error}.", "Check that the path exists and is readable.")


@contextmanager
def disk(path: Path) -> Iterator[None]:
    """Turn errors of the file system about `path` into sentences."""
    try:
        yield
    except OSError as error:
        raise explain_os_error(error, path) from error
