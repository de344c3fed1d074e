"""Small pictures, one a picture of the run, named by its hash: made once, kept while faces are treated alike."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from stillme.core import images
from stillme.core.atomic import replace_file
from stillme.core.images import BadImageError
from stillme.ledger import Run
from stillme.report.browse.faces import Veil
from stillme.report.browse.index import NAME

SIDE, QUALITY, EFFORT = 192, 70, 0
SIGN = "made.txt"


@dataclass(frozen=True)
class Thumbs:
    """A folder of them. Pillow and OpenCV work outside Python's lock, so threads use every core."""

    folder: Path
    veil: Veil
    old: Path | None = None  # another such folder, whose pictures are taken over

    @property
    def sign(self) -> str:
        return f"faces {self.veil.faces}, {SIDE} pixels, quality {QUALITY}\n"

    def make(self, run: Run, wanted: Mapping[str, int]) -> frozenset[str]:
        """Picture -> how many people it shows. Gives back those that have a thumbnail now."""
        self._settle()
        if self.veil.leaves_out:
            return frozenset()
        if self.old and not self._is_mine(self.old):
            return replace(self, old=None).make(run, wanted)
        for prefix in {name[:2] for name in wanted}:
            (self.folder / prefix).mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            made = pool.map(lambda one: self._one(run, *one), wanted.items())
            return frozenset(name for name, there in zip(wanted, made, strict=True) if there)

    def path(self, sha256: str) -> Path:
        return self.folder / sha256[:2] / f"{sha256[:NAME]}.webp"

    def _settle(self) -> None:
        """What was made otherwise goes first, so that no face stays that is to be hidden now."""
        if self.folder.exists() and (self.veil.leaves_out or not self._is_mine(self.folder)):
            shutil.rmtree(self.folder)
        if not self.veil.leaves_out:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / SIGN).write_text(self.sign, encoding="utf-8")

    def _taken_over(self, path: Path) -> bool:
        """The same file under a second name, where faces were treated alike there and the disk has such names."""
        if self.old is None:
            return False
        try:
            os.link(self.old / path.relative_to(self.folder), path)
        except OSError:
            return False
        return True

    def _is_mine(self, folder: Path) -> bool:
        sign = folder / SIGN
        return sign.is_file() and sign.read_text(encoding="utf-8") == self.sign

    def _one(self, run: Run, sha256: str, people: int) -> bool:
        path = self.path(sha256)
        if path.exists() or self._taken_over(path):
            return True
        try:
            picture = self.veil.picture(run.image(sha256), SIDE, people)
        except BadImageError:
            return False
        replace_file(path, images.webp(picture, QUALITY, EFFORT), durable=False)
        return True
