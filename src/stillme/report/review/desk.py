"""The desk at which a run is looked at and decided about: what is there now, and what people add. No HTTP here.

Frames are read again when the run has moved on, beside the requests and not too often: an audit that writes all
the time must not keep the tool busy with nothing but reading. What a reviewer decides shows at once.
"""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, StrictBool

from stillme.core.errors import InputError, StillmeError
from stillme.core.records import Adjudication, Trial
from stillme.core.yaml import StrictModel
from stillme.ledger import Run
from stillme.ledger.run import mark_of, now
from stillme.protocol.schema import Axis
from stillme.report.review.query import Query
from stillme.report.review.samples import Counts, Samples
from stillme.report.review.state import State, load

PAGE = 24  # edits on a page
REST = 5.0  # seconds from one reading of the run to the next, at least; and as many times as long as it took
LONGEST_WHY = 2000
KEPT = 64  # questions whose answers are kept
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,39}")
_MOVED = "SELECT (SELECT max(id) FROM audit), " + ", ".join(  # noqa: S608 (names are ours, values are parameters)
    f"(SELECT count(*) FROM {table})"  # noqa: S608 (names are ours, values are parameters)
    for table in ("trial", "edit", "verdict", "measurement", "feature")
)


class UnknownError(StillmeError):
    """Asked for what is not there."""


class RefusedError(StillmeError):
    """Understood, and not possible as things stand; the sentence says why."""


class Decision(StrictModel):
    """What a reviewer says of one axis of one edit. `op` names the request in the browser that sends it."""

    op: UUID
    trial: str = Field(max_length=100)
    axis: str = Field(max_length=100)
    score: int | None = None
    cannot_tell: StrictBool = False
    withdraw: StrictBool = False
    why: str = Field(default="", max_length=LONGEST_WHY)
    who: str = Field(default="", max_length=40)


@dataclass(frozen=True)
class Page:
    """A part of the edits that were asked for. `place` is the first one's, from 0."""

    rows: NDArray[np.int64]
    total: int
    persons: int
    number: int
    pages: int

    @property
    def place(self) -> int:
        return (self.number - 1) * PAGE


