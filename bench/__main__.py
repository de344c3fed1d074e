"""Runs the benches one after the other and writes bench/RESULTS.md: `make bench`.

    python -m bench [--only ledger,judges] [--quick] [--list]

Each is a process of its own that writes its figures to bench/out/NAME.json; the newest whole ones are kept in
bench/results.json, of which the page is made. One that cannot run says why, and its older figures stay, with their
date. `--quick`: a smoke run of each, small; its figures mean nothing and change no file. Missed targets are said
and are no failure; the exit code is 1 where a bench could not run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from bench import machine, page
from bench.figures import OUT, ROOT, Found
from bench.page import Kept

KEPT = ROOT / "bench" / "results.json"
PAGE = ROOT / "bench" / "RESULTS.md"
EDITORS = Path(os.environ.get("EDITORS_VENV", ".venv-editors")) / "bin" / "python"


@dataclass(frozen=True)
class Bench:
    """A command. `quick`: what makes it small; None where nothing does. `python`: whose, where not ours."""

    module: str
    words: tuple[str, ...] = ()
    quick: tuple[str, ...] | None = ()
    python: Path | None = None
    needs: Path | None = None
    how: str = ""  # to get what it needs


BENCHES: dict[str, Bench] = {
    "ledger": Bench("bench.ledger", quick=("--rows", "500", "--keys", "5000")),
    "sources": Bench("bench.sources", quick=("--rows", "600", "--only", "readers")),
    "measures": Bench("bench.measures", quick=("--only", "memory", "--pairs", "40")),
    "editors_remote": Bench(
        "bench.editors_remote",
        quick=("--edits", "64", "--latency", "0.05", "--rounds", "1", "--concurrency", "16"),
    ),
    "editors_local": Bench(
        "bench.editors_overhead", ("--only", "local"), None, EDITORS, how="`make bench` makes that environment."
    ),
    "judges": Bench("bench.judges", quick=("--calls", "64", "--long", "0", "--no-peers", "--rounds", "1")),
    "statistics": Bench("bench.statistics", quick=("--only", "coefficients", "--ratings", "3000")),
    "recovery": Bench("bench.recovery", ("--jobs", "2"), ("--sets", "20")),
    "study": Bench("bench.study", quick=("--quick", "--only", "stillme")),
    "report": Bench("bench.report", quick=("--edits", "5040")),
    "report_demo": Bench(
        "bench.report", ("--run", "demo/run"), None, needs=ROOT / "demo/run", how="`make demo` makes one."
    ),
}


def main(arguments: Sequence[str] | None = None, benches: Mapping[str, Bench] = BENCHES) -> int:
    given = _arguments(arguments, benches)
    if given.list:
        print("\n".join(benches))
        return 0
    names = [name for name in benches if name in given.only]
    failed = _smoke(names, benches) if given.quick else _measure(names, benches)
    for name, why in failed.items():
        print(f"{name} could not be run: {why}", file=sys.stderr)
    return int(bool(failed))


def _arguments(arguments: Sequence[str] | None, benches: Mapping[str, Bench]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(benches), metavar="NAMES")
    parser.add_argument("--quick", action="store_true", help="small, to see that they run")
    parser.add_argument("--list", action="store_true", help="say their names")
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.only if name not in benches]:
        parser.error(f"there is no bench {', '.join(unknown)}; there are {', '.join(benches)}")
    return given


def _measure(names: Sequence[str], benches: Mapping[str, Bench]) -> dict[str, str]:
    """Bench -> why it could not be run. The page is written after each: hours are not lost at the last one."""
    kept, failed = read(), {}
    for name in names:
        print(f"bench.{name}", flush=True)
        load = machine.load()
        found = run(name, benches[name], benches[name].words)
        if isinstance(found, str):
            failed[name] = found
            if name in kept:
                said = f"on {datetime.now(UTC):%Y-%m-%d} it could not be run: {found}"
                kept[name] = replace(kept[name], failed=said)
        else:
            kept[name] = Kept(found, machine.described(), load)
        write(kept, list(benches))
    print(f"Written: bench/{PAGE.name}")
    return failed


def _smoke(names: Sequence[str], benches: Mapping[str, Bench]) -> dict[str, str]:
    failed = {}
    for name in names:
        few = benches[name].quick
        found = "there is no quick way" if few is None else run(name, benches[name], (*benches[name].words, *few))
        if few is None:
            print(f"bench.{name}: left out, {found}", flush=True)
        elif isinstance(found, str):
            failed[name] = found
        else:
            print(f"bench.{name}: runs; {len(found.rows)} figures, which mean nothing at this size", flush=True)
    return failed


def run(name: str, bench: Bench, words: Sequence[str]) -> Found | str:
    """What a bench found, or why it found nothing. What it says in between goes on to whoever waits."""
    for path in filter(None, (bench.python and ROOT / bench.python, bench.needs)):
        if not path.exists():
            return f"there is no {_public(str(path))}. {bench.how}".strip()
    path, started = OUT / f"{name}.json", time.time()
    path.unlink(missing_ok=True)
    python = str(ROOT / bench.python) if bench.python else sys.executable
    done = subprocess.run(
        [python, "-m", bench.module, *words], cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False
    )
    sys.stderr.write(done.stderr)
    if not path.is_file():
        lines = [line for line in done.stderr.strip().splitlines() if line.strip()]
        return f"it ended with {done.returncode}: {_public(lines[-1]) if lines else 'it said nothing'}"
    print(f"bench.{name}: {time.time() - started:.0f} s", flush=True)
    return Found.read(json.loads(path.read_text(encoding="utf-8")))


def _public(text: str) -> str:
    """Without what only this machine knows: its folders, addresses and names."""
    short = text.replace(f"{ROOT}/", "").replace(str(Path.home()), "~")
    short = re.sub(r"https?://\S+", "an address", short)
    return re.sub(r"(?<![\w.])/[\w.+-]+(?:/[\w.+-]+)+", "a file", short)[:300]


def read() -> dict[str, Kept]:
    if not KEPT.is_file():
        return {}
    return {name: Kept.read(told) for name, told in json.loads(KEPT.read_text(encoding="utf-8")).items()}


def write(kept: Mapping[str, Kept], names: Sequence[str]) -> None:
    told = {name: kept[name].plain() for name in names if name in kept}
    KEPT.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(page.results(kept, names), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
