"""The whole report of a run, in files: report.html, and beside it tables, figures, pictures to browse, cards.

Everything is made from the same blocks: what a table says in the page is what its files say. The folder is written
aside and then takes the old one's place, so that whoever looks finds the old report or the new one, never a half.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from stillme.core.atomic import replace_file, replace_folder
from stillme.core.errors import InputError, disk
from stillme.ledger import Run
from stillme.ledger.run import mark_of, shows
from stillme.plan.design import Design
from stillme.report import browse, publish
from stillme.report.browse import faces as veils
from stillme.report.build import render, sections
from stillme.report.folder import about
from stillme.report.folder.aside import Drawing
from stillme.report.folder.computing import compute
from stillme.report.folder.folders import kept
from stillme.report.folder.parts import MAKERS, Making

__all__ = ["FOLDER", "MAKERS", "PARTS", "is_current", "write"]
FOLDER = "report"
HTML = "html"
PARTS = (HTML, *MAKERS)
PICTURED = (HTML, "browse", "pictures")  # parts that show faces

Say = Callable[[str], None]


def write(
    run: Run,
    design: Design,
    path: Path,
    faces: str | None = None,
    whole: bool = True,
    only: Sequence[str] = (),
    say: Say = lambda _: None,
    made_with: tuple[tuple[str, str], ...] | None = None,
    browse_most: int | None = None,
) -> Path:
    """Writes report.html at `path` and the folder beside it. Returns the page's path.

    Not `whole`: the page alone, quickly, without what the analysis adds. `only`: these parts of PARTS alone; the
    others stay as they are. `faces`: show, blur or none; else as in the report that is there, at first shown.
    `browse_most`: of how many edits `browse` keeps pictures and raw exchanges.
    `made_with`: versions that the page names in the place of those that make it, to hold it against an older one.
    """
    if not whole:
        publish.write(run, design, path)
        return path
    before = about.read(path.parent / FOLDER).get("faces")
    faces = veils.check(faces or before or veils.SHOW)
    wanted = chosen(only)
    if before not in (None, faces):  # whoever asks to hide faces must not find them in a part that was kept
        wanted = tuple(name for name in PARTS if name in wanted or name in PICTURED)
    computed = compute(run, design, path.parent, say)
    examples = browse.veiled(computed.context.examples, faces)
    said = computed.context.made_with if made_with is None else made_with
    shown = replace(computed, context=replace(computed.context, examples=examples, made_with=said))
    made = sections(shown.findings, shown.context, shown.further, shown.tables)
    making = Making(run, design, shown, tuple(made), faces, say, browse_most)
    with _written(making, path.parent / FOLDER, wanted) as parts:
        html = _page(making, parts) if HTML in wanted else ""
    if html:
        with disk(path):
            replace_file(path, f"{html}\n{mark_of(run)}\n".encode())
    return path


def chosen(only: Sequence[str]) -> tuple[str, ...]:
    """The parts that were asked for, in their order; all of them where none was."""
    if unknown := [name for name in only if name not in PARTS]:
        raise InputError(f"'{unknown[0]}' is not a part of the report; known: {', '.join(PARTS)}.")
    return tuple(name for name in PARTS if not only or name in only)


@contextmanager
def _written(making: Making, folder: Path, wanted: Sequence[str]) -> Iterator[Path]:
    """The parts of the folder, where they are while figures are still being drawn; in their place afterwards."""
    if not any(name in wanted for name in MAKERS):
        yield folder
        return
    counts = dict(about.counts(folder))
    with disk(folder), replace_folder(folder) as aside, _ended(making.drawings):
        for name, make in MAKERS.items():
            if name not in wanted:
                kept(folder, aside, name)
                continue
            counts[name] = make(making, aside / name, folder / name)
            making.say(f"Report: {name}, {counts[name]:,} files")
        about.write(aside, making.run, making.faces, counts)
        yield aside


def _page(making: Making, parts: Path) -> str:
    """Its numbers lead to the edits behind them where those can be browsed."""
    making.say("Report: the page")
    html = render(making.sections, making.computed.context)
    if not (parts / "browse" / "index.html").is_file():
        return html
    return browse.linked(html, making.design, FOLDER)


@contextmanager
def _ended(drawings: Sequence[Drawing]) -> Iterator[None]:
    """What is drawn meanwhile is there in the end; where something fails, nobody draws on."""
    try:
        yield
        for drawing in drawings:
            drawing.end()
    finally:
        for drawing in drawings:
            drawing.stop()


def is_current(run: Run, path: Path, faces: str | None = None) -> bool:
    """Whether the whole report is there and shows the run as it is; `faces`: and treats them so."""
    return shows(path, run) and about.shows(path.parent / FOLDER, run, faces, list(MAKERS))
