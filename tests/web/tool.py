"""A web tool as its users start it: a process of its own that can be killed, and started again on the same port."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

TRIES = 4  # of a signal


def ended(process: subprocess.Popen[str], how: signal.Signals) -> str:
    """Ends a process; what it still said. A Ctrl-C in the moment of starting may fall where Python cannot hear it:
    then people press it again."""
    for _ in range(TRIES):
        process.send_signal(how)
        try:
            return process.communicate(timeout=15)[0]
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError("the tool does not end")


ROOT = Path(__file__).parent.parent.parent


@dataclass(kw_only=True)
class Served:
    """What a tool's own class says: the module that serves it, its arguments, and how many links it greets with."""

    port: int = 0
    links: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[str] | None = None

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        raise NotImplementedError

    def start(self) -> Self:
        self.process = subprocess.Popen(
            [sys.executable, "-m", *self.command()], cwd=ROOT, text=True, stdout=subprocess.PIPE
        )
        assert self.process.stdout
        for line in self.process.stdout:
            if found := re.match(r"  (\S+)  (http://\S+:(\d+)/\S+)", line):
                self.links[found[1]] = found[2]
                self.port = int(found[3])
            if line.startswith("Every "):
                break
        assert self.links, "the tool did not start"
        return self

    def end(self, how: signal.Signals) -> str:
        """Ends it; what it still said."""
        assert self.process
        said = ended(self.process, how)
        self.process = None
        return said

    def kill(self) -> None:
        if self.process:
            self.end(signal.SIGKILL)
