"""The command line as a person uses it."""

from __future__ import annotations

from stillme.cli.main import main


def stillme(*words: object) -> int:
    """Runs a command in this process; what it leaves with."""
    try:
        main([str(word) for word in words])
    except SystemExit as left:
        return int(left.code or 0)
    return 0
