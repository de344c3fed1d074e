"""What the page and the workflow say works: the policy of the page is one, the workflow's commands run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from stillme.assurance.gate.policy import KINDS, read
from stillme.cli.main import main
from stillme.plan import config
from stillme.protocol import Protocol
from tests.conftest import dump_audit

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/gate.md").read_text(encoding="utf-8")


def test_the_pages_policy_is_one_and_every_kind_is_described(protocol: Protocol, tmp_path: Path) -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)
    (tmp_path / "policy.yaml").write_text(text, encoding="utf-8")
    found = read(tmp_path / "policy.yaml", protocol)
    assert not found.document.faults
    assert all(f"| `{kind}` |" in PAGE for kind in KINDS)
    assert {type(placed.rule) for placed in found.rules} == set(KINDS.values())


def steps() -> dict[str, dict[str, Any]]:
    text = (ROOT / "docs/deploy/github-gate.yml").read_text(encoding="utf-8")
    workflow = yaml.safe_load(text)
    assert set(workflow[True]) == {"pull_request", "workflow_dispatch"}  # YAML 1.1 reads `on` as a truth
    return {step.get("name", step.get("uses")): step for step in workflow["jobs"]["gate"]["steps"]}


def test_the_workflow_calibrates_audits_gates_and_uploads(
    gated_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its shell runs as it stands, with this stillme; the audit itself is checked, and the gate is held to a run."""
    found = steps()
    (tmp_path / "stillme").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m stillme "$@"\n', encoding="utf-8")
    (tmp_path / "stillme").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    first = next(step["run"] for name, step in found.items() if name.startswith("The audit and the policy"))
    subprocess.run(["bash", "-e", "-c", first], check=True)
    loaded = config.load(tmp_path / "audit.yaml")
    assert list(loaded.editors) == ["candidate"] and (tmp_path / "policy.yaml").is_file()
    assert found["Calibrate the judges"]["run"] == "stillme calibrate audit.yaml"
    assert found["Audit"]["run"] == "stillme run audit.yaml"
    (tmp_path / "runs").mkdir()
    loaded.run.symlink_to(gated_run)
    with pytest.raises(SystemExit) as left:
        main(found["Gate"]["run"].split()[1:])
    assert left.value.code == 5
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    subprocess.run(["bash", "-e", "-c", found["Summary"]["run"]], check=True)
    assert (tmp_path / "summary.md").read_text(encoding="utf-8").startswith("## release gate: closed")
    uploaded = found["Upload the verdicts and the report"]["with"]["path"].split()
    assert all((tmp_path / name).is_file() for name in uploaded)
    assert found["Show what closes the gate in code scanning"]["with"]["sarif_file"] == "gate.sarif"


NEWEST = {  # the first version of each that runs on Node 24, which is what runners have
    "actions/checkout": 5,
    "actions/setup-python": 6,
    "actions/cache/restore": 5,
    "actions/cache/save": 5,
    "actions/upload-artifact": 6,
    "github/codeql-action/upload-sarif": 4,
}


def test_actions_are_named_with_a_version_that_still_runs_and_conditions_with_files_that_are_written() -> None:
    found = steps().values()
    used = dict(step["uses"].split("@v") for step in found if "uses" in step)
    assert {name: int(version) for name, version in used.items()} == NEWEST
    assert all(("run" in step) != ("uses" in step) for step in found)
    written = {"gate.md", "gate.xml", "gate.sarif", "runs/**"}
    asked = [step["if"] for step in found if "if" in step]
    assert {name for text in asked for name in re.findall(r"hashFiles\('([^']+)'\)", text)} == written
    assert all(text.startswith("always() && ") for text in asked)
    kept = [step["with"]["key"] for step in found if "actions/cache" in step.get("uses", "")]
    assert len(kept) == 2 and len(set(kept)) == 1, "what is kept is what is looked for"


@pytest.mark.slow
def test_every_step_of_the_workflow_runs_in_the_shell_one_after_the_other(tmp_path: Path) -> None:
    """In a repository that has an audit of its own, which is small; only pip is not the real one."""
    tools, work = tmp_path / "tools", tmp_path / "work"
    tools.mkdir()
    work.mkdir()
    shims = {
        "stillme": f'exec "{sys.executable}" -m stillme "$@"',
        "pip": 'echo "$@" > "$GITHUB_STEP_SUMMARY.pip"',
    }
    for name, line in shims.items():
        (tools / name).write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
        (tools / name).chmod(0o755)
    one = {"id": "candidate", "kind": "planted", "settings": {"truth": "even"}}
    asked = {"diagnose": {"prompts": ["O-01"]}}
    dump_audit(work / "audit.yaml", run="runs/candidate", editors=[one], experiments=asked)
    about = {"PATH": f"{tools}:/usr/bin:/bin", "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
    codes = {
        name: subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]],
            cwd=work,
            env={**os.environ, **about},
            capture_output=True,
        ).returncode
        for name, step in steps().items()
        if "run" in step
    }
    assert [name for name, code in codes.items() if code] == ["Gate"], "so few persons decide nothing"
    assert codes["Gate"] == 5
    assert (tmp_path / "summary.md.pip").read_text(encoding="utf-8").split() == ["install", "stillme"]
    assert (tmp_path / "summary.md").read_text(encoding="utf-8").startswith("## release gate: closed")
    uploaded = steps()["Upload the verdicts and the report"]["with"]["path"].split()
    assert all((work / name).is_file() for name in uploaded)
