"""The commands of the human study: parse, call, print. No logic lives here; heavy things are imported late."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stillme.cli import completion

if TYPE_CHECKING:
    from stillme.study.prolific.commands import Where
    from stillme.study.server.desk import Study

app = typer.Typer(
    no_args_is_help=True,
    help="Run the human study: build, serve, recruit on Prolific, export, import.",
    epilog="In this order: build, rehearse, serve, prolific publish, prolific approve, export, import.",
)
prolific = typer.Typer(no_args_is_help=True, help="Recruit on Prolific: publish, follow, approve, pay.")
coordinators = typer.Typer(no_args_is_help=True, help="Who may see the coordinators' pages.")
app.add_typer(prolific, name="prolific")
app.add_typer(coordinators, name="admin")

BundleFolder = Annotated[Path, typer.Argument(metavar="BUNDLE", help="The folder that stillme study build made.")]
Data = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Where answers and secrets are; else BUNDLE-data beside the bundle."),
]
Database = Annotated[
    str,
    typer.Option(
        metavar="URL", envvar="STILLME_DATABASE", help="postgresql://…, instead of SQLite in the data folder."
    ),
]
NEEDED = ("sqlalchemy", "argon2", "jwt", "starlette", "uvicorn", "aiohttp")


def _require() -> None:
    from stillme.engine import backends

    backends.require_packages(NEEDED, "The human study")


def _options(bundle: Path, data: Path | None, database: str, **more: Any) -> Any:
    _require()
    from stillme.study.server.serve import Options, data_folder

    return Options(str(bundle), str(data_folder(bundle, data)), database, **more)


@contextmanager
def _opened(bundle: Path, data: Path | None, database: str, is_there: bool = False) -> Iterator[Study]:
    """The study with its database, beside a server that may be running. `is_there`: a new one is not made."""
    if is_there and not database:
        _check_there((data or bundle.parent / f"{bundle.name}-data") / "study.db")
    options = _options(bundle, data, database)
    from stillme.study.db.store import reachable
    from stillme.study.server.serve import open_study

    study = open_study(options)
    try:
        with reachable():
            yield study
    finally:
        study.store.close()


def _check_there(path: Path) -> None:
    from stillme.core.errors import InputError

    if not path.is_file():
        raise InputError(
            f"There are no answers at {path}.",
            "Give --data FOLDER or --database URL, as stillme study serve has it.",
        )


def _where(bundle: Path, data: Path | None, database: str) -> Where:
    _require()
    from stillme.study.prolific.commands import Where
    from stillme.study.server.serve import data_folder

    return Where(bundle, data_folder(bundle, data), database)


@app.command()
def build(
    run: Annotated[
        Path,
        typer.Argument(metavar="RUN", help="The run whose edits are to be rated.", autocompletion=completion.runs),
    ],
    preset: Annotated[
        str,
        typer.Option(
            metavar="PRESET",
            help="Which study: paper, exp1, exp2-pairwise, exp2-independent or exp3.",
            autocompletion=completion.studies,
        ),
    ],
    folder: Annotated[
        Path | None,
        typer.Option("--to", metavar="FOLDER", help="The bundle's folder, a new one; else study-PRESET."),
    ] = None,
    size: Annotated[int | None, typer.Option(min=1, help="Items in all.")] = None,
    tasks: Annotated[int | None, typer.Option(min=1, help="How many tasks.")] = None,
    raters: Annotated[int | None, typer.Option(min=1, help="People a task.")] = None,
    overlap: Annotated[
        float | None, typer.Option(min=0, max=1, help="This share of items by three people, the others by one.")
    ] = None,
    minimum_seconds: Annotated[float | None, typer.Option(min=0, help="The least time an item takes.")] = None,
    question_seconds: Annotated[float, typer.Option(min=0, help="The least time each question takes.")] = 0,
    reward: Annotated[float | None, typer.Option(min=0, help="What a person is paid.")] = None,
    bonus: Annotated[float | None, typer.Option(min=0, help="What careful raters get beside it.")] = None,
    version: Annotated[str | None, typer.Option(help="Of questions that have two wordings: A or B.")] = None,
    title: Annotated[str, typer.Option(help="What raters read as the study's name.")] = "",
    contact: Annotated[str, typer.Option(help="Whom raters can write to.")] = "",
    ethics: Annotated[str, typer.Option(help="Who approved the study, and under which number.")] = "",
    texts: Annotated[Path | None, typer.Option(help="Your own guide, consent and debrief, as YAML.")] = None,
    retention_days: Annotated[int, typer.Option(min=1, help="How long identities are kept.")] = 365,
    seed: Annotated[int, typer.Option(min=0, help="Of the sample.")] = 0,
) -> None:
    """Make a bundle from a run: what raters see, frozen; the key to it stays with you."""
    from stillme.study import builder

    wanted = builder.Wanted(
        preset=preset,
        size=size,
        tasks=tasks,
        raters=raters,
        overlap=overlap,
        minimum_seconds=minimum_seconds,
        question_seconds=question_seconds,
        reward=reward,
        bonus=bonus,
        version=version,
        title=title,
        contact=contact,
        ethics=ethics,
        texts=texts,
        retention_days=retention_days,
        seed=seed,
    )
    built = builder.build(run, folder or Path(f"study-{preset}"), wanted, print)
    print(built.words())
    print(f"Next: stillme study serve {built.folder}")


@app.command()
def serve(
    bundle: BundleFolder,
    data: Data = None,
    database: Database = "",
    entry: Annotated[
        str,
        typer.Option(
            metavar="plain|prolific|signed",
            help="Who gets in: anybody (a pilot); whom Prolific knows; only with Prolific's signature.",
            autocompletion=completion.among(*completion.ENTRIES),
        ),
    ] = "plain",
    public: Annotated[str, typer.Option(help="Its address behind a proxy with TLS: https://…")] = "",
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8422,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes; several need PostgreSQL.")] = 1,
    lease: Annotated[
        float, typer.Option(metavar="MINUTES", min=0.01, help="Silence after which a seat is given away.")
    ] = 30,
    proxied: Annotated[
        bool, typer.Option("--proxied", help="A proxy on this machine says whose address it is.")
    ] = False,
    below_floor: Annotated[
        bool, typer.Option("--below-floor", help="Serve although the pay is below the hourly floor.")
    ] = False,
) -> None:
    """Serve a study to raters, and its dashboard to coordinators, until it is stopped."""
    from stillme.core.errors import InputError

    if entry not in ("plain", "prolific", "signed"):
        raise InputError(f"--entry {entry} is not known.", "Choose plain, prolific or signed.")
    given = {"entry": entry, "public": public, "host": host, "port": port, "workers": workers}
    options = _options(bundle, data, database, **given, lease=lease * 60, proxied=proxied, below_floor=below_floor)
    from stillme.study.server.serve import serve as serve_study

    serve_study(options, lambda line: print(line, flush=True))


@app.command()
def export(
    bundle: BundleFolder,
    folder: Annotated[Path, typer.Option("--to", metavar="FOLDER", help="The folder to write, a new one.")],
    data: Data = None,
    database: Database = "",
    form: Annotated[str, typer.Option("--format", metavar="parquet|csv", help="Of the ratings.")] = "parquet",
    history: Annotated[bool, typer.Option("--history", help="With every operation that was ever sent.")] = False,
) -> None:
    """Write ratings, attention checks, participants and a codebook, without anybody's id."""
    from stillme.core.errors import InputError

    if form not in ("parquet", "csv"):
        raise InputError(f"--format {form} is not known.", "Choose parquet or csv.")
    with _opened(bundle, data, database, is_there=True) as study:
        from stillme.study.server.export import export as write

        write(study.store.engine, study.bundle, study.keys, folder, "csv" if form == "csv" else "parquet", history)


