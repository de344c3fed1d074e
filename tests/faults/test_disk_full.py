"""A full disk: a sentence, nothing half-written, everything paid for kept, and the run goes on afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import dump_audit, in_ci


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real disk of 700 KB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0 or shutil.which("mount") is None:
        if in_ci():
            pytest.fail("CI must be able to mount a small disk")
        pytest.skip("needs root to mount a small disk")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=700k", "none", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stillme", "run", str(folder / "audit.yaml")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_full_disk(tmp_path: Path, small_disk: Path) -> None:
    dump_audit(tmp_path / "audit.yaml", run=str(small_disk / "run"))
    full = run(tmp_path)
    assert full.returncode == 3, full.stderr
    assert "is full" in full.stderr and "free some space and run the same command again" in full.stderr
    assert "Traceback" not in full.stderr
    kept = sorted(path.name for path in (small_disk / "run/objects").rglob("*.jpg"))
    assert kept, "what was done before the disk was full is kept"
    subprocess.run(["mount", "-o", "remount,size=50m", str(small_disk)], check=True)
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("12 of 12") == 2
    assert set(kept) <= {path.name for path in (small_disk / "run/objects").rglob("*.jpg")}
