"""The commands that read what came out of a run, and those around a release: parse, call, print."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stillme.cli import completion
from stillme.cli.options import OTHERS, RESULTS, AsJson, RunFolder, examples, print_result

app = typer.Typer()
POLICY = Path("policy.yaml")


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

    path = pipeline.rebuild_report(run, Progress.fitting(), faces, only or [], browse_most=browse_most)
    print(f"Report: {path}")


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
    from stillme.cli.render.release import render_bundle
    from stillme.engine.progress import Progress

    print_result(evidence.bundle(run, to, faces, images, Progress.fitting(as_json).say), as_json, render_bundle)


@app.command(rich_help_panel=OTHERS)
def verify(
    path: Annotated[Path, typer.Argument(metavar="BUNDLE", help="What `stillme bundle` wrote, or that unpacked.")],
    as_json: AsJson = False,
) -> None:
    """Check a bundle: its files, its ledger, and every printed number, made anew. Exits with 2 where it fails."""
    from stillme.assurance import evidence
    from stillme.cli.render.release import render_verification
    from stillme.engine.progress import Progress

    verified = evidence.verify(path, Progress.fitting(as_json).say)
    print_result(verified, as_json, render_verification)
    if not verified.holds:
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
    from stillme.analysis.tables import Asked
    from stillme.analysis.tables import analyse as analyse_scores
    from stillme.engine.progress import Progress

    asked = Asked(scores, protocol, preset, ratings, checks, participants)
    analysed = analyse_scores(asked, to, file_format, seed, Progress.fitting(as_json).say)
    print_result(analysed, as_json, lambda analysed: f"\n{analysed.words()}")


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
    from stillme.cli.render.pair import render_comparison
    from stillme.measures.pair import compare as measure_pair

    print_result(measure_pair(before, after, show), as_json, render_comparison)
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
    from stillme.assurance.compare import CompareOptions, to_dict, write
    from stillme.assurance.compare import compare as compare_versions
    from stillme.cli.render import to_json
    from stillme.cli.render.release import render_versions
    from stillme.engine.progress import Progress

    asked = CompareOptions(
        a=a,
        b=b,
        editor_a=editor_a,
        editor_b=editor_b,
        outcomes=outcome or (),
        margin=margin,
        sequential=sequential,
        anyway=anyway,
        protocol=protocol,
        preset=preset,
        seed=seed,
    )
    compared = compare_versions(asked, budget, pipeline.run_partial_plan, Progress.fitting(as_json))
    page = write(compared, to) if to else None
    print(to_json(to_dict(compared)) if as_json else render_versions(compared))
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
    from stillme.assurance.lint import failed, to_dict
    from stillme.assurance.lint import lint as lint_tables
    from stillme.cli.render import to_json
    from stillme.cli.render.release import render_lint

    linted = lint_tables(tables, n, totals)
    print(to_json(to_dict(linted)) if as_json else render_lint(linted))
    if failed(linted):
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
    from stillme.assurance.gate import CLOSED, Files, start, write
    from stillme.assurance.gate import gate as decide_gate
    from stillme.cli.render.release import render_gate

    if init is not None:
        print(f"Wrote {start(init, run, protocol)}")
        return
    gated = decide_gate(run, policy, protocol, seed)
    paths = write(gated, Files(junit=junit, sarif=sarif, markdown=markdown))
    print_result(gated, as_json, lambda gated: "\n".join([render_gate(gated), *map(str, paths)]))
    if not gated.is_open:
        raise SystemExit(CLOSED)
