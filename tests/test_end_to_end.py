"""One small audit from its first command to its evidence: all three experiments, controls, measures, calibration, and a
study whose raters answer. It takes longer than other tests of the quick tier because it is the only one of the whole."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import stillme as stillme_api
from stillme.study.builder.key import Key, path_of
from stillme.study.db.deal import Screen
from tests.cli.test_main import call
from tests.conftest import dump_audit
from tests.studies import EDITORS, Raters, built

PEOPLE = {"race": ["white", "black"], "gender": ["female", "male"], "age": ["20s"]}
AUDIT: dict[str, object] = {
    "sources": [{"id": "heads", "kind": "synthetic", "settings": {"groups": PEOPLE}}],
    "editors": [
        {"id": name, "kind": "planted", "settings": {"truth": truth}}
        for name, truth in zip(EDITORS, ("even", "erases"), strict=True)
    ],
    "experiments": {
        "diagnose": {"prompts": ["O-01", "V-02"]},
        "controls": {"kinds": ["no_op"]},
        "mitigate": {"sample": 8, "prompts": ["O-01", "V-02"]},
        "stereotype": {"prompts": ["W-01", "W-30"]},
    },
    "measures": [{"id": "skin", "kind": "skin_tone_shift"}],
    "calibrating": {"portraits": 1, "repeats": False, "disclosure": False},
}


def rated(key: Key, screen: Screen, output: str, question: str) -> str:
    """Every edit is made, and nothing else is changed."""
    return {"edit_success": "5", "skin_tone": "3", "age_drift": "3"}.get(question, "1")


def test_an_audit_from_its_first_command_to_its_evidence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    dump_audit(tmp_path / "audit.yaml", **AUDIT)
    stillme = command(capsys)
    assert "valid" in stillme("check", "audit.yaml")
    assert not (tmp_path / "run").exists(), "check writes nothing"
    stillme("calibrate", "audit.yaml")
    said = stillme("run", "audit.yaml")
    assert said.strip().endswith("Report: run/report.html")
    assert all(re.search(rf"Edits, {name}: (\d+) of \1\b", said) for name in EDITORS), said
    rate(tmp_path)
    stillme("study", "import", "run", "study/export-1", "--key", path_of(Path("study/bundle")))
    assert "nothing to do" in stillme("run", "audit.yaml")
    stillme("report", "run", "--only", "html", "--only", "tables", "--only", "cards")
    page = (tmp_path / "run/report.html").read_text(encoding="utf-8")
    for section in ("outcomes", "controls-by-group", "people", "mitigation", "stereotypes", "calibration"):
        assert f'id="{section}"' in page, section
    ratings = stillme_api.load_run("run").ratings
    assert ratings is not None and ratings.height == 16 * 5
    stillme("bundle", "run")
    assert "Verified: every file is as it was packed" in stillme("verify", "run/evidence.zip")


def rate(folder: Path) -> None:
    """A study of the diagnosis, its raters on a real database, and what they said as a coordinator exports it."""
    made = built(folder / "run", folder / "study/bundle", "exp1", size=16, tasks=1, raters=1)
    raters = Raters(folder / "study", made)
    for task in made.bundle.tasks:
        raters.whole(f"anna-{task.id}", rated, task.id)
    raters.exported()
    raters.close()


def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def run(*words: object) -> str:
        code, out, errors = call(capsys, *words)
        assert code == 0, errors
        return out

    return run
