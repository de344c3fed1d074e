"""The command line: parse, call, print. No logic lives here, and nothing heavy is imported before it is needed.

Exit codes: 0 complete · 1 a bug in stillme · 2 something in your files or command · 3 something on this machine ·
4 incomplete, run again to resume · 5 a gate is closed · 130 stopped by Ctrl-C, run again to resume.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from stillme import __version__
from stillme.cli import completion, results, sources, study
from stillme.cli.options import AROUND, AUDIT, START, AsJson, RunFolder, examples, print_result
from stillme.core.errors import StillmeError

EPILOG = (
    "Exit codes: 0 complete, 1 a bug in stillme, 2 something in your files or command, "
    "3 something on this machine, 4 incomplete (run again to resume), 5 a gate is closed, "
    "130 stopped by Ctrl-C (run again to resume)."
)


app = typer.Typer(
    name="stillme",
    epilog=f"`stillme COMMAND --help` says more of each, `stillme explain TERM` what a word means.\n\n{EPILOG}",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
WELCOME = """\
stillme audits image editors: does the edited portrait still show the same person?

  stillme demo                    see a whole audit, offline, in minutes
  stillme doctor                  what is installed here, and what is missing for what
  stillme init                    write audit.yaml; with --for diffusers, hosted, raters or release
  stillme check audit.yaml        what it will do and cost, before anything is spent
  stillme run audit.yaml          do it, or go on with it; ends with the path of the report
  stillme explain race_changed    what a word means

All commands: stillme --help"""

AuditFile = Annotated[
    Path, typer.Argument(metavar="AUDIT.yaml", help="The audit's configuration.", show_default=True)
]
MaxCost = Annotated[
    float | None,
    typer.Option(
        metavar="USD", min=0, help="Stop before this is passed, all sessions together; else the file's budget."
    ),
]
DEFAULT = Path("audit.yaml")


def _version(wanted: bool) -> None:
    if wanted:
        print(f"stillme {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks, to report a bug.")] = False,
) -> None:
    """Audit image editors: does the edited portrait still show the same person, whoever the person is?"""
    if context.invoked_subcommand is None:
        print(WELCOME)


@app.command(
    rich_help_panel=START,
    epilog="Run it again and it says that there is nothing to do: every step does what is still missing.",
)
def demo(
    folder: Annotated[Path, typer.Argument(help="Where to put the demo.")] = Path("demo"),
    small: Annotated[bool, typer.Option("--small", help="Few groups and prompts: under a minute.")] = False,
    show: Annotated[bool, typer.Option("--open", help="Open the report in a browser at the end.")] = False,
) -> None:
    """See a whole audit, offline: 84 synthetic portraits, 20 prompts, 3 planted editors, 2 simulated judges."""
    from stillme.cli.init import demo as write_demo
    from stillme.cli.init import open_in_browser

    path = _run(write_demo(folder, small), as_json=False, whole=True)
    if show and not open_in_browser(path):
        print("No browser could be opened; open the file yourself.", file=sys.stderr)


@app.command(
    rich_help_panel=START,
    epilog=examples("stillme init", "stillme init mine.yaml --for hosted", "stillme init --protocol my-protocol"),
)
def init(
    file: Annotated[Path, typer.Argument(help="The file to write; nothing is ever overwritten.")] = DEFAULT,
    journey: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="WHAT",
            help="demo (simulated, offline), diffusers (a model on your GPU), hosted (an API), raters (a human "
            "study), release (with a gate's policy).",
            autocompletion=completion.starts,
        ),
    ] = "demo",
    protocol: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Also copy the protocol into this folder, to change prompts, groups or scales."
        ),
    ] = None,
) -> None:
    """Write a commented audit.yaml to start from, for what you want to do."""
    from stillme.cli.init import init as write_files

    for path in write_files(file, protocol, journey):
        print(f"Wrote {path}")
    print(f"Next: stillme {'check' if journey == 'demo' else 'doctor'} {shlex.quote(str(file))}")


@app.command(
    rich_help_panel=START,
    epilog=examples("stillme doctor", "stillme doctor audit.yaml")
    + "\n\nExits with 3 where an audit lacks something on this machine.",
)
def doctor(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="AUDIT.yaml", help="An audit: what this very one needs on this machine, too."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what is installed, which keys and GPUs are seen, and what is missing for what. No network is asked."""
    from stillme.cli.doctor import UNMET, look
    from stillme.cli.render import print_highlighted, to_json
    from stillme.cli.render.help import BAD, GOOD, render_doctor

    report = look(file)
    if as_json:
        print(to_json(report))
    else:
        print_highlighted(render_doctor(report), good=GOOD, bad=BAD)
    if report.audit and not report.audit.ready:
        raise SystemExit(UNMET)


