"""What a person sees while work goes on: a live block in a terminal, plain lines elsewhere, events for scripts."""

from __future__ import annotations

import json
import math
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO

from stillme.core.records import Status

if TYPE_CHECKING:
    from rich.console import Group

LINE_INTERVAL_S = 5.0  # between plain lines: often enough to see life, rarely enough for a log
MIN_CALLS_FOR_ESTIMATE = 20  # before, too few costs are known to say what all will cost
_BAR, _COLUMNS = 10, 100  # the width of a bar, and of everything
_WAYS = {"input": "on the way in", "output": "on the way out", "model": "in the model's own words"}
_UNREADABLE = frozenset({Status.NO_FACE, Status.TOO_SMALL, Status.PROFILE, Status.GREYSCALE})


@dataclass
class Stage:
    """One stage of a run, or an editor's part of it, and how far it is. Counted from several threads."""

    name: str
    total: int
    already: int = 0
    part: str = ""
    kind: str = "editor"  # what a part is
    counts: Counter[str] = field(default_factory=Counter)
    cost_usd: float = 0.0
    _squares: float = 0.0
    started: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, status: Status, cost_usd: float = 0.0) -> None:
        with self._lock:
            self.counts[status.value] += 1
            self.cost_usd += cost_usd
            self._squares += cost_usd**2

    @property
    def done(self) -> int:
        return sum(self.counts.values())

    @property
    def rate(self) -> float:
        return self.done / max(time.monotonic() - self.started, 1e-6)

    @property
    def left_seconds(self) -> float | None:
        return (self.total - self.done) / self.rate if self.done else None

    @property
    def progress(self) -> str:
        return f"{self.already + self.done:,} of {self.already + self.total:,}"

    @property
    def pace(self) -> str:
        return _format_rate(self.rate) if self.done else ""

    @property
    def left(self) -> str:
        return (
            f"{_format_duration(self.left_seconds)} left" if self.left_seconds and self.done < self.total else ""
        )

    @property
    def cost(self) -> str:
        return f"{self.cost_usd:,.2f} USD" if self.cost_usd else ""

    @property
    def outlay(self) -> str:
        """What all of it will cost, once that is known."""
        if not self.cost_usd or self.expected_usd is None or self.done >= self.total:
            return ""
        return "about {:,.2f} ± {:,.2f} USD in all".format(*self.expected_usd)

    @property
    def expected_usd(self) -> tuple[float, float] | None:
        """What this stage will have cost, by what its calls cost so far, and how far off that may be."""
        done = self.done
        if done < MIN_CALLS_FOR_ESTIMATE:
            return None
        left, mean = self.total - done, self.cost_usd / done
        variance = max(0.0, self._squares / done - mean**2) * done / (done - 1)
        expected = self.cost_usd + left * mean
        return expected, 1.96 * math.sqrt(variance * (left + left**2 / done))

    def line(self) -> str:
        """done, refused, failed, rate, time left, cost: in one line."""
        name = f"{self.name}, {self.part}" if self.part else self.name
        parts = (
            f"{name}: {self.progress}",
            *describe_failures(self.counts),
            self.pace,
            self.left,
            self.cost,
            self.outlay,
        )
        return ", ".join(part for part in parts if part)

    def event(self) -> dict[str, object]:
        """The same for scripts."""
        label = {"event": "stage", "name": self.name} | ({self.kind: self.part} if self.part else {})
        refused, failed = _split_counts(self.counts)[:2]
        return label | {
            "total": self.total + self.already,
            "done": self.done + self.already,
            "counts": dict(self.counts),
            "refused": sum(refused.values()),
            "failed": sum(failed.values()),
            "per_second": round(self.rate, 3),
            "seconds_left": None if self.left_seconds is None else round(self.left_seconds, 1),
            "cost_usd": self.cost_usd,
            "expected_usd": None if self.expected_usd is None else round(self.expected_usd[0], 6),
        }


def describe_failures(counts: Mapping[str, int]) -> tuple[str, ...]:
    """Refusals, failures and pictures that could not be read, each described; those that there are.

    >>> told_apart({"ok": 9, "input_blocked": 8, "output_blocked": 4, "timeout": 2})
    ('12 refused (8 on the way in, 4 on the way out)', '2 failed (timeout)')
    """
    refused, failed, unread = _split_counts(counts)
    parts = []
    if refused:
        stages = {status.stage: number for status, number in refused.items()}
        ways = ", ".join(f"{stages[stage]:,} {way}" for stage, way in _WAYS.items() if stage in stages)
        # Where all refusals are the model's own words, which is usual, nothing is said of where they happened.
        where = "" if set(refused) == {Status.REFUSED} else f" ({ways})"
        parts.append(f"{sum(refused.values()):,} refused{where}")
    if failed:
        kinds = ", ".join(f"{number:,} {status.label}" for status, number in failed.items())
        kinds = next(iter(failed)).label if len(failed) == 1 else kinds
        parts.append(f"{sum(failed.values()):,} failed ({kinds})")
    return (*parts, *(f"{number:,} {status.label}" for status, number in unread.items()))


