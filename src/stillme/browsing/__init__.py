"""Pictures and every single edit, as pages that work from a folder: what a number in the report is made of.

Reads a run and writes files; changes nothing in the run, asks nobody, decides nothing. What stands in the pictures
folder is chosen by rules; what stands in browse is everything.
"""

from __future__ import annotations

from pathlib import Path

from stillme.browsing import bundle, gallery
from stillme.browsing.bundle import Limits
from stillme.browsing.faces import Veil, check
from stillme.browsing.gallery import veiled
from stillme.design import Design
from stillme.errors import disk
from stillme.ledger import Run
from stillme.publish import main_experiment
from stillme.review.linked import about
from stillme.review.state import load

__all__ = ["Limits", "address", "veiled", "write"]


def write(run: Run, design: Design, folder: Path, faces: str = "show", limits: Limits | None = None) -> None:
    """Writes `folder/pictures` and `folder/browse`. `faces`: show, blur or none; see `faces`."""
    veil = Veil(check(faces))
    state = load(run, design)
    with disk(folder):
        bundle.write(state, folder / "browse", veil, limits or Limits())
        gallery.write(state, folder / "pictures", veil)


def address(query: str, design: Design) -> str:
    """Where a number of the report leads: `query` as its cell has it, about the main tables unless it says more."""
    return f"browse/index.html#{about(query, main_experiment(design))}"
