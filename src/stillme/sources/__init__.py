"""Sources: where portraits come from. One file a backend; each yields portraits with how people perceived them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from stillme.records import Portrait

BACKENDS = {"synthetic": "stillme.sources.synthetic"}


class Source(Protocol):
    """Yields each portrait with its image, in the same order every time."""

    def portraits(self) -> Iterator[tuple[Portrait, bytes]]: ...
