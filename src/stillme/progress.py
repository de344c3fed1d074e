"""What a person sees while work goes on: a live block in a terminal, plain lines elsewhere, events for scripts."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO

from stillme.records import Status

if TYPE_CHECKING:
    from rich.live import Live

EVERY = 5.0  # seconds between plain lines


@dataclass
class Stage:
    """One stage of a run and how far it is. Counted from several threads."""

    name: str
    total: int
    already: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    cost_usd: float = 0.0
    started: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, status: Status, cost_usd: float = 0.0) -> None:
        with self._lock:
            self.counts[status.value] += 1
            self.cost_usd += cost_usd

    @property
    def done(self) -> int:
        return sum(self.counts.values())

    @property
    def rate(self) -> float:
        return self.done / max(time.monotonic() - self.started, 1e-6)

    @property
    def left_seconds(self) -> float | None:
        return (self.total - self.done) / self.rate if self.done else None

    def line(self) -> str:
        """done, refused, failed, rate, time left, cost: in one line."""
        parts = [f"{self.name}: {self.already + self.done:,} of {self.already + self.total:,}"]
        parts += [
            f"{number:,} {Status(word).label}" for word, number in sorted(self.counts.items()) if word != Status.OK
        ]
        if self.done:
            parts.append(f"{self.rate:,.0f}/s")
        if self.left_seconds and self.done < self.total:
            parts.append(f"{_minutes(self.left_seconds)} left")
        if self.cost_usd:
            parts.append(f"{self.cost_usd:,.2f} USD")
        return ", ".join(parts)


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


class Progress:
    """Shows stages. `mode`: live (a terminal), plain (lines), json (one event a line), none."""

    def __init__(self, mode: str = "none", out: TextIO | None = None) -> None:
        self.mode = mode
        self.out = out or sys.stdout

    @classmethod
    def fitting(cls, as_json: bool = False) -> Progress:
        """Live in a terminal, plain lines otherwise."""
        if as_json:
            return cls("json", sys.stderr)
        return cls("live" if sys.stdout.isatty() else "plain")

    def say(self, text: str) -> None:
        if self.mode in ("live", "plain"):
            print(text, file=self.out, flush=True)
        elif self.mode == "json":
            print(json.dumps({"event": "note", "text": text}), file=self.out, flush=True)

    @contextmanager
    def stages(self, name: str, totals: Mapping[str, tuple[int, int]]) -> Iterator[dict[str, Stage]]:
        """Several stages at once, a line each: part -> how many are to do, how many are done."""
        made = {part: Stage(f"{name}, {part}", todo, done) for part, (todo, done) in totals.items()}
        left = {part: stage for part, stage in made.items() if stage.total}
        if not left:
            self.say(f"{name}: {sum(done for _, done in totals.values()):,} done, nothing to do")
            yield made
            return
        with self._shown(list(left.values())):
            yield made

    @contextmanager
    def stage(self, name: str, total: int, already: int = 0) -> Iterator[Stage]:
        stage = Stage(name, total, already)
        if not total:
            self.say(f"{name}: {already:,} done, nothing to do")
            yield stage
            return
        with self._shown([stage]):
            yield stage

    @contextmanager
    def _shown(self, stages: Sequence[Stage]) -> Iterator[None]:
        over = threading.Event()
        shower = threading.Thread(target=self._show, args=(stages, over), daemon=True)
        shower.start()
        try:
            yield
        finally:
            over.set()
            shower.join()

    def _show(self, stages: Sequence[Stage], over: threading.Event) -> None:
        if self.mode == "live":
            self._show_live(stages, over)
            return
        while not over.wait(EVERY):
            self._print_all(stages)
        self._print_all(stages)

    def _print_all(self, stages: Sequence[Stage]) -> None:
        for stage in stages:
            self._print(stage)

    def _print(self, stage: Stage) -> None:
        if self.mode == "plain":
            self.say(stage.line())
        elif self.mode == "json":
            event = {"event": "stage", "name": stage.name, "total": stage.total + stage.already}
            event |= {"done": stage.done + stage.already, "counts": dict(stage.counts), "cost_usd": stage.cost_usd}
            print(json.dumps(event), file=self.out, flush=True)

    def _show_live(self, stages: Sequence[Stage], over: threading.Event) -> None:
        from rich.live import Live

        with Live(refresh_per_second=8, transient=False) as live:
            while not over.wait(0.125):
                _draw(live, stages)
            _draw(live, stages)


def _draw(live: Live, stages: Sequence[Stage]) -> None:
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    rows = Table.grid(padding=(0, 2))
    for stage in stages:
        rows.add_row(ProgressBar(stage.total, stage.done, width=28), stage.line())
    live.update(rows)
