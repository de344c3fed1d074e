"""The tools that say what stillme is made of, and whether any of it is known to be vulnerable."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.conftest import load_tool

TOOLS = Path(__file__).parents[2] / "tools"


def test_the_sheet_lists_what_stillme_needs_and_nothing_that_only_tests_need(tmp_path: Path) -> None:
    made = subprocess.run(
        [sys.executable, str(TOOLS / "sbom.py"), "--to", str(tmp_path / "sbom.json")],
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    found = json.loads((tmp_path / "sbom.json").read_text(encoding="utf-8"))
    names = {one["name"] for one in found["components"]}
    assert {"pydantic", "pydantic-core", "polars", "pillow", "aiohttp", "starlette", "pyarrow"} <= names
    assert not {"pytest", "hypothesis", "mypy", "ruff"} & names
    refs = {one["bom-ref"] for one in found["components"]} | {found["metadata"]["component"]["bom-ref"]}
    assert {ref for one in found["dependencies"] for ref in (one["ref"], *one["dependsOn"])} <= refs
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.6")


def audited(monkeypatch: pytest.MonkeyPatch, printed: str, words: str = "") -> int:
    tool = load_tool("audit_packages")
    monkeypatch.setattr(tool.subprocess, "run", lambda *_, **__: SimpleNamespace(stdout=printed, stderr=words))
    return int(tool.main(["constraints.txt"]))


def test_only_a_known_vulnerability_fails_and_silence_is_not_called_clean(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = {"name": "a", "version": "1", "vulns": [{"id": "CVE-1", "fix_versions": ["2"]}]}
    good, silent = {"name": "b", "version": "1", "vulns": []}, {"name": "c", "skip_reason": "not found"}
    assert audited(monkeypatch, json.dumps({"dependencies": [bad, good, silent]})) == 1
    assert "a 1: CVE-1 (mended in 2)" in capsys.readouterr().out
    assert audited(monkeypatch, json.dumps({"dependencies": [good, silent]})) == 0
    assert "1 of 2 distributions asked about, 0 known" in capsys.readouterr().out
    assert audited(monkeypatch, json.dumps({"dependencies": [silent]})) == 0
    assert "nothing is known, the service was not reached" in capsys.readouterr().out
    assert audited(monkeypatch, "", "ConnectionError: no network") == 0
    assert "the audit did not run: ConnectionError" in capsys.readouterr().out
