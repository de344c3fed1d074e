"""The commands that choose portraits from a data set: parse, call, print. No logic lives here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stillme.cli.options import AsJson, print_result

app = typer.Typer(
    no_args_is_help=True,
    help="Choose portraits of real people from a data set, with a record of how.",
    epilog="In this order: init, sample, screen, select, export. An audit takes what export wrote as a source.",
)
SelectionFile = Annotated[Path, typer.Argument(help="The selection's configuration.", show_default=True)]
SELECTION = Path("selection.yaml")


@app.command()
def init(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="The folder that holds the data set.")],
    file: Annotated[Path, typer.Option(help="The file to write.")] = SELECTION,
) -> None:
    """Write a commented selection.yaml that fits the data set in a folder."""
    from stillme.sources.selection.config import init as write_selection

    print(f"Wrote {write_selection(data, file)}")
    print(f"Next: stillme sources sample {file}")


@app.command()
def sample(
    file: SelectionFile = SELECTION,
    pools: Annotated[int | None, typer.Option(min=1, max=99, help="How many pools; else the file's.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Any skipped row or short cell is an error.")] = False,
    as_json: AsJson = False,
) -> None:
    """Draw candidates for every cell of the grid, in pools; says what was skipped and which cells stay short."""
    from stillme.cli.render.selection import render_sample
    from stillme.engine.progress import Progress
    from stillme.sources.selection import config, flow

    sampled = flow.sample(file, pools, strict, Progress.fitting(as_json))
    grid = config.load(file, data_sets=False).grid
    print_result(sampled, as_json, lambda sampled: render_sample(sampled, grid, file))


@app.command()
def screen(file: SelectionFile = SELECTION, as_json: AsJson = False) -> None:
    """Measure the six criteria of every candidate, and say which groups pass less often."""
    from stillme.cli.render.selection import render_screening
    from stillme.engine.progress import Progress
    from stillme.sources.selection import config, flow

    screening = flow.screen(file, Progress.fitting(as_json))
    plan = config.load(file, data_sets=False)
    print_result(screening, as_json, lambda screening: render_screening(screening, plan, file))


@app.command()
def select(
    file: SelectionFile = SELECTION,
    reviewer: Annotated[
        list[str] | None, typer.Option(help="A pseudonym; a second one is a second reviewer, blind to the first.")
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8420,
    public: Annotated[str, typer.Option(help="Its address behind a proxy with TLS: https://…")] = "",
) -> None:
    """Open the selection tool: a cell a page, candidates side by side, every action logged."""
    from stillme.sources.selection import flow

    flow.select(file, reviewer or ["reviewer"], host, port, public)


@app.command()
def status(file: SelectionFile = SELECTION, as_json: AsJson = False) -> None:
    """Say how far a selection is: cells decided, choices by pool, actions and hours, agreement."""
    from stillme.cli.render.selection import render_progress
    from stillme.sources.selection import flow

    print_result(flow.status(file), as_json, render_progress)


@app.command()
def export(
    file: SelectionFile = SELECTION,
    to: Annotated[Path, typer.Argument(help="The folder to write; it must not exist yet.")] = Path("portraits"),
    partial: Annotated[bool, typer.Option("--partial", help="Export although cells are undecided.")] = False,
) -> None:
    """Write the chosen portraits with their provenance: a folder that `stillme run` takes as a source."""
    from stillme.engine.progress import Progress
    from stillme.sources.selection import flow

    print(f"Portraits: {flow.export(file, to, partial, Progress.fitting())}")