@app.command("import")
def take(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", help="The run that the bundle was made from.", autocompletion=completion.runs
        ),
    ],
    ratings: Annotated[Path, typer.Argument(metavar="EXPORT", help="The folder that stillme study export wrote.")],
    key: Annotated[Path, typer.Option(metavar="FILE", help="The bundle's key: BUNDLE.key.json.")],
) -> None:
    """Take ratings into the run; what is there already is not taken twice."""
    from stillme.study import ratings as rated

    print(rated.take(run, ratings, key, print).words())
    print(f"Next: stillme analyse {run}")


@app.command()
def erase(
    bundle: BundleFolder,
    pid: Annotated[str, typer.Argument(metavar="PID", help="The Prolific id; -: read from standard input.")],
    data: Data = None,
    database: Database = "",
    detach: Annotated[
        bool, typer.Option("--detach", help="Keep the ratings, without any way back to the person.")
    ] = False,
) -> None:
    """Delete everything about somebody who asks for it; a mark stays, so that nobody asks them again."""
    given = typer.get_text_stream("stdin").readline().strip() if pid == "-" else pid
    with _opened(bundle, data, database, is_there=True) as study:
        from stillme.study.server.erase import erase as forget

        forget(study.store.engine, study.keys, given, "detach" if detach else "delete", study.now())


@app.command()
def retain(bundle: BundleFolder, data: Data = None, database: Database = "") -> None:
    """Remove identities and addresses that are no longer needed; a server does so by itself every day."""
    with _opened(bundle, data, database, is_there=True) as study:
        from stillme.study.server.retention import retain as remove

        print(remove(study.store.engine, study.bundle, study.now()).text)


