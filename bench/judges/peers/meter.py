"""What every client shares: the calls that are to be made, the answer that counts, and the meter.

Run by the interpreter of each side, so it imports nothing of either.
"""

from __future__ import annotations

import base64
import json
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Task:
    """Where the service is, how many calls at a time, and what is asked, from files in `folder`."""

    url: str
    concurrency: int
    folder: Path

    @classmethod
    def told(cls) -> Task:
        return cls(**{**json.loads(sys.argv[1]), "folder": Path(json.loads(sys.argv[1])["folder"])})

    @property
    def schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = json.loads((self.folder / "schema.json").read_text(encoding="utf-8"))
        return schema

    def jobs(self) -> Iterator[dict[str, str]]:
        with (self.folder / "jobs.jsonl").open(encoding="utf-8") as file:
            yield from map(json.loads, file)


def picture(path: str) -> str:
    """As it goes into a body."""
    return "data:image/jpeg;base64," + base64.b64encode(Path(path).read_bytes()).decode("ascii")


def is_valid(content: str | None, axes: list[str]) -> bool:
    """A point of the scale for every axis."""
    try:
        scores = json.loads(content or "")["scores"]
        return sorted(scores) == sorted(axes) and all(score in range(1, 6) for score in scores.values())
    except (ValueError, KeyError, TypeError):
        return False


class Meter:
    """Wall, CPU and peak memory of this process, from the first call to the last; one line of JSON."""

    def __init__(self) -> None:
        self._before, self._clock, self._cpu = _peak_mb(), time.perf_counter(), _cpu()

    def tell(self, answered: int) -> None:
        wall, cpu = time.perf_counter() - self._clock, _cpu() - self._cpu
        told = {"answered": answered, "wall_s": wall, "cpu_s": cpu, "before_mb": self._before}
        print(json.dumps({**told, "peak_mb": _peak_mb()}), flush=True)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _peak_mb() -> float:
    """Of this program alone: what getrusage says begins with the memory of whoever started it."""
    status = Path("/proc/self/status")
    if not status.is_file():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024
