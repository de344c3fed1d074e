"""What a report says of how it came about."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from stillme.ledger import Run
from stillme.plan.design import load_design
from stillme.report import publish


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """The finished run, for this test alone."""
    with Run.open_readonly(finished / "run") as seen:
        seen.connection.execute("VACUUM INTO ?", (str(tmp_path / "ledger.sqlite"),))
    return tmp_path


def test_libraries_that_an_editor_noted_with_its_edits_are_told_in_turn(run: Path) -> None:
    with Run.open_readonly(run) as seen:
        edits = [edit for (edit,) in seen.query("SELECT DISTINCT edit FROM trial WHERE editor = 'even'")]
    noted = [
        {"torch": torch, "diffusers": "0.36.0", "threads": 2, "weights": {"a": 1}} for torch in ("2.9", "2.8")
    ]
    with sqlite3.connect(run / "ledger.sqlite") as ledger:
        for place, (edit, content) in enumerate(zip(edits, noted, strict=False)):
            ledger.execute("INSERT INTO circumstances VALUES (?, ?)", (f"c{place}", json.dumps(content)))
            ledger.execute("INSERT INTO making VALUES (?, ?, '{}')", (edit, f"c{place}"))
    ledger.close()
    with Run.open_readonly(run) as seen:
        told = dict(publish._provenance(seen, load_design(seen)))
    each = "diffusers 0.36.0, threads 2"
    assert told["Editor even: made with"] == f"torch 2.8, {each}; torch 2.9, {each}"
    assert "Editor erases: made with" not in told, "who noted nothing says nothing"
    assert told["Seed of permutations and resampling"] == "0"


def test_what_is_not_installed_is_not_listed() -> None:
    found = {"stillme": "1", "python": "3.12", "packages": {"numpy": "2.0", "pillow": ""}}
    assert publish.made_with(found) == (("stillme", "1"), ("Python", "3.12"), ("numpy", "2.0"))
    own = dict(publish.made_with(publish.versions()))
    assert {"stillme", "Python", "polars", "numpy", "scipy", "matplotlib", "pillow", "Platform"} <= set(own)
