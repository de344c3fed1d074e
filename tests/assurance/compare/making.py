"""Two versions of an editor with planted rates: as audits on synthetic heads, and as tables that never were drawn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import yaml
from numpy.typing import ArrayLike

from stillme import pipeline
from stillme.core.records import DIAGNOSE
from stillme.editors import planted
from stillme.engine.progress import Progress
from stillme.plan import config
from stillme.protocol import Protocol
from stillme.stats.simulate import Spread, audit
from tests.conftest import dump_audit

RACES = ["white", "black", "east_asian", "indian"]
GROUPS = {"race": RACES, "gender": ["female", "male"], "age": ["20s", "40s", "60s"]}


def truth(erased: float, **more: Any) -> dict[str, Any]:
    """What a planted editor does: it erases so often, refuses nobody and moves nothing else."""
    shipped = yaml.safe_load((planted.TRUTHS / "even.yaml").read_text(encoding="utf-8"))
    kept = [one for one in shipped["effects"] if one["id"] in ("erased", "lightened", "darkened")]
    kept[0]["rate"] = {"base": erased, **more}
    none = {"base": 0.0}
    return {**shipped, "refused": none, "corrupt": none, "persons": 0.0, "effects": kept}


def write_audit(folder: Path, erased: float, name: str = "audit", **changes: Any) -> Path:
    """An audit of one editor, "editor", with 24 portraits and 1 prompt; its run is a folder of the same name."""
    path = folder / f"{name}.yaml"
    more = changes.pop("rate", {})
    dump_audit(
        path,
        **{
            "run": f"{name}-run",
            "sources": [{"id": "heads", "kind": "synthetic", "settings": {"groups": GROUPS}}],
            "editors": [{"id": "editor", "kind": "planted", "settings": {"truth": truth(erased, **more)}}],
            "experiments": {"diagnose": {"prompts": ["O-01"]}},
            "judges": [{"id": "a", "kind": "planted", "role": "primary", "settings": {"noise": 0.1}}],
            **changes,
        },
    )
    return path


def make_run(folder: Path, erased: float, name: str, **changes: Any) -> Path:
    """The run of such an audit, without a report."""
    loaded = config.load(write_audit(folder, erased, name, **changes))
    pipeline.run_partial_plan(loaded, Progress(), lambda design: design)
    return loaded.run


def simulated(
    protocol: Protocol, seed: int, rates: Mapping[str, ArrayLike], prompts: int = 5, per_cell: int = 1
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Scores of A and B: axis -> [two versions, groups] or [two versions, 1] planted rates."""
    chosen = list(protocol.prompt)[:prompts]
    spread = Spread(0.8, 0.3)
    found = audit(protocol, seed, rates, ["A", "B"], prompts=chosen, per_cell=per_cell, spread=spread, noise=0.0)
    scores = found.scores.with_columns(experiment=pl.lit(DIAGNOSE))
    a, b = (scores.filter(pl.col("editor") == name) for name in "AB")
    return a, b
