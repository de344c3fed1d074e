"""Completion, in a real bash where one is there, and as zsh and fish ask for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stillme.cli import completion, init
from stillme.ledger.run import LEDGER
from stillme.plan.audit import Experiments
from stillme.protocol import Protocol
from stillme.report import folder

BIN = Path(sys.executable).parent
ASKING = """
eval "$(stillme --show-completion bash)"
complete -p stillme
ask() {
  COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
  _stillme_completion stillme
  echo "$*: ${COMPREPLY[*]}"
}
"""


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs, a folder that is none, and one that nobody is to look into."""
    for name in ("runs/audit", "demo/small", "runs/empty", ".hidden/run"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("runs/audit", "demo/small", ".hidden/run"):
        (tmp_path / name / LEDGER).touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_commands_terms_runs_and_words(runs: Path) -> None:
    asked = {
        ("do",): "doctor",
        ("explain", "race_"): "race_changed race_drift",
        ("report", "ru"): "runs/audit",
        ("report", "runs/audit", "--only", "fi"): "figures",
        ("init", "--for", "d"): "demo diffusers",
        ("study", "build", "runs/audit", "--preset", "exp2"): "exp2-pairwise exp2-independent",
        ("check", "au"): "",  # bash itself completes names of files where nothing is offered
    }
    lines = [f"ask stillme {' '.join(words)}" for words in asked]
    around = os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "--norc", "-c", "\n".join([ASKING, *lines])],
        env=around, cwd=runs, capture_output=True, text=True, check=True,
    )  # fmt: skip
    first, *told = done.stdout.splitlines()
    assert first == "complete -o default -F _stillme_completion stillme"
    assert told == [f"stillme {' '.join(words)}: {wanted}" for words, wanted in asked.items()]


@pytest.mark.parametrize(("shell", "more"), [("zsh", {}), ("fish", {"_TYPER_COMPLETE_FISH_ACTION": "get-args"})])
def test_zsh_and_fish_are_told_the_same(shell: str, more: dict[str, str]) -> None:
    asking = {"_STILLME_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": "stillme explain race_"}
    done = subprocess.run(
        [str(BIN / "stillme")], env=os.environ | asking | more, capture_output=True, text=True, check=False
    )
    assert "race_changed" in done.stdout and "race_drift" in done.stdout and "skin_tone" not in done.stdout


def test_runs_are_folders_with_a_ledger(runs: Path) -> None:
    assert completion.runs("") == ["demo/small", "runs/audit"]
    assert completion.runs("runs/") == completion.runs("runs/a") == ["runs/audit"]
    assert completion.runs(f"{runs}/de") == [f"{runs}/demo/small"]
    assert completion.runs("runs/x") == completion.runs("nowhere/x") == []


def test_a_folder_that_cannot_be_read_is_passed_over(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> object:
        raise PermissionError(13, "no", str(path))

    monkeypatch.setattr(Path, "iterdir", refuse)
    assert completion.runs("runs/") == []


def test_words_are_those_of_the_parts_that_take_them(protocol: Protocol) -> None:
    assert completion.PARTS == folder.PARTS and completion.LEDGER == LEDGER
    assert set(completion.EXPERIMENTS) == set(Experiments.model_fields)
    assert completion.starts("") == list(init.STARTS)
    assert completion.presets("") == list(protocol.presets)
    assert protocol.study_presets is not None
    assert completion.studies("") == [one.id for one in protocol.study_presets.presets]
    assert completion.among("show", "blur")("b") == ["blur"]
