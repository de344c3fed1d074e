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

from typer.models import CommandInfo

PAGE = Path(__file__).parent.parent / "docs/commands.md"
HEAD = "# Commands\n\nMade from `stillme --help` by `python tools/help_page.py --write`.\n"


def page() -> str:
    parts = [HEAD]
    for command in commands():
        name = f"stillme {command}".strip()
        parts.append(f"## {name}\n\n```text\n{help_of(command)}\n```\n")
    return "\n".join(parts)


def commands() -> list[str]:
    """Every command in the order of the help, each group's after the group."""
    os.environ |= {"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1", "TERMINAL_WIDTH": "100"}
    from stillme.cli.main import app  # late: its width is settled when it is imported

    found = ["", *map(named, app.registered_commands)]
    for group in app.registered_groups:
        inside = [f"{group.name} {named(one)}" for one in group.typer_instance.registered_commands]
        found += [group.name, *inside]
    return found


def named(command: CommandInfo) -> str:
    return command.name or command.callback.__name__


def help_of(command: str) -> str:
    from stillme.cli.main import main

    said = io.StringIO()
    with redirect_stdout(said), suppress(SystemExit):
        main([*command.split(), "--help"])
    return "\n".join(line.rstrip() for line in said.getvalue().strip().splitlines())


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(page())