@app.command(
    rich_help_panel=START,
    epilog=examples("stillme explain race_changed", "stillme explain krippendorffs alpha")
    + "\n\nWithout a term it lists them all. Case, blanks, hyphens and underscores do not matter.",
)
def explain(
    term: Annotated[
        list[str] | None,
        typer.Argument(metavar="TERM", help="A word or several.", autocompletion=completion.terms),
    ] = None,
    protocol: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="A protocol of your own; else the built-in one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what a term means: an outcome, a status, a column of a table, a statistic, an exit code."""
    from stillme.cli.glossary import find, vocabulary
    from stillme.cli.render.help import render_term_list, render_terms
    from stillme.protocol import builtin, load

    terms = vocabulary(load(protocol) if protocol else builtin())
    if term:
        terms = find(" ".join(term), terms)
    print_result(terms, as_json, render_terms if term else render_term_list)


@app.command(rich_help_panel=AUDIT)
def check(file: AuditFile = DEFAULT, as_json: AsJson = False) -> None:
    """Validate an audit without spending anything, and print its plan: calls, time, cost."""
    from stillme.cli.render.plan import render_plan
    from stillme.plan.config import load
    from stillme.steps.forecast import look_ahead

    config = load(file)
    print_result(look_ahead(config), as_json, lambda plan: render_plan(config, plan))


@app.command(
    rich_help_panel=AUDIT,
    epilog="Ctrl-C or a crash costs at most the calls in flight: run the same command again, and it goes on.",
)
def run(
    file: AuditFile = DEFAULT,
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="local|ray",
            help="Where models run: here, or on a cluster; else the file's.",
            autocompletion=completion.among(*completion.ENGINES),
        ),
    ] = None,
    address: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="The Ray cluster: auto, or host:port.")
    ] = None,
    max_cost: MaxCost = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="EXPERIMENT",
            help="This experiment of the file alone: diagnose, controls, mitigate or stereotype; may be given "
            "several times.",
            autocompletion=completion.among(*completion.EXPERIMENTS),
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run an audit, or go on with it: does what is still missing, then writes the report."""
    given = {name: word for name, word in (("kind", engine), ("address", address)) if word is not None}
    _run(file, as_json, given, max_cost, only or [])


@app.command(
    rich_help_panel=AUDIT,
    epilog="Best before a run, while nothing was spent on judges. The report tells of it; a gate can ask for it.",
)
def calibrate(
    file: AuditFile = DEFAULT,
    max_cost: MaxCost = None,
    as_json: AsJson = False,
) -> None:
    """Show the judges pairs whose truth is known, made from the audit's own portraits, and say who can be used."""
    from stillme.cli.render import to_json
    from stillme.cli.render.run import render_calibration
    from stillme.engine.progress import Progress
    from stillme.plan.config import load
    from stillme.steps.budget import with_max_cost
    from stillme.steps.calibrate import calibrate as calibrate_judges
    from stillme.steps.calibrate import to_dict

    calibration = calibrate_judges(with_max_cost(load(file), max_cost), Progress.fitting(as_json))
    print(to_json(to_dict(calibration)) if as_json else render_calibration(calibration))


@app.command(rich_help_panel=AUDIT)
def review(
    run: RunFolder,
    reviewer: Annotated[str, typer.Option(help="The name under which decisions are kept; a pseudonym.")] = "",
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8421,
    public: Annotated[str, typer.Option(help="Its address behind a proxy with TLS: https://…")] = "",
) -> None:
    """Look at every edit beside its source, and decide where judges disagree."""
    from stillme.engine import backends

    backends.require_packages(("starlette", "uvicorn", "itsdangerous"), "Reviewing a run")
    from stillme.report.review.app import serve

    serve(run, reviewer, host, port, public)


