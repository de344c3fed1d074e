"""The study server beside oTree and Potato: the same 50 items, three pictures and ten ratings a page, in one run.

    python -m bench.study [--quick] [--only stillme,singly,postgres,otree,potato] [--seconds 15]

Every measurement has a server of its own, started as its users start it, with a new database. The server has one
core, the load another. At saturation 1, 30 and 100 participants never wait; paced, 100 participants look at a page
for 1 s or 5 s. The peers are installed into bench/out/venvs at the first run, which needs a network. What is
counted as a request is in bench/README.md. The table is also written to bench/out/study.txt and study-all.json.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench import figures
from bench.figures import Row
from bench.study import ours, pages, peers, postgres, servers
from bench.study.pages import Weight
from bench.study.servers import LOAD_CORE, NotUpError, Server, pinned
from stillme.core.text import table

OURS, SINGLY, POSTGRES, OTREE, POTATO = "stillme", "singly", "postgres", "otree", "potato"
WHO = {
    OURS: "stillme, a page's answers together",
    SINGLY: "stillme, every answer by itself",
    POSTGRES: "stillme on PostgreSQL, together",
    OTREE: "oTree 6.0.15",
    POTATO: "Potato 2.12.1",
}
WALK = {OURS: "ours", SINGLY: "singly", POSTGRES: "ours", OTREE: "otree", POTATO: "potato"}
PATIENCE = 240.0  # seconds that a load may take longer than it should
TIMES_OTREE, P99_MS, PEAK_MB, PAGE_KB = 10.0, 25.0, 120.0, 60.0
WORDS = {True: "met", False: "NOT MET", None: "not measured"}
SHOWS = "The whole study server beside oTree and Potato: the same 50 items, three pictures and ten ratings a page."
DOES_NOT_SHOW = (
    "an equal protocol: oTree takes a page in two requests, Potato in three, ours in two or, answer by "
    "answer, thirteen; "
    "items a second stand beside requests for that.",
    "a network, pictures, or a proxy: all is on loopback, the server has one core and the load the other.",
    "times of an open loop: at saturation nobody asks before the last answer is there, so they are "
    "mostly waiting in line.",
    "PostgreSQL on a machine of its own: here it shares the server's core.",
)
HEAD = (
    "",
    "people",
    "think s",
    "req/s",
    "× oTree",
    "items/s",
    "× oTree",
    "load p50 / p99 ms",
    "save p50 / p99 ms",
    "enter p99",
    "peak MB",
    "CPU ms/req",
    "CPU",
    "load's CPU",
)

Check = tuple[str, bool | None]  # None: could not be measured


@dataclass(frozen=True)
class Setting:
    """`think`: mean seconds on a page, 0 is saturation; `ramp`: seconds over which people come."""

    people: int
    think: float
    seconds: float
    ramp: float


@dataclass(frozen=True)
class Spread:
    n: int
    p50: float
    p99: float
    max: float


@dataclass(frozen=True)
class Figures:
    """What one load saw of one server. Shares of CPU are those of one core."""

    who: str
    setting: Setting
    requests: float  # a second
    items: float  # a second
    finished: int
    times: Mapping[str, Spread]
    faults: Mapping[str, int]
    peak_mb: float
    cpu_ms: float  # of the server, a request
    server_cpu: float
    client_cpu: float

    @classmethod
    def of(cls, who: str, setting: Setting, told: Mapping[str, Any]) -> Figures:
        return cls(
            who=who,
            setting=setting,
            requests=told["requests"] / setting.seconds,
            items=told["items"] / setting.seconds,
            finished=told["finished"],
            times={what: Spread(**spread) for what, spread in told["times"].items()},
            faults=told["faults"],
            peak_mb=told["peak_mb"],
            cpu_ms=told["cpu_ms"],
            server_cpu=told["server_cpu"],
            client_cpu=told["client_cpu"],
        )

    def row(self, peer: Figures | None) -> tuple[str, ...]:
        beside = [f"{mine / theirs:.1f}" if theirs else "–" for mine, theirs in self._beside(peer)]
        return (
            WHO[self.who],
            str(self.setting.people),
            f"{self.setting.think:g}",
            f"{self.requests:.0f}",
            beside[0],
            f"{self.items:.1f}",
            beside[1],
            self._spread("load"),
            self._spread("save"),
            f"{self.times['enter'].p99:.0f}",
            f"{self.peak_mb:.0f}",
            f"{self.cpu_ms:.2f}",
            f"{self.server_cpu:.2f}",
            f"{self.client_cpu:.2f}",
        )

    def _beside(self, peer: Figures | None) -> list[tuple[float, float]]:
        return [(self.requests, peer.requests if peer else 0.0), (self.items, peer.items if peer else 0.0)]

    def _spread(self, what: str) -> str:
        found = self.times.get(what)
        return f"{found.p50:.1f} / {found.p99:.0f}" if found else "–"


class Bench:
    """The servers that can be had, and where their folders are made."""

    def __init__(self, scratch: Path, wanted: list[str], stack: ExitStack) -> None:
        self._scratch = scratch
        self._made = 0
        self.left_out: dict[str, str] = {}
        self._pythons = {name: self._installed(name) for name in (OTREE, POTATO) if name in wanted}
        self._bundle = scratch / "bundle"
        ours.write(self._bundle)
        if POSTGRES in wanted and postgres.binaries() is None:
            self.left_out[POSTGRES] = "PostgreSQL is not installed here"
        elif POSTGRES in wanted:
            self._port = stack.enter_context(postgres.postgres(scratch / "postgres"))
        self.who = [name for name in wanted if name not in self.left_out]

    def _installed(self, name: str) -> Path | None:
        python = peers.interpreter(name)
        if python is None:
            self.left_out[name] = "it could not be installed; run again with a network"
        return python

    def server(self, who: str, people: int) -> AbstractContextManager[Server]:
        self._made += 1
        folder = self._scratch / f"{who}{self._made}"
        python = self._pythons.get(who)
        if who == OTREE and python:
            return servers.otree(python, folder, people)
        if who == POTATO and python:
            return servers.potato(python, folder)
        database = postgres.database(self._port, f"bench{self._made}") if who == POSTGRES else ""
        return servers.stillme(self._bundle, folder, database)

    def measure(self, who: str, setting: Setting) -> Figures:
        with self.server(who, setting.people + 20 + int(2 * setting.seconds)) as server:
            order = {**asdict(setting), "walk": WALK[who], "base": server.base, "server": server.pid}
            command = [*pinned(LOAD_CORE), sys.executable, "-m", "bench.study.load", json.dumps(order)]
            patience = setting.seconds + setting.ramp + PATIENCE
            done = subprocess.run(command, capture_output=True, text=True, cwd=peers.ROOT, timeout=patience)
            if done.returncode:
                raise NotUpError(f"{WHO[who]}: {done.stderr[-2000:]}")
        return Figures.of(who, setting, json.loads(done.stdout))

    def weigh(self, who: str) -> Weight:
        with self.server(who, 2) as server:
            return pages.weigh(WALK[who], server.base)


def settings(quick: bool, seconds: float) -> list[Setting]:
    if quick:
        return [Setting(30, 0, 3, 0), Setting(100, 0, 4, 0), Setting(100, 1, 4, 3)]
    paced = [Setting(100, think, max(seconds, 4 * think), 6 * max(1.0, think / 2)) for think in (1.0, 5.0)]
    return [*(Setting(people, 0, seconds, 0) for people in (1, 30, 100)), *paced]


def measure(wanted: list[str], chosen: list[Setting]) -> bool:
    """Prints the tables and what the targets come to; whether all that were measured are met."""
    with scratch() as folder, ExitStack() as stack:
        bench = Bench(folder, wanted, stack)
        found = [figures for setting in chosen for figures in together(bench, setting)]
        weights = {who: bench.weigh(who) for who in bench.who if who not in (SINGLY, POSTGRES)}
    text = [figures_table(found), "", weights_table(weights), ""]
    text += [f"{WHO[who]} is left out: {why}" for who, why in bench.left_out.items()]
    checks = list(judged(found, weights))
    text += [f"{WORDS[is_met]:14}{said}" for said, is_met in checks]
    tell("\n".join(text), found, weights)
    left_out = [f"{WHO[who]} is left out: {why}" for who, why in bench.left_out.items()]
    versions = dict(WHO[who].split() for who in (OTREE, POTATO))
    figures.write("study", rows(found, weights), SHOWS, DOES_NOT_SHOW, versions, left_out)
    return all(is_met is not False for _, is_met in checks)


def together(bench: Bench, setting: Setting) -> Iterator[Figures]:
    """All servers under one load, one after the other: what else the machine does changes with time."""
    for who in bench.who:
        if who == SINGLY and setting.people == 1 and not setting.think:
            continue  # a session may ask 50 times a second
        found = bench.measure(who, setting)
        print("  ".join(found.row(None)), dict(found.faults) or "", flush=True)
        yield found


def figures_table(found: list[Figures]) -> str:
    peers_by = {one.setting: one for one in found if one.who == OTREE}
    return table(HEAD, [one.row(peers_by.get(one.setting)) for one in found], right=set(range(1, len(HEAD))))


def weights_table(weights: Mapping[str, Weight]) -> str:
    head = (
        "the rating page, without pictures",
        "HTML",
        "gzip",
        "with scripts and styles",
        "gzip",
        "sent",
        "files",
    )
    rows = []
    for who, one in weights.items():
        sizes = (one.html, one.html_gz, one.whole, one.whole_gz, one.sent)
        rows.append((WHO[who], *(f"{size / 1000:.1f} KB" for size in sizes), str(one.files)))
    return table(head, rows, right=set(range(1, len(head))))


def judged(found: list[Figures], weights: Mapping[str, Weight]) -> Iterator[Check]:
    for who in (OURS, SINGLY):
        mine = [one for one in found if one.who == who]
        yield from _beside_otree(mine, found)
        for one in (one for one in mine if one.setting.think):
            worst = max(one.times[what].p99 for what in ("load", "save"))
            said = f"p99 {worst:.0f} ms, {one.setting.people} participants, {one.setting.think:g} s a page"
            yield f"{WHO[who]}: {said} (target {P99_MS:g})", worst <= P99_MS
        if mine:
            peak = max(one.peak_mb for one in mine)
            yield f"{WHO[who]}: peak {peak:.0f} MB (target {PEAK_MB:g})", peak <= PEAK_MB
            faults = {fault: n for one in mine for fault, n in one.faults.items()}
            yield f"{WHO[who]}: no request failed {faults or ''}", not faults
    if OURS in weights:
        heavy = weights[OURS].sent / 1000
        said = f"the rating page with scripts and styles, as sent: {heavy:.1f} KB (target {PAGE_KB:g})"
        yield said, heavy <= PAGE_KB


def rows(found: list[Figures], weights: Mapping[str, Weight]) -> Iterator[Row]:
    theirs = {(one.who, one.setting): one for one in found}
    for one in (one for one in found if one.who in (OURS, SINGLY, POSTGRES)):
        pause = f"{one.setting.think:g} s a page" if one.setting.think else "no pause"
        told = f"{WHO[one.who]}; {one.setting.people} people, {pause}"
        for peer in (theirs[who, one.setting] for who in (OTREE, POTATO) if (who, one.setting) in theirs):
            requests = figures.rate(f"{told}: requests", one.requests, "a second", WHO[peer.who], peer.requests)
            yield requests.times(TIMES_OTREE) if peer.who == OTREE and _is_busiest(one) else requests
            yield figures.rate(f"{told}: items", one.items, "a second", WHO[peer.who], peer.items)
            if "save" in one.times and "save" in peer.times:
                saves = (side.times["save"].p99 for side in (one, peer))
                yield figures.cost(f"{told}: p99 of a save", next(saves), "ms", WHO[peer.who], next(saves))
        if _is_busiest(one) and (OTREE, one.setting) not in theirs:  # a target does not vanish with its peer
            yield figures.rate(f"{told}: requests", one.requests, "a second", WHO[OTREE]).times(TIMES_OTREE)
        if one.setting.think and one.who != POSTGRES:
            worst = max(one.times[what].p99 for what in ("load", "save"))
            yield figures.cost(f"{told}: p99", worst, "ms").at_most(P99_MS)
    yield from _sizes(found, weights)


def _is_busiest(one: Figures) -> bool:
    return one.who != POSTGRES and one.setting.people == 100 and not one.setting.think


def _sizes(found: list[Figures], weights: Mapping[str, Weight]) -> Iterator[Row]:
    for who in (OURS, SINGLY):
        peaks = [one.peak_mb for one in found if one.who == who]
        if peaks:
            yield figures.cost(f"{WHO[who]}: peak memory", max(peaks), "MB").at_most(PEAK_MB)
    for who in (who for who in (OTREE, POTATO) if OURS in weights):
        sent = weights[who].sent / 1000 if who in weights else None
        page = figures.cost(
            "the rating page without pictures, as sent", weights[OURS].sent / 1000, "KB", WHO[who], sent
        )
        yield page.at_most(PAGE_KB)


def _beside_otree(mine: list[Figures], found: list[Figures]) -> Iterator[Check]:
    busiest = [one for one in mine if not one.setting.think and one.setting.people == 100]
    theirs = {one.setting: one for one in found if one.who == OTREE}
    for one in busiest:
        peer = theirs.get(one.setting)
        said = f"{WHO[one.who]}: {one.requests:.0f} requests/s at 100 participants"
        if peer is None:
            yield f"{said}; oTree was not measured", None
        else:
            ratio = one.requests / peer.requests
            yield f"{said}, {ratio:.1f} times oTree's (target {TIMES_OTREE:g})", ratio >= TIMES_OTREE


def tell(text: str, found: list[Figures], weights: Mapping[str, Weight]) -> None:
    print(f"\n{text}")
    (peers.OUT / "study.txt").write_text(text + "\n", encoding="utf-8")
    data = {"figures": [asdict(one) for one in found], "pages": {who: asdict(one) for who, one in weights.items()}}
    (peers.OUT / "study-all.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


@contextmanager
def scratch() -> Iterator[Path]:
    """On a disk, where a temporary folder may be memory; open to PostgreSQL's own user."""
    peers.OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=peers.OUT) as name:
        Path(name).chmod(0o755)
        yield Path(name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smoke run of a minute or two")
    parser.add_argument("--only", default=",".join(WHO))
    parser.add_argument("--seconds", type=float, default=15.0, help="that a load lasts")
    asked = parser.parse_args()
    wanted = [name for name in WHO if name in asked.only.split(",")]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    try:
        return int(not measure(wanted, settings(asked.quick, asked.seconds)))
    except NotUpError as error:
        print(error, file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
