"""The load: so many participants at once, each with cookies of their own, for a while. Loopback only.

    python -m bench.study.load JSON

One participant enters, then loads a page and saves its answers for every item, and leaves; another follows. The
loop is closed: nobody asks before the last answer is there. It has a process and a core of its own, and says in
one line of JSON what it saw and what the server's processes took meanwhile.
"""

from __future__ import annotations

import asyncio
import ipaddress
import itertools
import json
import math
import os
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import psutil
from yarl import URL

from bench.study.pictures import ITEMS
from bench.study.walks import ENTER, WALKS, Asking, StoppedError, Walk

LOOPBACK = ("127.0.0.1", "::1", "localhost")
PATIENCE = aiohttp.ClientTimeout(total=120)
WARM_UP = 0.2  # of the window, before it: at first everybody loads and nobody saves
LOOK = 0.25  # seconds between two looks at the server's memory


@dataclass(frozen=True)
class Order:
    """What to do. `think`: mean seconds on a page; `ramp`: seconds over which people come, which do not count."""

    walk: str
    base: str
    people: int
    seconds: float
    think: float
    ramp: float
    server: int


@dataclass
class Seen:
    """What was done within the window. Times are in ms, by what was done; entering is kept whenever it was."""

    begins: float = math.inf
    ends: float = math.inf
    requests: int = 0
    ever: int = 0  # requests, within the window or not
    items: int = 0
    finished: int = 0
    times: dict[str, list[float]] = field(default_factory=dict)
    faults: Counter[str] = field(default_factory=Counter)

    def open(self, seconds: float, after: float = 0.0) -> None:
        self.begins = time.perf_counter() + after
        self.ends = self.begins + seconds

    @property
    def is_open(self) -> bool:
        return self.begins <= time.perf_counter() < self.ends

    @property
    def is_over(self) -> bool:
        return time.perf_counter() >= self.ends

    def add(self, what: str, took: float, requests: int = 1) -> None:
        """`what` is empty for a part of something that is timed as a whole."""
        is_open = self.is_open
        self.ever += requests
        self.requests += requests if is_open else 0
        if what and (is_open or what == ENTER):
            self.times.setdefault(what, []).append(1000 * took)

    def told(self) -> dict[str, Any]:
        spread = {
            what: {
                "n": len(times),
                "p50": percentile(times, 0.5),
                "p99": percentile(times, 0.99),
                "max": max(times),
            }
            for what, times in self.times.items()
        }
        counts = {"requests": self.requests, "items": self.items, "finished": self.finished}
        return {**counts, "times": spread, "faults": dict(self.faults)}


def percentile(times: list[float], share: float) -> float:
    return sorted(times)[min(len(times) - 1, int(share * len(times)))]


class Crowd:
    """So many places; in each there is somebody, and when they have left, somebody else."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.seen = Seen()
        self._numbers = itertools.count()
        self._everybody = asyncio.Barrier(order.people)

    async def run(self) -> Seen:
        """People come over the ramp, or all at once; then the window opens soon after the last of them is in."""
        if self.order.ramp:
            self.seen.open(self.order.seconds, after=self.order.ramp)
        async with asyncio.TaskGroup() as group:
            for number in range(self.order.people):
                group.create_task(self._place(self.order.ramp * number / self.order.people))
        return self.seen

    async def _place(self, late: float) -> None:
        await asyncio.sleep(late)
        async with asking(self.order, self.seen) as ask:
            walk = WALKS[self.order.walk](ask)
            await walk.enter(self._name())  # whoever cannot enter at all ends the run
            if not self.order.ramp and await self._everybody.wait() == 0:
                self.seen.open(self.order.seconds, after=WARM_UP * self.order.seconds)
            await self._rate(walk)
        while not self.seen.is_over:
            async with asking(self.order, self.seen) as ask:
                walk = WALKS[self.order.walk](ask)
                await self._enter_and_rate(walk)

    async def _enter_and_rate(self, walk: Walk) -> None:
        try:
            await walk.enter(self._name())
        except StoppedError as error:
            self.seen.faults[str(error)] += 1
        else:
            await self._rate(walk)

    async def _rate(self, walk: Walk) -> None:
        try:
            for item in range(ITEMS):
                if self.seen.is_over:
                    return
                await walk.load(item)
                await walk.save(item, self.order.think * random.uniform(0.5, 1.5))
                self.seen.items += self.seen.is_open
            await walk.leave()
            self.seen.finished += 1
        except StoppedError as error:
            self.seen.faults[str(error)] += 1

    def _name(self) -> str:
        return f"{os.getpid():x}{next(self._numbers):07d}"


def asking(order: Order, seen: Seen) -> Asking:
    """A new browser, at an address of its own as a proxy would tell: ours counts how many come from one."""
    jar = aiohttp.CookieJar(unsafe=True, treat_as_secure_origin=URL(order.base))
    headers = {"X-Forwarded-For": str(ipaddress.IPv4Address(random.randrange(10 << 24, 11 << 24)))}
    line = aiohttp.TCPConnector(limit=1)
    http = aiohttp.ClientSession(cookie_jar=jar, timeout=PATIENCE, connector=line, headers=headers)
    return Asking(http, order.base, seen.add)


@dataclass
class Meter:
    """Memory and CPU of a server's processes."""

    server: psutil.Process
    peak_mb: float = 0.0

    async def watch(self) -> None:
        while True:
            self.peak_mb = max(self.peak_mb, sum(one.memory_info().rss for one in self._all()) / 2**20)
            await asyncio.sleep(LOOK)

    def cpu(self) -> float:
        return sum(sum(one.cpu_times()[:2]) for one in self._all())

    def _all(self) -> list[psutil.Process]:
        return [self.server, *self.server.children(recursive=True)]


async def measure(order: Order) -> dict[str, Any]:
    if urlsplit(order.base).hostname not in LOOPBACK:
        raise SystemExit("The load generator asks nobody but this machine.")
    meter, crowd = Meter(psutil.Process(order.server)), Crowd(order)
    watching = asyncio.create_task(meter.watch())
    began, server, client = time.perf_counter(), meter.cpu(), time.process_time()
    seen = await crowd.run()
    took = time.perf_counter() - began
    watching.cancel()
    spent = meter.cpu() - server
    used = {"server_cpu": spent / took, "client_cpu": (time.process_time() - client) / took}
    return {**seen.told(), **used, "cpu_ms": 1000 * spent / seen.ever, "peak_mb": meter.peak_mb}


def main() -> int:
    order = Order(**json.loads(sys.argv[1]))
    try:
        found = asyncio.run(measure(order))
    except BaseExceptionGroup as failed:
        print("; ".join(sorted({str(one) for one in failed.exceptions})), file=sys.stderr)
        return 1
    print(json.dumps(found), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