@app.command(rich_help_panel=AUDIT)
def status(
    run: RunFolder,
    check: Annotated[
        bool, typer.Option("--check", help="Also read every image, and name what is damaged.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say how far a run is, and whether its ledger is whole."""
    from stillme import pipeline
    from stillme.cli.render.run import describe_image_faults, render_status
    from stillme.core.errors import SetupError
    from stillme.engine.progress import Progress

    print_result(pipeline.status(run), as_json, render_status)
    if check and (faults := pipeline.check_images(run, Progress.fitting(as_json))):
        raise SetupError(*describe_image_faults(faults))


@app.command(rich_help_panel=AUDIT)
def restore(run: RunFolder, as_json: AsJson = False) -> None:
    """Go back to the last whole copy of a damaged ledger, and say what has to be made again."""
    from stillme import pipeline
    from stillme.cli.render.run import render_restore_result

    print_result(pipeline.restore(run), as_json, lambda restored: render_restore_result(restored, run))


app.registered_commands += results.app.registered_commands  # they have no name in common, such as `study`


@app.command(
    rich_help_panel=AUDIT,
    epilog=examples("stillme power", "stillme power audit.yaml", "stillme power --rate 0.2 --icc 0.05 --family 3"),
)
def power(
    file: Annotated[Path | None, typer.Argument(metavar="AUDIT.yaml", help="An audit, for its size.")] = None,
    persons_per_cell: Annotated[
        list[int] | None, typer.Option(min=1, help="Portraits a cell of the groups; several times to compare.")
    ] = None,
    prompts: Annotated[list[int] | None, typer.Option(min=1, help="How many; several times to compare.")] = None,
    seeds: Annotated[list[int] | None, typer.Option(min=1, help="Edits of a portrait and prompt.")] = None,
    rate: Annotated[float, typer.Option(min=0, max=1, help="The outcome's rate in the reference group.")] = 0.08,
    icc: Annotated[
        list[float] | None,
        typer.Option(min=0, max=0.6, help="How alike edits of one person are; else 0.03 to 0.11."),
    ] = None,
    family: Annotated[
        int | None, typer.Option(min=1, help="Contrasts that are claimed together; else the declared ones.")
    ] = None,
    sets: Annotated[int, typer.Option(min=20, help="Simulated audits a line.")] = 500,
    seed: Annotated[int, typer.Option(min=0, help="Of the simulation.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Say what an audit of a given size can and cannot resolve, by simulating it."""
    from stillme.analysis.power import Asked, words
    from stillme.analysis.power import power as simulate_power

    asked = Asked(
        audit=file,
        per_cell=persons_per_cell or (),
        prompts=prompts or (),
        seeds=seeds or (),
        rate=rate,
        icc=icc or (),
        family=family,
        sets=sets,
        seed=seed,
    )
    print_result(simulate_power(asked), as_json, words)


editors = typer.Typer(no_args_is_help=True, help="Run an editor in an environment of its own.")
app.add_typer(sources.app, name="sources", rich_help_panel=AROUND)
app.add_typer(editors, name="editors", rich_help_panel=AROUND)


@editors.command("serve")
def editors_serve(
    file: AuditFile,
    row: Annotated[str, typer.Argument(metavar="ROW", help="The id of the editor in that file.")],
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8100,
) -> None:
    """Serve one editor of an audit over HTTP, in the form of OpenAI's image edits."""
    from stillme.engine import backends
    from stillme.plan import config

    backends.require_packages(("starlette", "uvicorn", "python_multipart"), "Serving an editor")
    from stillme.editors.server import serve

    serve(config.load(file), row, host, port)


app.add_typer(study.app, name="study", rich_help_panel=AROUND)


def _run(
    file: Path,
    as_json: bool,
    engine: dict[str, str] | None = None,
    max_cost: float | None = None,
    only: Sequence[str] = (),
    whole: bool = False,
) -> Path:
    from stillme import pipeline
    from stillme.cli.render.run import render_status
    from stillme.engine.progress import Progress
    from stillme.plan import config
    from stillme.steps.budget import with_max_cost

    loaded = with_max_cost(config.load(file, engine=engine), max_cost)
    progress = Progress.fitting(as_json)
    try:
        path = pipeline.run(loaded, progress, config.chosen_experiments(loaded.audit, only))
    except KeyboardInterrupt:
        print(f"\nStopped. Everything done is kept; go on with: stillme run {file}", file=sys.stderr)
        raise SystemExit(130) from None
    if whole:
        path = pipeline.rebuild_report(loaded.run, progress, anew=False)
    print_result(pipeline.status(loaded.run), as_json, render_status)
    if not as_json:
        if not whole:
            print(f"More: `stillme report {loaded.run}` adds tables, figures, pictures and cards")
        print(f"Report: {path}")
    return path


# Set unless they are. Our matrices are small: BLAS threads would wait for each other longer than they compute.
# Polars gives memory back as soon as it is free.
SURROUNDINGS = {"OPENBLAS_NUM_THREADS": "1", "_RJEM_MALLOC_CONF": "dirty_decay_ms:0,muzzy_decay_ms:0"}


def main(arguments: list[str] | None = None) -> None:
    """Runs a command; every error ends here, as a sentence."""
    for name, value in SURROUNDINGS.items():
        os.environ.setdefault(name, value)
    words = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in words
    try:
        app(args=[word for word in words if word != "--debug"], standalone_mode=True, prog_name="stillme")
    except StillmeError as error:
        if debug:
            raise
        print(f"stillme: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        raise SystemExit(130) from None
    except Exception as error:
        if debug:
            raise
        print(
            f"stillme: this is a bug in stillme: {type(error).__name__}: {error}\n"
            "Run the same command with --debug to see where, and please report it.",
            file=sys.stderr,
        )
        raise SystemExit(1) from None
