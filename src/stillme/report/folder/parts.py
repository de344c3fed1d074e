"""The parts of the report folder, each written by one function: how many files it made is what it says."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from stillme.ledger import Run
from stillme.plan.design import Design
from stillme.report import browse as browsing
from stillme.report import cards as carding
from stillme.report import files
from stillme.report.blocks import Block, Section
from stillme.report.files.paper import paper_tables
from stillme.report.folder.aside import Drawing
from stillme.report.folder.computing import Computed
from stillme.report.plots.drawn import Drawn
from stillme.report.plots.render import FORMATS
from stillme.report.review.state import State
from stillme.report.tables import Table


@dataclass(frozen=True)
class Making:
    """What parts are made from."""

    run: Run
    design: Design
    computed: Computed
    sections: tuple[Section, ...]
    faces: str
    say: Callable[[str], None]
    browse_most: int | None = None  # edits whose pictures and raw exchanges `browse` keeps
    drawings: list[Drawing] = field(default_factory=list)  # figures that are not there yet

    @cached_property
    def state(self) -> State:
        """Every edit with all that is known of it."""
        return browsing.read(self.run, self.design, self.computed.every)

    @property
    def blocks(self) -> Iterable[Block]:
        return (block for section in self.sections for block in files.flat(section.blocks))


Make = Callable[[Making, Path, Path], int]  # what it is made from, the folder to write, the one that is there


def tables(making: Making, folder: Path, old: Path) -> int:
    """Every table of the page, and the paper's own."""
    folder.mkdir()
    found = making.computed
    shown = [block for block in making.blocks if isinstance(block, Table)]
    own = paper_tables(found.findings, found.context, found.tables)
    return sum(len(files.write(table, folder)) for table in (*shown, *own))


def figures(making: Making, folder: Path, old: Path) -> int:
    """Every drawn figure of the page, for papers."""
    folder.mkdir()
    blocks = [block for block in making.blocks if isinstance(block, Drawn)]
    making.drawings.append(Drawing(blocks, folder))
    return len(blocks) * len(FORMATS)


def browse(making: Making, folder: Path, old: Path) -> int:
    """Every edit beside its source, and each number's edits."""
    browsing.browse(making.state, folder, making.faces, browsing.Limits.of(making.browse_most), old)
    return _counted(folder)


def pictures(making: Making, folder: Path, old: Path) -> int:
    """The mosaic, the grids and the cases, chosen by rule."""
    browsing.pictures(making.state, folder, making.faces)
    return _counted(folder)


def cards(making: Making, folder: Path, old: Path) -> int:
    """What people and machines need to know who meet the results elsewhere."""
    making.__dict__.pop("state", None)  # pictures are made: of a large run it takes hundreds of megabytes
    found = making.computed
    said = (found.findings, found.context, found.further)
    carding.write(making.run, making.design, folder, said, found.tables, found.every)
    return _counted(folder)


MAKERS: dict[str, Make] = {
    "tables": tables,
    "figures": figures,
    "browse": browse,
    "pictures": pictures,
    "cards": cards,
}


def _counted(folder: Path) -> int:
    return sum(path.is_file() for path in folder.rglob("*"))
