"""The selection tool as its users start it: a process of its own that can be killed.

python -m tests.browser.serving FOLDER PORT POOLS few|all REVIEWER…
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stillme.select.app import serve
from stillme.select.config import Plan
from stillme.select.store import Store
from tests.select import shelf

ROOT = Path(__file__).parent.parent.parent


@dataclass
class Tool:
    """A selection on the shelf and the process that serves it."""

    folder: Path
    size: str = "few"
    pools: int = 3
    reviewers: Sequence[str] = ("anna",)
    port: int = 0
    links: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[str] | None = None

    @property
    def plan(self) -> Plan:
        return shelf.make_plan(self.folder, shelf.FEW if self.size == "few" else None, self.pools)

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Tool:
        about = [str(self.folder), str(self.port), str(self.pools), self.size, *self.reviewers]
        command = [sys.executable, "-m", "tests.browser.serving", *about]
        self.process = subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE)
        assert self.process.stdout
        for line in self.process.stdout:
            if found := re.match(r"  (\S+)  (http://\S+:(\d+)/\S+)", line):
                self.links[found[1]] = found[2]
                self.port = int(found[3])
            if line.startswith("Every action"):
                break
        assert len(self.links) == len(self.reviewers), "the tool did not start"
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


def main(folder: str, port: str, pools: str, size: str, *reviewers: str) -> None:
    plan = Tool(Path(folder), size, int(pools)).plan
    with Store.hold(plan.folder) as store:
        serve(plan, store, reviewers, "127.0.0.1", int(port), say=lambda text: print(text, flush=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
