"""Pictures as raters see them: of one size, upright, sRGB, nothing but pixels, named by their content."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from stillme.core import images
from stillme.core.images import Pixels
from stillme.ledger import Run
from stillme.protocol.study_schema import StudyBox
from stillme.study.bundle import IMAGES, Picture

AT_ONCE = 4


class Shelf:
    """The folder in which the pictures of a bundle are put, each once."""

    def __init__(self, folder: Path, quality: int) -> None:
        self.folder, self.quality = folder / IMAGES, quality
        self.folder.mkdir(parents=True, exist_ok=True)

    def put(self, picture: Pixels) -> Picture:
        """JPEG without colour subsampling: skin keeps its tone. Nothing of the file that it came from is in it."""
        content = images.encode(picture, self.quality)
        sha256 = hashlib.sha256(content).hexdigest()
        (self.folder / sha256).write_bytes(content)
        height, width = picture.shape[:2]
        return Picture(sha256=sha256, width=width, height=height)

    def finish(self) -> None:
        """Gives all files one time: their order would tell in which order they were made."""
        for path in self.folder.iterdir():
            os.utime(path, (0, 0))


def side_of(run: Run, wanted: Iterable[str], box: StudyBox) -> int:
    """The longer side of all pictures: that of the smallest one, within the protocol's bounds."""
    sizes = {sha256: max(w, h) for sha256, w, h in run.query("SELECT sha256, width, height FROM object")}
    smallest: int = min(sizes[sha256] for sha256 in wanted)
    return min(box.most, max(box.least, smallest))


def render(
    run: Run, wanted: Iterable[str], side: int, shelf: Shelf, say: Callable[[str], None]
) -> Mapping[str, Picture]:
    """SHA-256 in the run -> the picture in the bundle."""
    every = sorted(set(wanted))
    say(f"Rendering {len(every):,} pictures, longer side {side} pixels")

    def one(sha256: str) -> Picture:
        return shelf.put(images.fit_longer_side(run.image(sha256), side))

    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="render") as threads:
        return dict(zip(every, threads.map(one, every), strict=True))
