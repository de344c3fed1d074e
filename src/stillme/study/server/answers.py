"""Answers: operations that a page sent, each taken once, checked against what was asked.

An operation that is refused says why and changes nothing. Times are the server's: an operation that waited in a
page's queue is dated back by as long as it says it waited, but never before the sitting's previous item was done,
and from one item done to the next at least the minimum has to pass. So whoever was offline loses nothing, and
nobody is quicker than the minimum, by claiming so or by opening everything at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import Field
from sqlalchemy import BindParameter, Connection, bindparam, func, select, update
from sqlalchemy.dialects import postgresql, sqlite

from stillme.core.yaml import StrictModel
from stillme.study.bundle import COMMENT, LONGEST_COMMENT, Bundle
from stillme.study.db import seats
from stillme.study.db.deal import Screen, allowed
from stillme.study.db.often import Often
from stillme.study.db.people import RefusedError
from stillme.study.db.seats import Sitting
from stillme.study.db.tables import answer, opening, operation, seat, sitting

NO_NUL = r"^[^\x00]*$"  # no database keeps it
MOST = 100  # operations of one request
LATEST_REV = 2**53 - 1  # what a browser can count exactly
LONGEST_AWAY = 24 * 3600 * 1000  # milliseconds


class Operation(StrictModel):
    """One thing that a rater did. `rev` decides between values of a field; `age`: milliseconds in the queue."""

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{8,64}$")]
    kind: Literal["open", "answer", "comment", "done", "away"]
    item: Annotated[str, Field(max_length=64, pattern=NO_NUL)]
    field: Annotated[str, Field(max_length=140, pattern=NO_NUL)] = ""
    value: Annotated[str, Field(max_length=LONGEST_COMMENT, pattern=NO_NUL)] = ""
    rev: Annotated[int, Field(ge=0, le=LATEST_REV)] = 0
    ms: Annotated[int, Field(ge=0, le=LONGEST_AWAY)] | None = None
    age: Annotated[int, Field(ge=0, le=LATEST_REV)] = 0


class Operations(StrictModel):
    """What a page sends at once."""

    operations: Annotated[tuple[Operation, ...], Field(min_length=1, max_length=MOST)]


@dataclass(frozen=True)
class Result:
    """What became of an operation: kept, or refused with a sentence and perhaps seconds to wait."""

    id: str
    refused: str = ""
    wait: float | None = None

    def plain(self) -> dict[str, Any]:
        if not self.refused:
            return {"id": self.id, "saved": True}
        return {"id": self.id, "refused": self.refused, "wait": self.wait}


@dataclass(frozen=True)
class Progress:
    """How far a sitting is: the items that are done, of how many."""

    done: frozenset[str]
    of: int

    @property
    def is_complete(self) -> bool:
        return len(self.done) == self.of


def apply(
    connection: Connection,
    bundle: Bundle,
    sat: Sitting,
    operations: Sequence[Operation],
    now: float,
    lease: float = seats.LEASE,
) -> list[Result]:
    """Takes operations in their order. All are committed with the connection, or none."""
    clock, until = _lock(connection, sat.id, now, lease)
    taking = _Taking(connection, bundle, sat, clock)
    known = _known(connection, sat.id, [one.id for one in operations])
    results = []
    for one in operations:
        if one.id not in known:
            at = max(now - one.age / 1000, taking.clock)
            refused, wait = taking.take(one, at)
            if wait is not None:  # what may be tried again is no operation yet
                results.append(Result(one.id, refused, wait))
                continue
            known[one.id] = refused
            taking.log.append(_row(sat.id, one, refused, at, now))
        results.append(Result(one.id, known[one.id]))
    taking.close()
    if until is not None and until < now + lease * seats.RENEWED_BELOW:
        seats.renew(connection, sat.id, now, lease)
    return results


_CLOCK = Often(
    select(sitting.c.clock, sitting.c.state, seat.c.lease)
    .select_from(sitting.outerjoin(seat, seat.c.sitting == sitting.c.id))
    .where(sitting.c.id == bindparam("of_sitting"))
    .with_for_update(of=sitting)
)
_HERE = (opening.c.sitting == bindparam("of_sitting"), opening.c.item == bindparam("of_item"))
_OPENED = Often(select(opening.c.opened, opening.c.done).where(*_HERE))
_CLOSED = Often(update(opening).where(*_HERE).values(done=bindparam("at_time")))
_TICKED = Often(update(sitting).where(sitting.c.id == bindparam("of_sitting")).values(clock=bindparam("at_time")))
_DONE = Often(
    select(opening.c.item).where(opening.c.sitting == bindparam("of_sitting"), opening.c.done.is_not(None))
)


def _lock(connection: Connection, sat: str, now: float, lease: float = seats.LEASE) -> tuple[float, float | None]:
    """The sitting's clock and lease; two requests of one person take turns. Who timed out goes on if they can."""
    found = _CLOCK.first(connection, of_sitting=sat)
    assert found is not None, "whoever is at work has a sitting"
    clock, state, until = found
    if state == "complete":
        raise RefusedError("This task is complete and cannot be changed any more.", "complete")
    if state == "timed_out":
        seats.resume(connection, sat, now, lease)
    elif state != "active":
        raise RefusedError("Your place was given back, so nothing more can be saved.", "closed")
    return float(clock), until


