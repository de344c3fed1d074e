"""Names to write under: whole or not at all, and nothing of the dead stays."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stillme.core.atomic import beside, clear

DIES = """
import os, signal, sys
from pathlib import Path
from stillme.core.atomic import beside
with beside(Path(sys.argv[1]), folder=sys.argv[2] == "folder") as part:
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_a_killed_process_began_is_cleared_away_by_the_next(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "report [1]"
    died = subprocess.run([sys.executable, "-c", DIES, str(target), kind])
    assert died.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".report [1].") and left.suffix == ".part"
    with beside(target, folder=kind == "folder") as part:
        assert list(tmp_path.iterdir()) == [part]
        clear(target)
        assert part.exists(), "who is at work keeps what they write"
    assert list(tmp_path.iterdir()) == []


def test_what_was_written_stays_under_its_name(tmp_path: Path) -> None:
    with beside(tmp_path / "page.html") as part:
        part.write_text("whole")
        part.replace(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == "whole"
    assert list(tmp_path.iterdir()) == [tmp_path / "page.html"]


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no"), beside(tmp_path / "a", folder=True) as part:
        (part / "half").write_text("x")
        raise ValueError("no")
    assert list(tmp_path.iterdir()) == []


def test_folders_that_are_not_there_have_nothing_to_clear(tmp_path: Path) -> None:
    clear(tmp_path / "nowhere" / "a")
