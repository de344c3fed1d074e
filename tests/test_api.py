"""stillme from Python, as a notebook uses it: the example's cells are run, and everything else reads what they made."""

from __future__ import annotations

import ast
import doctest
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import stillme
from stillme import api
from stillme.analysis import tables
from tests.conftest import Write

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "examples/notebook.py"
PAGE = ROOT / "docs/python.md"
USER = '''
"""What somebody's own script might say, and what a type checker should make of it."""
from typing import assert_type

import pandas
import polars as pl
from PIL import Image

import stillme

audit = stillme.Audit("audit.yaml", max_cost=5)
assert_type(audit.run(only=["diagnose"], progress=False), stillme.LoadedRun)
assert_type(audit.check(), stillme.Plan)
assert_type(audit.check().outlook.trials, int)
run = stillme.load_run("runs/audit")
assert_type(run.edits, pl.DataFrame)
assert_type(run.measured, pl.DataFrame | None)
assert_type(run.pair("trial"), tuple[Image.Image, Image.Image | None])
assert_type(stillme.analyse(run), stillme.Analysis)
assert_type(stillme.analyse("scores.csv", preset="paper")["primary"], pl.DataFrame)
stillme.analyse(run.scores), stillme.analyse(pandas.DataFrame())
try:
    audit.run()
except stillme.IncompleteError as error:
    assert_type(error.next_step, str)
'''
WRONG = """
import stillme
stillme.analyse("scores.csv", sed=3)
stillme.load_run("runs/audit").measured.height
stillme.Audit("audit.yaml").runs()
stillme.nothing
"""


def cells(path: Path) -> list[str]:
    """The code of a percent script, cell by cell; what is told between them left away."""
    parts = re.split(r"^# %%(.*)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [code for kind, code in zip(parts[1::2], parts[2::2], strict=True) if "markdown" not in kind]


def shown(code: str, names: dict[str, Any]) -> object:
    """Runs a cell as a notebook does; the value of its last line is what it shows."""
    lines = ast.parse(code).body
    last = lines.pop() if lines and isinstance(lines[-1], ast.Expr) else None
    exec(compile(ast.Module(lines, []), str(NOTEBOOK), "exec"), names)
    return eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names) if last else None  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with nothing in it, from which everything here is run."""
    before, folder = Path.cwd(), tmp_path_factory.mktemp("notebook")
    os.chdir(folder)
    yield folder
    os.chdir(before)


@pytest.fixture(scope="module")
def notebook(folder: Path) -> dict[str, Any]:
    """What the example's cells leave behind: their names, and under `shown` what they showed."""
    names: dict[str, Any] = {}
    names["shown"] = [found for code in cells(NOTEBOOK) if (found := shown(code, names)) is not None]
    return names


@pytest.fixture(scope="module")
def run(finished: Path) -> stillme.LoadedRun:
    return stillme.load_run(finished / "run")


@pytest.mark.slow
def test_the_notebook_runs_from_an_empty_folder(notebook: dict[str, Any], folder: Path) -> None:
    plan, statuses, means, contents, primary, page = notebook["shown"]
    assert "9 portraits × 4 prompts × 3 editors: 108 trials" in repr(plan)
    assert statuses.filter(status="refused")["len"].sum() == 1
    assert means.filter(editor="even")["persons"].to_list() == [3, 3, 3]
    assert contents.height == len(notebook["found"]) and primary.height == 9
    assert page.resolve() == folder / "demo/small/report.html" and page.is_file()
    run: stillme.LoadedRun = notebook["run"]
    assert run.pair(run.edits.filter(status="refused")["trial"][0])[1] is None


def test_the_page_shows_cells_of_the_notebook() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) >= 8
    written = {code.strip() for code in cells(NOTEBOOK)}
    assert [block for block in blocks if block.strip() not in written] == []


@pytest.mark.slow
@pytest.mark.usefixtures("notebook")
@pytest.mark.parametrize("name", ["Audit", "load_run", "analyse"])
def test_examples_in_docstrings_run(name: str) -> None:
    test = doctest.DocTestFinder(recurse=False).find(getattr(api, name), name, module=api, globs=vars(api).copy())[
        0
    ]
    told = doctest.DocTestRunner().run(test)
    assert told.attempted and told.failed == 0


