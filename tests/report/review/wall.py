"""A run as an audit leaves it behind, put into the ledger directly: small pictures, no editor, judges that draw."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from stillme.core import images
from stillme.core.records import Attempt, Edit, Portrait, Status, Verdict
from stillme.ledger import Run
from stillme.plan import config
from stillme.plan.design import Design, make_design, record_design
from stillme.protocol import builtin
from stillme.steps import judge
from tests import prepared
from tests.conftest import dump_audit

AT = "2026-01-02T03:04:05.000+00:00"
EDITORS = ("even", "lightens", "erases")
REFUSED, FAILED, SILENT = 0.03, 0.01, 0.04  # shares of edits and of verdicts
RAW = b'{"answer": "<b>as it came</b>"}'


def small(factory: pytest.TempPathFactory) -> Path:
    """24 portraits × 5 prompts × 2 editors: 240 trials. Tests only read this run."""
    made = prepared.once(factory, "wall", lambda folder: build(folder, 5, 2, ("even", "erases")))
    return made / "run"


def build(
    folder: Path, prompts: int = 20, races: int = 7, editors: Sequence[str] = EDITORS, seed: int = 0
) -> Path:
    """The run's directory. 84 portraits × 20 prompts × 3 editors = 5,040 trials unless told otherwise."""
    path, run = folder / "audit.yaml", folder / "run"
    asked = [prompt.id for prompt in builtin().prompts.prompts[:prompts]]
    rows = [{"id": name, "kind": "planted", "settings": {"truth": name}} for name in editors]
    dump_audit(path, name="wall", experiments={"diagnose": {"prompts": asked}}, editors=rows)
    loaded = config.load(path)
    portraits = people(races)
    design = make_design(loaded, [portrait for portrait, _ in portraits])
    with Run.open_for_writing(run, loaded.protocol) as held:
        for portrait, picture in portraits:
            held.add_portrait(portrait, picture)
        record_design(held, design)
        edit(held, design, random.Random(seed))
        score(held, design, random.Random(seed + 1))
    return run


def people(races: int) -> list[tuple[Portrait, bytes]]:
    """Everybody with a picture of their own."""
    groups = builtin().groups
    dimensions = list(groups.dimensions)
    cells = product(groups.ids(dimensions[0])[:races], *(groups.ids(name) for name in dimensions[1:]))
    found = []
    for number, cell in enumerate(cells):
        picture, labels = plain(number), dict(zip(dimensions, cell, strict=True))
        sha256 = hashlib.sha256(picture).hexdigest()
        found.append((Portrait.of("heads", "-".join(cell), sha256, labels), picture))
    return found


def plain(number: int, edited: bool = False) -> bytes:
    """A tall picture with a block in it; its number says where."""
    pixels = np.full((80, 64, 3), (40 + number * 2 % 200, 90 + number * 5 % 120, 120), dtype=np.uint8)
    pixels[20:50, 8 + number % 40 : 20 + number % 40] = 230 if edited else 20
    return images.lossless(pixels)


def edit(run: Run, design: Design, draw: random.Random) -> None:
    """Few different pictures: what is shown does not hang on who made it."""
    stored = [run.store(plain(number, edited=True)) for number in range(12)]
    done = run.keys("edit")
    for trial in design.distinct_edits():
        status, lot = Status.OK, draw.random()
        if lot < REFUSED:
            status = draw.choice((Status.REFUSED, Status.INPUT_BLOCKED))
        elif lot < REFUSED + FAILED:
            status = Status.CORRUPT
        picture = draw.choice(stored) if status is Status.OK else None
        made = Edit(trial.edit, status, picture.sha256 if picture else None)
        if trial.edit not in done:
            added = run.add_edit(made, Attempt(trial.edit, status, AT, 1.5, 0.01), picture)
    added.result()


def score(run: Run, design: Design, draw: random.Random) -> None:
    """Every judge of every edit; some are silent."""
    for look in list(judge.judge_tasks(run, design)):
        axes = design.config.protocol.axes_of(look.trial.prompt)
        status = Status.OK if draw.random() >= SILENT else draw.choice((Status.REFUSED, Status.MALFORMED))
        scores = {axis: draw.choices(range(1, 6), (4, 3, 6, 3, 2))[0] for axis in axes}
        said = {"edit_analysis": look.trial.prompt, "other": draw.choice(("a plain wall", "a Red Scarf"))}
        verdict = Verdict(
            look.key,
            look.trial.edit,
            look.judge,
            design.judges[look.judge],
            status,
            scores if status is Status.OK else {},
            "Both were compared." if status is Status.OK else "",
            observations=said,
        )
        call = Attempt(look.key, status, AT, 0.5, 0.002, usage={"input": 900}, raw=RAW)
        added = run.add_verdict(verdict, call)
    added.result()
