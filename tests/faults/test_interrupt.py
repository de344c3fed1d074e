"""Ctrl-C: ends cleanly, says how to go on, and the next run goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.conftest import dump_audit
from tests.faults.test_kill import GRID, rows_done

TWO_RACES = {
    "id": "heads",
    "kind": "synthetic",
    "settings": {"groups": {"race": ["white", "black"], "age": ["20s", "60s"]}},
}


def test_ctrl_c_ends_cleanly_and_says_how_to_resume(tmp_path: Path) -> None:
    dump_audit(tmp_path / "audit.yaml", **{**GRID, "sources": [TWO_RACES]})
    command = [sys.executable, "-m", "stillme", "run", str(tmp_path / "audit.yaml")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while rows_done(tmp_path) < 5 and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"go on with: stillme run {tmp_path / 'audit.yaml'}" in errors and "Traceback" not in errors
    assert 5 <= rows_done(tmp_path) < 100
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert rows_done(tmp_path) > 100
