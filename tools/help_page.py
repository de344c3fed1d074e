"""Writes docs/commands.md from the commands' own help, so that the page cannot disagree with them.

python tools/help_page.py          print the page
python tools/help_page.py --write  write it
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs/commands.md"
COMMANDS = ("", "demo", "init", "check", "run", "status", "export", "report", "measure")
SOURCES = ("sources", *(f"sources {word}" for word in ("init", "sample", "screen", "select", "status", "export")))
EDITORS = ("editors", "editors serve")
HEAD = "# Commands\n\nMade from `stillme --help` by `python tools/help_page.py --write`.\n"


def page() -> str:
    parts = [HEAD]
    for command in (*COMMANDS, *SOURCES, *EDITORS):
        name = f"stillme {command}".strip()
        parts.append(f"## {name}\n\n```text\n{help_of(command)}\n```\n")
    return "\n".join(parts)


def help_of(command: str) -> str:
    plain = {**os.environ, "COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1", "TERMINAL_WIDTH": "100"}
    words = [sys.executable, "-m", "stillme", *command.split(), "--help"]
    out = subprocess.run(words, capture_output=True, text=True, check=True, env=plain).stdout
    return "\n".join(line.rstrip() for line in out.strip().splitlines())


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(page())
