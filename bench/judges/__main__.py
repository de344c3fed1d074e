"""2,000 two-image calls through the whole judging step, beside the openai SDK and inspect_ai's `Model.generate`.

    python -m bench.judges [--calls 2000] [--long 20000] [--no-peers] [--rounds 3]

A service on loopback answers every call after 200 ms. Each client runs in a process of its own, with 64 and with
256 calls at a time; the limit is one wave of calls every 200 ms. Ours checks, and records durably, what it hears;
the peers check it, and a bare loop shows what the machine allows at best. The peers are installed into
bench/out/judges-venv at the first run, which needs a network.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench import figures
from bench.figures import Row
from bench.judges import ours
from bench.judges.server import ROOT, serving
from bench.judges.switches import Switches

LATENCY = 0.2
WAYS = (64, 256)  # calls at a time
PEERS = Path(__file__).with_name("peers")
PLACE = ROOT / "bench" / "out" / "judges-venv"
OURS, BARE, SDK, INSPECT = "stillme", "bare aiohttp loop", "openai SDK", "inspect_ai Model.generate"
SCRIPTS = {BARE: "bare.py", SDK: "openai_sdk.py", INSPECT: "inspect_model.py"}
OF_THE_LIMIT = {64: 0.95, 256: 0.70}
WORDS = {True: "met", False: "NOT MET", None: ""}
CPU_MS, PEAK_MB, FLAT, BESIDE_INSPECT = 1.2, 130.0, 1.05, 2.5
SHOWS = (
    "Two-image calls of 200 ms through the whole judging step, beside the openai SDK, inspect_ai and a bare loop."
)
DOES_NOT_SHOW = (
    "a real service: it is on loopback, in a process that takes a share of the same cores.",
    "an equal effort: ours also checks pictures and records durably; the peers read, ask and check; the bare loop "
    "keeps nothing and shows what the machine allows at best.",
    "what the machine would allow at 256: the bare loop may miss 70 % of the limit there too.",
)

Check = tuple[str, bool | None]  # None: no target was set


@dataclass(frozen=True)
class Figures:
    """One client's run."""

    calls: int
    concurrency: int
    answered: int
    wall_s: float
    cpu_s: float
    before_mb: float
    peak_mb: float

    @property
    def rate(self) -> float:
        return self.calls / self.wall_s

    @property
    def of_the_limit(self) -> float:
        """Whole waves: the last one takes as long as any other."""
        return math.ceil(self.calls / self.concurrency) * LATENCY / self.wall_s

    @property
    def cpu_ms(self) -> float:
        return 1000 * self.cpu_s / self.calls


def measure(calls: int, long: int, peers: bool, rounds: int) -> bool:
    """Prints the table and what the targets come to; whether all that were measured are met."""
    python = interpreter() if peers else None
    with tempfile.TemporaryDirectory(dir=scratch()) as folder:
        short = Path(folder) / "short"
        ours.prepare(short, calls)
        found: dict[tuple[str, int], Figures] = {}
        print(f"{calls:,} calls, {LATENCY * 1000:g} ms each; the middle one of {rounds} rounds by time")
        print(f"{'':28}{'at a time':>10}{'calls/s':>10}{'of limit':>10}{'CPU ms':>10}{'peak MB':>10}")
        for concurrency in WAYS:
            for client in (OURS, BARE, *((SDK, INSPECT) if python else ())):
                one = middle([run(client, python, short, calls, concurrency) for _ in range(rounds)])
                found[client, concurrency] = one
                print(row(client, one), flush=True)
        checks, flat = judged(found), list[Row]()
        if long:
            one = over_many(Path(folder), long)
            checks += flatness(found[OURS, WAYS[0]], one)
            flat = flat_rows(found[OURS, WAYS[0]], one)
    for text, is_met in checks:
        print(f"{WORDS[is_met]:8}{text}")
    names = ("openai", "inspect_ai", "inspect-ai")
    versions = figures.pinned(PEERS / "pins.txt", only=names) if python else {}
    left_out = [] if python else ["The openai SDK and inspect_ai were left out."]
    figures.write("judges", [*rows(found), *flat], SHOWS, DOES_NOT_SHOW, versions, left_out)
    return all(is_met is not False for _, is_met in checks)


def run(client: str, python: Path | None, folder: Path, calls: int, concurrency: int) -> Figures:
    """One client, in a process of its own, against a service of its own."""
    with (
        serving(Switches(latency_s=LATENCY, plain=True)) as server,
        tempfile.TemporaryDirectory(dir=folder) as own,
    ):
        if client == OURS:
            told = [str(ours.copied(folder, Path(own))), server.openai_url, str(concurrency), str(calls)]
            command = [sys.executable, "-m", "bench.judges.ours", *told]
        else:
            task = {"url": server.openai_url, "concurrency": concurrency, "folder": str(folder)}
            own_python = sys.executable if client == BARE else str(python)
            command = [own_python, str(PEERS / SCRIPTS[client]), json.dumps(task)]
        said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT).stdout
    figures = Figures(calls, concurrency, **json.loads(said.splitlines()[-1]))
    assert figures.answered == calls, f"{client} has {figures.answered} of {calls} answers"
    return figures


