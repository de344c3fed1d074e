"""A target: one parser of ours, how its inputs are made, and what it may say to those that are no good."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from stillme.core.errors import StillmeError
from tests.fuzz.damage import Input

Feed = Callable[[bytes], None]


@dataclass(frozen=True)
class Target:
    """`prepare` gets a folder of its own and a stack for what has to be closed, and gives how inputs are made and the function that they are fed to.

    `tries`: inputs of a long run.
    """

    name: str
    prepare: Callable[[Path, ExitStack], tuple[Input, Feed]]
    tries: int

    @contextmanager
    def opened(self, folder: Path) -> Iterator[tuple[Input, Feed]]:
        with ExitStack() as stack:
            yield self.prepare(folder, stack)


@contextmanager
def sentence(*kinds: type[Exception], naming: str = "") -> Iterator[None]:
    """What is no good is refused with a sentence that can be printed; anything else goes through as the crash it is."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, kinds or StillmeError):
            raise
        said = str(error)
        said.encode()
        assert said.strip() and naming in said, repr(said)