def _known(connection: Connection, sat: str, ids: list[str]) -> dict[str, str]:
    """Operation -> why it was refused, of those that came before."""
    rows = _before(len(ids)).rows(connection, **{f"id_{place}": one for place, one in enumerate(ids)})
    strange = "This operation belongs to somebody else."
    return {id: refused if owner == sat else strange for id, owner, refused in rows}


@lru_cache(maxsize=MOST)
def _before(count: int) -> Often:
    named: list[BindParameter[str]] = [bindparam(f"id_{place}") for place in range(count)]
    return Often(select(operation.c.id, operation.c.sitting, operation.c.refused).where(operation.c.id.in_(named)))


def _row(sat: str, one: Operation, refused: str, at: float, now: float) -> dict[str, Any]:
    return {
        "id": one.id,
        "sitting": sat,
        "kind": one.kind,
        "item": one.item,
        "field": one.field,
        "value": one.value,
        "rev": one.rev,
        "ms": one.ms,
        "refused": refused,
        "at": at,
        "received": now,
    }


def _newer(dialect: Any) -> Any:
    """An answer in place of an older one; which is older, its `rev` says."""
    made = dialect.insert(answer)
    return made.on_conflict_do_update(
        index_elements=["sitting", "item", "field"],
        set_={name: made.excluded[name] for name in ("value", "rev", "ms", "at")},
        where=answer.c.rev < made.excluded.rev,
    )


def _first(dialect: Any) -> Any:
    """When an item was opened; the first time counts."""
    row: dict[str, Any] = {name: bindparam(name) for name in ("sitting", "item", "opened")}
    return dialect.insert(opening).values(row).on_conflict_do_nothing(index_elements=["sitting", "item"])


_NEWER = Often({"sqlite": _newer(sqlite), "postgresql": _newer(postgresql)})
_FIRST = Often({"sqlite": _first(sqlite), "postgresql": _first(postgresql)})
_LOGGED = Often(operation.insert())


