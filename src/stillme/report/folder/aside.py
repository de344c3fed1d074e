"""Figures drawn by a process of their own while everything else is written: drawing keeps one core busy.

It is Python with this module, not a copy of ours, so that a script that writes a report needs no guard against
being read again. What it does is a head start and nothing else: where it fails, figures are drawn here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from stillme.report.blocks import Data
from stillme.report.plots import files
from stillme.report.plots.drawn import Drawn
from stillme.report.plots.sheet import Shape, Sheet, Style, Words

FEWEST = 6  # figures, below which a process would take longer to start than to draw


class Drawing:
    """Figures on their way into a folder. They are there when `end` has returned."""

    def __init__(self, figures: Sequence[Drawn], folder: Path) -> None:
        self.figures, self.folder = figures, folder
        self._process = _started(figures, folder) if len(figures) >= FEWEST and cores() > 1 else None

    def end(self) -> None:
        if self._process is None or self._process.wait() != 0:
            _draw(self.figures, self.folder)

    def stop(self) -> None:
        """Ends at once, if it has not ended."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _started(figures: Sequence[Drawn], folder: Path) -> subprocess.Popen[bytes] | None:
    """None where no process can be started."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as asked:
        try:
            json.dump({"folder": str(folder.resolve()), "figures": [_told(figure) for figure in figures]}, asked)
            asked.seek(0)
            quiet, us = subprocess.DEVNULL, [sys.executable, "-m", __name__]
            return subprocess.Popen(us, stdin=asked, stdout=quiet, stderr=quiet)  # noqa: S603 - no word from outside
        except OSError:
            return None


def _told(figure: Drawn) -> dict[str, Any]:
    """All that its files hang on, in plain words and numbers."""
    sheet = figure.sheet
    shapes = [(layer, asdict(style), shape.steps) for (layer, style), shape in sheet.shapes.items()]
    about = {"id": figure.id, "title": figure.title, "alternative": figure.alternative}
    drawn = {"width": sheet.width, "height": sheet.height, "shapes": shapes}
    return {**about, **drawn, "texts": [asdict(words) for words in sheet.texts]}


def _heard(told: dict[str, Any]) -> Drawn:
    sheet = Sheet(told["width"], told["height"], texts=[Words(**words) for words in told["texts"]])
    for layer, style, steps in told["shapes"]:
        look = Style(**style)
        sheet.shapes[layer, look] = Shape(look, [(letter, x, y) for letter, x, y in steps])
    return Drawn(told["id"], told["title"], told["alternative"], "", Data("", ""), sheet, sheet)


def _draw(figures: Sequence[Drawn], folder: Path) -> None:
    for figure in figures:
        files.write(figure, folder)


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    _draw([_heard(told) for told in asked["figures"]], Path(asked["folder"]))
