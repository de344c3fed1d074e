"""Writes docs/commands.md from the commands' own help, so that the page cannot disagree with them.

python tools/help_page.py          print the page
python tools/help_page.py --write  write it
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import redirect_stdout, suppress
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs/commands.md"
COMMANDS = ("", "demo", "init", "check", "run", "status", "export", "report", "measure", "lint", "power")
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
    os.environ |= {"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1", "TERMINAL_WIDTH": "100"}
    from stillme.cli import main  # late: its width is settled when it is imported

    said = io.StringIO()
    with redirect_stdout(said), suppress(SystemExit):
        main([*command.split(), "--help"])
    return "\n".join(line.rstrip() for line in said.getvalue().strip().splitlines())


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(page())
