"""Batches of judge calls at a service, as the ledger records them: rows of `shard` and `shipment`.

Every step is a row that is on disk before the next step begins, so a process that resumes after a kill knows what
was done, or that one step may have been done without being recorded. Nothing here knows a service.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from enum import StrEnum

from stillme.core.records import canonical
from stillme.ledger.run import Run, now
from stillme.ledger.writer import RowInsert


class Step(StrEnum):
    """The last step that is known to be done. A shard without a batch may have one that was not recorded."""

    PLANNED = "planned"  # its file is written
    UPLOADED = "uploaded"  # file: the service's name for it
    CREATED = "created"  # batch: the service's name for it
    ENDED = "ended"  # outputs: what can be downloaded
    IMPORTED = "imported"
    FAILED = "failed"  # given up: its calls are in no shard any more; detail: the reason


_OVER = (Step.IMPORTED, Step.FAILED)


@dataclass(frozen=True)
class Shard:
    """Calls that are sent together. `created_at`: the time at which its batch was created."""

    key: str
    calls: tuple[str, ...]
    step: Step = Step.PLANNED
    file: str = ""
    batch: str = ""
    outputs: tuple[str, ...] = ()
    detail: str = ""
    created_at: str = ""

    @property
    def is_open(self) -> bool:
        return self.step not in _OVER

    @property
    def is_sent(self) -> bool:
        """Whether its batch at the service is known."""
        return self.step in (Step.CREATED, Step.ENDED)

    def after(self, step: Step, at: str, **fields: str | Sequence[str]) -> Shard:
        """The shard after a step that happened at that time and set these fields."""
        made = at if fields.get("batch") else self.created_at
        values = {name: tuple(value) if name == "outputs" else value for name, value in fields.items()}
        return replace(self, step=step, created_at=made, **values)  # type: ignore[arg-type]


def plan(run: Run, judge: str, settings: str, shard: Shard) -> Future[None]:
    """Record a new shard, whose file is written. One unit: the shard with its calls, and the step."""
    row = (shard.key, judge, settings, canonical(list(shard.calls)))
    return run.append(RowInsert("shard", row), _step_row(shard.key, Step.PLANNED, now(), {}))


def note(run: Run, shard: Shard, step: Step, **fields: str | Sequence[str]) -> tuple[Shard, Future[None]]:
    """Record a step. Returns the shard after it, and a future that is done when the row is on disk."""
    at = now()
    return shard.after(step, at, **fields), run.append(_step_row(shard.key, step, at, fields))


def _step_row(shard: str, step: Step, at: str, fields: dict[str, str | Sequence[str]]) -> RowInsert:
    return RowInsert("shipment", (None, shard, at, step.value, canonical(fields)))


def shards(run: Run, judge: str, settings: str) -> list[Shard]:
    """Every shard of a judge after its last step, oldest first."""
    mine = "FROM shard WHERE judge = ? AND settings = ?"
    rows = run.query(f"SELECT key, calls {mine} ORDER BY rowid", (judge, settings))
    by_key = {key: Shard(key=key, calls=tuple(json.loads(calls))) for key, calls in rows}
    steps = f"SELECT shard, at, step, content FROM shipment WHERE shard IN (SELECT key {mine}) ORDER BY id"  # noqa: S608 (names are ours, values are parameters)
    for key, at, step, content in run.query(steps, (judge, settings)):
        by_key[key] = by_key[key].after(Step(step), at, **json.loads(content))
    return list(by_key.values())


def recorded(run: Run, calls: Iterable[str], started: str) -> set[str]:
    """The calls among these that have an attempt of that time, or a verdict."""
    listed = canonical(list(calls))
    rows = run.query(f"SELECT subject FROM attempt WHERE started = ? AND subject IN {_LISTED}", (started, listed))  # noqa: S608 (names are ours, values are parameters)
    return {call for (call,) in rows} | call_keys_with_verdicts(run, calls)


def call_keys_with_verdicts(run: Run, calls: Iterable[str]) -> set[str]:
    """The calls among these that have a verdict."""
    listed = canonical(list(calls))
    return {call for (call,) in run.query(f"SELECT DISTINCT call FROM verdict WHERE call IN {_LISTED}", (listed,))}  # noqa: S608 (names are ours, values are parameters)


_LISTED = "(SELECT value FROM json_each(?))"
