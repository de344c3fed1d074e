"""Serves a study until it is stopped: one process on SQLite, one or several on PostgreSQL.

Beside the pages: leases that have run out free their seats, Prolific is asked what has become of submissions where
it recruits, and what is kept no longer is removed.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import uvicorn
from sqlalchemy import Connection, func, select
from starlette.applications import Starlette
from uvicorn.supervisors import Multiprocess

from stillme.core.errors import InputError, SetupError, StillmeError, disk
from stillme.core.lock import Lock
from stillme.study import bundle as bundles
from stillme.study.db import seats
from stillme.study.db.keys import Keys
from stillme.study.db.store import Store, address, open_store, reachable, upsert, write_now
from stillme.study.db.tables import meta, opening, sitting
from stillme.study.prolific import wage
from stillme.study.prolific.client import connect
from stillme.study.prolific.launch import Door
from stillme.study.server.app import make_app
from stillme.study.server.desk import Entry, Serving, Steady, Study
from stillme.web import server
from stillme.web.middleware import Hosts, secret
from stillme.web.server import RequestTimeoutMiddleware

log = logging.getLogger("stillme.study")
SWEEP = 20  # seconds between looks at leases
POLL = 4 * 60  # seconds between questions to Prolific
DAILY = 24 * 3600
TOLD = "STILLME_STUDY"  # how a worker process learns what it serves


@dataclass(frozen=True)
class Options:
    """What `stillme study serve` was told. `data`: the folder of the database and the secret."""

    bundle: str
    data: str
    database: str = ""
    host: str = "127.0.0.1"
    port: int = 8422
    entry: Entry = "plain"
    public: str = ""
    lease: float = seats.LEASE
    workers: int = 1
    proxied: bool = False  # behind a proxy on this machine, which says whose address it is
    below_floor: bool = False  # serve although pay is below the floor


def data_folder(bundle: Path, given: Path | None = None) -> Path:
    """Where a study's answers are, unless said otherwise: beside its bundle."""
    folder = given or bundle.parent / f"{bundle.name}-data"
    with disk(folder):
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
    return folder


def open_study(options: Options) -> Study:
    """The study, ready to be asked: its seats made, its database checked."""
    folder = Path(options.bundle)
    data = Path(options.data)
    bundle, keys = bundles.read(folder), Keys(secret(data))
    store = open_store(address(options.database, data))
    try:
        with reachable(), store.engine.connect() as connection:
            clock = Steady(_newest(connection))
        serving = Serving(options.entry, options.public.rstrip("/"), options.lease, clock)
        with reachable():
            write_now(store.engine, lambda c: seats.attach(c, bundle, serving.clock()))
            mark = write_now(store.engine, lambda c: _marked(c, keys))
        if mark != keys.mark:
            raise SetupError(
                f"The secret in {data} is not the one that this study was begun with: nobody would be recognised.",
                "Put the file secret of the old data folder there; it belongs to the database.",
            )
        return Study(bundle, folder, data, store, keys, serving, _launches(serving, store))
    except StillmeError:
        store.close()
        raise


def _newest(connection: Connection) -> float:
    """When the last thing happened that the database knows of."""
    times = (
        connection.scalar(select(func.max(sitting.c.clock))),
        connection.scalar(select(func.max(opening.c.opened))),
    )
    return max(float(one or 0.0) for one in times)


def _marked(connection: Connection, keys: Keys) -> str:
    """Which secret the database was begun with."""
    upsert(connection, meta, {"key": "secret", "value": keys.mark}, keep=True)
    return str(connection.scalar(select(meta.c.value).where(meta.c.key == "secret")))


def _launches(serving: Serving, store: Store) -> Door | None:
    """Who checks people from Prolific; in a pilot nobody does."""
    if serving.entry == "plain":
        return None
    return Door(serving.entry, serving.public, store, connect(), time.time)


def serve(options: Options, say: server.Say = print) -> None:
    """Answers until Ctrl-C or SIGTERM."""
    _check(options)
    with _alone(options), server.listen(options.host, options.port) as bound, suppress(KeyboardInterrupt):
        study = open_study(options)
        try:
            _check_wage(study, options, say)
            for line in _greeting(study, options, server.address(options.host, bound.getsockname()[1])):
                say(line)
        finally:
            study.store.close()
        _answer(options, bound)
    say("Stopped. Every answer that a page called saved is saved.")


