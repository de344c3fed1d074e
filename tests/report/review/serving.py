"""The review tool as its users start it.

python -m tests.report.review.serving RUN PORT [REVIEWER]
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from stillme.report.review.app import serve
from tests.web.tool import Served


@dataclass
class Tool(Served):
    """A run and the process that serves it."""

    run: Path
    reviewer: str = "anna"

    @property
    def link(self) -> str:
        return next(iter(self.links.values()))

    def command(self) -> list[str]:
        return ["tests.report.review.serving", str(self.run), str(self.port), self.reviewer]


def main(run: str, port: str, reviewer: str = "") -> None:
    serve(Path(run), reviewer, "127.0.0.1", int(port), say=lambda text: print(text, flush=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
