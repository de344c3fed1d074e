"""A web tool as its users start it: a process of its own that can be killed, and started again on the same port."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

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
        self.process.send_signal(how)
        said, _ = self.process.communicate(timeout=30)
        self.process = None
        return said

    def kill(self) -> None:
        if self.process:
            self.end(signal.SIGKILL)