class _Taking:
    """The operations of one request: what they change is written together, answers before whatever counts them."""

    def __init__(self, connection: Connection, bundle: Bundle, sat: Sitting, clock: float) -> None:
        self.connection, self.bundle, self.sat = connection, bundle, sat
        self.clock = self._began = clock
        self.log: list[dict[str, Any]] = []
        self._answers: list[dict[str, Any]] = []
        self._allowed: dict[str, Mapping[str, frozenset[str]]] = {}

    def take(self, one: Operation, at: float) -> tuple[str, float | None]:
        """Why an operation is refused, and after how many seconds it may be tried again; empty: it is taken."""
        number = self.sat.deal.number.get(one.item)
        if number is None:
            return "This task has no such item.", None
        screen = self.sat.deal.screens[number - 1]
        if one.kind == "open":
            _FIRST.do(self.connection, sitting=self.sat.id, item=one.item, opened=at)
            return "", None
        if one.kind == "away":
            return self._away(one)
        if one.kind == "done":
            return self._done(screen, at)
        return self._answered(screen, one, at)

    def close(self) -> None:
        self._flush()
        if self.log:
            _LOGGED.each(self.connection, self.log)
        if self.clock > self._began:
            _TICKED.do(self.connection, of_sitting=self.sat.id, at_time=self.clock)

    def _flush(self) -> None:
        if self._answers:
            _NEWER.each(self.connection, self._answers)
            self._answers = []

    def _away(self, one: Operation) -> tuple[str, float | None]:
        longer = sitting.c.away_seconds + (one.ms or 0) / 1000
        own = update(sitting).where(sitting.c.id == self.sat.id)
        self.connection.execute(own.values(away=sitting.c.away + 1, away_seconds=longer))
        return "", None

    def _answered(self, screen: Screen, one: Operation, at: float) -> tuple[str, float | None]:
        field = COMMENT if one.kind == "comment" else one.field
        if one.kind == "answer":
            if screen.item not in self._allowed:
                self._allowed[screen.item] = allowed(self.bundle, screen)
            values = self._allowed[screen.item].get(field)
            if values is None:
                return "This item has no such question.", None
            if one.value not in values:
                return "This is not one of the answers to the question.", None
        row = {"sitting": self.sat.id, "item": one.item, "field": field, "value": one.value, "rev": one.rev}
        self._answers.append({**row, "ms": one.ms, "at": at})
        return "", None

    def _done(self, screen: Screen, at: float) -> tuple[str, float | None]:
        self._flush()
        here = {"of_sitting": self.sat.id, "of_item": screen.item}
        found = _OPENED.first(self.connection, **here)
        if found is None:
            return "This item was not opened yet.", None
        opened, done = found
        if done is not None:
            return "", None
        if lacking := len(unanswered(self.bundle, screen, given(self.connection, self.sat.id, screen.item))):
            said = "1 question is" if lacking == 1 else f"{lacking} questions are"
            return f"{said} not answered yet.", None
        if (left := self.bundle.minimum_seconds - (at - max(opened, self.clock))) > 0:
            return f"Please look a little longer: {left:.0f} more seconds.", round(left, 3)
        _CLOSED.do(self.connection, **here, at_time=at)
        self.clock = at
        return "", None


_GIVEN = Often(
    select(answer.c.field, answer.c.value).where(
        answer.c.sitting == bindparam("of_sitting"), answer.c.item == bindparam("of_item")
    )
)


def given(connection: Connection, sat: str, item: str) -> dict[str, str]:
    """Field -> value, of what was answered about an item."""
    return dict(_GIVEN.rows(connection, of_sitting=sat, of_item=item))


def unanswered(bundle: Bundle, screen: Screen, values: Mapping[str, str]) -> list[str]:
    """The fields of a screen that have no answer."""
    return [field for field in allowed(bundle, screen) if field not in values]


def progress(connection: Connection, sat: Sitting) -> Progress:
    done = _DONE.rows(connection, of_sitting=sat.id)
    return Progress(frozenset(item for (item,) in done), len(sat.deal.screens))


def finish(connection: Connection, bundle: Bundle, sat: Sitting, now: float) -> None:
    """Closes a sitting whose every item is done and answered, by our own count; else says what is missing."""
    if connection.scalar(select(sitting.c.state).where(sitting.c.id == sat.id)) == "complete":
        return
    _lock(connection, sat.id, now)
    found = progress(connection, sat)
    if not found.is_complete:
        left = found.of - len(found.done)
        said = "1 item is" if left == 1 else f"{left} items are"
        raise RefusedError(f"{said} not done yet. The numbers above show which.", "items")
    expected = sum(len(allowed(bundle, screen)) for screen in sat.deal.screens)
    kept = connection.scalar(
        select(func.count()).select_from(answer).where(answer.c.sitting == sat.id, answer.c.field != COMMENT)
    )
    if kept != expected:
        raise RefusedError(
            f"{expected - (kept or 0)} answers are missing. Please go through the items again.", "items"
        )
    seats.complete(connection, sat.id, now)
