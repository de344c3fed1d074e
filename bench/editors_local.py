"""Our runner beside a bare loop over the same tiny FLUX.2 pipeline: same portraits, words, seed and steps.

The loop does what a script does: opens the portrait, calls the pipeline, saves a PNG. Ours also checks the
picture, stores it by its hash, flushed to disk, and commits the edit with its attempt. Both have one thread and a
process of their own, and they take turns. What either adds to an edit is the time from its start to the start of
the next without the call of the pipeline itself, which is timed inside both: how long that takes depends on what
else the machine does, not on who calls. The ratio is that of whole edits with the shortest call of all. Pictures
must be the same, bit by bit.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from bench import figures
from stillme.core import images
from stillme.ledger import Run
from stillme.ledger.run import LEDGER
from stillme.protocol import builtin
from stillme.sources.heads import keys as all_heads

ROOT = Path(__file__).parent.parent
TURNS, STEPS, PROMPTS = 3, 20, 2
TARGET = 1.03
SHOWS = "What the runner adds to an edit of a model on this machine, beside a loop that opens, calls and saves."
DOES_NOT_SHOW = (
    "a GPU or a published model: the pipeline is tiny, on one thread; an editor that takes longer makes "
    "the ratio smaller.",
    "an equal effort: ours also checks, stores durably and records.",
)
SEED = 42
GROUPED = ("race", "gender", "age")  # as the names of heads spell it

CALLS = "BENCH_CALLS"  # names the file into which every call of the pipeline writes its seconds

BARE = """
import json, sys, time
import torch
from diffusers import Flux2Pipeline
from PIL import Image
from bench.editors_local import time_calls

time_calls()
folder, tasks, out = sys.argv[1:4]
torch.set_num_threads(1)
pipe = Flux2Pipeline.from_pretrained(folder, dtype=torch.bfloat16, local_files_only=True)
pipe.set_progress_bar_config(disable=True)
starts = []
for number, (source, words, steps, guidance, seed) in enumerate(json.load(open(tasks))):
    starts.append(time.time())
    image = Image.open(source).convert("RGB")
    made = pipe(image=image, prompt=words, num_inference_steps=steps, guidance_scale=guidance,
                generator=torch.Generator("cpu").manual_seed(seed)).images[0]
    made.save(f"{out}/{number}.png")
print(json.dumps(starts))
"""


def time_calls() -> None:
    """From now on every call of the pipeline in this process is timed."""
    pipeline: Any = importlib.import_module("diffusers").Flux2Pipeline
    call = pipeline.__call__

    def timed(*given: Any, **named: Any) -> Any:
        clock = time.perf_counter()
        result = call(*given, **named)
        with Path(os.environ[CALLS]).open("a") as file:
            print(time.perf_counter() - clock, file=file)
        return result

    pipeline.__call__ = timed


@dataclass(frozen=True)
class Pass:
    """Seconds of each edit but the first and last: the whole, and the call of the pipeline within."""

    whole: list[float]
    call: list[float]

    @classmethod
    def of(cls, starts: list[float], calls: Path) -> Pass:
        seconds = [float(line) for line in calls.read_text().split()]
        return cls([later - start for start, later in pairwise(starts)][1:], seconds[1:-1])

    @property
    def added(self) -> float:
        return statistics.median(whole - call for whole, call in zip(self.whole, self.call, strict=True))

    def __str__(self) -> str:
        return (
            f"{statistics.median(self.whole):.3f} s an edit, {self.added * 1e3:.1f} ms of it beside the pipeline"
        )


def measure() -> bool:
    """Prints what both take, and their ratio; True where the target is met."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        folder = Path(name)
        _python("-m", "tests.diffusers.tiny", str(folder / "tiny"))
        turns = [_turn(folder / str(turn), folder / "tiny/flux2") for turn in range(TURNS)]
    for number, (one, other) in enumerate(turns, 1):
        print(f"turn {number}: ours {one}; bare loop {other}")
    shortest = min(min(side.call) for turn in turns for side in turn)
    ours, bare = (statistics.median(turn[side].added for turn in turns) for side in (0, 1))
    ratio = (shortest + ours) / (shortest + bare)
    said = "met" if ratio <= TARGET else "missed"
    print(f"local: {ours * 1e3:.1f} ms beside {bare * 1e3:.1f} ms, on a call of {shortest:.3f} s: ", end="")
    _write(ratio, ours, bare, shortest)
    print(f"overhead ratio {ratio:.4f}; target at most {TARGET}: {said}")
    return ratio <= TARGET


