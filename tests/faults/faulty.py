"""What the faults share: commands as processes of their own, and moments at which one is killed.

`often` tries a few moments in every test run, and many where the slow tests run too.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stillme.ledger.run import LEDGER
from tests import preloaded
from tests.conftest import in_ci

PATIENCE = 300.0  # seconds; a busy machine is no fault
# What a process does to the world, as Python tells it: between any two of these a kill may fall
EVENTS = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.link", "shutil.rmtree", "sqlite3.connect")
ROWS = (
    "object",
    "settings",
    "instruction",
    "portrait",
    "label",
    "trial",
    "edit",
    "verdict",
    "score",
    "truth",
    "measurement",
)


def often(few: int, many: int) -> pytest.MarkDecorator:
    """How many `times` a test tries something: a few in the quick tier, many in the slow one."""
    return pytest.mark.parametrize("times", [few, pytest.param(many, marks=pytest.mark.slow)])


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code, or minus the signal that killed it."""

    code: int
    said: str
    answer: str

    def check(self, code: int = 0) -> Ended:
        assert self.code == code, f"{self.code}: {self.said}"
        assert "Traceback" not in self.said and "bug in stillme" not in self.said, self.said
        return self


def stillme(
    folder: Path,
    *words: str | Path,
    first: Callable[[], object] = preloaded.nothing,
    surroundings: Mapping[str, str] | None = None,
) -> Ended:
    """Runs a command to its end, in a process of its own. `folder`: where its words are kept."""
    said, answer = folder / "said", folder / "answer"
    running = preloaded.start([str(word) for word in words], said, surroundings, first, answer)
    code, text = running.finish(PATIENCE)
    assert code is not None, f"{words} does not end: {text}"
    return Ended(code, text, answer.read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Death:
    """Kills its process at the given thing that it does to a folder; 0 kills nobody, and writes how many there are."""

    folder: Path
    moment: int
    counted: Path

    def __call__(self) -> None:
        state = {"now": 0}

        def heard(event: str, told: tuple[Any, ...]) -> None:
            if event not in EVENTS or not told or not str(told[0]).startswith(str(self.folder)):
                return
            state["now"] += 1
            if state["now"] == self.moment:
                os.kill(os.getpid(), signal.SIGKILL)
            if not self.moment:
                os.pwrite(self._count, f"{state['now']:8d}".encode(), 0)

        if not self.moment:
            object.__setattr__(self, "_count", os.open(self.counted, os.O_CREAT | os.O_WRONLY))
        sys.addaudithook(heard)

    _count: int = -1


def moments(folder: Path, aside: Path, words: list[str | Path], times: int, seed: int) -> list[int]:
    """Some of the moments of a command that changes `folder`: runs it to its end to count them."""
    stillme(aside, *words, first=Death(folder, 0, aside / "count")).check()
    every = range(1, int((aside / "count").read_text()) + 1)
    return sorted(random.Random(seed).sample(every, min(times, len(every))))


def killed(
    aside: Path, folder: Path, moment: int, *words: str | Path, surroundings: Mapping[str, str] | None = None
) -> Ended:
    """The command, killed at that moment."""
    ended = stillme(aside, *words, first=Death(folder, moment, aside / "count"), surroundings=surroundings)
    assert ended.code in (-signal.SIGKILL, 0), ended
    return ended


def rows(folder: Path, tables: tuple[str, ...] = ROWS) -> dict[str, list[tuple[object, ...]]]:
    """Every row that says what was asked and found; times and attempts are how, not what."""
    with closing(sqlite3.connect(f"file:{folder / LEDGER}?mode=ro", uri=True)) as connection:
        return {t: sorted(connection.execute(f"SELECT * FROM {t}").fetchall(), key=repr) for t in tables}


def files(folder: Path) -> dict[str, str]:
    """Every file under a folder, by its hash."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def parts(folder: Path) -> list[Path]:
    """What was begun and is not under its name."""
    return [path for path in folder.rglob(".*") if path.suffix == ".part" or ".old" in path.name]


def mounted(folder: Path, *options: str) -> None:
    """Mounts something there, for as long as the test lasts; only root may."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        if in_ci():
            pytest.fail("CI must be able to mount")
        pytest.skip("needs root to mount")
    subprocess.run(["mount", *options, str(folder)], check=True)


def unmount(folder: Path) -> None:
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
