"""Runs a command on Prolific and kills it with SIGKILL at a chosen moment: before or after any write or call.

A process that has everything loaded and forks for every order, so that dying fifty times takes seconds. An order is
a line `COMMAND MOMENT DATABASE API`; the answer is how the child ended: its exit code, or minus the signal. Moments
are counted from 1: before the first write or call, after it, before the second, and so on; 0 kills nobody.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from stillme.core.errors import StillmeError
from stillme.study.db.store import Store, open_store
from stillme.study.prolific import pay
from stillme.study.prolific.client import Prolific
from stillme.study.prolific.publish import Options, publish
from tests.study.prolific.stage import LIMITS, PUBLIC, TOKEN, small


class Death:
    """Counts moments, and kills this process at one."""

    def __init__(self, moment: int) -> None:
        self._moment, self._now = moment, 0

    def pass_by(self) -> None:
        self._now += 1
        if self._now == self._moment:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, work: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def watched(*given: Any) -> Any:
            self.pass_by()
            result = await work(*given)
            self.pass_by()
            return result

        return watched


async def run(command: str, store: Store, client: Prolific) -> None:
    bundle = small()
    if command == "publish":
        await publish(store, client, bundle, Options(public=PUBLIC, go=True), lambda line: None)
    else:
        await pay.pay(store, client, bundle, time.time, lambda line: None, go=True)
    await client.close()


def child(command: str, moment: int, database: str, api: str) -> int:
    store, client, death = open_store(database), Prolific(TOKEN, api, LIMITS), Death(moment)
    store.write = death.around(store.write)  # type: ignore[assignment,method-assign]
    client._ask = death.around(client._ask)  # type: ignore[assignment,method-assign]
    try:
        asyncio.run(run(command, store, client))
    except StillmeError as error:
        return error.exit_code
    return 0


def main() -> None:
    import aiohttp  # noqa: F401
    import orjson  # noqa: F401

    for line in sys.stdin:
        command, moment, database, api = line.split()
        made = os.fork()
        if not made:
            try:
                os._exit(child(command, int(moment), database, api))
            except BaseException as error:
                print(repr(error), file=sys.stderr, flush=True)
                os._exit(70)
        print(os.waitstatus_to_exitcode(os.waitpid(made, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
