"""What several command modules share: panels of the help, arguments and options, and how a result is printed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from stillme.cli import completion

START, AUDIT, RESULTS, OTHERS, AROUND = (
    "Start here",
    "Run an audit",
    "Read what came out",
    "Check, compare, release",
    "Around an audit: portraits, editors, people",
)
RunFolder = Annotated[
    Path,
    typer.Argument(
        metavar="RUN", help="The folder of a run, as `run:` in its audit names it.", autocompletion=completion.runs
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
Result = TypeVar("Result")


def examples(*lines: str) -> str:
    """Lines at the end of a help text, each by itself."""
    return "\n\n".join(["Examples:", *lines])


def print_result(result: Result, as_json: bool, render: Callable[[Result], str]) -> None:
    """Print a result, for scripts or for people."""
    from stillme.cli.render import to_json

    print(to_json(result) if as_json else render(result))