@app.command()
def backup(
    bundle: BundleFolder,
    folder: Annotated[Path, typer.Option("--to", metavar="FOLDER", help="Where backups are kept.")],
    data: Data = None,
    database: Database = "",
    keep: Annotated[int, typer.Option(min=0, help="How many stay; 0: all.")] = 0,
) -> None:
    """Copy the SQLite database while it is in use, and check the copy."""
    with _opened(bundle, data, database, is_there=True) as study:
        from stillme.study.server.backup import backup as copy

        copy(study.store.engine, folder, study.now(), keep)


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(metavar="BACKUP", help="A file that stillme study backup made.")],
    data: Annotated[Path, typer.Option(metavar="FOLDER", help="The data folder; it has no database yet.")],
) -> None:
    """Put a backup in place, after checking it."""
    _require()
    from stillme.study.server.backup import restore as put

    put(file, data)


@app.command()
def fake(
    state: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where it keeps its state.")] = Path(
        "fake-prolific"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8423,
    token: Annotated[str, typer.Option(help="What its clients have to send.")] = "rehearsal",  # noqa: S107 (a stand-in's, for rehearsals)
) -> None:
    """Serve a stand-in for Prolific, for rehearsals: set PROLIFIC_API to the address that it prints."""
    _require()
    from stillme.study.rehearsal.fake.__main__ import serve as serve_fake
    from stillme.study.rehearsal.fake.app import Options

    serve_fake(state, port, token, Options(), lambda line: print(line, flush=True))


@app.command()
def rehearse(
    bundle: BundleFolder,
    folder: Annotated[
        Path | None, typer.Option("--to", metavar="FOLDER", help="Where it happens; else BUNDLE-rehearsal.")
    ] = None,
    bots: Annotated[int, typer.Option(min=1, max=500, help="How many take part.")] = 6,
    once: Annotated[bool, typer.Option("--once", help="To the end and out, instead of until Ctrl-C.")] = False,
) -> None:
    """Rehearse a study with bots and a stand-in for Prolific; you can take part yourself."""
    _require()
    from stillme.study.rehearsal.rehearse import rehearse as play

    where = folder or bundle.parent / f"{bundle.name}-rehearsal"
    play(bundle, where, bots, once, lambda line: print(line, flush=True))


# Coordinators


@coordinators.command("add")
def coordinators_add(
    bundle: BundleFolder,
    name: Annotated[str, typer.Argument(help="How the coordinator logs in.")],
    data: Data = None,
    database: Database = "",
    password: Annotated[
        str,
        typer.Option(
            prompt=True, hide_input=True, confirmation_prompt=True, envvar="STILLME_PASSWORD", help="Asked for."
        ),
    ] = "",
) -> None:
    """Let somebody see the dashboard; a name that is known gets the new password."""
    with _opened(bundle, data, database) as study:
        from stillme.study.server.coordinators import add

        add(study.store.engine, name, password, study.now())
    print(f"{name} can log in at /admin.")


@coordinators.command("remove")
def coordinators_remove(
    bundle: BundleFolder,
    name: Annotated[str, typer.Argument(help="Who.")],
    data: Data = None,
    database: Database = "",
) -> None:
    """Close somebody's account and sessions."""
    with _opened(bundle, data, database) as study:
        from stillme.study.server.coordinators import remove

        remove(study.store.engine, name, study.now())
    print(f"{name} cannot log in any more.")


@coordinators.command("list")
def coordinators_list(bundle: BundleFolder, data: Data = None, database: Database = "") -> None:
    """Say who has an account."""
    with _opened(bundle, data, database) as study:
        from stillme.study.server.coordinators import names

        with study.store.engine.connect() as connection:
            for name in names(connection):
                print(name)


# Prolific


@prolific.command()
def publish(
    bundle: BundleFolder,
    public: Annotated[str, typer.Option(help="The study's own address: https://…")],
    data: Data = None,
    database: Database = "",
    go: Annotated[
        bool, typer.Option("--go", help="Publish the draft; else it waits for you on Prolific.")
    ] = False,
    places: Annotated[int | None, typer.Option(min=1, help="Instead of the bundle's, e.g. for a pilot.")] = None,
    reward: Annotated[float | None, typer.Option(min=0, help="Instead of the bundle's.")] = None,
    filters: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Prolific's filters as JSON: who may take part.")
    ] = None,
    description: Annotated[str, typer.Option(help="What people read on Prolific.")] = "",
    project: Annotated[str, typer.Option(help="Prolific's id of a project.")] = "",
    warning: Annotated[list[str] | None, typer.Option(help="A content warning: sensitive or explicit.")] = None,
    unsigned: Annotated[bool, typer.Option("--unsigned", help="Launches without Prolific's signature.")] = False,
    taskflow: Annotated[bool, typer.Option("--taskflow", help="Prolific spreads people over the tasks.")] = False,
    below_floor: Annotated[
        bool, typer.Option("--below-floor", help="Publish although the pay is below the hourly floor.")
    ] = False,
) -> None:
    """Make the study on Prolific: checks the wage, previews the cost, drafts, and publishes with --go."""
    where = _where(bundle, data, database)
    from stillme.study.prolific import commands
    from stillme.study.prolific.publish import Options, read_filters

    options = Options(
        public=public,
        places=places,
        reward=reward,
        description=description,
        filters=read_filters(filters) if filters else (),
        warnings=tuple(warning or ()),
        project=project,
        is_signed=not unsigned,
        taskflow=taskflow,
        below_floor=below_floor,
        go=go,
    )
    commands.publish_study(where, options, print)


