"""A drawn figure as files for papers: SVG, PDF with embedded fonts, PNG at 300 dots an inch."""

from __future__ import annotations

from pathlib import Path

from stillme.errors import disk
from stillme.report.plots.drawn import Drawn
from stillme.report.plots.render import FORMATS


def write(drawn: Drawn, folder: Path) -> list[Path]:
    """Writes `<id>.svg`, `.pdf` and `.png` into the folder, which is made where it is not there."""
    paths = [folder / f"{drawn.id}.{form}" for form in FORMATS]
    with disk(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for form, path in zip(FORMATS, paths, strict=True):
            path.write_bytes(drawn.encoded(form))
    return paths
