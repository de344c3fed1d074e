"""Pictures and every single edit, as pages that work from a folder: what a number in the report is made of.

Reads a run and writes files; changes nothing in the run, asks nobody, decides nothing. What stands in the pictures
folder is chosen by rules; what stands in browse is everything.
"""

from __future__ import annotations

from pathlib import Path

from stillme.core.errors import disk
from stillme.ledger import Run
from stillme.plan.design import Design
from stillme.report.browse import bundle, gallery
from stillme.report.browse.bundle import Limits
from stillme.report.browse.faces import Veil, check
from stillme.report.browse.gallery import veiled
from stillme.report.publish import main_experiment
from stillme.report.review.linked import anchored
from stillme.report.review.state import State
from stillme.report.review.state import load as read

__all__ = ["Limits", "browse", "linked", "pictures", "read", "veiled", "write"]


def write(run: Run, design: Design, folder: Path, faces: str = "show", limits: Limits | None = None) -> None:
    """Writes `folder/browse` and `folder/pictures`. `faces`: show, blur or none."""
    state = read(run, design)
    browse(state, folder / "browse", faces, limits)
    pictures(state, folder / "pictures", faces)


def browse(
    state: State, folder: Path, faces: str = "show", limits: Limits | None = None, old: Path | None = None
) -> None:
    """Every edit. Small pictures that are there stay; `old`: an earlier folder whose small pictures will do."""
    with disk(folder):
        bundle.write(state, folder, Veil(check(faces)), limits or Limits(), old)


def pictures(state: State, folder: Path, faces: str = "show") -> None:
    """The mosaic, the grids and the cases; the page takes its style from `browse` beside it."""
    with disk(folder):
        gallery.write(state, folder, Veil(check(faces)))


def linked(html: str, design: Design, folder: str) -> str:
    """The report's page with a link on every number to the edits behind it. `folder`: where `browse` is, as the
    page has to name it. A number is about the main tables unless its query says more."""
    return anchored(html, main_experiment(design), f"{folder}/browse/index.html#")
