"""A whole study, rehearsed on this machine: a fake Prolific, the server and bots, each as they really run.

Nothing here is a mock-up of the study: the commands are the ones that a coordinator types, in processes of their
own that can be killed and started again.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from stillme.errors import SurroundingsError

PATIENCE = 60.0  # seconds until a process has to be ready, or gone
BEAT = 0.02
_PLACE = re.compile(r"http://(?:127\.0\.0\.1|localhost):(\d+)")


@dataclass
class Process:
    """`python -m WORDS`, which says `ready` with its address once it listens. What it says is kept in `log`."""

    words: Sequence[str]
    ready: str
    log: Path
    port: int = 0
    environ: Mapping[str, str] = field(default_factory=dict)
    _running: subprocess.Popen[bytes] | None = None

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Process:
        """The first time on a free port, then always on the same."""
        began = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._running = subprocess.Popen(
                [sys.executable, "-m", *self.words, "--port", str(self.port)],
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environ},
                start_new_session=True,  # its workers are killed with it, and Ctrl-C is ours to tell
            )
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and self._running.poll() is None:
            with self.log.open("rb") as log:
                log.seek(began)
                said = log.read().decode("utf-8", "replace")
            if found := next((_PLACE.search(line) for line in said.splitlines() if self.ready in line), None):
                self.port = int(found[1])
                return self
            time.sleep(BEAT)
        self.kill()
        raise SurroundingsError(f"{' '.join(self.words[:3])} did not start.", f"What it said is in {self.log}.")

    def kill(self) -> None:
        """SIGKILL, to it and its workers; back when nobody listens there any more."""
        if self._running is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._running.pid, signal.SIGKILL)
        self._running.wait()
        self._running = None
        until = time.monotonic() + PATIENCE
        while _listens(self.port) and time.monotonic() < until:
            time.sleep(BEAT)

    def stop(self) -> None:
        """As its user would, with Ctrl-C; whoever does not listen is killed."""
        if self._running is None:
            return
        self._running.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            self._running.wait(10)
        self.kill()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return port != 0 and probe.connect_ex(("127.0.0.1", port)) == 0


def server(bundle: Path, data: Path, log: Path, *more: str, environ: Mapping[str, str] | None = None) -> Process:
    """`stillme study serve`, not started yet."""
    words = ("stillme", "study", "serve", str(bundle), "--data", str(data), *more)
    return Process(words, "Listening on", log, environ=environ or {})
