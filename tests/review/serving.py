"""The review tool as its users start it: a process of its own that can be killed.

python -m tests.review.serving RUN PORT [REVIEWER]
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from stillme.review import serve

ROOT = Path(__file__).parent.parent.parent


@dataclass
class Tool:
    """A run and the process that serves it."""

    run: Path
    reviewer: str = "anna"
    port: int = 0
    link: str = ""
    process: subprocess.Popen[str] | None = None

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Tool:
        command = [sys.executable, "-m", "tests.review.serving", str(self.run), str(self.port), self.reviewer]
        self.process = subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE)
        assert self.process.stdout
        for line in self.process.stdout:
            if found := re.search(r"(http://\S+:(\d+)/enter\S+)", line):
                self.link, self.port = found[1], int(found[2])
            if line.startswith("Every decision"):
                break
        assert self.link, "the tool did not start"
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


def main(run: str, port: str, reviewer: str = "") -> None:
    serve(Path(run), reviewer, "127.0.0.1", int(port), say=lambda text: print(text, flush=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
