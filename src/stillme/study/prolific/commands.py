"""What `stillme study prolific …` does: opens the study and the account, does one thing, closes both."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from stillme.study import bundle as bundles
from stillme.study.bundle import Bundle
from stillme.study.db import seats
from stillme.study.db.store import Store, address, open_store, reachable, write_now
from stillme.study.prolific import approve as approving
from stillme.study.prolific import hooks, marks, pay, publish
from stillme.study.prolific.client import Prolific, connect
from stillme.study.prolific.overview import overview
from stillme.study.prolific.sync import lines, sync

Say = Callable[[str], None]


@dataclass(frozen=True)
class Where:
    """A study: the bundle's folder, the folder of its data, and the database where that is elsewhere."""

    bundle: Path
    data: Path
    database: str = ""


@dataclass(frozen=True)
class Open:
    """A study while a command works on it."""

    bundle: Bundle
    store: Store
    client: Prolific


def run(where: Where, work: Callable[[Open], Awaitable[object]]) -> None:
    """Opens, works, closes, whatever happens."""
    client = connect()
    bundle = bundles.read(where.bundle)
    store = open_store(address(where.database, where.data))
    try:
        with reachable():
            write_now(store.engine, lambda connection: seats.attach(connection, bundle, time.time()))
            asyncio.run(_closing(Open(bundle, store, client), work))
    finally:
        store.close()


async def _closing(opened: Open, work: Callable[[Open], Awaitable[object]]) -> None:
    try:
        await work(opened)
    finally:
        await opened.client.close()


def publish_study(where: Where, options: publish.Options, say: Say) -> None:
    run(where, lambda o: publish.publish(o.store, o.client, o.bundle, options, say))


def sync_study(where: Where, say: Say) -> None:
    async def work(opened: Open) -> None:
        for line in lines(await sync(opened.store, opened.client, time.time())):
            say(line)

    run(where, work)


def approve(where: Where, say: Say, dry: bool = False, submission: str = "") -> None:
    """`submission`: only this one, because a person says so."""
    if submission:
        run(where, lambda o: approving.approve_one(o.store, o.client, submission, time.time, say))
        return
    run(where, lambda o: approving.approve(o.store, o.client, o.bundle, time.time, say, dry))


def reject(where: Where, submission: str, category: str, message: str, say: Say) -> None:
    run(where, lambda o: approving.reject(o.store, o.client, submission, category, message, time.time, say))


def ask_return(where: Where, submission: str, reasons: Sequence[str], say: Say) -> None:
    run(where, lambda o: approving.ask_return(o.store, o.client, submission, reasons, time.time, say))


def bonus(where: Where, say: Say, go: bool = False, settled: tuple[str, str] | None = None) -> None:
    """`settled`: a payment and what a person found about it, paid or unpaid."""
    if settled is not None:
        run(where, lambda o: pay.settle(o.store, *settled, time.time, say))
    else:
        run(where, lambda o: pay.pay(o.store, o.client, o.bundle, time.time, say, go))


def webhook(where: Where, public: str, workspace: str, say: Say) -> None:
    """`public`: the study's address, where it is another than it was published with."""

    async def work(opened: Open) -> None:
        target = public or await opened.store.read(lambda c: marks.get(c, marks.PUBLIC))
        await hooks.subscribe(opened.store, opened.client, where.data, target, workspace, say)

    run(where, work)


def move(where: Where, what: str, say: Say) -> None:
    """pause, start or stop."""
    run(where, lambda o: publish.move(o.store, o.client, what, say))


def places(where: Where, count: int, say: Say, below_floor: bool = False) -> None:
    run(where, lambda o: publish.set_places(o.store, o.client, o.bundle, count, say, below_floor))


def status(where: Where, say: Say) -> None:
    run(where, lambda o: overview(o.store, o.client, o.bundle, time.time, say))
