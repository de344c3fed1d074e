"""Runs that several test files read: each is made once in a session of tests, whichever worker asks for it first."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path

import pytest


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """The folder that `make` filled. Whoever wants to change something in it copies it first."""
    base = factory.getbasetemp()
    base = base.parent if base.name.startswith("popen-") else base  # what the workers of pytest-xdist share
    folder, done = base / f"prepared-{name}", base / f"prepared-{name}.done"
    with (base / f"prepared-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            assert not folder.exists(), f"making {folder} failed before"
            folder.mkdir()
            make(folder)
            done.touch()
    return folder
