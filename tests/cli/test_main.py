from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import typer

from stillme.cli.main import app, main
from stillme.cli.options import AROUND, AUDIT, OTHERS, RESULTS, START
from tests.conftest import Write, dump_audit


def call(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """Exit code, output and errors of a command."""
    with pytest.raises(SystemExit) as left:
        main([str(word) for word in words])
    out, err = capsys.readouterr()
    return int(left.value.code or 0), out, err


def test_what_init_writes_is_checked_without_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "audit.yaml"
    assert call(capsys, "init", file)[0] == 0
    code, out, _ = call(capsys, "check", file)
    assert code == 0 and "84 portraits × 20 prompts × 3 editors: 5,040 trials" in out
    assert re.search(r"edits +0 +5,712", out) and re.search(r"verdicts +0 +10,080", out)
    assert "and 672 negative controls" in out and re.search(r"measurements +0 +17,136", out)
    assert not (tmp_path / "runs").exists(), "check writes nothing"


def test_a_run_says_how_far_it_is_and_is_exported(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = call(capsys, "status", finished / "run")
    assert code == 0 and "24 trials" in out
    code, out, _ = call(capsys, "export", finished / "run", "--format", "csv", "--to", tmp_path)
    assert code == 0 and (tmp_path / "scores.csv").is_file()


def test_running_again_does_nothing(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (finished / "run/report.html").read_bytes()
    code, out, _ = call(capsys, "run", finished / "audit.yaml")
    assert code == 0
    assert out.count("nothing to do") == 3
    assert (finished / "run/report.html").read_bytes() == before


def test_json_for_scripts(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = json.loads(call(capsys, "check", finished / "audit.yaml", "--json")[1])
    assert plan["trials"] == 24 and plan["edits_missing"] == 0 and plan["verdicts_missing"] == 0
    status = json.loads(call(capsys, "status", finished / "run", "--json")[1])
    assert sum(status["edits"].values()) == 24 and status["edits_missing"] == 0
    code, out, err = call(capsys, "run", finished / "audit.yaml", "--json")
    assert code == 0 and json.loads(out)["trials"] == 24
    assert all(json.loads(line)["event"] for line in err.splitlines())


def test_init_never_overwrites(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "audit.yaml").write_text("mine")
    code, _, err = call(capsys, "init", tmp_path / "audit.yaml")
    assert code == 2 and "exists already" in err
    assert (tmp_path / "audit.yaml").read_text() == "mine"


def test_init_copies_the_protocol_to_change_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "init", tmp_path / "audit.yaml", "--protocol", tmp_path / "mine")[0] == 0
    assert "protocol: ./mine" in (tmp_path / "audit.yaml").read_text()
    assert call(capsys, "check", tmp_path / "audit.yaml")[0] == 0


def test_a_fault_is_a_sentence_without_a_traceback(write_audit: Write, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_audit(preset="papr", editos=[])
    code, out, err = call(capsys, "run", path)
    assert code == 2 and out == ""
    assert "editos: is not a known key" in err and "Traceback" not in err
    assert not (path.parent / "run").exists(), "nothing is half-written"


def test_a_missing_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "check", tmp_path / "nothing.yaml")
    assert code == 2 and "nothing.yaml does not exist" in err
    assert "`stillme init " in err, "and how to come by one"


def test_a_word_that_steers_a_terminal_is_spelled_out(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "explain", "\x1b[2Jx")
    assert code == 2 and "\x1b" not in err and r"'\x1b[2Jx' is no term" in err


def test_a_key_that_is_not_set(
    write_audit: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    path = write_audit(judges=[{"id": "j", "kind": "planted", "role": "primary", "key_env": "NO_SUCH_KEY"}])
    code, _, err = call(capsys, "run", path)
    assert code == 3 and "NO_SUCH_KEY" in err and "export NO_SUCH_KEY" in err


def test_an_unwritable_run_directory(write_audit: Write, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_audit(run="blocked/run")
    (path.parent / "blocked").write_text("a file where a folder should be")
    code, _, err = call(capsys, "run", path)
    assert code == 3 and "blocked" in err and "Traceback" not in err


def test_check_refuses_a_run_of_another_protocol(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(capsys, "init", tmp_path / "audit.yaml", "--protocol", tmp_path / "mine")[0] == 0
    groups = tmp_path / "mine/groups.yaml"
    groups.write_text(groups.read_text().replace("label: Black", "label: Black or African"))
    dump_audit(tmp_path / "audit.yaml", protocol="./mine", run=str(finished / "run"))
    for command in ("check", "run"):
        code, _, err = call(capsys, command, tmp_path / "audit.yaml")
        assert code == 2 and "was made with the protocol stillme 1.0.0" in err and "another run directory" in err


def test_status_of_something_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "status", tmp_path)
    assert code == 2 and "is not a run" in err


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "stillme", "--debug", "status", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" in done.stderr


def test_a_bug_is_called_a_bug(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from stillme import pipeline

    def broken(path: Path) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(pipeline, "status", broken)
    code, _, err = call(capsys, "status", "x")
    assert code == 1 and "this is a bug in stillme" in err and "--debug" in err


def test_the_cost_budget_stops_new_work_and_more_budget_goes_on(
    write_audit: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    editors = [{"id": "even", "kind": "planted", "settings": {"truth": "even", "price_usd": 0.10}}]
    code, _, err = call(capsys, "run", write_audit(editors=editors, budgets={"cost_usd": 0.5}))
    assert code == 4 and "the budget of 0.5 USD is reached" in err and "run the same command again" in err
    plan = json.loads(call(capsys, "check", write_audit(editors=editors), "--json")[1])
    assert plan["edits_done"] == 5, "what a call may cost is set aside before it is made"
    assert plan["cost_usd"] == pytest.approx(0.10 * plan["edits_missing"])
    code, out, _ = call(capsys, "run", write_audit(editors=editors))
    assert code == 0 and "Spent: 1.20 USD" in out


def test_the_edit_budget(write_audit: Write, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "run", write_audit(budgets={"edits": 10}))
    assert code == 4 and "edits missing: 14" in err
    code, out, _ = call(capsys, "run", write_audit())
    assert code == 0 and out.count("12 of 12") == 2


def test_an_image_that_was_damaged_on_disk_is_named_and_nothing_is_lost(
    write_audit: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_audit(budgets={"edits": 5}, engine={"workers": 1})
    assert call(capsys, "run", path)[0] == 4
    objects = path.parent / "run/objects"
    whole = {file: file.read_bytes() for file in objects.rglob("*.jpg")}
    for file in whole:
        file.write_bytes(bytes(file.stat().st_size))
    code, _, err = call(capsys, "run", write_audit())
    assert code == 3 and "was changed on disk" in err and str(objects) in err and "Traceback" not in err
    for file, content in whole.items():
        file.write_bytes(content)
    assert call(capsys, "run", write_audit())[0] == 0


def test_exports_have_described_columns(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(capsys, "export", finished / "run", "--to", tmp_path / "t")[0] == 0
    page = (tmp_path / "t/columns.md").read_text()
    for name in ("edits", "judge_scores", "scores", "attempts", "truth"):
        frame = pl.read_parquet(tmp_path / f"t/{name}.parquet")
        assert frame.height and all(f"| {column} |" in page for column in frame.columns)
    scores = pl.read_parquet(tmp_path / "t/scores.parquet")
    assert scores.height == 8 * 5 + 8 * 5 + 8 * 6, "V-03 is asked on one axis more"
    assert call(capsys, "export", finished / "run", "--format", "xlsx")[0] == 2


def test_max_cost_takes_the_place_of_the_files_budget(
    write_audit: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    editors = [{"id": "even", "kind": "planted", "settings": {"truth": "even", "price_usd": 0.10}}]
    path = write_audit(editors=editors, budgets={"cost_usd": 100})
    code, _, err = call(capsys, "run", path, "--max-cost", "0.35")
    assert code == 4 and "the budget of 0.35 USD is reached (0.30 USD spent, a call may cost 0.10)" in err
    assert call(capsys, "run", path, "--max-cost", "-1")[0] == 2


def test_an_engine_that_does_not_exist_is_named(write_audit: Write, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "run", write_audit(), "--engine", "rya")
    assert code == 2 and "engine.kind" in err and "Traceback" not in err


def test_serving_an_editor_that_the_file_does_not_have(
    write_audit: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = call(capsys, "editors", "serve", write_audit(), "nobody")
    assert code in (2, 3) and "Traceback" not in err and "bug" not in err


# What a newcomer reads


def test_without_a_command_it_says_where_to_start(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys)
    assert code == 0 and err == "" and max(map(len, out.splitlines())) <= 100
    told = re.findall(r"^  stillme (\w+)", out, re.M)
    assert told == ["demo", "doctor", "init", "check", "run", "explain"] and "stillme --help" in out


def test_the_help_lists_commands_in_the_order_of_the_flow() -> None:
    around = os.environ | {"COLUMNS": "100", "TERMINAL_WIDTH": "100", "NO_COLOR": "1", "TERM": "dumb"}
    words = [sys.executable, "-m", "stillme", "--help"]
    out = subprocess.run(words, env=around, capture_output=True, text=True, check=True).stdout
    assert re.findall(r"^╭─ ([^─]+) ─", out, re.M) == ["Options", START, AUDIT, RESULTS, OTHERS, AROUND]
    assert max(map(len, out.splitlines())) <= 100


def commands(command: Any, name: str = "stillme") -> Iterator[tuple[str, Any]]:
    yield name, command
    for word, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, f"{name} {word}")


def test_every_command_argument_and_option_says_what_it_is_for() -> None:
    silent = []
    for name, command in commands(typer.main.get_command(app)):
        silent += [] if re.match(r"[A-Z].*[.?]$", command.help or "", re.S) else [name]
        for one in command.params:
            said = getattr(one, "help", "") or ""
            is_ours = "completion" not in one.name
            silent += [f"{name} {one.name}: {said}"] if is_ours and not re.search(r"[.?…]$", said) else []
    assert silent == []