def test_tables_are_those_of_the_export(run: stillme.LoadedRun, tmp_path: Path) -> None:
    written = {path.stem for path in run.export(tmp_path) if path.suffix == ".parquet"}
    assert written == set(run.tables) and {"edits", "scores", "truth"} <= written
    for name, frame in (("edits", run.edits), ("scores", run.scores), ("judge_scores", run.judged)):
        assert_frame_equal(frame, run.tables[name])
        assert_frame_equal(frame, pl.read_parquet(tmp_path / f"{name}.parquet"))
        assert set(frame.columns) <= set(run.columns)
    assert run.ratings is None


def test_a_picture_is_the_very_file(run: stillme.LoadedRun) -> None:
    row = run.edits.filter(status="ok").row(0, named=True)
    before, after = run.pair(row["trial"])
    assert after is not None and before.size == after.size == run.image(row["image"]).size
    assert run.content(row["image"]).startswith((b"\xff\xd8", b"\x89PNG", b"RIFF"))
    with pytest.raises(stillme.StillmeError, match=r"has no trial 'nobody'\. Take one"):
        run.pair("nobody")


def test_an_analysis_is_that_of_the_command(run: stillme.LoadedRun, tmp_path: Path) -> None:
    """Also from a table in memory of another library, where all that a run knows besides is not there."""
    found = stillme.analyse(run)
    page = found.write(tmp_path)
    assert {path.stem for path in (tmp_path / "tables").iterdir()} == set(found)
    assert found.sentences[0] in page.read_text(encoding="utf-8")
    said = tables.saying.words(list(found._tables.values()), found._inputs, page)
    assert said == f"{found!r}: {page}"
    again = stillme.analyse(run.scores.to_pandas())
    assert_frame_equal(again["outcomes_by_race"], found["outcomes_by_race"].drop("refused"))
    with pytest.raises(stillme.StillmeError, match="'rates' is not a table; known: design"):
        found.title("rates")
    with pytest.raises(KeyError):
        found["rates"]


def test_what_cannot_be_analysed_is_said() -> None:
    with pytest.raises(stillme.StillmeError, match=r"this is a list\. Give a polars or pandas table"):
        stillme.analyse([1, 2])  # type: ignore[arg-type]
    with pytest.raises(stillme.StillmeError, match="the table: score: the table has no such column"):
        stillme.analyse(pl.DataFrame({"person": ["a"]}))


def test_a_run_that_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(stillme.StillmeError, match="is not a run"):
        stillme.load_run(tmp_path)
    with pytest.raises(stillme.StillmeError, match="does not exist"):
        stillme.Audit(tmp_path / "audit.yaml")


def test_a_budget_stops_an_audit_and_the_rest_is_done_later(write_audit: Write) -> None:
    file = write_audit(budgets={"edits": 5})
    with pytest.raises(stillme.IncompleteError, match="run the same command again"):
        stillme.Audit(file).run(progress=False)
    audit = stillme.Audit(file)
    assert audit.load().edits.filter(status="ok").height <= 5 < audit.status()["trials"]
    whole = stillme.Audit(write_audit()).run(progress=False)
    assert whole.edits.filter(status="pending").is_empty() and whole.name == "small"


def test_silent_unless_asked(write_audit: Write, capsys: pytest.CaptureFixture[str]) -> None:
    audit = stillme.Audit(write_audit(budgets={"edits": 1}))
    with pytest.raises(stillme.IncompleteError):
        audit.run(progress=False)
    assert capsys.readouterr().out == ""
    with pytest.raises(stillme.IncompleteError):
        audit.run()
    assert "Edits" in capsys.readouterr().out


def test_names_load_when_they_are_asked_for() -> None:
    code = "import sys, stillme; stillme.__version__; print('polars' in sys.modules); stillme.Audit; print('polars' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["False", "True"]
    assert set(stillme.__all__) <= set(dir(stillme))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        stillme.nothing  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.slow
def test_a_users_script_is_type_checked(tmp_path: Path) -> None:
    """Outside of the tree, with no settings of ours: what is installed says its types."""
    for name, code in {"user": USER, "wrong": WRONG}.items():
        (tmp_path / f"{name}.py").write_text(code, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "user.py", "wrong.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    faults = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert [line.split(":")[:2] for line in faults] == [["wrong.py", str(number)] for number in (3, 4, 5, 6)]
