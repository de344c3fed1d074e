"""Files that come from elsewhere whole: bundles of evidence, zips of portraits, studies, their keys, their answers."""

from __future__ import annotations

import io
import json
import random
import zipfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from stillme.assurance.evidence import manifest
from stillme.assurance.evidence.verification import verify
from stillme.cli.render.release import render_verification
from stillme.core.errors import ConfigIssuesError, InputError, StillmeError
from stillme.ledger.run import LEDGER
from stillme.sources.files import FileProblem, open_files
from stillme.study import bundle as bundles
from stillme.study import ratings
from stillme.study.builder import key as keys
from stillme.study.builder.key import Key
from tests.fuzz.damage import Input, as_json, bytes_of, json_of, lines_of, tree
from tests.fuzz.tables import csv_frame, odd_frame, parquet
from tests.fuzz.target import Feed, Target, sentence
from tests.study.bundles import write

ABOUT = {
    "stillme": "1", "name": "n", "run": "r", "protocol": "p", "protocol_hash": "h", "preset": "s", "faces": "none",
    "images": False,
}  # fmt: skip


def zipped(files: dict[str, bytes], packing: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", packing) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content, packing)
    return buffer.getvalue()


def evidence(folder: Path) -> dict[str, bytes]:
    """A bundle as small as can be: its ledger is none."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (
        (LEDGER, b"SQLite format 3\0" + b"x" * 99),
        ("report.html", b"<p>1</p>"),
        ("versions.json", b"{}"),
    ):
        (folder / name).write_bytes(content)
    manifest.write_manifest(folder, ABOUT)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def _evidence(folder: Path, stack: ExitStack) -> tuple[Input, Feed]:
    files = evidence(folder / "packed")
    packings = (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    plain = bytes_of(*(zipped(files, packing) for packing in packings))
    told = json.loads(files[manifest.FILE])
    path = folder / "evidence.zip"

    def made(chance: random.Random) -> bytes:
        if chance.random() < 0.6:
            return plain(chance)
        return zipped({**files, manifest.FILE: as_json(tree(told, chance))}, chance.choice(packings))

    def feed(content: bytes) -> None:
        path.write_bytes(content)
        with sentence(StillmeError, naming="evidence.zip"):
            found = verify(path)
            assert not found.holds
            render_verification(found).encode()

    return made, feed


def _portraits(folder: Path, stack: ExitStack) -> tuple[Input, Feed]:
    """A zip that a reader of portraits is given."""
    folder.mkdir(parents=True, exist_ok=True)
    path, files = folder / "faces.zip", {"faces/a.jpg": b"a" * 50, "faces/b c.png": b"b", "faces/d/e.jpg": b""}
    packings = (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)

    def feed(content: bytes) -> None:
        path.write_bytes(content)
        with sentence(StillmeError, ValueError, naming="faces.zip"):
            opened = open_files(path)
            names = list(opened.names())
            for _, one in opened.read([*names, "nothing.jpg"]):
                assert isinstance(one, bytes | FileProblem)

    return bytes_of(*(zipped(files, packing) for packing in packings)), feed


def _study(folder: Path, stack: ExitStack) -> tuple[Input, Feed]:
    made = write(folder / "bundle", items=2, tasks=1, seats=2, side=8)
    path = folder / "bundle" / bundles.FILE
    good = json.loads(path.read_text(encoding="utf-8"))
    assert made.hash == good["hash"]

    def feed(content: bytes) -> None:
        path.write_bytes(content)
        with sentence(InputError, naming="bundle"):
            assert bundles.read(folder / "bundle").hash

    return json_of(good), feed


KEY = Key(
    bundle="a" * 64, name="n", preset="paper", questionnaire="q", layout="pair", run="r", protocol="p",
    experiment="diagnose", arms=("plain",), seed=1, secret="s" * 64, stillme="1", margins={}, left_out={},
    questions=({"id": "skin", "kind": "scale", "axis": "skin_tone", "values": ("1", "2", "cannot_determine")},
               {"id": "best", "kind": "choice", "values": ("left", "right", "neither")}),
    tasks={"t1": {"seats": 2, "items": ("i1",)}},
    items={"i1": {"portrait": "p", "prompt": "O-01", "editor": "e", "category": "o", "groups": {"race": "white"}}},
    outputs={"o1": {"item": "i1", "trial": "t", "edit": "e", "experiment": "diagnose", "arm": "plain", "editor": "e",
                    "prompt": "O-01", "portrait": "p"}},
)  # fmt: skip


def _key(folder: Path, stack: ExitStack) -> tuple[Input, Feed]:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "study.key.json"

    def feed(content: bytes) -> None:
        path.write_bytes(content)
        with sentence(InputError, naming="study.key.json"):
            keys.read(path)

    return json_of(KEY.model_dump(mode="json")), feed


RATINGS = (
    ",".join(ratings.RATINGS) + f"\n{'a' * 64},r1,complete,t1,i1,o1,skin,scored,2,2,left,1,1,4000,12.5,true\n"
)
RATINGS += f"{'a' * 64},r1,complete,t1,i1,,best,chosen,o1,left,left,1,1,4000,12.5,true\n"
CHECKS = ",".join(ratings.CHECKS) + "\nr1,c1,true,i1\n"


def _ratings(folder: Path, stack: ExitStack) -> tuple[Input, Feed]:
    """Answers of raters, up to the rows that would go into the run."""
    folder.mkdir(parents=True, exist_ok=True)
    lines, packed = lines_of(RATINGS, CHECKS), bytes_of(parquet(csv_frame(RATINGS)))

    def made(chance: random.Random) -> bytes:
        kind = chance.randrange(4)
        if kind == 0:
            return b"p" + packed(chance)
        return b"p" + odd_frame(RATINGS, chance) if kind == 1 else b"c" + lines(chance)

    def feed(content: bytes) -> None:
        path = folder / ("ratings.parquet" if content[:1] == b"p" else "ratings.csv")
        for old in folder.glob("ratings.*"):
            old.unlink()
        path.write_bytes(content[1:])
        (folder / "checks.csv").write_bytes(content[1:])
        with sentence(InputError, naming=folder.name):
            for sheet in (ratings._table(folder, "ratings", ratings.RATINGS, {}),):
                if faults := list(ratings._misfits(sheet, KEY)):
                    raise ConfigIssuesError(faults)
                rows = [ratings._rating(ratings._name(row), row, KEY) for row in sheet.rows]
                whole = [value for row in rows for value in row.values if type(value) is int]
                assert all(-(2**63) <= value < 2**63 for value in whole)
        with sentence(InputError, naming=folder.name):
            list(ratings._odd_checks(ratings._table(folder, "checks", ratings.CHECKS, {})))

    return made, feed


def _export(folder: Path, stack: ExitStack) -> tuple[Input, Feed]:
    """What an export says of itself."""
    folder.mkdir(parents=True, exist_ok=True)
    good: dict[str, Any] = {"bundle": "a" * 64, "sha256": {"ratings.csv": "b" * 64}}

    def feed(content: bytes) -> None:
        (folder / "export.json").write_bytes(content)
        with sentence(InputError, naming=folder.name):
            ratings._told(folder, KEY)

    return json_of(good), feed


TARGETS = (
    Target("bundles of evidence", _evidence, 2_000),
    Target("zips of portraits", _portraits, 4_000),
    Target("bundles of studies", _study, 2_500),
    Target("keys of studies", _key, 2_500),
    Target("answers of raters", _ratings, 2_500),
    Target("exports of studies", _export, 3_000),
)