def _alone(options: Options) -> AbstractContextManager[object]:
    """One server at a time, where there is one writer; who shares PostgreSQL may be many."""
    if not database(options).startswith("sqlite"):
        return nullcontext()
    return Lock(Path(options.data), "serving.lock", "The study in")


def _answer(options: Options, bound: socket.socket) -> None:
    if options.workers == 1:
        uvicorn.Server(_config(options, lambda: app(options))).run(sockets=[bound])
        return
    os.environ[TOLD] = json.dumps(asdict(options))
    config = _config(options, "stillme.study.server.serve:worker")
    Multiprocess(config, sockets=[bound]).run()


def worker() -> Starlette:
    """The app of one of several processes."""
    return app(Options(**json.loads(os.environ[TOLD])))


def app(options: Options) -> Starlette:
    study = open_study(options)
    made = make_app(study, Hosts.of(options.host, options.public), lambda app: beside(study))
    gc.collect()
    gc.freeze()  # what stays for good is never looked through again: that would hold up everybody's requests
    return made


def _config(options: Options, made: str | Callable[[], Starlette]) -> uvicorn.Config:
    return uvicorn.Config(
        made,
        factory=True,
        workers=options.workers,
        log_level="warning",
        access_log=False,  # addresses carry ids when people come in
        server_header=False,
        proxy_headers=options.proxied,
        forwarded_allow_ips="127.0.0.1,::1",
        timeout_graceful_shutdown=5,
        timeout_keep_alive=30,
        http=RequestTimeoutMiddleware,
    )


def _check(options: Options) -> None:
    is_lite = address(options.database, Path(options.data)).startswith("sqlite")
    if options.workers > 1 and is_lite:
        said = "SQLite has one writer, so it is served by one process."
        raise InputError(said, "Leave out --workers, or give a PostgreSQL --database.")
    if options.entry != "plain" and not options.public:
        said = "People from Prolific need the address under which they reach the study."
        raise InputError(said, "Give --public https://….")


def _check_wage(study: Study, options: Options, say: server.Say) -> None:
    """A study that pays too little does not start; one that people are at work in goes on, with a warning."""
    if options.entry == "plain":
        return
    with study.store.engine.connect() as connection:
        paid = wage.measured(connection, study.bundle)
        has_begun = connection.scalar(select(func.count()).select_from(sitting))
    if has_begun and not paid.is_enough:
        say(f"Warning: the study pays too little: {paid}. Think of a bonus for those who have finished.")
    else:
        wage.guard(paid, options.below_floor)


def _greeting(study: Study, options: Options, where: str) -> Iterator[str]:
    base = options.public.rstrip("/") or where
    yield f"{study.bundle.title}: {len(study.bundle.tasks)} tasks, {study.bundle.places} places."
    if options.entry == "plain":
        yield f"Anybody who names themselves gets in (a pilot): {base}/p/start?PROLIFIC_PID=NAME"
    else:
        yield "People get in from Prolific; stillme study prolific publish makes the study there."
    yield f"Coordinators: {base}/admin"
    yield from () if options.public else server.warning(options.host)
    yield f"Listening on {where}"


@asynccontextmanager
async def beside(study: Study) -> AsyncIterator[None]:
    """What happens beside the pages; it ends with them."""
    tasks = [
        asyncio.create_task(_again(min(SWEEP, study.serving.lease / 4), lambda: _sweep(study))),
        asyncio.create_task(_again(DAILY, lambda: _retain(study))),
    ]
    if study.serving.entry != "plain":
        tasks.append(asyncio.create_task(_again(POLL, lambda: _poll(study))))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        if study.launches is not None and study.launches.client is not None:
            await study.launches.client.close()
        study.store.close()


async def _again(seconds: float, work: Callable[[], Awaitable[None]]) -> None:
    """Now and every so often. What goes wrong is said, and tried again the next time."""
    while True:
        try:
            await work()
        except Exception as error:  # the pages go on whatever happens here
            log.warning("%s", error)
        await asyncio.sleep(seconds)


async def _sweep(study: Study) -> None:
    await study.store.write(lambda c: seats.sweep(c, study.now()))


async def _retain(study: Study) -> None:
    from stillme.study.server import retention

    await asyncio.get_running_loop().run_in_executor(
        None, lambda: retention.retain(study.store.engine, study.bundle, study.now())
    )


async def _poll(study: Study) -> None:
    from stillme.study.prolific.sync import sync

    if study.launches is not None and study.launches.client is not None:
        await sync(study.store, study.launches.client, study.launches.clock())


def database(options: Options) -> str:
    return address(options.database, Path(options.data))
