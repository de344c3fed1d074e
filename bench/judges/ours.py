"""Our side: the whole judging step on a run on disk, and the preparation of what every side asks.

    python -m bench.judges.ours FOLDER URL CONCURRENCY CALLS

A run holds 84 portraits and so many edits that each call is another; pictures are JPEGs of about 60 KB.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from functools import lru_cache
from pathlib import Path

import numpy as np
from PIL import Image

from bench.judges.peers.meter import Meter
from stillme.core.records import Attempt, Edit, JudgeRequest, Portrait, Status, Trial
from stillme.core.yaml import Document
from stillme.engine.http import PACKAGES
from stillme.engine.progress import Progress
from stillme.engine.threads import StopEvent
from stillme.ledger import Run
from stillme.ledger.run import LEDGER, StoredImage, now
from stillme.plan.audit import Audit
from stillme.plan.config import Config, settle
from stillme.plan.design import make_design, record_design
from stillme.steps import judge as judging
from stillme.steps.budget import Budget

SOURCES, EDITS = 84, 2000
SIDE, QUALITY = 512, 85  # about 60 KB
JUDGE = "remote"


def audit(folder: Path, url: str = "http://127.0.0.1:9/v1", concurrency: int = 64, editors: int = 1) -> Config:
    """`editors` make as many edits of each portrait and prompt as are needed; none of them is ever called."""
    settings = {"service": "other", "model": "loopback", "base_url": url, "concurrency": concurrency}
    content = {
        "stillme": 1,
        "name": "bench",
        "run": "run",
        "sources": [{"id": "pictures", "kind": "synthetic"}],
        "experiments": {"diagnose": {}},
        "editors": [
            {"id": f"e{n}", "kind": "openai", "settings": {**settings, "model": f"m{n}"}} for n in range(editors)
        ],
        "judges": [{"id": JUDGE, "kind": "openai", "role": "primary", "settings": settings}],
        "judging": {"repeats": 0},
    }
    return settle(Audit.model_validate(content), folder, Document("bench", ""))


def alike(config: Config) -> set[str]:
    """The prompts that ask the same axes as most do, so that one answer fits every call."""
    asked = {prompt.id: config.protocol.axes_of(prompt.id) for prompt in config.protocol.prompts.prompts}
    most = max(asked.values(), key=list(asked.values()).count)
    return {name for name, axes in asked.items() if axes == most}


def needed_editors(calls: int) -> int:
    config = audit(Path())
    return -(-calls // (SOURCES * len(alike(config))))


def prepare(folder: Path, calls: int) -> None:
    """A run with everything but the verdicts, and the same calls in plain words for the peers."""
    folder.mkdir(parents=True)
    config = audit(folder, editors=needed_editors(calls))
    with Run.open_for_writing(config.run, config.protocol) as held:
        people = list(portraits(held, config))
        design = make_design(config, people)
        record_design(held, design)
        chosen = [trial for trial in design.distinct_edits() if trial.prompt in alike(config)][:calls]
        assert len(chosen) == calls
        pictures = [held.store(picture(1000 + number)) for number in range(min(EDITS, calls))]
        used = [pictures[number % len(pictures)] for number in range(calls)]
        for trial, image in zip(chosen, used, strict=True):
            added = add(held, trial, image)
        added.result()
        tell(held, config, chosen, used, folder)


def add(held: Run, trial: Trial, image: StoredImage) -> Future[None]:
    edit = Edit(trial.edit, Status.OK, image.sha256)
    return held.add_edit(edit, Attempt(trial.edit, Status.OK, now(), 0.0), image)


def tell(held: Run, config: Config, trials: Sequence[Trial], used: Sequence[StoredImage], folder: Path) -> None:
    """jobs.jsonl: both pictures and the text of each call; schema.json: what answers must look like."""
    judge = config.judges[JUDGE].make()
    files = {path.stem: str(path) for path in (held.path / "objects").rglob("*.*")}
    with (folder / "jobs.jsonl").open("w", encoding="utf-8") as file:
        for trial, image in zip(trials, used, strict=True):
            axes = config.protocol.axes_of(trial.prompt)
            asked = judge.question(JudgeRequest("", b"", b"", trial.instruction, axes, prompt=trial.prompt))
            text = asked.content["body"]["messages"][-1]["content"][-1]["text"]
            where = {"source": files[trial.image], "edited": files[image.sha256]}
            file.write(json.dumps({**where, "text": text}) + "\n")
    schema = asked.content["body"]["response_format"]["json_schema"]["schema"]
    (folder / "schema.json").write_text(json.dumps(schema), encoding="utf-8")


def portraits(held: Run, config: Config) -> Iterator[Portrait]:
    """Their labels are of no account here."""
    groups = config.protocol.groups
    labels = {dimension: groups.ids(dimension)[0] for dimension in groups.dimensions}
    for number in range(SOURCES):
        image = picture(number)
        one = Portrait.of("bench", str(number), held.store(image).sha256, labels)
        held.add_portrait(one, image).result()
        yield one


def picture(number: int) -> bytes:
    """A JPEG of about 60 KB that only this number gives: its comment says it."""
    plain, comment = drawing(number % SOURCES), f"{number:08}".encode()
    return b"".join((plain[:2], b"\xff\xfe", (2 + len(comment)).to_bytes(2), comment, plain[2:]))


@lru_cache(maxsize=SOURCES)
def drawing(number: int) -> bytes:
    """Waves under noise, which packs about as badly as a photograph."""
    down, across = np.mgrid[0:SIDE, 0:SIDE] / SIDE
    waves = [np.sin(across * (3 + number % 7) + c) * np.cos(down * (2 + number % 5) - c) for c in range(3)]
    noise = np.random.default_rng(number).normal(0, 11, (SIDE, SIDE, 3))
    pixels = np.clip(np.stack(waves, -1) * 90 + 128 + noise, 0, 255).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=QUALITY)
    return buffer.getvalue()


def copied(folder: Path, to: Path) -> Path:
    """The same run once more: its own ledger, the same pictures."""
    shutil.copytree(folder / "run" / "objects", to / "run" / "objects", copy_function=os.link)
    shutil.copy(folder / "run" / LEDGER, to / "run" / LEDGER)
    return to


def main() -> int:
    folder, url, concurrency, calls = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    config = audit(folder, url, concurrency, needed_editors(calls))
    with Run.open_for_writing(config.run, config.protocol) as held:
        keys = [row[0] for row in held.query("SELECT key FROM portrait ORDER BY key")]
        design = make_design(config, held.portraits(keys))
        record_design(held, design)
        for name in PACKAGES:  # as the peers have theirs when their clocks start
            importlib.import_module(name)
        meter = Meter()
        judging.judge(held, design, Progress(), StopEvent(), Budget(config, 0.0))
        verdicts = "SELECT count(*), count(DISTINCT call) FROM verdict WHERE status = 'ok'"
        ((answered, asked),) = held.query(verdicts)
        assert answered == asked, f"{answered} verdicts of {asked} calls"
        meter.tell(answered)
    return 0


if __name__ == "__main__":
    sys.exit(main())
