"""Runs `stillme …` and kills it with SIGKILL at a chosen moment: before or after any write of the study or call to Prolific.

What runs is the command line's own `main`, in a process of its own that shares only its imports with others. Moments
are counted from 1; 0 kills nobody.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Mapping
from pathlib import Path

MODULES = [
    "stillme.cli.main",
    "stillme.study.server.serve",
    "stillme.study.prolific.commands",
    "tests.study.prolific.dying",
    "aiohttp",
    "orjson",
]


def run(words: list[str], moment: int, said: Path, surroundings: Mapping[str, str]) -> tuple[int, str]:
    """How a command ended, as an exit code or minus a signal, and what it said."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(MODULES)
    process = server.Process(target=_main, args=(words, moment, said, dict(surroundings)))
    process.start()
    process.join()
    assert process.exitcode is not None
    return process.exitcode, said.read_text(encoding="utf-8")


def _main(words: list[str], moment: int, said: Path, surroundings: dict[str, str]) -> None:
    from stillme.cli.main import main
    from stillme.study.db.store import Lite
    from stillme.study.prolific.client import Prolific
    from tests.study.prolific.dying import Death

    os.environ |= surroundings
    for stream in (1, 2):
        os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND | (os.O_TRUNC if stream == 1 else 0)), stream)
    death = Death(moment)
    Lite.write = death.around(Lite.write)  # type: ignore[assignment,method-assign]
    Prolific._ask = death.around(Prolific._ask)  # type: ignore[assignment,method-assign]
    main(words)
