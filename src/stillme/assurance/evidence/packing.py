"""`stillme bundle`: one file that holds a run's evidence, and nothing that is not in the run.

ledger.sqlite   a consistent copy, also beside a writer    settings/      audit.yaml and the protocol, from the run
report.html     made from that copy, as is report/         tables/        the tidy tables, and what columns are
rows/           every observed row that no table has       objects/       the pictures, only where they are wanted
versions.json   of what made it                            MANIFEST.json  every file's SHA-256, and one over all
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import stillme
from stillme.assurance.evidence import archive, manifest, rows
from stillme.assurance.evidence.manifest import Manifest
from stillme.core.atomic import beside
from stillme.core.errors import InputError, disk
from stillme.core.table_files import write_frame
from stillme.ledger import Run
from stillme.ledger.backup import copy
from stillme.ledger.run import LEDGER
from stillme.plan.design import Design, load_design
from stillme.report import folder as reporting
from stillme.report import publish
from stillme.report.browse.faces import SHOW
from stillme.report.folder import about
from stillme.report.folder.computing import KEPT

FILE = "evidence.zip"
REPORT, TABLES, ROWS, SETTINGS, OBJECTS = "report.html", "tables", "rows", "settings", "objects"
VERSIONS, README = "versions.json", "README.md"
PARTS = ("html", "tables", "figures", "cards")  # of the report; `browse` is pictures
Say = Callable[[str], None]


@dataclass(frozen=True)
class Bundled:
    """Where the bundle is, and what it says of itself."""

    path: Path
    manifest: Manifest

    def words(self) -> str:
        size = self.path.stat().st_size
        told = f"{len(self.manifest.files):,} files, {size / 2**20:,.1f} MB"
        return f"Bundle: {told}, SHA-256 over all files {self.manifest.sha256}\n{self.path}"

    def plain(self) -> dict[str, Any]:
        """For scripts."""
        size, files = self.path.stat().st_size, len(self.manifest.files)
        return {"bundle": str(self.path), "bytes": size, "files": files, "sha256": self.manifest.sha256}


def bundle(
    path: Path, to: Path | None = None, faces: str | None = None, images: bool = False, say: Say = lambda _: None
) -> Bundled:
    """Makes the bundle of a run, whole or not at all. `images`: with every picture of the run. `faces`: show, blur
    or none in the report; else as in the run's own: who was hidden there stays hidden."""
    target = to or path / FILE
    faces = faces or about.read(path / reporting.FOLDER).get("faces") or SHOW
    if target.is_dir() or target.suffix != ".zip":
        raise InputError(f"{target} cannot be a bundle.", "Give a file whose name ends with .zip.")
    with Run.look(path) as seen, disk(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with beside(target.with_suffix(".packing"), folder=True) as part:
            made = _fill(seen, part, faces, images, say)
            say("Bundle: packing")
            archive.pack(part, target)
    return Bundled(target, made)


def _fill(run: Run, folder: Path, faces: str, images: bool, say: Say) -> Manifest:
    """Everything is made from the copy, so that nothing in it is older or newer than its ledger."""
    say("Bundle: copying the ledger")
    copy(run.path / LEDGER, folder / LEDGER)
    with Run.look(folder) as copied:
        copied.objects = run.objects
        design = load_design(copied)
        _keep_analysis(run.path, folder)
        parts = (*PARTS, "browse") if images else PARTS
        reporting.write(copied, design, folder / REPORT, faces, only=parts, say=say)
        shutil.rmtree(folder / KEPT, ignore_errors=True)
        say("Bundle: tables")
        write_tables(copied, design, folder)
        write_settings(copied, folder)
        if images:
            say("Bundle: pictures")
            _copy_images(copied, folder / OBJECTS)
        told = _about(copied, design, faces, images)
    (folder / VERSIONS).write_text(json.dumps(publish.versions(), indent=1) + "\n", encoding="utf-8")
    (folder / README).write_text(readme(told), encoding="utf-8")
    return manifest.write(folder, told)


def _keep_analysis(run: Path, folder: Path) -> None:
    """The analysis takes longest: what a report of the same state left in the run need not be computed again."""
    if (run / KEPT).is_dir():
        shutil.copytree(run / KEPT, folder / KEPT)


def write_tables(run: Run, design: Design, folder: Path) -> None:
    """The tidy tables, and the rows that they lack."""
    publish.export(run, design, folder / TABLES, "parquet")
    (folder / ROWS).mkdir()
    for name, frame in rows.frames(run).items():
        write_frame(frame, folder / ROWS / f"{name}.parquet")


def write_settings(run: Run, folder: Path) -> None:
    """The newest audit.yaml with every setting spelled out, and the protocol's files, as the run has them."""
    audit = yaml.safe_dump(run.last_audit()["audit"], sort_keys=False, allow_unicode=True, width=110)
    texts = {"audit.yaml": audit} | {f"protocol/{name}": text for name, text in _protocol(run)}
    for name, text in texts.items():
        path = folder / SETTINGS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")


def _protocol(run: Run) -> Iterator[tuple[str, str]]:
    for name, text in json.loads(run.meta()["protocol_files"]).items():
        if not archive.is_inside(name):
            raise InputError(f"The run's protocol has a file named {name!r}, which leads out of its folder.")
        yield name, text


def _copy_images(run: Run, folder: Path) -> None:
    for sha256, ending in run.query("SELECT sha256, format FROM object ORDER BY sha256"):
        path = folder / sha256[:2] / f"{sha256}.{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(run.image(sha256))


def _about(run: Run, design: Design, faces: str, images: bool) -> dict[str, Any]:
    return {
        "stillme": stillme.__version__,
        "name": design.config.audit.name,
        "run": run.id,
        "protocol": design.config.protocol.name,
        "protocol_hash": design.config.protocol.hash,
        "preset": design.config.audit.preset,
        "faces": faces,
        "images": images,
    }


def readme(about: dict[str, Any]) -> str:
    pictures = (
        "The pictures are in `objects/`." if about["images"] else "Pictures are named by their SHA-256 only."
    )
    return f"""# Evidence of the audit {about["name"]}

Run `{about["run"]}`, protocol {about["protocol"]}, preset {about["preset"]}; packed by stillme {about["stillme"]}.

- `report.html`, `report/`: what was found, with tables, figures and cards.
- `ledger.sqlite`: everything that was asked and answered, row by row. {pictures}
- `tables/`, `rows/`: the same as tables that pandas, R and DuckDB read.
- `settings/`: the audit's configuration and its protocol. `versions.json`: what computed the numbers.
- `MANIFEST.json`: the SHA-256 of every file.

`stillme verify` on this bundle checks all of it, and makes every printed number anew from the ledger.
"""
