"""The commands of the human study: parse, call, print. No logic lives here; heavy things are imported late."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from stillme.study.desk import Study
    from stillme.study.prolific.client import Prolific

app = typer.Typer(
    no_args_is_help=True, help="Run the human study: build, serve, recruit on Prolific, export, import."
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
Dry = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")]
NEEDED = ("sqlalchemy", "argon2", "jwt", "starlette", "uvicorn", "aiohttp")


def _require() -> None:
    from stillme import backends

    backends.require_packages(NEEDED, "The human study")


def _options(bundle: Path, data: Path | None, database: str, **more: Any) -> Any:
    _require()
    from stillme.study.serve import Options, data_folder

    return Options(str(bundle), str(data_folder(bundle, data)), database, **more)


@contextmanager
def _opened(bundle: Path, data: Path | None, database: str) -> Iterator[Study]:
    """The study with its database, beside a server that may be running."""
    options = _options(bundle, data, database)
    from stillme.study.serve import open_study
    from stillme.study.store import reachable

    study = open_study(options)
    try:
        with reachable():
            yield study
    finally:
        study.store.close()


def _asked(
    bundle: Path, data: Path | None, database: str, work: Callable[[Study, Prolific], Awaitable[object]]
) -> None:
    """Does something with Prolific."""
    with _opened(bundle, data, database) as study:
        from stillme.study.prolific.client import connect

        async def ask() -> None:
            client = connect()
            try:
                await work(study, client)
            finally:
                await client.close()

        asyncio.run(ask())


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
    from stillme.errors import InputError

    if entry not in ("plain", "prolific", "signed"):
        raise InputError(f"--entry {entry} is not known.", "Choose plain, prolific or signed.")
    given = {"entry": entry, "public": public, "host": host, "port": port, "workers": workers}
    options = _options(bundle, data, database, **given, lease=lease * 60, proxied=proxied, below_floor=below_floor)
    from stillme.study.serve import serve as serve_study

    serve_study(options, lambda line: print(line, flush=True))


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
    _require()
    from stillme.study.prolific import publish as publishing

    options = publishing.Options(
        public=public,
        places=places,
        reward=reward,
        description=description,
        filters=publishing.read_filters(filters) if filters else (),
        warnings=tuple(warning or ()),
        project=project,
        is_signed=not unsigned,
        taskflow=taskflow,
        below_floor=below_floor,
        go=go,
    )
    _asked(
        bundle,
        data,
        database,
        lambda study, client: publishing.publish(study.store, client, study.bundle, options, print),
    )


@prolific.command()
def status(bundle: BundleFolder, data: Data = None, database: Database = "") -> None:
    """Say how the study stands on Prolific and here."""
    _require()
    from stillme.study.prolific.overview import overview

    _asked(bundle, data, database, lambda s, client: overview(s.store, client, s.bundle, s.now, print))


@prolific.command()
def sync(bundle: BundleFolder, data: Data = None, database: Database = "") -> None:
    """Ask Prolific what became of every submission, and free the seats of those who left."""
    _require()
    from stillme.study.prolific import sync as syncing

    async def ask(study: Study, client: Prolific) -> None:
        for line in syncing.lines(await syncing.sync(study.store, client, study.now())):
            print(line)

    _asked(bundle, data, database, ask)


@prolific.command()
def approve(bundle: BundleFolder, data: Data = None, database: Database = "", dry_run: Dry = False) -> None:
    """Approve who finished with the right code and enough attention; the others are shown, and left alone."""
    _require()
    from stillme.study.prolific import approve as approving

    _asked(
        bundle,
        data,
        database,
        lambda s, client: approving.approve(s.store, client, s.bundle, s.now, print, dry_run),
    )


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
    _require()
    from stillme.study.prolific import approve as approving

    _asked(
        bundle,
        data,
        database,
        lambda s, client: approving.reject(s.store, client, submission, category, message, s.now, print),
    )


@prolific.command("return")
def ask_return(
    bundle: BundleFolder,
    submission: Submission,
    reason: Annotated[list[str], typer.Option(help="What the person reads; may be given several times.")],
    data: Data = None,
    database: Database = "",
) -> None:
    """Ask somebody to return a submission, which costs them nothing."""
    _require()
    from stillme.study.prolific import approve as approving

    _asked(
        bundle,
        data,
        database,
        lambda s, client: approving.ask_return(s.store, client, submission, reason, s.now, print),
    )


@prolific.command()
def bonus(
    bundle: BundleFolder,
    data: Data = None,
    database: Database = "",
    go: Annotated[bool, typer.Option("--go", help="Pay; else say who would get it.")] = False,
    settled: Annotated[
        str, typer.Option(metavar="PAYMENT", help="A payment whose end was unknown, after you looked on Prolific.")
    ] = "",
    outcome: Annotated[str, typer.Option(metavar="paid|unpaid", help="What you found about it.")] = "",
) -> None:
    """Pay the bonus to everybody who earned it, once, whatever happens in between."""
    _require()
    from stillme.study.prolific import pay as paying

    async def ask(study: Study, client: Prolific) -> None:
        if settled:
            await paying.settle(study.store, settled, outcome, study.now, print)
        else:
            await paying.pay(study.store, client, study.bundle, study.now, print, go)

    _asked(bundle, data, database, ask)


@prolific.command()
def webhook(
    bundle: BundleFolder,
    public: Annotated[str, typer.Option(help="The study's own address: https://…")],
    data: Data = None,
    database: Database = "",
    workspace: Annotated[str, typer.Option(help="Prolific's id of the workspace, if you have several.")] = "",
) -> None:
    """Have Prolific tell the server of returns and timeouts at once."""
    _require()
    from stillme.study.prolific import hooks

    _asked(
        bundle,
        data,
        database,
        lambda s, client: hooks.subscribe(s.store, client, s.data, public, workspace, print),
    )


@prolific.command()
def places(
    bundle: BundleFolder,
    number: Annotated[int, typer.Argument(min=1, help="How many people in all; never fewer than before.")],
    data: Data = None,
    database: Database = "",
) -> None:
    """Offer more places."""
    _require()
    from stillme.study.prolific import publish as publishing

    _asked(
        bundle, data, database, lambda s, client: publishing.set_places(s.store, client, s.bundle, number, print)
    )


def _move(name: str, says: str) -> None:
    def move(bundle: BundleFolder, data: Data = None, database: Database = "") -> None:
        _require()
        from stillme.study.prolific import publish as publishing

        _asked(bundle, data, database, lambda s, client: publishing.move(s.store, client, name, print))

    move.__doc__ = says
    prolific.command(name)(move)


_move("pause", "Let nobody new in on Prolific for now.")
_move("start", "Let people in again after a pause.")
_move("stop", "End the study on Prolific for good.")
