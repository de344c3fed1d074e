"""The golden run: one fixed small audit, recorded before a change and compared after it.

    python tools/golden.py record FOLDER     make the audit with this code and keep everything that comes out
    python tools/golden.py compare FOLDER    name every difference between the recording and what this code makes

The audit has two planted editors, all three experiments, controls, measures, calibration, and three studies whose raters
are simulated. `compare` does three things: it makes the audit from its configuration again, it writes report, analysis,
tables and evidence of a copy of the recorded run again, and it verifies the evidence bundle that the recording code wrote.
A pure refactoring shows no difference (exit code 0); an intended change lists exactly what it changed (exit code 1).

What may differ without being named: times, durations, and ids that are drawn at random. They are replaced by placeholders
on both sides before anything is compared, or left out; see VOLATILE and what follows it.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

import polars as pl
import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]  # this checkout; the simulated raters are those of its tests

GROUPS = {"race": ["white", "black", "indian"], "gender": ["female", "male"], "age": ["20s", "60s"]}
AUDIT = {
    "stillme": 1,
    "name": "golden",
    "run": "run",
    "sources": [{"id": "heads", "kind": "synthetic", "settings": {"groups": GROUPS}}],
    "experiments": {
        "diagnose": {"prompts": ["O-01", "O-03", "V-03", "V-06"], "arms": ["baseline", "reseed"]},
        "controls": {"kinds": "all"},
        "mitigate": {"sample": 12, "prompts": ["O-01", "V-03"]},
        "stereotype": {"prompts": ["W-01", "W-10"]},
    },
    "editors": [
        {"id": "erases", "kind": "planted", "settings": {"truth": "erases"}},
        {"id": "lightens", "kind": "planted", "settings": {"truth": "lightens"}},
    ],
    "judges": [
        {"id": "a", "kind": "planted", "role": "primary", "settings": {"noise": 0.2, "refused": 0.01, "draw": 1}},
        {
            "id": "b",
            "kind": "planted",
            "role": "secondary",
            "settings": {"noise": 0.3, "lapse": 0.01, "malformed": 0.02, "draw": 2},
        },
        {"id": "instrument", "kind": "instrument"},
    ],
    "judging": {"repeats": 0.2},
    "measures": [
        {"id": "skin", "kind": "skin_tone_shift"},
        {"id": "change", "kind": "change"},
        {"id": "identity", "kind": "identity"},
    ],
    "engine": {"kind": "local", "workers": 1},  # one worker: attempts are noted in the order of the plan
}
STUDIES = ("exp1", "exp2-pairwise", "exp3")
RATERS = 3
MADE = ("report.html", "report", "analysis", "tables", "gate", ".analysis")  # what is made of a run, inside it
BUNDLE, UNPACKED = "evidence.zip", "evidence"

# What clocks and chance decide. Hashes of other files are left out because those files are compared themselves.
VOLATILE = re.compile(
    r"table attempt, .* column (started|seconds)$"
    r"|attempts\.(csv|parquet): .* column (started|seconds)$"
    r"|about\.json: /state$"
    r"|croissant\.json: /distribution/\d+/sha256$"
)
CLOCKS = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|\+00:00| UTC)?)?")
DURATIONS = re.compile(r'"TIME",[\d.]+')  # of an exchange, in the pages to browse
NUMBER = re.compile(r"[-+]?[\d.]+(e[-+]?\d+)?|None|nan|true|false|[0-9a-f]{20,}", re.I)
IGNORED = re.compile(r"(^|/)(\.analysis/.*|lock|ledger\.backup.*|.*-(wal|shm)|MANIFEST\.json)$")


# Making ------------------------------------------------------------------------------------------------------------


def stillme(folder: Path, *words: str, codes: tuple[int, ...] = (0,)) -> str:
    """A command of this checkout, run inside a folder, so that no path of this machine gets into what it writes."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "100", "NO_COLOR": "1"}
    ended = subprocess.run(
        [sys.executable, "-m", "stillme", *words], cwd=folder, env=environment, capture_output=True, text=True
    )
    if ended.returncode not in codes:
        sys.exit(f"stillme {' '.join(words)} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def make(folder: Path, audit: str) -> None:
    """The whole audit, from its configuration to its evidence."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "audit.yaml").write_text(audit, encoding="utf-8")
    (folder / "calibration.json").write_text(
        stillme(folder, "calibrate", "audit.yaml", "--json"), encoding="utf-8"
    )
    stillme(folder, "run", "audit.yaml")
    for preset in STUDIES:
        rate(folder, preset)
    make_outputs(folder)


def rate(folder: Path, preset: str) -> None:
    """A study of the run, answered by simulated raters on a real database, exported, and imported into the run."""
    from tests import studies

    from stillme.study.builder.key import path_of

    built = studies.built(folder / "run", folder / preset / "bundle", preset)
    with not_secret(preset):
        raters = studies.Raters(folder / preset, built)
        for task in built.bundle.tasks:
            for number in range(RATERS):
                raters.whole(f"rater-{number}-{task.id}", answers(built.bundle, number), task.id)
        raters.exported("csv")
        raters.close()
    (folder / preset / "study.db").unlink()
    key = path_of(folder / preset / "bundle").relative_to(folder)
    stillme(folder, "study", "import", "run", f"{preset}/export-1", "--key", str(key))


@contextmanager
def not_secret(seed: str) -> Iterator[None]:
    """Ids that are drawn at random, so that nobody can guess them, are the same here each time."""
    chance = random.Random(seed)
    with (
        patch("secrets.choice", chance.choice),
        patch("secrets.token_hex", lambda size=32: chance.randbytes(size).hex()),
        patch("secrets.token_urlsafe", lambda size=32: chance.randbytes(size).hex()),
    ):
        yield


def answers(bundle: Any, number: int) -> Callable[[Any, Any, str, str], str]:
    """A rater who mostly sees what the others see: one answer in four is this rater's own."""

    def rule(key: Any, screen: Any, output: str, question: str) -> str:
        options = [option.value for option in bundle.question[question].options]
        chance = hashlib.sha256(f"{number} {screen.item} {output} {question}".encode()).digest()
        shared = hashlib.sha256(f"{screen.item} {output} {question}".encode()).digest()
        return options[(chance if chance[0] < 64 else shared)[1] % len(options)]

    return rule


def make_outputs(folder: Path) -> None:
    """Everything that is made of the run in `folder`, which may have been made by other code."""
    for name in MADE:
        path = folder / "run" / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    (folder / BUNDLE).unlink(missing_ok=True)
    shutil.rmtree(folder / UNPACKED, ignore_errors=True)
    stillme(folder, "report", "run")
    stillme(folder, "analyse", "run")
    stillme(folder, "export", "run", "--to", "run/tables", "--format", "csv")
    (folder / "run" / "gate").mkdir()
    stillme(folder, "gate", "--init", "run/gate/policy.yaml")
    gate = (
        "gate",
        "run",
        "run/gate/policy.yaml",
        "--markdown",
        "run/gate/gate.md",
        "--sarif",
        "run/gate/gate.sarif.json",
    )
    (folder / "run" / "gate" / "stdout.txt").write_text(stillme(folder, *gate, codes=(0, 5)), encoding="utf-8")
    compared = ("compare", "run", "run", "--editor-a", "erases", "--editor-b", "lightens")
    (folder / "run" / "gate" / "compare.txt").write_text(
        stillme(folder, *compared, codes=(0, 5)), encoding="utf-8"
    )
    stillme(folder, "bundle", "run", "--to", BUNDLE)


# Comparing ---------------------------------------------------------------------------------------------------------


Differences = Iterator[str]
Key = TypeVar("Key")
Changes = Iterator[tuple[str, str]]  # where, and what was there before and is there now


def differences(old: Path, new: Path) -> Differences:
    """Every difference between two folders, file by file."""
    masks = [*masks_of(old), *masks_of(new)]
    before, after = files_of(old), files_of(new)
    for name in sorted({*before, *after}, key=lambda name: (name.startswith(UNPACKED), name)):
        if name not in after:
            yield f"{name}: is no longer written"
        elif name not in before:
            yield f"{name}: is new"
        elif before[name].read_bytes() != after[name].read_bytes():
            found = ((f"{name}: {where}", change) for where, change in differ(before[name], after[name], masks))
            yield from (f"{where}: {change}" for where, change in found if not VOLATILE.search(where))


def files_of(folder: Path) -> dict[str, Path]:
    """The files of a recording by name; those of its evidence too, which is unpacked beside it."""
    if (folder / BUNDLE).is_file() and not (folder / UNPACKED).is_dir():
        with zipfile.ZipFile(folder / BUNDLE) as packed:
            packed.extractall(folder / UNPACKED)
    found = ((path.relative_to(folder).as_posix(), path) for path in folder.rglob("*") if path.is_file())
    return {name: path for name, path in found if name != BUNDLE and not IGNORED.search(name)}


def differ(old: Path, new: Path, masks: list[str]) -> Changes:
    """How two files of one name differ: cell by cell, row by row, line by line, as their kind allows."""
    kind = old.suffix
    if kind == ".sqlite":
        yield from differ_by_key(rows_of(old, masks), rows_of(new, masks))
    elif kind in (".csv", ".parquet"):
        yield from differ_by_cell(old, new, masks)
    elif kind == ".json":
        yield from differ_by_key(leaves_of(old, masks), leaves_of(new, masks))
    elif kind in (".html", ".svg", ".md", ".txt", ".tex", ".yaml", ".js", ".css", ".cff", ".jsonl"):
        yield from differ_by_line(lines_of(old, masks), lines_of(new, masks))
    else:
        yield "bytes", f"{sha256(old)} -> {sha256(new)}"


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def differ_by_key(old: dict[Key, str], new: dict[Key, str]) -> Iterator[tuple[Key, str]]:
    for key in dict.fromkeys((*old, *new)):
        if old.get(key) != new.get(key):
            yield key, f"{old.get(key, '(nothing)')} -> {new.get(key, '(nothing)')}"


def differ_by_line(old: list[str], new: list[str]) -> Changes:
    for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            yield (
                f"line {a + 1}",
                f"{' / '.join(old[a:b]) or '(nothing)'} -> {' / '.join(new[c:d]) or '(nothing)'}",
            )


def rows_of(path: Path, masks: list[str]) -> dict[str, str]:
    """Every value of a database by table, primary key and column."""
    found = {}
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        for (table,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        ).fetchall():
            columns = connection.execute(f"PRAGMA table_info({table})").fetchall()
            keys = [name for _, name, *_, key in columns if key] or [name for _, name, *_ in columns]
            names = [name for _, name, *_ in columns]
            for row in connection.execute(f"SELECT * FROM {table}"):
                value = dict(zip(names, row, strict=True))
                key = ", ".join(f"{name}={str(value[name])[:16]}" for name in keys)
                found |= {
                    f"table {table}, row {key}, column {name}": mask(str(value[name]), masks) for name in names
                }
    return found


def differ_by_cell(old: Path, new: Path, masks: list[str]) -> Changes:
    """Rows are told by their number, and by the words that they held."""
    before = read_table(old)
    words = [
        ", ".join(value for value in row if value and not NUMBER.fullmatch(value))[:80] for row in before.rows()
    ]
    for (row, column), change in differ_by_key(cells_of(before, masks), cells_of(read_table(new), masks)):
        about = f" ({words[row - 1]})" if row <= len(words) else ""
        yield f"row {row}{about}, column {column}", change


def read_table(path: Path) -> pl.DataFrame:
    """A table as text. Rows of the ledger come as several threads wrote them, so they are sorted."""
    frame = pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_csv(path, infer_schema=False)
    frame = frame.sort(frame.columns) if path.parent.name == "rows" else frame
    return pl.DataFrame({name: [str(value) for value in frame[name]] for name in frame.columns})


def cells_of(frame: pl.DataFrame, masks: list[str]) -> dict[tuple[int, str], str]:
    return {
        (number + 1, name): mask(value, masks)
        for number, row in enumerate(frame.iter_rows(named=True))
        for name, value in row.items()
    }


def leaves_of(path: Path, masks: list[str]) -> dict[str, str]:
    """Every value of a JSON file by its path."""

    def walk(value: Any, at: str) -> Iterator[tuple[str, str]]:
        if isinstance(value, dict | list) and value:
            for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
                yield from walk(inner, f"{at}/{key}")
        else:
            yield at or "/", mask(json.dumps(value, ensure_ascii=False), masks)

    return dict(walk(json.loads(path.read_text(encoding="utf-8")), ""))


class _Text(HTMLParser):
    """What a page shows, a line an element: texts, and the data of its figures (the attributes that draw)."""

    DRAWS = ("d", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "width", "height", "points", "transform")

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def handle_data(self, data: str) -> None:
        self.lines.extend(" ".join(line.split()) for line in data.splitlines() if line.strip())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        drawn = [f"{name}={value}" for name, value in attributes if name in self.DRAWS]
        self.lines.extend([f"<{tag} {' '.join(drawn)}>"] if drawn else [])
        self.lines.extend(
            f"<{tag} {name}={value}>" for name, value in attributes if name in ("href", "alt", "title")
        )


def lines_of(path: Path, masks: list[str]) -> list[str]:
    text = path.read_text(encoding="utf-8")
    if path.suffix in (".html", ".svg"):
        page = _Text()
        page.feed(text)
        return [mask(line, masks) for line in page.lines]
    return [mask(line, masks) for line in text.splitlines()]


def masks_of(folder: Path) -> list[str]:
    """Ids that a run draws at random."""
    with closing(sqlite3.connect(f"file:{folder / 'run' / 'ledger.sqlite'}?mode=ro", uri=True)) as connection:
        return [
            value
            for key, value in connection.execute("SELECT key, value FROM meta")
            if key in ("run", "id", "run_id")
        ]


def mask(text: str, masks: list[str]) -> str:
    for known in masks:
        text = text.replace(known, "RUN")
    return DURATIONS.sub('"TIME",SECONDS', CLOCKS.sub("TIME", text))


# The commands ------------------------------------------------------------------------------------------------------


def record(folder: Path) -> int:
    if folder.exists() and any(folder.iterdir()):
        sys.exit(f"{folder} is not empty; give a new folder.")
    make(folder, yaml.safe_dump(AUDIT, sort_keys=False))
    print(f"Recorded in {folder}: {len(files_of(folder)):,} files.")
    return 0


def compare(folder: Path, most: int) -> int:
    if not (folder / BUNDLE).is_file():
        sys.exit(f"{folder} has no recording; make one with: python tools/golden.py record {folder}")
    count = 0
    with tempfile.TemporaryDirectory(prefix="stillme-golden-") as scratch:
        fresh, again = Path(scratch) / "fresh", Path(scratch) / "again"
        make(fresh, (folder / "audit.yaml").read_text(encoding="utf-8"))
        count += tell("The audit made again", differences(folder, fresh), most)
        shutil.copytree(folder, again)
        make_outputs(again)
        count += tell("The recorded run reported again", differences(folder, again), most)
        count += tell("The recorded evidence verified", verified(folder), most)
    print(f"{count:,} differences." if count else "No difference.")
    return int(count > 0)


def verified(folder: Path) -> Differences:
    said = stillme(folder, "verify", BUNDLE, codes=(0, 2))
    if "Verified: " not in said:
        yield from (line for line in said.splitlines() if line.strip())


def tell(title: str, found: Differences, most: int) -> int:
    """Prints at most so many differences of each file, and returns how many there are."""
    count, shown = 0, dict[str, int]()
    print(f"{title}:")
    for said in found:
        name = said.split(": ", 1)[0]
        count, shown[name] = count + 1, shown.get(name, 0) + 1
        if shown[name] <= most:
            print(f"  {said if len(said) <= 400 else said[:400] + ' …'}")
    for name, number in shown.items():
        if number > most:
            print(f"  {name}: and {number - most:,} more (--most {number} shows them)")
    print(f"  {count:,} differences")
    return count


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="tools/golden.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("record", "compare"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--most", type=int, default=10, help="differences of one file that are printed")
    given = parser.parse_args()
    return (
        record(given.folder.resolve())
        if given.command == "record"
        else compare(given.folder.resolve(), given.most)
    )


if __name__ == "__main__":
    sys.exit(main())