class Desk:
    """One run. Safe to use from several threads."""

    def __init__(self, run: Run, clock: Callable[[], float] = time.monotonic) -> None:
        self.run = run
        self._clock = clock
        self._deciding = threading.Lock()
        self._reading = threading.Lock()
        self._version = self._data_version()
        self._moved: Any = run.query(_MOVED)
        began = clock()
        self._state = load(run)
        self._took, self._read_at = clock() - began, clock()
        self._answers: OrderedDict[tuple[int, str, Query], Any] = OrderedDict()
        self._answered = self._state.axes  # what they were found in; held, so that nothing else has its number
        self._keeping = threading.Lock()

    # The run as it stands

    def state(self) -> State:
        """As it was read last; where the run has moved on since, it is read again beside."""
        version = self._data_version()
        rested = self._clock() - self._read_at > max(REST, 5 * self._took)
        if version != self._version and rested and self._reading.acquire(blocking=False):
            threading.Thread(target=self._catch_up, args=(version,), daemon=True).start()
        return self._state

    def _data_version(self) -> int:
        """Changes when anybody else has written; costs next to nothing."""
        return int(self.run.query("PRAGMA data_version")[0][0])

    def _catch_up(self, version: int) -> None:
        """Whole where edits or verdicts have come in; where only people decided, that is all that is read."""
        try:
            began, moved = self._clock(), self.run.query(_MOVED)
            fresh = load(self.run) if moved != self._moved else None
            with self._deciding:
                self._state = (fresh or self._state).anew() if fresh is None or self._is_behind(fresh) else fresh
            self._moved, self._version = moved, version
            self._took = self._clock() - began
        finally:
            self._read_at = self._clock()
            self._reading.release()

    def _is_behind(self, fresh: State) -> bool:
        return len(fresh.adjudications) != len(self.run.adjudications())

    def mark(self) -> str:
        """Names the run as it is now."""
        return mark_of(self.run)

    # Questions

    def samples(self, state: State, query: Query) -> Samples:
        rounding = query.one("rounding")
        axes = state.axes[rounding if rounding in state.axes else state.rounding]
        return Samples(state.protocol, state.trials, axes, state.texts if query.one("text") else None)

    def kept(self, state: State, query: Query) -> NDArray[np.int64]:
        rows: NDArray[np.int64] = self._once(state, "kept", query, lambda: self.samples(state, query).kept(query))
        return rows

    def counts(self, state: State, query: Query) -> Counts:
        counts: Counts = self._once(state, "counts", query, lambda: self.samples(state, query).counts(query))
        return counts

    def _once(self, state: State, what: str, query: Query, find: Callable[[], Any]) -> Any:
        """The answer, kept for those who come back to the same question."""
        key = (id(state.axes), what, query)
        with self._keeping:
            if key in self._answers:
                self._answers.move_to_end(key)
                return self._answers[key]
        found = find()
        with self._keeping:
            if self._answered is not state.axes:  # answers of an earlier state are of no more use
                self._answers.clear()
                self._answered = state.axes
            self._answers[key] = found
            while len(self._answers) > KEPT:
                self._answers.popitem(last=False)
        return found

    def page(self, state: State, query: Query) -> Page:
        rows = self.kept(state, query)
        pages = max(1, -(-len(rows) // PAGE))
        number = min(query.page, pages)
        shown = rows[(number - 1) * PAGE : number * PAGE]
        return Page(shown, len(rows), self.samples(state, query).persons(rows), number, pages)

    def trial(self, state: State, key: str) -> Trial:
        if key not in state.trial or key not in state.row:
            raise UnknownError("There is no such edit in this run.")
        return state.trial[key]

    def place(self, state: State, query: Query, key: str) -> int | None:
        """Where a trial stands among those that were asked for; None where it is not among them."""
        found = np.flatnonzero(self.kept(state, query) == state.row[key])
        return int(found[0]) if len(found) else None

    def neighbour(self, state: State, query: Query, key: str, step: int) -> str | None:
        """The one after (1) or before (-1) it, round the end; None where there is no other."""
        rows = self.kept(state, query)
        return self._step(state, rows, key, step)

    def next_open(self, state: State, query: Query, key: str = "") -> str | None:
        """The next with an open flag among those that were asked for."""
        rows = self.kept(state, query)
        axes = self.samples(state, query).axes
        is_open = np.zeros(state.trials.height, dtype=bool)
        is_open[axes.filter("open")["row"].to_numpy()] = True
        if not key:
            found = rows[is_open[rows]]
            return None if not len(found) else str(state.trials["trial"][int(found[0])])
        here = rows == state.row.get(key, -1)
        return self._step(state, rows[is_open[rows] | here], key, 1)

    def _step(self, state: State, rows: NDArray[np.int64], key: str, step: int) -> str | None:
        here = state.row[key]
        at = np.flatnonzero(rows == here)
        if len(at):
            found = None if len(rows) < 2 else rows[(int(at[0]) + step) % len(rows)]
        else:  # no longer among them, as after a decision: go on from where it stood in the plan
            later = rows[rows > here] if step > 0 else rows[rows < here][::-1]
            found = later[0] if len(later) else (rows[0 if step > 0 else -1] if len(rows) else None)
        return None if found is None else str(state.trials["trial"][int(found)])

    # Decisions

    def decide(self, who: str, said: Decision) -> State:
        """Adds it, and comes back when it is on disk. What the same person has just said is not said twice."""
        name = reviewer(who)
        with self._deciding:
            added = self._adjudication(self._state, name, said)
            if not self._is_said(added):
                self._add(added)
            self._state = self._state.anew()
            return self._state

    def _add(self, one: Adjudication) -> None:
        """Waits until it is on disk. A writer that failed once stays shut: another one tries again."""
        try:
            self.run.add_adjudication(one).result()
        except StillmeError:
            with Run.join(self.run.path) as again:
                again.add_adjudication(one).result()

    def _adjudication(self, state: State, who: str, said: Decision) -> Adjudication:
        trial = self.trial(state, said.trial)
        if state.trials["image"][state.row[trial.key]] is None:
            raise RefusedError("There is no picture to decide about.")
        if (axis := state.axis(trial, said.axis)) is None:
            raise RefusedError("This edit is not judged on that axis.")
        if not (why := said.why.replace("\r\n", "\n").strip()):
            raise RefusedError("Say why, in a sentence: whoever reads the decision later was not there.")
        score = _score(said, axis)
        one = Adjudication(
            edit=trial.edit,
            prompt=trial.prompt,
            axis=axis.id,
            score=score,
            reviewer=who,
            reason=why,
            at=now(),
            withdrawn=said.withdraw,
        )
        if said.withdraw and self._last(one) is None:
            raise RefusedError("There is no decision of yours to take back.")
        return one

    def _last(self, one: Adjudication) -> Adjudication | None:
        """The newest word of the same person about the same thing, as the run has it."""
        about = (one.edit, one.prompt, one.axis, one.reviewer)
        said = [a for a in self.run.adjudications() if (a.edit, a.prompt, a.axis, a.reviewer) == about]
        return said[-1] if said else None

    def _is_said(self, one: Adjudication) -> bool:
        last = self._last(one)
        if last is None:
            return False
        if one.withdrawn and last.withdrawn:
            return True
        return (last.score, last.reason, last.withdrawn) == (one.score, one.reason, one.withdrawn)


def _score(said: Decision, axis: Axis) -> int | None:
    if said.cannot_tell or said.withdraw:
        return None
    if said.score is None:
        raise RefusedError("Choose a score, or say that it cannot be told.")
    if said.score not in axis.scale:
        raise RefusedError(f"{said.score} is not on the scale, {min(axis.scale)} to {max(axis.scale)}.")
    return said.score


def reviewer(name: str) -> str:
    """The name of somebody who decides, checked."""
    if not _NAME.fullmatch(name):
        raise RefusedError(
            "Give a name to decide under: up to 40 letters, digits, '.', '_' or '-', a letter or digit first."
        )
    return name


def check_reviewer(name: str) -> None:
    """The same for a name on the command line, where none is fine: the page asks."""
    if name and not _NAME.fullmatch(name):
        said = f"'{name}' is not a reviewer's name: up to 40 letters, digits, '.', '_' or '-'."
        raise InputError(said, "Give a pseudonym, such as --reviewer anna.")
