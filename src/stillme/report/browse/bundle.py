"""The browse bundle: a page, its script and style, data that is loaded as it is asked for, and small pictures.

Works from a folder, without a server: nothing is fetched, scripts and pictures are only ever named.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from stillme.core.records import digest
from stillme.ledger.objects import Objects
from stillme.report.browse import faces as veils
from stillme.report.browse import records
from stillme.report.browse.faces import Veil
from stillme.report.browse.index import index
from stillme.report.browse.scripts import Scripts, clear, private
from stillme.report.browse.thumbs import Thumbs
from stillme.report.review.state import State
from stillme.report.review.words import Words
from stillme.web.pages import environment

DATA, THUMBS = "data", "thumbs"
FACES = {
    veils.SHOW: "",
    veils.BLUR: "Faces are blurred in every picture. Hair, clothes and surroundings are as they were.",
    veils.NONE: "Pictures are left out. Everything else is here.",
}


@dataclass(frozen=True)
class Limits:
    """Of how many trials of a very large run pictures and raw exchanges are kept. A page says what is left out."""

    pictures: int = 12_000
    exchanges: int = 25_000

    @classmethod
    def of(cls, most: int | None) -> Limits:
        """Both of so many; as they are where nobody says."""
        return cls() if most is None else cls(most, most)


def write(state: State, folder: Path, veil: Veil, limits: Limits, old: Path | None = None) -> None:
    """Writes the bundle anew; small pictures, there or in `old`, stay where faces are treated alike."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = _drawn(state)
    wanted = pictures_of(state, frozenset(drawn[: limits.pictures]))
    shown = Thumbs(folder / THUMBS, veil, old and old / THUMBS).make(state.run, wanted)
    kept = None if limits.exchanges >= len(drawn) else frozenset(drawn[: limits.exchanges])
    originals = _originals(state, folder) if veil.faces == veils.SHOW else ""
    formats = dict(state.run.query("SELECT sha256, format FROM object")) if originals else {}
    about = {
        "faces": veil.faces,
        "originals": originals,
        "notes": list(_notes(state, veil, limits)),
        "sizes": {"records": records.RECORDS, "exchanges": records.EXCHANGES},
        "shared": records.shared(state.run),
    }
    _data(state, folder / DATA, index(state, Words(state.design), shown, formats, about), kept, veil)
    _page(state, folder)


def _drawn(state: State) -> list[str]:
    """Every trial, in an order that hangs on its key alone: a limit keeps some of every kind."""
    keys = state.trials["trial"].to_list()
    return sorted(keys, key=lambda key: digest("kept", trial=key))


def pictures_of(state: State, trials: frozenset[str]) -> dict[str, int]:
    """Picture -> how many people it shows at least; every source, and the edits of these trials."""
    found: dict[str, int] = {}
    for key, source, image in state.trials.select("trial", "source_image", "image").iter_rows():
        trial = state.trial[key]
        sources = [one for one in (source, trial.partner_image) if one]
        found |= dict.fromkeys(sources, 1)
        if image and key in trials:
            found[image] = max(found.get(image, 1), len(sources))
    return found


def _originals(state: State, folder: Path) -> str:
    """Where the run's own pictures are, as the page reaches them; empty where it is not in the run's folder."""
    run = state.run.path.resolve()
    if type(state.run.objects) is not Objects or not folder.resolve().is_relative_to(run):
        return ""
    return Path(os.path.relpath(run / "objects", folder.resolve())).as_posix() + "/"


def _notes(state: State, veil: Veil, limits: Limits) -> Iterator[str]:
    if FACES[veil.faces]:
        yield FACES[veil.faces]
    if veil.faces == veils.BLUR and not veils.can_look():
        yield "Nothing could look for faces (the extra 'vision' is not installed), so whole pictures are blurred."
    total = state.trials.height
    if not veil.leaves_out and limits.pictures < total:
        yield f"Pictures of {limits.pictures:,} of the {total:,} edits are here, drawn by their keys."
    if limits.exchanges < total:
        yield f"Raw exchanges of {limits.exchanges:,} of the {total:,} edits are here, drawn by their keys."


def _data(state: State, folder: Path, content: Mapping[str, Any], kept: frozenset[str] | None, veil: Veil) -> None:
    scripts = Scripts(folder, private(state.run.path))
    names = ["index.js"]
    scripts.write("index.js", "stillme.index", content)
    for number, part in enumerate(records.parts(state, records.RECORDS)):
        names.append(f"records/{number}.js")
        scripts.write(names[-1], "stillme.loaded", names[-1], records.records(part))
    hides = veil.faces != veils.SHOW
    for number, part in enumerate(records.parts(state, records.EXCHANGES)):
        names.append(f"exchanges/{number}.js")
        scripts.write(names[-1], "stillme.loaded", names[-1], records.exchanges(part, kept, hides))
    clear(folder, names)


def _page(state: State, folder: Path) -> None:
    base = resources.files("stillme.web").joinpath("static", "base.css").read_text(encoding="utf-8")
    own = resources.files("stillme.report.browse").joinpath("static")
    (folder / "browse.css").write_text(base + own.joinpath("browse.css").read_text("utf-8"), encoding="utf-8")
    (folder / "browse.js").write_text(own.joinpath("browse.js").read_text("utf-8"), encoding="utf-8")
    report = "../../report.html" if (folder.parent.parent / "report.html").is_file() else ""
    page = environment("stillme.report.browse").get_template("browse.html")
    name = state.design.config.audit.name
    (folder / "index.html").write_text(page.render(name=name, report=report) + "\n", encoding="utf-8")