@prolific.command()
def status(bundle: BundleFolder, data: Data = None, database: Database = "") -> None:
    """Say how the study stands on Prolific and here."""
    where = _where(bundle, data, database)
    from stillme.study.prolific import commands

    commands.status(where, print)


@prolific.command()
def sync(bundle: BundleFolder, data: Data = None, database: Database = "") -> None:
    """Ask Prolific what became of every submission, and free the seats of those who left."""
    where = _where(bundle, data, database)
    from stillme.study.prolific import commands

    commands.sync_study(where, print)


@prolific.command()
def approve(
    bundle: BundleFolder,
    data: Data = None,
    database: Database = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say who and why, and change nothing.")] = False,
    submission: Annotated[str, typer.Option(help="Only this one, because you say so.")] = "",
) -> None:
    """Approve who finished with the right code and enough attention; the others are shown, and left alone."""
    where = _where(bundle, data, database)
    from stillme.study.prolific import commands

    commands.approve(where, print, dry_run, submission)


Submission = Annotated[str, typer.Argument(metavar="SUBMISSION", help="Prolific's id of a submission.")]


@prolific.command()
def reject(
    bundle: BundleFolder,
    submission: Submission,
    category: Annotated[str, typer.Option(help="Prolific's word for the reason, e.g. FAILED_CHECK.")],
    message: Annotated[str, typer.Option(help="What the person reads; at least 100 characters.")],
    data: Data = None,
    database: Database = "",
) -> None:
    """Reject one submission, with a reason that its person reads. Nothing is ever rejected by itself."""
    where = _where(bundle, data, database)
    from stillme.study.prolific import commands

    commands.reject(where, submission, category, message, print)


@prolific.command("return")
def ask_return(
    bundle: BundleFolder,
    submission: Submission,
    reason: Annotated[list[str], typer.Option(help="What the person reads; may be given several times.")],
    data: Data = None,
    database: Database = "",
) -> None:
    """Ask somebody to return a submission, which costs them nothing."""
    where = _where(bundle, data, database)
    from stillme.study.prolific import commands

    commands.ask_return(where, submission, reason, print)


@prolific.command()
def bonus(
    bundle: BundleFolder,
    data: Data = None,
    database: Database = "",
    go: Annotated[bool, typer.Option("--go", help="Pay; else say who would get it.")] = False,
    settled: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="PAYMENT paid|unpaid", help="What you found on Prolific about a payment of unknown end."
        ),
    ] = None,
) -> None:
    """Pay the bonus to everybody who earned it, once, whatever happens in between."""
    where = _where(bundle, data, database)
    from stillme.study.prolific import commands

    commands.bonus(where, print, go, settled)


@prolific.command()
def webhook(
    bundle: BundleFolder,
    data: Data = None,
    database: Database = "",
    public: Annotated[str, typer.Option(help="The study's own address, if it is not the published one.")] = "",
    workspace: Annotated[str, typer.Option(help="Prolific's id of the workspace, if you have several.")] = "",
) -> None:
    """Have Prolific tell the server of returns and timeouts at once."""
    where = _where(bundle, data, database)
    from stillme.study.prolific import commands

    commands.webhook(where, public, workspace, print)


@prolific.command()
def places(
    bundle: BundleFolder,
    number: Annotated[int, typer.Argument(min=1, help="How many people in all; never fewer than before.")],
    data: Data = None,
    database: Database = "",
    below_floor: Annotated[
        bool, typer.Option("--below-floor", help="Although the pay is below the hourly floor.")
    ] = False,
) -> None:
    """Offer more places."""
    where = _where(bundle, data, database)
    from stillme.study.prolific import commands

    commands.places(where, number, print, below_floor)


def _move(name: str, says: str) -> None:
    def move(bundle: BundleFolder, data: Data = None, database: Database = "") -> None:
        where = _where(bundle, data, database)
        from stillme.study.prolific import commands

        commands.move(where, name, print)

    move.__doc__ = says
    prolific.command(name)(move)


_move("pause", "Let nobody new in on Prolific for now.")
_move("start", "Let people in again after a pause.")
_move("stop", "End the study on Prolific for good.")
