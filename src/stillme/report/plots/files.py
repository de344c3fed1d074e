"""A drawn figure as files for papers: SVG, PDF with embedded fonts, PNG at 300 dots an inch."""

from __future__ import annotations

from pathlib import Path

from stillme.core.errors import disk
from stillme.report.plots.drawn import Drawn
from stillme.report.plots.render import FORMATS, encoded


def write(drawn: Drawn, folder: Path) -> list[Path]:
    """Writes `<id>.svg`, `.pdf` and `.png` into the folder, which is made where it is not there."""
    paths = [folder / f"{drawn.id}.{form}" for form in FORMATS]
    with disk(folder):
        folder.mkdir(parents=True, exist_ok=True)
        figure = drawn.figure()  # once for PDF and PNG; the SVG is the page's own
        for form, path in zip(FORMATS, paths, strict=True):
            is_page = form == "svg"
            path.write_bytes(drawn.encoded(form) if is_page else encoded(figure, form, drawn.title))
    return paths
