"""`stillme bundle`: one file that holds a run's evidence, and nothing that is not in the run.

ledger.sqlite   a consistent copy, also beside a writer    settings/      audit.yaml and the protocol, from the run
report.html     made from that copy, as is report/         tables/        the tidy tables, and what columns are
rows/           every observed row that no table has       objects/       the pictures, only where they are wanted
versions.json   of what made it                            MANIFEST.json  every file's SHA-256, and one over all
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import yaml

import stillme
from stillme.assurance.evidence.archive import is_inside, pack
from stillme.assurance.evidence.manifest import Manifest, write_manifest
from stillme.core.atomic import temporary_path
from stillme.core.errors import InputError, disk
from stillme.core.table_files import write_frame
from stillme.ledger import Run
from stillme.ledger.backup import copy
from stillme.ledger.run import LEDGER
from stillme.plan.design import Design, load_design
from stillme.report import folder as report_folder
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
class BundleResult:
    """Where the bundle is, and what its manifest says."""

    path: Path
    manifest: Manifest

    @property
    def n_bytes(self) -> int:
        return self.path.stat().st_size

    def to_dict(self) -> dict[str, Any]:
        manifest = self.manifest
        sizes = {"bytes": self.n_bytes, "files": len(manifest.files)}
        return {"bundle": str(self.path), **sizes, "sha256": manifest.sha256}


def bundle(
    path: Path, to: Path | None = None, faces: str | None = None, images: bool = False, say: Say = lambda _: None
) -> BundleResult:
    """Makes the bundle of a run, whole or not at all. `images`: with every picture of the run. `faces`: show, blur
    or none in the report; else as in the run's own: who was hidden there stays hidden."""
    target = to or path / FILE
    faces = faces or about.read(path / report_folder.FOLDER).get("faces") or SHOW
    if target.is_dir() or target.suffix != ".zip":
        raise InputError(f"{target} cannot be a bundle.", "Give a file whose name ends with .zip.")
    with Run.open_readonly(path) as run, disk(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with temporary_path(target.with_suffix(".packing"), folder=True) as folder:
            manifest = _fill(run, folder, faces, images, say)
            say("Bundle: packing")
            pack(folder, target)
    return BundleResult(target, manifest)


def _fill(run: Run, folder: Path, faces: str, images: bool, say: Say) -> Manifest:
    """Everything is made from the copy, so that nothing in it is older or newer than its ledger."""
    say("Bundle: copying the ledger")
    copy(run.path / LEDGER, folder / LEDGER)
    with Run.open_readonly(folder) as copied:
        copied.objects = run.objects
        design = load_design(copied)
        if (run.path / KEPT).is_dir():  # the analysis takes longest: one of the same state need not be repeated
            shutil.copytree(run.path / KEPT, folder / KEPT)
        parts = (*PARTS, "browse") if images else PARTS
        report_folder.write(copied, design, folder / REPORT, faces, only=parts, say=say)
        shutil.rmtree(folder / KEPT, ignore_errors=True)
        say("Bundle: tables")
        write_tables(copied, design, folder)
        write_settings(copied, folder)
        if images:
            say("Bundle: pictures")
            for sha256, ending in copied.query("SELECT sha256, format FROM object ORDER BY sha256"):
                path = folder / OBJECTS / sha256[:2] / f"{sha256}.{ending}"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(copied.image(sha256))
        config = design.config
        metadata = {
            "stillme": stillme.__version__,
            "name": config.audit.name,
            "run": copied.id,
            "protocol": config.protocol.name,
            "protocol_hash": config.protocol.hash,
            "preset": config.audit.preset,
            "faces": faces,
            "images": images,
        }
    (folder / VERSIONS).write_text(json.dumps(publish.versions(), indent=1) + "\n", encoding="utf-8")
    (folder / README).write_text(readme(metadata), encoding="utf-8")
    return write_manifest(folder, metadata)


def write_tables(run: Run, design: Design, folder: Path) -> None:
    """Write the tidy tables, and the ledger's rows that they lack."""
    publish.export(run, design, folder / TABLES, "parquet")
    (folder / ROWS).mkdir()
    for name, frame in ledger_rows(run).items():
        write_frame(frame, folder / ROWS / f"{name}.parquet")


# What was observed, as the ledger has it: every verdict with its scores, whether or not the newest configuration
# asks for it, whom judges saw, and what raters answered. The exported tables have only what the design asks for.
_OBSERVED = ("edit", "verdict", "score", "depicted", "label", "rating", "rating_check", "rating_exclusion")
_TYPES: dict[str, Any] = {"TEXT": pl.String, "INTEGER": pl.Int64, "REAL": pl.Float64}


def ledger_rows(run: Run) -> dict[str, pl.DataFrame]:
    """Return table of the ledger -> its rows in the order in which they were written; empty ones are left out."""
    frames = {}
    for table in _OBSERVED:
        schema = {name: _TYPES[kind] for _, name, kind, *_ in run.query(f"PRAGMA table_info({table})")}
        columns = ", ".join(
            '"{}"'.format(name.replace('"', '""')) for name in schema
        )  # it may be a stranger's ledger
        rows = run.query(f"SELECT {columns} FROM {table} ORDER BY rowid")  # noqa: S608 (names are ours, values are parameters)
        if rows:
            frames[table] = pl.DataFrame(rows, schema=schema, orient="row")
    return frames


def write_settings(run: Run, folder: Path) -> None:
    """Write the newest audit.yaml with every setting spelled out, and the protocol's files as the run has them."""
    audit = yaml.safe_dump(run.last_audit()["audit"], sort_keys=False, allow_unicode=True, width=110)
    texts = {"audit.yaml": audit}
    for name, text in json.loads(run.meta()["protocol_files"]).items():
        if not is_inside(name):
            raise InputError(f"The run's protocol has a file named {name!r}, which leads out of its folder.")
        texts[f"protocol/{name}"] = text
    for name, text in texts.items():
        path = folder / SETTINGS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")


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
