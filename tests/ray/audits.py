"""What the tests of engines compare: the rows of runs, and the files."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from stillme import pipeline
from stillme.engine.progress import Progress
from stillme.engine.threads import StopEvent
from stillme.ledger import Run
from stillme.ledger.run import LEDGER
from stillme.plan import config
from stillme.steps import edit as editing
from stillme.steps.budget import Budget

WHAT = (
    "object",
    "settings",
    "instruction",
    "portrait",
    "label",
    "trial",
    "edit",
    "truth",
    "circumstances",
    "making",
)
Rows = dict[str, list[tuple[object, ...]]]


def edit(path: Path) -> None:
    """Plans an audit and makes its edits; judges and report are the same on every engine."""
    audit = config.load(path)
    with Run.open_for_writing(audit.run, audit.protocol, audit.audit.objects) as held:
        design = pipeline.plan(held, audit, pipeline.gather(held, audit, Progress()))
        editing.edit(held, design, Progress(), StopEvent(), Budget(audit, 0.0))


def rows(run: Path, tables: tuple[str, ...] = WHAT) -> Rows:
    """What was asked and what came of it; attempts without their times."""
    with closing(sqlite3.connect(run / LEDGER)) as connection:
        found = {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in tables}
        columns = "subject, status, cost_usd, detail, code, request_id"
        found["attempt"] = connection.execute(f"SELECT {columns} FROM attempt").fetchall()
    return {name: sorted(content, key=repr) for name, content in found.items()}


def pictures(run: Path) -> dict[str, str | None]:
    """Edit -> hash of its picture."""
    with closing(sqlite3.connect(run / LEDGER)) as connection:
        return dict(connection.execute("SELECT key, image FROM edit"))


def files(run: Path) -> dict[str, bytes]:
    objects = run / "objects"
    return {str(path.relative_to(objects)): path.read_bytes() for path in objects.rglob("*") if path.is_file()}