_Counts = dict[Status, int]


def _split_counts(counts: Mapping[str, int]) -> tuple[_Counts, _Counts, _Counts]:
    """Refusals, failures, what could not be read: in the order of the closed list."""
    all_counts: _Counts = {s: counts[s.value] for s in Status if s is not Status.OK and counts.get(s.value)}
    refused = {status: number for status, number in all_counts.items() if status.stage}
    unread = {status: number for status, number in all_counts.items() if status in _UNREADABLE}
    failed = {status: n for status, n in all_counts.items() if status not in refused and status not in unread}
    return refused, failed, unread


def _format_rate(rate: float) -> str:
    """
    >>> _format_rate(12.4), _format_rate(0.05), _format_rate(0.002)
    ('12/s', '3/min', '7/h')
    """
    for unit, seconds in (("s", 1), ("min", 60)):
        if rate * seconds >= 1:
            return f"{rate * seconds:,.0f}/{unit}"
    return f"{rate * 3600:,.0f}/h"


def _format_duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


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
    def stages(
        self, name: str, totals: Mapping[str, tuple[int, int]], kind: str = "editor"
    ) -> Iterator[dict[str, Stage]]:
        """Several stages at once, a line each: part -> how many are to do, how many are done."""
        all_stages = {part: Stage(name, todo, done, part, kind) for part, (todo, done) in totals.items()}
        pending = [stage for stage in all_stages.values() if stage.total]
        if not pending:
            self.say(f"{name}: {sum(done for _, done in totals.values()):,} done, nothing to do")
            yield all_stages
            return
        with self._shown(pending):
            yield all_stages

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
        show = self._show_live if self.mode == "live" else self._show_lines
        thread = threading.Thread(target=show, args=(stages, over), daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _show_live(self, stages: Sequence[Stage], over: threading.Event) -> None:
        from rich.live import Live

        with Live(refresh_per_second=8, transient=False) as live:
            while not over.wait(0.125):
                live.update(_render_live(stages))
            live.update(_render_live(stages))

    def _show_lines(self, stages: Sequence[Stage], over: threading.Event) -> None:
        printed: dict[
            int, int
        ] = {}  # stage -> how much of it was printed: what has not moved is not printed again
        while not over.wait(LINE_INTERVAL_S):
            for index, stage in enumerate(stages):
                if printed.get(index) != stage.done:
                    printed[index] = stage.done
                    self._print(stage)
        for stage in stages:
            self._print(stage)

    def _print(self, stage: Stage) -> None:
        if self.mode == "plain":
            self.say(stage.line())
        elif self.mode == "json":
            print(json.dumps(stage.event()), file=self.out, flush=True)


def _render_live(stages: Sequence[Stage]) -> Group:
    """One line per stage; beneath, the cost of all and why calls were refused or failed. Fits 100 columns."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    rows = Table.grid(padding=(0, 2))
    cells = []
    for stage in stages:
        refused, failed, unread = _split_counts(stage.counts)
        counted = [(refused, "refused"), (failed, "failed"), (unread, "not read")]
        counts = ", ".join(f"{sum(some.values()):,} {word}" for some, word in counted if some)
        cells.append((stage.part or stage.name, stage.progress, counts, stage.pace, stage.left, stage.cost))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    name_width = max(8, _COLUMNS - _BAR - sum(widths[1:]) - 2 * len(widths))
    rows.add_column(no_wrap=True)
    rows.add_column(no_wrap=True)
    for _ in widths[1:]:
        rows.add_column(justify="right", no_wrap=True)
    for stage, (name, *others) in zip(stages, cells, strict=True):
        bar = ProgressBar(stage.total + stage.already, stage.done + stage.already, width=_BAR)
        rows.add_row(name if len(name) <= name_width else f"{name[: name_width - 1]}…", bar, *others)
    notes = []
    estimates = [stage.expected_usd for stage in stages if stage.cost_usd]
    known = [estimate for estimate in estimates if estimate]
    # What all stages will cost together, once that is known of each that costs something.
    if known and len(known) == len(estimates) and any(stage.done < stage.total for stage in stages):
        expected, error = sum(usd for usd, _ in known), math.hypot(*(error for _, error in known))
        notes.append(f"about {expected:,.2f} ± {error:,.2f} USD in all")
    total: Counter[str] = Counter()
    for stage in stages:
        total.update(stage.counts)
    return Group(rows, *(f"  {note}" for note in (*notes, *describe_failures(total))))
