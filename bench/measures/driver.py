"""Reads the skin tone of pictures in two processes, for either side: run by each side's own interpreter.

    python driver.py ours|peer [image type that the peer is told]

The first line of stdin lists the files; each further line, [first, last], asks for a run over a part of them. The
answer is one line of JSON: the seconds that it took, and for each file its skin, whether a face was found, and CPU
seconds. Both sides run through this same code; it imports nothing of either until it knows which one it is.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PROCESSES = 2
WARM = 4  # pictures before the first run: models are loaded, caches filled

Found = tuple[float | str | None, bool]  # skin: ours L*, the peer's hex; and whether it was read off a face
_read: Callable[[Path], Found]


def ours() -> Callable[[Path], Found]:
    """The way of skin_tone_shift with one picture: face, mesh, region, median."""
    view = importlib.import_module("stillme.measures.view")
    limits = importlib.import_module("stillme.measures.skin_tone_shift").Settings()
    optics = view.VisionModels()

    def read(path: Path) -> Found:
        try:
            picture = view.View(path.read_bytes(), "picture", optics)
            mesh = picture.frontal(picture.person, limits)
            return picture.tone(picture.region(mesh), limits).lightness, True
        except view.UnreadableError:
            return None, False

    return read


def peer(mode: str) -> Callable[[Path], Found]:
    """The peer's own entry, with its defaults and the colour mode given."""
    process = importlib.import_module("stone").process
    cv2 = importlib.import_module("cv2")
    cv2.setNumThreads(1)  # two processes fill two cores; more threads gain nothing

    def read(path: Path) -> Found:
        cv2.setRNGSeed(0)  # its clusters start at random; so that two runs print the same page
        face = process(path, image_type=mode)["faces"][0]
        return face["dominant_colors"][0]["color"], face["face_id"] != "NA"

    return read


def start(side: str, mode: str) -> None:
    global _read
    _read = ours() if side == "ours" else peer(mode)


def one(path: str) -> tuple[float | str | None, bool, float]:
    clock = time.process_time()
    skin, is_face = _read(Path(path))
    return skin, is_face, time.process_time() - clock


def runs(pool: Any, paths: list[str]) -> None:
    list(pool.imap(one, paths[:WARM] * PROCESSES))
    print("ready", flush=True)
    for line in sys.stdin:
        first, last = json.loads(line)
        clock = time.perf_counter()
        found = list(pool.imap(one, paths[first:last]))
        print(json.dumps({"seconds": time.perf_counter() - clock, "found": found}), flush=True)


def main(side: str, mode: str = "") -> None:
    paths = json.loads(sys.stdin.readline())
    with multiprocessing.get_context("spawn").Pool(PROCESSES, start, (side, mode)) as pool:
        runs(pool, paths)


if __name__ == "__main__":
    main(*sys.argv[1:3])
