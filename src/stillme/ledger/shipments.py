"""Shards of calls that travel to a service together, and how far each is: rows of `shard` and `shipment`.

Every step is a row that is there before the next step begins, so a process that comes after a killed one knows
what was done, or that something may have been done without anybody writing it down. Nothing here knows a service.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from enum import StrEnum

from stillme.core.records import canonical
from stillme.ledger.run import Run, now
from stillme.ledger.writer import Insert


class Step(StrEnum):
    """The last thing that is known to be done. A shard without a batch may have one that nobody noted."""

    PLANNED = "planned"  # its file is written
    UPLOADED = "uploaded"  # file: the service's name for it
    CREATED = "created"  # batch: the service's name for it
    ENDED = "ended"  # outputs: what can be downloaded
    IMPORTED = "imported"
    FAILED = "failed"  # given up: its calls are in no shard any more; detail: why


_OVER = (Step.IMPORTED, Step.FAILED)


@dataclass(frozen=True)
class Shard:
    """Calls that travel together. `made`: when its batch was."""

    key: str
    calls: tuple[str, ...]
    step: Step = Step.PLANNED
    file: str = ""
    batch: str = ""
    outputs: tuple[str, ...] = ()
    detail: str = ""
    made: str = ""

    @property
    def is_open(self) -> bool:
        return self.step not in _OVER

    @property
    def is_sent(self) -> bool:
        """Whether a batch of it is known."""
        return self.step in (Step.CREATED, Step.ENDED)

    def after(self, step: Step, at: str, **told: str | Sequence[str]) -> Shard:
        """As it stands after a step."""
        made = at if told.get("batch") else self.made
        listed = {name: tuple(value) if name == "outputs" else value for name, value in told.items()}
        return replace(self, step=step, made=made, **listed)  # type: ignore[arg-type]


def plan(run: Run, judge: str, settings: str, shard: Shard) -> Future[None]:
    """One unit: the shard, its calls, and that its file is written."""
    row = (shard.key, judge, settings, canonical(list(shard.calls)))
    return run.append(Insert("shard", row), _row(shard.key, Step.PLANNED, now(), {}))


def note(run: Run, shard: Shard, step: Step, **told: str | Sequence[str]) -> tuple[Shard, Future[None]]:
    """The shard as it stands now; what says so is on disk when the future is done."""
    at = now()
    return shard.after(step, at, **told), run.append(_row(shard.key, step, at, told))


def _row(shard: str, step: Step, at: str, told: dict[str, str | Sequence[str]]) -> Insert:
    return Insert("shipment", (None, shard, at, step.value, canonical(told)))


def shards(run: Run, judge: str, settings: str) -> list[Shard]:
    """Every shard of a judge, as it stands, oldest first."""
    mine = "FROM shard WHERE judge = ? AND settings = ?"
    rows = run.query(f"SELECT key, calls {mine} ORDER BY rowid", (judge, settings))
    found = {key: Shard(key, tuple(json.loads(calls))) for key, calls in rows}
    steps = f"SELECT shard, at, step, content FROM shipment WHERE shard IN (SELECT key {mine}) ORDER BY id"  # noqa: S608 (names are ours, values are parameters)
    for key, at, step, content in run.query(steps, (judge, settings)):
        found[key] = found[key].after(Step(step), at, **json.loads(content))
    return list(found.values())


def recorded(run: Run, calls: Iterable[str], started: str) -> set[str]:
    """Those of the calls that have an attempt of that time, or a verdict."""
    listed = canonical(list(calls))
    rows = run.query(f"SELECT subject FROM attempt WHERE started = ? AND subject IN {_LISTED}", (started, listed))  # noqa: S608 (names are ours, values are parameters)
    return {call for (call,) in rows} | answered(run, calls)


def answered(run: Run, calls: Iterable[str]) -> set[str]:
    """Those of the calls that a verdict was read off."""
    listed = canonical(list(calls))
    return {call for (call,) in run.query(f"SELECT DISTINCT call FROM verdict WHERE call IN {_LISTED}", (listed,))}  # noqa: S608 (names are ours, values are parameters)


_LISTED = "(SELECT value FROM json_each(?))"