def middle(figures: list[Figures]) -> Figures:
    walls = [one.wall_s for one in figures]
    return figures[walls.index(statistics.median_low(walls))]


def row(client: str, one: Figures) -> str:
    shares = f"{one.concurrency:>10}{one.rate:>10.0f}{one.of_the_limit:>10.1%}"
    return f"{client:28}{shares}{one.cpu_ms:>10.2f}{one.peak_mb:>10.0f}"


def judged(found: dict[tuple[str, int], Figures]) -> list[Check]:
    checks: list[Check] = []
    for concurrency in WAYS:
        one = found[OURS, concurrency]
        share, target = one.of_the_limit, OF_THE_LIMIT[concurrency]
        checks += [
            (f"at {concurrency}: {share:.1%} of the limit (target {target:.0%})", share >= target),
            (f"at {concurrency}: {one.cpu_ms:.2f} ms CPU a call (target {CPU_MS})", one.cpu_ms <= CPU_MS),
            (f"at {concurrency}: peak {one.peak_mb:.0f} MB (target {PEAK_MB:g})", one.peak_mb <= PEAK_MB),
        ]
        for peer in SCRIPTS:
            if (peer, concurrency) in found:
                ratio = one.rate / found[peer, concurrency].rate
                is_told = (peer, concurrency) == (INSPECT, 64)
                target_told = f" (target {BESIDE_INSPECT})" if is_told else ""
                text = f"at {concurrency}: {ratio:.1f} times the rate of {peer}{target_told}"
                checks.append((text, ratio >= BESIDE_INSPECT if is_told else None))
    return checks


def rows(found: Mapping[tuple[str, int], Figures]) -> Iterator[Row]:
    for concurrency in WAYS:
        one, at = found[OURS, concurrency], f"at {concurrency}"
        limit = figures.rate(f"{at}: share of the limit", one.of_the_limit, "")
        yield limit.at_least(OF_THE_LIMIT[concurrency])
        yield figures.cost(f"{at}: CPU a call", one.cpu_ms, "ms").at_most(CPU_MS)
        yield figures.cost(f"{at}: peak memory", one.peak_mb, "MB").at_most(PEAK_MB)
        if concurrency == 64 and (INSPECT, 64) not in found:  # a target does not vanish with its peer
            yield figures.rate(f"{at}: calls", one.rate, "a second", INSPECT).times(BESIDE_INSPECT)
        for peer in (peer for peer in SCRIPTS if (peer, concurrency) in found):
            theirs = found[peer, concurrency]
            calls = figures.rate(f"{at}: calls", one.rate, "a second", peer, theirs.rate)
            yield calls.times(BESIDE_INSPECT) if (peer, concurrency) == (INSPECT, 64) else calls
            yield figures.cost(f"{at}: CPU a call", one.cpu_ms, "ms", peer, theirs.cpu_ms)
            yield figures.cost(f"{at}: peak memory", one.peak_mb, "MB", peer, theirs.peak_mb)


def flat_rows(short: Figures, many: Figures) -> list[Row]:
    name = f"peak memory over {many.calls:,} calls, over that of {short.calls:,}"
    return [figures.cost(name, many.peak_mb / short.peak_mb, "").at_most(FLAT)]


def over_many(folder: Path, calls: int) -> Figures:
    """Ours with many more calls, for its memory."""
    ours.prepare(folder / "long", calls)
    one = run(OURS, None, folder / "long", calls, WAYS[0])
    print(row(f"{OURS}, {calls:,} calls", one))
    return one


def flatness(short: Figures, one: Figures) -> list[Check]:
    """Memory over ten times as many calls."""
    grown = one.peak_mb / short.peak_mb
    text = " and ".join(
        f"{some.peak_mb:.0f} MB over {some.calls:,} calls, of which {some.before_mb:.0f} before the first"
        for some in (short, one)
    )
    return [(f"peak {text} (target: at most {FLAT - 1:.0%} more)", grown <= FLAT)]


def interpreter() -> Path | None:
    """The peers' own Python, made with the peers when it is first needed; None where that fails."""
    pins = (PEERS / "pins.txt").read_text(encoding="utf-8")
    python, ready = PLACE / "bin" / "python", PLACE / "pins.txt"
    if ready.is_file() and ready.read_text(encoding="utf-8") == pins:
        return python
    venv.create(PLACE, with_pip=True, clear=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "--requirement", str(PEERS / "pins.txt")]
    if subprocess.run(command).returncode:
        print("The peers could not be installed; ours is measured alone.")
        return None
    ready.write_text(pins, encoding="utf-8")
    return python


def scratch() -> Path:
    """On a disk, where a temporary folder may be memory."""
    place = ROOT / "bench" / "out"
    place.mkdir(exist_ok=True)
    return place


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--long", type=int, default=20000, help="calls of the memory run; 0 leaves it out")
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    return int(not measure(chosen.calls, chosen.long, chosen.peers, chosen.rounds))


if __name__ == "__main__":
    sys.exit(main())
