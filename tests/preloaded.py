"""Starts `stillme` from a process that has already imported it: a run is at work a second sooner, and is itself to kill.

What runs is the command line's own `main` in a process of its own; only the imports are shared.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Mapping
from multiprocessing.context import ForkServerProcess
from pathlib import Path

MODULES = [
    "stillme.cli.main",
    "stillme.pipeline",
    "stillme.cli.render.run",
    "stillme.report.publish",
    "stillme.engine.http",
    "aiohttp",
]


class Running:
    """A started command, with what it says on its standard error."""

    def __init__(self, process: ForkServerProcess, said: Path) -> None:
        self._process, self._said = process, said

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def is_over(self) -> bool:
        return self._process.exitcode is not None

    def kill(self) -> None:
        """SIGKILL, and waits until it is dead."""
        assert self._process.pid is not None
        if not self.is_over:
            os.kill(self._process.pid, signal.SIGKILL)
        self._process.join()

    def finish(self, within_s: float) -> tuple[int | None, str]:
        """Its exit code, None where it had to be killed, and its words."""
        self._process.join(within_s)
        code = self._process.exitcode
        self.kill()
        return code, self._said.read_text(encoding="utf-8")


def nothing() -> None:
    """Where nothing is to happen before a command."""


def start(
    words: list[str],
    said: Path,
    surroundings: Mapping[str, str] | None = None,
    first: Callable[[], object] = nothing,
    answer: Path = Path(os.devnull),
) -> Running:
    """`first`: is called in the new process, before the command. `answer`: what it says on its standard output."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(MODULES)
    process = server.Process(target=_main, args=(words, said, dict(surroundings or {}), first, answer))
    process.start()
    return Running(process, said)


def _main(
    words: list[str], said: Path, surroundings: dict[str, str], first: Callable[[], object], answer: Path
) -> None:
    from stillme.cli.main import main

    os.environ |= surroundings
    for stream, path in ((1, answer), (2, said)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
    first()
    main(words)
