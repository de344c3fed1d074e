"""Runs to browse: a wall of drawn verdicts with hostile texts in it, and a few synthetic heads with every experiment."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stillme import pipeline
from stillme.core.records import Adjudication
from stillme.engine.progress import Progress
from stillme.ledger import Run
from stillme.plan import config
from stillme.plan.design import load_design
from stillme.report import browse
from tests import prepared
from tests.conftest import dump_audit
from tests.report.review import wall

HOSTILE = (
    '</script><script>window.hacked = 1</script><img src=x onerror="window.hacked = 1"> \u2028\u2029 <!-- ]]>'
)


def wall_run(factory: pytest.TempPathFactory) -> Path:
    """240 trials. Judges write what breaks pages, people have decided some scores, a provider names our folder. The
    bundle is in the run's own folder, as the report is."""

    def make(folder: Path) -> None:
        run = _hostile(Path(shutil.copytree(wall.small(factory), folder / "run")))
        (run / "report.html").write_text("<!doctype html><title>The report</title>", encoding="utf-8")
        write(run, run / "report")

    return prepared.once(factory, "browse-wall", make) / "run"


def heads_run(factory: pytest.TempPathFactory) -> Path:
    """People with faces, of whom a bundle is in the run's own folder."""
    made = prepared.once(factory, "browse-heads", lambda folder: write(run := _heads(folder), run / "report"))
    return made / "run"


def _hostile(run: Path) -> Path:
    hostile = json.dumps({"__proto__": HOSTILE, "other": HOSTILE, "where": f"{run.resolve()}/objects and {run}/x"})
    (run / "ledger.backup").unlink()  # what is changed below is no damage
    with closing(sqlite3.connect(run / "ledger.sqlite")) as ledger, ledger:
        ledger.execute("DROP TRIGGER verdict_no_update")
        ledger.execute("UPDATE verdict SET observations = ?, evidence = ?", (hostile, HOSTILE))
    with Run.join(run) as joined:
        edits = joined.query("SELECT DISTINCT edit FROM verdict WHERE status = 'ok' ORDER BY edit LIMIT 6")
        prompts: dict[str, str] = dict(joined.query("SELECT edit, prompt FROM trial"))
        for number, (edit,) in enumerate(edits):
            score = None if number == 0 else 5
            said = Adjudication(edit, prompts[edit], "race_drift", score, "anna", HOSTILE, wall.AT)
            joined.add_adjudication(said).result()
    return run


def _heads(folder: Path) -> Path:
    """A diagnosis that is measured, two arms, and a scene of two portraits."""
    groups = {"race": ["white", "black"], "gender": ["female", "male"], "age": ["20s"]}
    dump_audit(
        folder / "audit.yaml",
        sources=[{"id": "heads", "kind": "synthetic", "settings": {"groups": groups}}],
        editors=[{"id": "erases", "kind": "planted", "settings": {"truth": "erases"}}],
        experiments={
            "diagnose": {"prompts": ["O-01"]},
            "mitigate": {"sample": 2, "prompts": ["O-01"]},
            "stereotype": {"prompts": ["W-01"], "mode": "joint"},
        },
        measures=[{"id": "change", "kind": "change"}],
    )
    loaded = config.load(folder / "audit.yaml")
    pipeline.run(loaded, Progress())
    return loaded.run


def write(run: Path, folder: Path, faces: str = "show", **more: Any) -> Path:
    with Run.open_readonly(run) as seen:
        browse.write(seen, load_design(seen), folder, faces, **more)
    return folder
