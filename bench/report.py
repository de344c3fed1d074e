"""The whole report of a large run: how long it takes, and how much memory.

    python -m bench.report [--edits 100000] [--keep FOLDER] [--run RUN]

Makes a run directly in its ledger (cheap rows, no editor and no judge is asked; portraits are small pictures, and
edits share a few), then writes its whole report in a process of its own and prints seconds and peak memory, part
by part: first as of a run that was never reported, then again with the analysis that was kept. The process has the
surroundings of the command line. `--run` reports a run that exists, such as the demo's, in a copy. Targets: 180 s
and 1,500 MB for 100,000 edits, 20 s for the demo.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from PIL import Image

from bench import figures
from stillme.cli.main import SURROUNDINGS
from stillme.core.records import Portrait, Status, canonical, digest
from stillme.ledger import Run
from stillme.ledger.run import now
from stillme.measures import FIGURES
from stillme.plan import config as configs
from stillme.plan.config import Config
from stillme.plan.design import Design, make_design, record_design
from stillme.report.folder import FOLDER
from stillme.report.folder.computing import KEPT
from stillme.steps import judge as judging
from stillme.steps import measure as measuring

TARGETS = {"large": (180.0, 1500.0), "demo": (20.0, 1500.0)}
SHOWS = "The whole report, from the ledger to tables, figures, pages to browse and cards, in a process of its own."
DOES_NOT_SHOW = (
    "a peer: none makes such a report.",
    "pictures of a real size: those of a made run are small, and edits share a few of them.",
)
EDITORS = ("even", "lightens", "erases")
PICTURES = 24  # that edits share
SHARE = 0.15  # of the edits is measured, as in the demo
EVIDENCE = "The edited face has a lighter complexion and a narrower nose. " * 4

AUDIT: dict[str, Any] = {
    "stillme": 1,
    "name": "large",
    "run": "run",
    "sources": [{"id": "heads", "kind": "synthetic", "settings": {}}],
    "experiments": {"diagnose": {"prompts": "all"}},
    "editors": [{"id": name, "kind": "planted", "settings": {"truth": name}} for name in EDITORS],
    "judges": [
        {"id": "a", "kind": "planted", "role": "primary", "settings": {"noise": 0.2, "draw": 1}},
        {"id": "b", "kind": "planted", "role": "secondary", "settings": {"noise": 0.3, "draw": 2}},
    ],
    "measures": [{"id": "skin", "kind": "skin_tone_shift"}],
    "measuring": {"share": SHARE},
}


# A run without editors and judges


def fabricate(folder: Path, edits: int) -> Path:
    """A run of so many edits, as if it had been run to its end."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "audit.yaml"
    file.write_text(yaml.safe_dump(AUDIT), encoding="utf-8")
    config = configs.load(file)
    with Run.open_for_writing(config.run, config.protocol) as run:
        run.connection.execute("PRAGMA synchronous=OFF")
        portraits = list(_portraits(run, config, edits))
        design = make_design(config, portraits)
        record_design(run, _without_trials(design))
        _insert(run, "instruction", _instructions(design))
        _insert(run, "trial", _trials(design))
        _edits(run, design)
        _verdicts(run, design)
        _measurements(run, design)
    return config.run


