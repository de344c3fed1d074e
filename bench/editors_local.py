"""Our runner beside a bare loop over the same tiny FLUX.2 pipeline: same portraits, words, seed and steps.

The loop does what a script does: opens the portrait, calls the pipeline, saves a PNG. Ours also checks the
picture, stores it by its hash, flushed to disk, and commits the edit with its attempt. Both have one thread and a
process of their own, and they take turns. The figure is the time from the start of an edit to the start of the
next, without the first, so that loading counts for neither; the shortest of all, as every edit computes the same
and other work on the machine only adds. Pictures must be the same, bit by bit.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from contextlib import closing
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from stillme import images
from stillme.heads import keys as all_heads
from stillme.ledger import Run
from stillme.ledger.run import LEDGER
from stillme.protocol import builtin

ROOT = Path(__file__).parent.parent
TURNS, STEPS, PROMPTS = 3, 20, 2
TARGET = 1.03
SEED = 42
GROUPED = ("race", "gender", "age")  # as the names of heads spell it

BARE = """
import io, json, sys, time
import torch
from diffusers import Flux2Pipeline
from PIL import Image

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


def measure() -> bool:
    """Prints seconds an edit of both, and their ratio; True where the target is met."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        folder = Path(name)
        _python("-m", "tests.diffusers.tiny", str(folder / "tiny"))
        turns = [_turn(folder / str(turn), folder / "tiny/flux2") for turn in range(TURNS)]
    for number, (ours, bare, between) in enumerate(turns, 1):
        print(
            f"turn {number}: ours {min(ours):.4f} s an edit (median {statistics.median(ours):.4f}), bare loop "
            f"{min(bare):.4f} s (median {statistics.median(bare):.4f}); ours between two edits: {between * 1e3:.1f} ms"
        )
    ratio = min(min(ours) for ours, _, _ in turns) / min(min(bare) for _, bare, _ in turns)
    said = "met" if ratio <= TARGET else "missed"
    print(f"local: overhead ratio {ratio:.4f}; target at most {TARGET}: {said}")
    return ratio <= TARGET


Turn = tuple[list[float], list[float], float]  # seconds a cycle, ours and bare; what ours takes between two edits


def _turn(folder: Path, weights: Path) -> Turn:
    folder.mkdir()
    ours, between = _ours(folder, weights)
    made = _tasks(folder)
    starts = json.loads(_python("-c", BARE, str(weights), str(folder / "tasks.json"), str(folder)))
    _require_same(folder, made)
    return ours, _cycles(starts), between


def _ours(folder: Path, weights: Path) -> tuple[list[float], float]:
    audit = folder / "audit.yaml"
    audit.write_text(yaml.safe_dump(_audit(weights)), encoding="utf-8")
    _python("-m", "stillme", "run", str(audit))
    with closing(sqlite3.connect(folder / "run" / LEDGER)) as connection:
        rows = connection.execute("SELECT started, seconds, status FROM attempt ORDER BY id").fetchall()
    assert all(status == "ok" for _, _, status in rows), rows
    starts = [datetime.fromisoformat(started).timestamp() for started, _, _ in rows]
    between = [later - start - row[1] for (start, later), row in zip(pairwise(starts), rows, strict=False)]
    return _cycles(starts), statistics.median(between)


def _cycles(starts: list[float]) -> list[float]:
    return [later - start for start, later in pairwise(starts[1:])]


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
    with Run.look(folder / "run") as run:
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


def _python(*words: str) -> str:
    site = str(ROOT / "tests/diffusers/site")  # lets torchvision load beside a CPU-only torch
    paths = [site, str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    settings = {"HF_HUB_OFFLINE": "1", "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, env={**os.environ, **settings})
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""
