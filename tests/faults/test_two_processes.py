"""Two processes on one run, selection or study: the second says who holds it, the first goes on; a killed holder
holds nothing."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stillme.core.lock import Lock
from stillme.sources.selection.store import Store
from stillme.study.rehearsal.rehearse import Process, server
from tests import preloaded
from tests.browser.serving import ROOT, Tool
from tests.conftest import dump_audit
from tests.faults.faulty import rows, stillme
from tests.faults.test_kill import rows_done
from tests.sources.selection import shelf
from tests.study import bundles


def until(is_so: object, *given: object) -> None:
    deadline = time.monotonic() + 120
    while not is_so(*given):  # type: ignore[operator]
        assert time.monotonic() < deadline, "it does not come so far"
        time.sleep(0.02)


def test_a_second_run_says_who_holds_the_first(audited: Path, tmp_path: Path) -> None:
    """This test holds the run, for as long as the others ask for it."""
    shutil.copytree(audited, tmp_path / "audit")
    audit, run = tmp_path / "audit/audit.yaml", tmp_path / "audit/run"
    whole = rows(run)
    with Lock(run):
        for words in (("run", audit), ("calibrate", audit)):
            assert f"is in use by process {os.getpid()} on " in stillme(tmp_path, *words).check(3).said
        stillme(tmp_path, "status", run).check()
    stillme(tmp_path, "run", audit).check()
    assert rows(run) == whole


@pytest.mark.slow
def test_a_killed_run_holds_nothing(tmp_path: Path, audited: Path) -> None:
    dump_audit(tmp_path / "audit.yaml")
    first = preloaded.start(["run", str(tmp_path / "audit.yaml")], tmp_path / "first")
    until(lambda: rows_done(tmp_path) > 0)
    first.kill()
    assert (tmp_path / "run/lock").is_file(), "the note stays, the lock does not"
    stillme(tmp_path, "run", tmp_path / "audit.yaml").check()
    assert rows(tmp_path / "run") == rows(audited / "run")


def test_a_second_selection_tool_says_who_holds_the_first(tmp_path: Path) -> None:
    tool = Tool(tmp_path, pools=1)
    with Store.open_for_writing(tool.plan.folder) as store:
        shelf.fill(tool.plan, store)
    tool.start()
    try:
        assert tool.process is not None
        command = [sys.executable, "-m", *Tool(tmp_path, pools=1).command()]
        second = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert second.returncode and f"is in use by process {tool.process.pid} on" in second.stderr
        assert tool.process.poll() is None
    finally:
        tool.end(signal.SIGKILL)
    third = Tool(tmp_path, pools=1).start()
    third.kill()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Process]:
    bundles.write(tmp_path / "bundle", items=2, tasks=1, seats=1)
    study = server(tmp_path / "bundle", tmp_path / "data", tmp_path / "log").start()
    yield study
    study.kill()


def test_a_second_study_server_says_who_serves(tmp_path: Path, served: Process) -> None:
    words = ("study", "serve", tmp_path / "bundle", "--data", tmp_path / "data", "--port", "0")
    said = stillme(tmp_path, *words).check(3).said
    assert "The study in" in said and "is in use by process" in said and f" {os.getpid()} " not in said
    served.kill()
    served.start()
