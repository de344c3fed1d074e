"""bench/RESULTS.md: every target first, then bench by bench what it found, what it shows and what it does not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.figures import Found, Row, plain

WORDS = {True: "met", False: "**not met**", None: "not measured"}
# Ratios that were named as targets and are held by tests, which fail when they are missed
HELD = (
    ("each planted rate lies in its 95 % interval in at least 90 of 100 seeds", "tests/test_recovery.py"),
    ("audits in which nothing was planted claim something in at most 5 of 100", "tests/report/test_claims.py"),
    ("even refusals are called uneven in at most 5 % of 120 audits", "tests/stats/test_refusals.py"),
    ("at most 3 % of requests are wasted on a service that allows 100 a second", "tests/judges/test_storm.py"),
    ("paid repeats after 50 kills: at most the calls in flight", "tests/faults/test_judges_killed.py"),
    (
        "words that leak: precision and recall at least 0.95 over 200 prompts",
        "tests/plan/mitigation/test_linter_figures.py",
    ),
)
HEAD = """# Results

Ours beside its peers, each in the same run. A ratio says how many times better ours is (our rate over the peer's,
or the peer's cost over ours): below 1 ours is worse. What each bench does is in [README.md](README.md).

Written by `make bench` (`python -m bench`) from `bench/results.json`; do not edit. A bench that could not be run
keeps its older figures, with their date."""


@dataclass(frozen=True)
class Kept:
    """A bench's newest whole figures, with the machine that they are from; `failed`: why a later run has none."""

    found: Found
    machine: Mapping[str, str] = field(default_factory=dict)
    load: float | None = None
    failed: str = ""

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> Kept:
        return cls(**{**told, "found": Found.read(told["found"])})

    def plain(self) -> dict[str, Any]:
        given = {"machine": dict(self.machine), "load": self.load, "failed": self.failed}
        return {"found": self.found.plain(), **given}

    @property
    def day(self) -> str:
        return self.found.at[:10]


def results(kept: Mapping[str, Kept], names: Sequence[str]) -> str:
    """The whole page; `names`: all benches, in their order."""
    there = {name: kept[name] for name in names if name in kept}
    lines = [HEAD, "", *_machines(there.values()), *_targets(there), *_held()]
    for name in names:
        lines += _bench(name, there.get(name))
    return "\n".join(lines).rstrip() + "\n"


def _machines(kept: Iterable[Kept]) -> Iterator[str]:
    """Usually one; every other is said with the benches that ran there."""
    parts: dict[tuple[tuple[str, str], ...], list[Kept]] = {}
    for one in kept:
        parts.setdefault(tuple(one.machine.items()), []).append(one)
    yield from ("## The machine", "")
    for machine, ran in parts.items():
        words = ", ".join(f"{name} {value}" for name, value in machine)
        days = sorted({one.day for one in ran})
        when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
        yield f"- {', '.join(one.found.bench for one in ran)} ({when}): {words or 'not recorded'}."
    yield ""


def _targets(kept: Mapping[str, Kept]) -> Iterator[str]:
    rows = [(name, row) for name, one in kept.items() for row in one.found.rows if row.target]
    met = sum(row.met is True for _, row in rows)
    missed = sum(row.met is False for _, row in rows)
    yield from ("## Targets", "")
    yield f"{len(rows)} were set: {met} met, {missed} not met, {len(rows) - met - missed} not measured."
    yield from ("", "| bench | what | target | ratio | ours | peer | |", "|---|---|---|---:|---:|---:|---|")
    for name, row in rows:
        cells = (name, row.quantity, row.target, _ratio(row), _ours(row), _peer(row), WORDS[row.met])
        yield _line(cells)
    yield ""


def _held() -> Iterator[str]:
    yield "Held by tests, on every change:"
    yield ""
    for what, test in HELD:
        yield f"- {what} (`{test}`)"
    yield ""


def _bench(name: str, kept: Kept | None) -> Iterator[str]:
    yield from (f"## bench.{name}", "")
    if kept is None:
        yield from ("It has not been run.", "")
        return
    yield from (kept.found.shows, "")
    yield from ("| | ratio | ours | peer | target |", "|---|---:|---:|---:|---|")
    for row in kept.found.rows:
        target = f"{row.target}: {WORDS[row.met]}" if row.target else ""
        yield _line((row.quantity, _ratio(row), _ours(row), _peer(row), target))
    yield ""
    for said in kept.found.does_not_show:
        yield f"- Does not show: {said}"
    yield from (f"- {note}" for note in kept.found.notes)
    yield from (f"- {line}" for line in _when(kept))
    yield ""


def _when(kept: Kept) -> Iterator[str]:
    said = f"Measured {kept.day}"
    if kept.load is not None:
        said += f", beside other work of load {kept.load:.1f} when it began"
    if kept.found.peers:
        said += "; " + ", ".join(f"{name} {version}" for name, version in kept.found.peers.items())
    yield f"{said}."
    if kept.failed:
        yield f"**Older figures**: {kept.failed}"


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _ratio(row: Row) -> str:
    return "" if row.ratio is None else plain(row.ratio)


def _ours(row: Row) -> str:
    return "not recorded" if row.ours is None else f"{plain(row.ours)} {row.unit}".strip()


def _peer(row: Row) -> str:
    if not row.peer:
        return ""
    return row.peer if row.theirs is None else f"{plain(row.theirs)} {row.unit}".strip() + f" ({row.peer})"
