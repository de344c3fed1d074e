"""A long run over every target: counts what was tried and keeps what crashed.

python -m tests.fuzz [--share 1.0] [--seed 0] [--only WORD] [--keep fuzz-crashes]

An input is one call of one parser; inputs that came up before are not counted again.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

import stillme
from tests.fuzz.target import Feed, Target
from tests.fuzz.targets import TARGETS

OURS = Path(stillme.__file__).parent


@dataclass
class Told:
    """What came of a target. `crashes`: where and what was raised -> its words, and one input that gave it."""

    name: str
    inputs: int = 0
    seconds: float = 0.0
    crashes: dict[str, tuple[str, bytes]] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name:34} {self.inputs:>8,} inputs  {len(self.crashes):>3} crashes  {self.seconds:6.1f} s"


def tried(target: Target, tries: int, seed: str, folder: Path) -> Told:
    told, seen = Told(target.name), set[bytes]()
    chance, started = random.Random(f"{seed} {target.name}"), time.perf_counter()
    with target.opened(folder) as (made, feed):
        for _ in range(tries):
            content = made(chance)
            known = hashlib.blake2b(content, digest_size=8).digest()
            if known not in seen:
                seen.add(known)
                try_one(feed, content, told)
    told.inputs, told.seconds = len(seen), time.perf_counter() - started
    return told


def try_one(feed: Feed, content: bytes, told: Told) -> None:
    try:
        feed(content)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of a library written in Rust is no Exception
        told.crashes.setdefault(_where(error), (str(error)[:200], content))


def _where(error: BaseException) -> str:
    """What was raised, and the last line of ours that it came through."""
    frames = [one for one in traceback.extract_tb(error.__traceback__) if Path(one.filename).is_relative_to(OURS)]
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "in the test"
    return f"{place} {type(error).__name__}"


def keep(folder: Path, told: Told) -> None:
    for place, (said, content) in told.crashes.items():
        folder.mkdir(parents=True, exist_ok=True)
        path = (
            folder / f"{told.name.replace(' ', '-').replace(':', '')}-{hashlib.sha256(content).hexdigest()[:12]}"
        )
        path.write_bytes(content)
        print(f"    {place}: {said}\n      {path} ({len(content):,} bytes)")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="of the usual number of inputs")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--only", default="", help="targets whose name holds this")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-crashes"), help="folder for inputs that crash")
    asked = parser.parse_args()
    every = []
    with tempfile.TemporaryDirectory(prefix="stillme-fuzz-") as scratch:
        for place, target in enumerate(one for one in TARGETS if asked.only in one.name):
            told = tried(target, max(1, int(target.tries * asked.share)), asked.seed, Path(scratch) / str(place))
            print(told, flush=True)
            keep(asked.keep, told)
            every.append(told)
    crashes = sum(len(one.crashes) for one in every)
    inputs, seconds = sum(one.inputs for one in every), sum(one.seconds for one in every)
    print(f"{len(every)} targets, {inputs:,} inputs, {crashes} crashes, {seconds:.0f} s (seed {asked.seed})")
    return int(crashes > 0)


if __name__ == "__main__":
    sys.exit(main())
