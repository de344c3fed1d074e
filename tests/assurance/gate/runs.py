"""What the gate is tried on: one small run with a planted difference, and tables of scores without pictures."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import yaml

from stillme import pipeline
from stillme.engine.progress import Progress
from stillme.plan import config
from stillme.protocol import Protocol
from tests.analysis.tables import scores
from tests.conftest import dump_audit

PROMPTS = ["O-01", "V-02"]
AXES = ("race_drift", "edit_success", "skin_tone")
UNEVEN = [0.02, *[0.45] * 6]  # White first: everyone else's race is changed
EVEN = [0.1] * 7
TRUTH = """\
id: skips
label: Skips
description: Skips edits of one group.
otherwise: {edit_success: [4.3, 5.0]}
refused: {base: 0.0}
corrupt: {base: 0.0}
effects:
  - id: erased
    does: fade
    strength: [0.0, 0.1]
    rate: {base: 0.03, times: {race: {black: 25.0}}}
    score: {edit_success: [1.0, 1.4]}
"""


def make_run(folder: Path) -> Path:
    """24 people, 12 of each of two groups, 2 prompts; `even` treats all alike, `skips` skips edits of one group."""
    (folder / "skips.yaml").write_text(TRUTH, encoding="utf-8")
    groups = {"race": ["white", "black"]}
    truths = {"even": "even", "skips": str(folder / "skips.yaml")}
    dump_audit(
        folder / "audit.yaml",
        sources=[{"id": "heads", "kind": "synthetic", "settings": {"groups": groups}}],
        editors=[{"id": name, "kind": "planted", "settings": {"truth": truth}} for name, truth in truths.items()],
        experiments={"diagnose": {"prompts": PROMPTS}},
    )
    loaded = config.load(folder / "audit.yaml")
    pipeline.run(loaded, Progress())
    return loaded.run


def make_scores(protocol: Protocol, path: Path, seed: int = 0, even: bool = False, **names: str) -> Path:
    """Scores of two editors: e1 changes the race of everyone but one group, e2 treats all alike; or both do."""
    frame = scores.planted(protocol, path, [EVEN if even else UNEVEN, EVEN], AXES, seed, prompts=4)
    frame.with_columns(pl.col("editor").replace(names)).write_parquet(path)
    return path


def policy(path: Path, *rules: object, **head: object) -> Path:
    """A policy file with these rules."""
    path.write_text(yaml.safe_dump({"stillme": 1, **head, "rules": list(rules)}, sort_keys=False), "utf-8")
    return path
