"""Small pictures made while others compute: reading and shrinking them keeps one core busy that would be idle.

A head start and nothing else: what is not made here, or fails, is made and told where the bundle is written.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stillme.browsing.bundle import THUMBS, Limits, wanted
from stillme.browsing.faces import Veil, check
from stillme.browsing.thumbs import Thumbs
from stillme.design import Design
from stillme.ledger import Run


class Ahead:
    """The pictures of a bundle on their way into its folder."""

    def __init__(self, run: Run, design: Design, thumbs: Thumbs, limits: Limits) -> None:
        self._run, self._design, self._thumbs, self._limits = run, design, thumbs, limits
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._make, name="small pictures", daemon=True)
        is_large = len(design.trials) > limits.pictures  # then memory is what is short while others compute
        if (os.cpu_count() or 1) > 1 and not is_large:
            self._thread.start()

    def stop(self) -> None:
        """Returns when nobody writes any more; twice does no harm."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _make(self) -> None:
        try:
            pictures = wanted(self._run, self._design, self._limits)
            for _ in self._thumbs.one_by_one(self._run, pictures):
                if self._stopped.is_set():
                    return
        except Exception:  # noqa: S110 - whoever writes the bundle meets it again, and says it
            pass


@contextmanager
def ahead(
    run: Run, design: Design, folder: Path, faces: str, limits: Limits | None = None, old: Path | None = None
) -> Iterator[Ahead]:
    """Begins with the small pictures of the bundle that is going to be written; as `browse` takes it."""
    thumbs = Thumbs(folder / THUMBS, Veil(check(faces)), old and old / THUMBS)
    begun = Ahead(run, design, thumbs, limits or Limits())
    try:
        yield begun
    finally:
        begun.stop()