def _write(ratio: float, ours: float, bare: float, shortest: float) -> None:
    loop = "a bare loop"
    rows = [
        figures.cost(f"whole edits, over {loop}'s, on a call of {shortest:.1f} s", ratio, "").at_most(TARGET),
        figures.cost("beside the pipeline, an edit", ours * 1e3, "ms", loop, bare * 1e3),
    ]
    figures.write(
        "editors_local", rows, SHOWS, DOES_NOT_SHOW, figures.versions("torch", "diffusers", "transformers")
    )


def _turn(folder: Path, weights: Path) -> tuple[Pass, Pass]:
    folder.mkdir()
    ours = _ours(folder, weights)
    made = _tasks(folder)
    calls, words = folder / "bare.txt", (str(weights), str(folder / "tasks.json"), str(folder))
    starts = json.loads(_python("-c", BARE, *words, calls=calls))
    _require_same(folder, made)
    return ours, Pass.of(starts, calls)


def _ours(folder: Path, weights: Path) -> Pass:
    audit, calls = folder / "audit.yaml", folder / "ours.txt"
    audit.write_text(yaml.safe_dump(_audit(weights)), encoding="utf-8")
    _python("-m", "bench.editors_local", "run", str(audit), calls=calls)
    with closing(sqlite3.connect(folder / "run" / LEDGER)) as connection:
        rows = connection.execute("SELECT started, status FROM attempt ORDER BY id").fetchall()
    assert all(status == "ok" for _, status in rows), rows
    return Pass.of([datetime.fromisoformat(started).timestamp() for started, _ in rows], calls)


def _audit(weights: Path) -> dict[str, Any]:
    settings = {"source": str(weights), "device": "cpu", "num_inference_steps": STEPS}
    return {
        "stillme": 1,
        "name": "bench",
        "run": "run",
        "sources": [{"id": "heads", "kind": "synthetic", "settings": {"groups": _groups()}}],
        "experiments": {"diagnose": {"prompts": list(builtin().prompt)[:PROMPTS]}},
        "editors": [{"id": "tiny", "kind": "flux2", "seed": SEED, "settings": settings}],
    }


def _groups() -> dict[str, list[str]]:
    """The first five heads that differ in the last dimension alone."""
    heads = [key.split("-") for key in all_heads()][:5]
    return {
        name: list(dict.fromkeys(words)) for name, words in zip(GROUPED, zip(*heads, strict=True), strict=True)
    }


def _tasks(folder: Path) -> list[str]:
    """What our runner did, in its order, for the loop to do; the hashes of its pictures."""
    query = (
        "SELECT i.text, t.seed, p.image, e.image, s.content FROM attempt a "
        "JOIN edit e ON e.key = a.subject JOIN trial t ON t.edit = e.key "
        "JOIN instruction i ON i.hash = t.instruction "
        "JOIN portrait p ON p.key = t.portrait JOIN settings s ON s.hash = t.settings GROUP BY a.id ORDER BY a.id"
    )
    tasks, made = [], []
    with Run.open_readonly(folder / "run") as run:
        for words, seed, source, image, content in run.query(query):
            path = folder / f"{source}.image"
            path.write_bytes(run.image(source))
            call = json.loads(content)["call"]
            tasks.append((str(path), words, call["num_inference_steps"], call["guidance_scale"], seed))
            made.append(_pixels(run.image(image)))
    (folder / "tasks.json").write_text(json.dumps(tasks), encoding="utf-8")
    return made


def _require_same(folder: Path, made: list[str]) -> None:
    bare = [_pixels((folder / f"{number}.png").read_bytes()) for number in range(len(made))]
    if bare != made:
        raise SystemExit("The loop and the runner made different pictures: their times cannot be compared.")


def _pixels(content: bytes) -> str:
    return hashlib.sha256(images.pixels(content).tobytes()).hexdigest()


def _python(*words: str, calls: Path | None = None) -> str:
    site = str(ROOT / "tests/diffusers/site")  # lets torchvision load beside a CPU-only torch
    paths = [site, str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    settings = {"HF_HUB_OFFLINE": "1", "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    settings[CALLS] = str(calls or os.devnull)
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, env={**os.environ, **settings})
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""


if __name__ == "__mp_main__":  # the process of the model, in a run that was started as below
    time_calls()

if __name__ == "__main__":
    from stillme.cli.main import main

    main(sys.argv[1:])
