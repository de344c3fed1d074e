"""The command line: parse, call, print. No logic lives here, and nothing heavy is imported before it is needed.

Exit codes: 0 complete · 1 a bug in stillme · 2 something in your files or command · 3 something on this machine ·
4 incomplete, run again to resume · 5 a gate is closed · 130 stopped by Ctrl-C, run again to resume.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from stillme import __version__
from stillme.cli import completion, sources, study
from stillme.core.errors import StillmeError

EPILOG = (
    "Exit codes: 0 complete, 1 a bug in stillme, 2 something in your files or command, "
    "3 something on this machine, 4 incomplete (run again to resume), 5 a gate is closed, "
    "130 stopped by Ctrl-C (run again to resume)."
)


def examples(*lines: str) -> str:
    """Lines at the end of a help text, each by itself."""
    return "\n\n".join(["Examples:", *lines])


app = typer.Typer(
    name="stillme",
    epilog=f"`stillme COMMAND --help` says more of each, `stillme explain TERM` what a word means.\n\n{EPILOG}",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
START, AUDIT, RESULTS, OTHERS, AROUND = (
    "Start here",
    "Run an audit",
    "Read what came out",
    "Check, compare, release",
    "Around an audit: portraits, editors, people",
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
RunFolder = Annotated[
    Path,
    typer.Argument(
        metavar="RUN", help="The folder of a run, as `run:` in its audit names it.", autocompletion=completion.runs
    ),
]
MaxCost = Annotated[
    float | None,
    typer.Option(
        metavar="USD", min=0, help="Stop before this is passed, all sessions together; else the file's budget."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
DEFAULT = Path("audit.yaml")
POLICY = Path("policy.yaml")


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
    from stillme.cli import init as starting

    path = _run(starting.demo(folder, small), as_json=False, whole=True)
    if show and not starting.shown(path):
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
    from stillme.cli import init as starting

    for path in starting.init(file, protocol, journey):
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
    from stillme.cli import doctor
    from stillme.cli import render as showing

    found = doctor.look(file)
    if as_json:
        print(json.dumps(doctor.plain(found)))
    else:
        showing.marked(doctor.words(found), good=doctor.GOOD, bad=doctor.BAD)
    if not found.is_met:
        raise SystemExit(doctor.UNMET)


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
    from stillme.cli import glossary
    from stillme.protocol import builtin, load

    every = glossary.vocabulary(load(protocol) if protocol else builtin())
    found = glossary.find(" ".join(term), every) if term else every
    if as_json:
        print(json.dumps(glossary.plain(found)))
    else:
        print(glossary.words(found) if term else glossary.listed(every))


@app.command(rich_help_panel=AUDIT)
def check(file: AuditFile = DEFAULT, as_json: AsJson = False) -> None:
    """Validate an audit without spending anything, and print its plan: calls, time, cost."""
    from dataclasses import asdict

    from stillme.cli import render as showing
    from stillme.plan import config
    from stillme.steps import forecast

    loaded = config.load(file)
    plan = forecast.look_ahead(loaded)
    print(json.dumps(asdict(plan)) if as_json else showing.outlook(loaded, plan))


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
    from stillme.engine.progress import Progress
    from stillme.plan import config
    from stillme.steps import calibrate
    from stillme.steps.budget import limited

    found = calibrate.calibrate(limited(config.load(file), max_cost), Progress.fitting(as_json))
    print(json.dumps(calibrate.plain(found)) if as_json else calibrate.words(found))


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
    from stillme.cli import render as showing
    from stillme.core.errors import SurroundingsError
    from stillme.engine.progress import Progress

    found = pipeline.status(run)
    print(json.dumps(found) if as_json else showing.status(found))
    if check and (faults := pipeline.check_images(run, Progress.fitting(as_json))):
        raise SurroundingsError(*showing.image_faults(faults))


@app.command(rich_help_panel=AUDIT)
def restore(run: RunFolder, as_json: AsJson = False) -> None:
    """Go back to the last whole copy of a damaged ledger, and say what has to be made again."""
    from dataclasses import asdict

    from stillme import pipeline
    from stillme.cli import render as showing

    found = pipeline.restore(run)
    print(json.dumps(asdict(found), default=str) if as_json else showing.restored(found, run))


@app.command(rich_help_panel=RESULTS)
def export(
    run: RunFolder,
    to: Annotated[Path | None, typer.Option(help="The folder to write to; RUN/tables by default.")] = None,
    file_format: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="parquet|csv",
            help="Of the files.",
            autocompletion=completion.among(*completion.TABLES),
        ),
    ] = "parquet",
) -> None:
    """Write the run's tables as files, with a page that describes their columns."""
    from stillme import pipeline

    for path in pipeline.export(run, to or run / "tables", file_format):
        print(path)