def _portraits(run: Run, config: Config, edits: int) -> Iterator[Portrait]:
    """So many of every cell of the groups that there are at least as many edits."""
    dimensions = config.protocol.groups.dimensions
    cells = list(product(*(config.protocol.groups.ids(name) for name in dimensions)))
    each = -(-edits // (len(cells) * len(config.protocol.prompts.prompts) * len(EDITORS)))
    for number, cell in enumerate(cell for cell in cells for _ in range(each)):
        picture = _picture(number)
        stored = run.store(picture)
        labels = dict(zip(dimensions, cell, strict=True))
        portrait = Portrait.of("heads", f"p{number}", stored.sha256, labels)
        run.add_portrait(portrait, picture).result()
        yield portrait


def _picture(number: int) -> bytes:
    """A small picture that no other number has."""
    stream = io.BytesIO()
    shade = (number % 256, number // 256 % 256, 120 + number // 65536)
    Image.new("RGB", (64, 64), shade).save(stream, "PNG")
    return stream.getvalue()


def _without_trials(design: Design) -> Design:
    """Trials go in by the thousand, not one by one."""
    return replace(design, trials=[])


def _insert(run: Run, table: str, rows: Sequence[tuple[Any, ...]] | Iterator[tuple[Any, ...]]) -> None:
    listed = list(rows)
    if listed:
        marks = ", ".join("?" * len(listed[0]))
        run.connection.execute("BEGIN")
        run.connection.executemany(f"INSERT INTO {table} VALUES ({marks})", listed)
        run.connection.execute("COMMIT")


def _instructions(design: Design) -> list[tuple[Any, ...]]:
    texts = {trial.instruction for trial in design.trials}
    return [(digest("instruction", text=text), text) for text in texts]


def _trials(design: Design) -> Iterator[tuple[Any, ...]]:
    texts = {trial.instruction: digest("instruction", text=trial.instruction) for trial in design.trials}
    for t in design.trials:
        named = (t.key, t.edit, t.experiment, t.arm, t.prompt, texts[t.instruction], t.editor, t.settings)
        yield (*named, t.seed, t.portrait, t.partner, "")


def _edits(run: Run, design: Design) -> None:
    stored = [run.store(_picture(10_000_000 + number)) for number in range(PICTURES)]
    _insert(run, "object", [one.row.values for one in stored])
    draws = np.random.default_rng(1).random(len(design.trials))
    rows = []
    for number, (trial, draw) in enumerate(zip(design.trials, draws, strict=True)):
        refused = draw < 0.01
        image = None if refused else stored[number % PICTURES].sha256
        rows.append((trial.edit, (Status.REFUSED if refused else Status.OK).value, image, ""))
    _insert(run, "edit", rows)
    _insert(run, "attempt", (_attempt(key, status, 0.01) for key, status, *_ in rows))


def _verdicts(run: Run, design: Design) -> None:
    """Both judges see the same truth, each with errors of its own."""
    axes = [row[1] for row in run.connection.execute("PRAGMA table_info(score)")][1:]
    truth, random = _truth(design, axes), np.random.default_rng(3)
    verdicts, scores = [], []
    for look in judging.judge_tasks(run, design):
        asked = design.config.protocol.axes_of(look.trial.prompt)
        noise = np.where(random.random(len(axes)) < 0.15, random.choice([-1, 1], len(axes)), 0)
        given = np.clip(truth[look.trial.key] + noise, 1, 5).tolist()
        settings = design.judges[look.judge]
        verdicts.append((look.key, look.trial.edit, look.judge, settings, "ok", EVIDENCE, "", "", "", 0))
        scores.append((look.key, *(one if axis in asked else None for axis, one in zip(axes, given, strict=True))))
    _insert(run, "verdict", verdicts)
    _insert(run, "score", scores)
    _insert(run, "attempt", (_attempt(row[0], Status.OK.value, 0.002) for row in verdicts))


def _truth(design: Design, axes: Sequence[str]) -> dict[str, np.ndarray[Any, np.dtype[np.int64]]]:
    """Trial -> its score on every axis: persons and prompts differ, and one editor treats groups unevenly."""
    protocol, random = design.config.protocol, np.random.default_rng(2)
    calm = np.array([protocol.axes[axis].neutral or max(protocol.axes[axis].scale) for axis in axes])
    reference = next(iter(protocol.groups.reference_group.items()))
    people = {one.key: random.normal(0, 0.5) for one in design.portraits}
    prompts = {one.id: random.normal(0, 0.5) for one in protocol.prompts.prompts}
    others = {one.key for one in design.portraits if one.labels[reference[0]] != reference[1]}
    found = {}
    for trial in design.trials:
        uneven = 1.0 if trial.editor == EDITORS[-1] and trial.portrait in others else 0.0
        chance = 1 / (1 + np.exp(2.3 - uneven - people[trial.portrait] - prompts[trial.prompt]))
        moved = random.random(len(axes)) < chance
        found[trial.key] = np.where(moved, random.integers(1, 6, len(axes)), calm)
    return found


def _attempt(subject: str, status: str, cost: float) -> tuple[Any, ...]:
    return (None, subject, status, now(), 1.0, cost, "", "", "", 0, "", None)


def _measurements(run: Run, design: Design) -> None:
    random, rows = np.random.default_rng(3), {}
    kinds = {row.id: row.kind for row in design.config.audit.measures}
    by_key = {trial.key: trial for trial in design.trials}
    pictures = dict(run.query("SELECT key, image FROM edit"))
    for trial, sitting in measuring.measure_tasks(run, design).items():
        for name, key in sitting.measures.items():
            figures = {figure: round(float(random.normal(1, 3)), 3) for figure in FIGURES[kinds[name]]}
            figures |= {
                one: int(random.integers(1, 11)) for one in figures if one.startswith("monk")
            }  # ten swatches
            one = by_key[trial]
            about = (one.image, pictures[one.edit], name, design.measures[name], "ok", canonical(figures), "")
            rows[key] = (key, *about)
    _insert(run, "measurement", list(rows.values()))


# What is measured


def measure(run: Path) -> tuple[float, float]:
    """Seconds and peak MB of `stillme report`; what it draws in a process beside it is not counted."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "stillme", "report", str(run)]
    plain = {name: word for name, word in os.environ.items() if name not in SURROUNDINGS}  # polars sets one here
    pipe, beside = subprocess.PIPE, subprocess.STDOUT
    with subprocess.Popen(command, text=True, env=plain, stdout=pipe, stderr=beside) as process:
        assert process.stdout
        for line in process.stdout:
            print(f"{time.perf_counter() - began:7.1f} s  {line}", end="", file=sys.stderr, flush=True)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"stillme report ended with {process.returncode}")
    return time.perf_counter() - began, used.ru_maxrss / 1024


def write(is_demo: bool, seconds: float, megabytes: float, targets: tuple[float, float]) -> None:
    told = "the demo's whole report" if is_demo else "the whole report"
    rows = [
        figures.cost(told, seconds, "s").at_most(targets[0]),
        figures.cost(f"{told}: peak memory", megabytes, "MB").at_most(targets[1]),
    ]
    figures.write("report_demo" if is_demo else "report", rows, SHOWS, DOES_NOT_SHOW)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edits", type=int, default=100_000)
    parser.add_argument("--keep", type=Path, help="make the run here and leave it")
    parser.add_argument("--run", type=Path, help="a run that exists")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = given.keep or Path(name)
        if given.run:
            run = Path(shutil.copytree(given.run, folder / "run", dirs_exist_ok=True))
        else:
            run = folder / "run" if (folder / "run").exists() else fabricate(folder, given.edits)
        for made in (KEPT, FOLDER):
            shutil.rmtree(run / made, ignore_errors=True)
        (run / "report.html").unlink(missing_ok=True)
        first, again = measure(run), measure(run)
    most, largest = TARGETS["demo" if given.run else "large"]
    write(given.run is not None, *first, (most, largest))
    for name, (seconds, megabytes) in {"the first": first, "again": again}.items():
        print(f"{name}: {seconds:.1f} s (target {most:.0f}), peak {megabytes:,.0f} MB (target {largest:,.0f})")
    return 0 if first[0] <= most and first[1] <= largest else 1


if __name__ == "__main__":
    raise SystemExit(main())
