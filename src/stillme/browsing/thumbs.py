"""Small pictures, one a picture of the run, named by its hash: made once, kept while faces are treated alike."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from stillme import images
from stillme.browsing.faces import Veil
from stillme.browsing.index import NAME
from stillme.images import BadImageError
from stillme.ledger import Run

SIDE, QUALITY, EFFORT = 192, 70, 0
SIGN = "made.txt"


@dataclass(frozen=True)
class Thumbs:
    """A folder of them. Pillow and OpenCV work outside Python's lock, so threads use every core."""

    folder: Path
    veil: Veil

    @property
    def sign(self) -> str:
        return f"faces {self.veil.faces}, {SIDE} pixels, quality {QUALITY}\n"

    def make(self, run: Run, wanted: Mapping[str, int]) -> frozenset[str]:
        """Picture -> how many people it shows. Gives back those that have a thumbnail now."""
        self._settle()
        if self.veil.leaves_out:
            return frozenset()
        for prefix in {name[:2] for name in wanted}:
            (self.folder / prefix).mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            made = pool.map(lambda one: self._one(run, *one), wanted.items())
            return frozenset(name for name, there in zip(wanted, made, strict=True) if there)

    def path(self, sha256: str) -> Path:
        return self.folder / sha256[:2] / f"{sha256[:NAME]}.webp"

    def _settle(self) -> None:
        """What was made otherwise goes first, so that no face stays that is to be hidden now."""
        sign = self.folder / SIGN
        known = sign.read_text(encoding="utf-8") if sign.is_file() else ""
        if known != self.sign and self.folder.exists():
            shutil.rmtree(self.folder)
        if not self.veil.leaves_out:
            self.folder.mkdir(parents=True, exist_ok=True)
            sign.write_text(self.sign, encoding="utf-8")

    def _one(self, run: Run, sha256: str, people: int) -> bool:
        path = self.path(sha256)
        if path.exists():
            return True
        try:
            picture = self.veil.picture(run.image(sha256), SIDE, people)
        except BadImageError:
            return False
        aside = path.with_suffix(f".{os.getpid()}")
        aside.write_bytes(images.webp(picture, QUALITY, EFFORT))
        aside.replace(path)
        return True