@app.command(rich_help_panel=RESULTS)
def report(
    run: RunFolder,
    faces: Annotated[
        str | None,
        typer.Option(
            metavar="show|blur|none",
            help="Faces in pictures: shown, blurred, or no pictures; else as before, at first shown.",
            autocompletion=completion.among(*completion.FACES),
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PART",
            help="This part alone: html, tables, figures, browse, pictures or cards; may be given several times.",
            autocompletion=completion.among(*completion.PARTS),
        ),
    ] = None,
    browse_most: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="Keep pictures and raw exchanges of N edits in browse; else of 12,000 and of 25,000.",
        ),
    ] = None,
) -> None:
    """Write the whole report of a run: the page, and tables, figures, pictures and cards beside it."""
    from stillme import pipeline
    from stillme.engine.progress import Progress

    made = pipeline.report_again(run, Progress.fitting(), faces, only or [], browse_most=browse_most)
    print(f"Report: {made}")


@app.command(
    rich_help_panel=OTHERS, epilog=examples("stillme bundle runs/audit", "stillme verify runs/audit/evidence.zip")
)
def bundle(
    run: RunFolder,
    to: Annotated[
        Path | None, typer.Option(metavar="FILE.zip", help="The file to write; RUN/evidence.zip by default.")
    ] = None,
    faces: Annotated[
        str | None,
        typer.Option(
            metavar="show|blur|none",
            help="Faces in the report: shown, blurred, or no pictures. As in the run's own report by default.",
            autocompletion=completion.among(*completion.FACES),
        ),
    ] = None,
    images: Annotated[
        bool, typer.Option("--with-images/--without-images", help="Also every picture of the run, unaltered.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Pack a run's evidence into one file that anybody can verify: ledger, report, tables, settings, hashes."""
    from stillme.assurance import evidence
    from stillme.engine.progress import Progress

    found = evidence.bundle(run, to, faces, images, Progress.fitting(as_json).say)
    print(json.dumps(found.plain()) if as_json else found.words())


@app.command(rich_help_panel=OTHERS)
def verify(
    path: Annotated[Path, typer.Argument(metavar="BUNDLE", help="What `stillme bundle` wrote, or that unpacked.")],
    as_json: AsJson = False,
) -> None:
    """Check a bundle: its files, its ledger, and every printed number, made anew. Exits with 2 where it fails."""
    from stillme.assurance import evidence
    from stillme.engine.progress import Progress

    found = evidence.verify(path, Progress.fitting(as_json).say)
    print(json.dumps(found.plain()) if as_json else found.words())
    if not found.holds:
        raise SystemExit(evidence.DIFFERS)


@app.command(
    rich_help_panel=RESULTS,
    epilog=examples("stillme analyse runs/audit", "stillme analyse scores.csv --preset paper --to analysed"),
)
def analyse(
    scores: Annotated[
        Path,
        typer.Argument(
            help="A table of scores (Parquet, CSV), a folder of exported tables, or a run.",
            autocompletion=completion.runs,
        ),
    ],
    to: Annotated[
        Path | None, typer.Option(help="The folder to write; `analysis` beside the scores by default.")
    ] = None,
    ratings: Annotated[Path | None, typer.Option(help="A table of people's ratings.")] = None,
    checks: Annotated[Path | None, typer.Option(help="Raters' attention checks.")] = None,
    participants: Annotated[Path | None, typer.Option(help="A demographic export of Prolific.")] = None,
    protocol: Annotated[Path | None, typer.Option(help="The protocol's folder; else the built-in one.")] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            metavar="PRESET",
            help="The choices that change numbers: default (a careful auditor's) or paper (as published).",
            autocompletion=completion.presets,
        ),
    ] = None,
    file_format: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="csv|parquet",
            help="Of the tables.",
            autocompletion=completion.among(*completion.TABLES),
        ),
    ] = "csv",
    seed: Annotated[int, typer.Option(min=0, help="Of permutations and resampling.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Analyse a table of scores, whoever made it: rates, disparities, tests, models, each with its uncertainty."""
    from stillme.analysis import tables as analysing
    from stillme.engine.progress import Progress

    asked = analysing.Asked(scores, protocol, preset, ratings, checks, participants)
    found = analysing.analyse(asked, to, file_format, seed, Progress.fitting(as_json).say)
    print(json.dumps(found.plain()) if as_json else f"\n{found.words()}")


@app.command(rich_help_panel=RESULTS, epilog=examples("stillme measure before.jpg after.jpg --show seen.png"))
def measure(
    before: Annotated[Path, typer.Argument(help="The portrait before the edit.")],
    after: Annotated[Path, typer.Argument(help="The portrait after the edit.")],
    show: Annotated[
        Path | None, typer.Option(metavar="PNG", help="Also draw the skin that was read, with its colours.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure an edit on the spot: skin tone, how much changed, likeness. Offline, without a key."""
    from stillme.cli import render as showing
    from stillme.measures import pair as compare

    found = compare.compare(before, after, show)
    print(json.dumps(found.plain()) if as_json else showing.comparison(found))
    if show is not None and not as_json:
        print(f"Picture: {show}")


@app.command(
    rich_help_panel=OTHERS,
    epilog=examples(
        "stillme compare runs/v1 runs/v2",
        "stillme compare v1.csv v2.parquet --margin 0.03 --to compared",
        "stillme compare v1.yaml v2.yaml --sequential --budget 4000",
    ),
)
def compare(
    a: Annotated[
        Path,
        typer.Argument(
            metavar="A",
            help="A run or a table of scores; the version before.",
            autocompletion=completion.runs,
        ),
    ],
    b: Annotated[
        Path,
        typer.Argument(metavar="B", help="The same of the version after.", autocompletion=completion.runs),
    ],
    editor_a: Annotated[str, typer.Option(metavar="ID", help="Which editor of A; else the one both have.")] = "",
    editor_b: Annotated[str, typer.Option(metavar="ID", help="Which editor of B.")] = "",
    outcome: Annotated[
        list[str] | None,
        typer.Option(help="What is claimed about, in place of the declared endpoints; several times for several."),
    ] = None,
    margin: Annotated[
        float | None,
        typer.Option(min=0.0001, max=1, help="By how much worse is still not worse, as a share; else declared."),
    ] = None,
    sequential: Annotated[
        bool, typer.Option("--sequential", help="Look person after person, with bounds that hold at every look.")
    ] = False,
    budget: Annotated[
        int | None,
        typer.Option(metavar="CALLS", min=1, help="A and B are audits: run both until decided, or so many calls."),
    ] = None,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Compare although protocols, judges or presets differ; says so.")
    ] = False,
    protocol: Annotated[Path | None, typer.Option(help="Of tables: the protocol's folder.")] = None,
    preset: Annotated[
        str | None,
        typer.Option(metavar="PRESET", help="Of tables: default or paper.", autocompletion=completion.presets),
    ] = None,
    to: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Also write a page and every table.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the permutations.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Set two versions of an editor against each other, on the persons and prompts that both were given."""
    from stillme import pipeline
    from stillme.assurance import compare as versions
    from stillme.engine.progress import Progress

    asked = versions.Asked(
        a, b, editor_a, editor_b, outcome or (), margin, sequential, anyway, protocol, preset, seed
    )
    found = versions.compare(asked, budget, pipeline.advance, Progress.fitting(as_json))
    page = versions.write(found, to) if to else None
    print(json.dumps(versions.plain(found)) if as_json else versions.words(found))
    if page and not as_json:
        print(f"\nPage: {page}")


@app.command(rich_help_panel=OTHERS, epilog=examples("stillme lint runs/audit/analysis/tables"))
def lint(
    tables: Annotated[list[Path], typer.Argument(metavar="TABLE...", help="CSV or parquet files, or folders.")],
    n: Annotated[int | None, typer.Option(min=1, help="How many things percentages are of.")] = None,
    totals: Annotated[Path | None, typer.Option(help="The table that holds the others' totals.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check tables of results against themselves and each other: percentages, totals, denominators, intervals."""
    from stillme.assurance import lint as linting

    found = linting.lint(tables, n, totals)
    print(json.dumps(linting.plain(found)) if as_json else linting.words(found))
    if linting.failed(found):
        raise SystemExit(2)


@app.command(
    rich_help_panel=OTHERS,
    epilog=examples(
        "stillme gate --init policy.yaml",
        "stillme gate runs/audit policy.yaml",
        "stillme gate runs/audit policy.yaml --junit gate.xml --sarif gate.sarif --markdown gate.md",
    ),
)
def gate(
    run: Annotated[
        Path | None,
        typer.Argument(
            metavar="RUN",
            help="A run, an analysis of one, or a table of scores.",
            autocompletion=completion.runs,
        ),
    ] = None,
    policy: Annotated[Path, typer.Argument(help="The thresholds.", show_default=True)] = POLICY,
    init: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a commented policy to start from, and stop.")
    ] = None,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write JUnit XML.")] = None,
    sarif: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write SARIF 2.1.0.")] = None,
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write a Markdown page.")] = None,
    protocol: Annotated[
        Path | None, typer.Option(help="The protocol's folder, of a table; else the built-in one.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of permutations and resampling.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Hold a policy's thresholds against the bounds of intervals: exits with 0 if the gate is open, 5 if not."""
    from stillme.assurance import gate as gating

    if init is not None:
        print(f"Wrote {gating.start(init, run, protocol)}")
        return
    found = gating.gate(gating.named(run), policy, protocol, seed)
    written = gating.write(found, gating.Files(junit, sarif, markdown))
    print(json.dumps(found.plain()) if as_json else "\n".join([gating.words(found), *map(str, written)]))
    if not found.is_open:
        raise SystemExit(gating.CLOSED)


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
    from stillme.analysis import power as powering

    sizes = (persons_per_cell or (), prompts or (), seeds or ())
    found = powering.power(powering.Asked(file, *sizes, rate, icc or (), family, sets, seed))
    print(json.dumps(found.plain()) if as_json else powering.words(found))


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
    from stillme.cli import render as showing
    from stillme.engine.progress import Progress
    from stillme.plan import config
    from stillme.steps.budget import limited

    loaded = limited(config.load(file, engine=engine), max_cost)
    progress = Progress.fitting(as_json)
    try:
        path = pipeline.run(loaded, progress, config.chosen_experiments(loaded.audit, only))
    except KeyboardInterrupt:
        print(f"\nStopped. Everything done is kept; go on with: stillme run {file}", file=sys.stderr)
        raise SystemExit(130) from None
    if whole:
        path = pipeline.report_again(loaded.run, progress, anew=False)
    found = pipeline.status(loaded.run)
    print(json.dumps(found) if as_json else showing.status(found))
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
    given = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in given
    try:
        app(args=[word for word in given if word != "--debug"], standalone_mode=True, prog_name="stillme")
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
        print(_bug(error), file=sys.stderr)
        raise SystemExit(1) from None


def _bug(error: Exception) -> str:
    return (
        f"stillme: this is a bug in stillme: {type(error).__name__}: {error}\n"
        "Run the same command with --debug to see where, and please report it."
    )
