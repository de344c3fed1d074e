"""The selection tool as its users start it.

python -m tests.browser.serving FOLDER PORT POOLS few|all REVIEWER…
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stillme.sources.selection.app import serve
from stillme.sources.selection.config import Plan
from stillme.sources.selection.store import Store
from tests.sources.selection import shelf
from tests.web.tool import ROOT, Served

__all__ = ["ROOT", "Tool"]


@dataclass
class Tool(Served):
    """A selection on the shelf and the process that serves it."""

    folder: Path
    size: str = "few"
    pools: int = 3
    reviewers: Sequence[str] = ("anna",)

    @property
    def plan(self) -> Plan:
        return shelf.make_plan(self.folder, shelf.FEW if self.size == "few" else None, self.pools)

    def command(self) -> list[str]:
        about = [str(self.folder), str(self.port), str(self.pools), self.size, *self.reviewers]
        return ["tests.browser.serving", *about]


def main(folder: str, port: str, pools: str, size: str, *reviewers: str) -> None:
    plan = Tool(Path(folder), size, int(pools)).plan
    with Store.open_for_writing(plan.folder) as store:
        serve(plan, store, reviewers, "127.0.0.1", int(port), say=lambda text: print(text, flush=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
