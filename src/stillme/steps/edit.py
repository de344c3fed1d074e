"""The editing step: every edit that is still missing, and nothing else."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any

from stillme.core import images
from stillme.core.errors import StillmeError
from stillme.core.records import Attempt, Edit, EditReply, EditRequest, Status, Trial
from stillme.editors import Editor, RemoteEditor
from stillme.engine.backends import Lane, Prepared
from stillme.engine.local import Stop, side_by_side, work
from stillme.engine.processes import Apart
from stillme.engine.progress import Progress, Stage
from stillme.engine.ray import Actors, Cluster, UntakenError, connected
from stillme.engine.waiting import Ask, wait
from stillme.ledger import Run
from stillme.ledger.run import Making, Stored, now
from stillme.plan.design import Design
from stillme.steps.budget import EDITOR, Purse, not_made

WORTH_A_PROCESS = 100  # edits; starting a process takes as long as some fifty planted ones


def missing(run: Run, design: Design) -> list[Trial]:
    """One trial for each edit without a final outcome, in the plan's order."""
    done = run.keys("edit")
    return [trial for trial in design.distinct_edits() if trial.edit not in done]


def standing(run: Run, design: Design) -> Counter[str]:
    """How the edits that the design asks for ended."""
    ended = dict(run.query("SELECT key, status FROM edit"))
    return Counter(ended[trial.edit] for trial in design.distinct_edits() if trial.edit in ended)


def edit(run: Run, design: Design, progress: Progress, stop: Stop, purse: Purse) -> None:
    """Makes the missing edits and records each one, whatever came of it. Models and services work side by side."""
    todo = missing(run, design)
    allowed = purse.allowed_edits(todo, len(design.distinct_edits()) - len(todo))
    with progress.stages("Edits", _totals(design, allowed, todo)) as stages:
        lanes = _lanes(design, allowed)
        with _cluster(design, lanes, stop) as cluster:
            step = _Step(run, design, stages, stop, purse, cluster)
            side_by_side([partial(step.run, lane) for lane in lanes], stop)


@contextmanager
def _cluster(design: Design, lanes: Sequence[Work], stop: Stop) -> Iterator[Cluster | None]:
    """Ray, where the audit asks for it and something is left that computes."""
    engine = design.config.audit.engine
    if engine.kind == "local" or all(work.lane is Lane.REMOTE for work in lanes):
        yield None
        return
    with connected(engine.address, stop, engine.patience_s) as cluster:
        yield cluster


def _totals(design: Design, allowed: Sequence[Trial], todo: Sequence[Trial]) -> dict[str, tuple[int, int]]:
    """Editor -> edits to make now, edits that are there."""
    every = Counter(trial.editor for trial in design.distinct_edits())
    left, now = Counter(trial.editor for trial in todo), Counter(trial.editor for trial in allowed)
    return {name: (now[name], count - left[name]) for name, count in every.items()}


@dataclass(frozen=True)
class Work:
    """Edits that are made in one way: by the editors of a lane, or by one model or one service."""

    lane: Lane
    editors: Mapping[str, Prepared[Any]]
    trials: Sequence[Trial]


def _lanes(design: Design, trials: Sequence[Trial]) -> list[Work]:
    """Quick editors share their threads; every model and every service works beside them on its own."""
    groups: dict[tuple[Lane, str], list[Trial]] = {}
    for trial in trials:
        lane = design.config.editor(trial.editor).lane
        groups.setdefault((lane, "" if lane is Lane.THREADS else trial.editor), []).append(trial)
    return [
        Work(lane, {t.editor: design.config.editor(t.editor) for t in some}, some)
        for (lane, _), some in groups.items()
    ]


class _Step:
    """The edits of a run: asked, checked, stored, recorded."""

    def __init__(
        self,
        run: Run,
        design: Design,
        stages: Mapping[str, Stage],
        stop: Stop,
        purse: Purse,
        cluster: Cluster | None = None,
    ) -> None:
        self.held, self.stages, self.stop, self.purse, self.cluster = run, stages, stop, purse, cluster
        self._engine = design.config.audit.engine
        self._source = lru_cache(maxsize=64)(run.image)
        rules = design.config.protocol.measures
        self._own_controls = {control.id for control in rules.controls_by("editor")} if rules else set()

    def run(self, work: Work) -> None:
        if work.lane is Lane.REMOTE:
            self._wait(work)
        else:
            self._compute(work)

    def _compute(self, lane: Work) -> None:
        """In threads; what computes, and every model, in processes of theirs: here, or on the cluster."""
        apart, threads = self._here(lane) if self.cluster is None else self._away(lane, self.cluster)
        together = attrgetter("image") if apart else None  # a process that knows a portrait is quicker
        with _made(lane.editors, apart) as editors:
            work(lane.trials, partial(self._do, editors), threads, self.stop, together)

    def _here(self, lane: Work) -> tuple[Apart | None, int]:
        model = lane.lane is Lane.MODEL
        threads = 1 if model else self._engine.threads
        many = model or (threads > 1 and len(lane.trials) >= WORTH_A_PROCESS)
        recipes = _recipes(lane) if many else {}
        return (Apart(recipes) if recipes else None), threads

    def _away(self, lane: Work, cluster: Cluster) -> tuple[Actors | None, int]:
        """A thread an actor; the quick editors of a lane share theirs."""
        recipes = _recipes(lane)
        if not recipes:
            return None, self._engine.threads
        model = lane.lane is Lane.MODEL
        share = self._engine.share(next(iter(lane.editors)) if model else "")
        settled = cluster.settle(share, model, len(lane.trials))
        return cluster.apart(recipes, settled), settled.most

    def _wait(self, lane: Work) -> None:
        """On one event loop, as many at a time as the service takes."""
        ((_, prepared),) = lane.editors.items()
        wait(lane.trials, partial(self._service, prepared), self._keep, prepared.concurrency, self.stop)

    @asynccontextmanager
    async def _service(self, prepared: Prepared[RemoteEditor]) -> AsyncIterator[Ask[Trial, _Asked | None]]:
        editor = prepared.make()
        try:
            yield partial(self._ask_service, editor)
        finally:
            await editor.close()

    async def _ask_service(self, editor: RemoteEditor, trial: Trial) -> _Asked | None:
        if not await self.purse.wait_on_loop((EDITOR, trial.editor), self.stop):
            return None
        request = self._request(trial)
        started, clock = now(), time.perf_counter()
        try:
            reply = await editor.edit(request)
        except StillmeError:
            raise
        except Exception as error:
            reply = _crashed(error)
        return _Asked(reply, started, time.perf_counter() - clock)

    def _do(self, editors: Mapping[str, Editor], trial: Trial) -> Future[None]:
        if not self.purse.wait((EDITOR, trial.editor), self.stop):
            return not_made()
        request = self._request(trial)
        started, clock = now(), time.perf_counter()
        try:
            reply = _ask(editors[trial.editor], request)
        except UntakenError:
            return not_made()
        return self._keep(trial, _Asked(reply, started, time.perf_counter() - clock))

    def _request(self, trial: Trial) -> EditRequest:
        own = trial.is_control and trial.prompt in self._own_controls
        control = trial.prompt if own else ""
        further = (self._source(trial.partner_image),) if trial.partner else ()
        source = self._source(trial.image)
        return EditRequest(trial.edit, source, trial.instruction, trial.seed, control, further)

    def _keep(self, trial: Trial, asked: _Asked | None) -> Future[None]:
        """Checks what came back and records it, whatever it is; what was not asked for is still missing."""
        if asked is None:
            return not_made()
        reply = asked.reply
        status, detail, facts = _check(reply)
        self.stages[trial.editor].count(status, reply.cost_usd)
        self.purse.settle((EDITOR, trial.editor), reply.cost_usd, status is Status.OK)
        if status is Status.QUOTA:
            self.purse.exhaust((EDITOR, trial.editor))
        told = (round(asked.seconds, 6), reply.cost_usd, detail, reply.code, reply.request_id)
        attempt = Attempt(trial.edit, status, asked.started, *told)
        if not status.is_final:
            return self.held.add_attempt(attempt)
        stored = self.held.store(reply.image, facts) if reply.image is not None and facts else None
        made = _edit(trial, status, detail, stored, reply)
        return self.held.add_edit(made, attempt, stored, self._making(reply))

    def _making(self, reply: EditReply) -> Making | None:
        if not (reply.made or reply.notes or reply.extras):
            return None
        extras = {name: self.held.store(content, _facts(content)) for name, content in reply.extras.items()}
        return Making(reply.made, reply.notes, extras)


@dataclass(frozen=True)
class _Asked:
    """What came back, and when it was asked for how long."""

    reply: EditReply
    started: str
    seconds: float


def _recipes(lane: Work) -> dict[str, Callable[[], Any]]:
    """The editors of a lane that belong into another process: those that compute, and every model."""
    apart = (item for item in lane.editors.items() if lane.lane is Lane.MODEL or item[1].computes)
    return {name: one.recipe for name, one in apart if one.recipe}


@contextmanager
def _made(needed: Mapping[str, Prepared[Any]], apart: Apart | Actors | None) -> Iterator[dict[str, Editor]]:
    """The editors, ready to be asked: those that `apart` has live there, the others here."""
    try:
        yield {
            name: apart.editor(name, one.deadline) if apart and name in apart.makes else one.make()
            for name, one in needed.items()
        }
    finally:
        if apart:
            apart.close()


def _edit(trial: Trial, status: Status, detail: str, stored: Stored | None, reply: EditReply) -> Edit:
    return Edit(trial.edit, status, stored.sha256 if stored else None, detail, reply.truth)


def _ask(editor: Editor, request: EditRequest) -> EditReply:
    """A bug in a backend costs one attempt, not the run."""
    try:
        return editor.edit(request)
    except (StillmeError, UntakenError):
        raise  # what the machine lacks would fail every edit: the run ends with that sentence
    except Exception as error:
        return _crashed(error)


def _crashed(error: Exception) -> EditReply:
    return EditReply(Status.CRASHED, detail=f"{type(error).__name__}: {error}")


def _facts(content: bytes) -> images.Facts:
    """Of a picture made on the way: one that is none is kept all the same, and costs the edit nothing."""
    try:
        return images.inspect(content)
    except images.BadImageError:
        return images.UNKNOWN


def _check(reply: EditReply) -> tuple[Status, str, images.Facts | None]:
    """An editor that says ok must have returned a picture with something on it."""
    if reply.status is not Status.OK:
        return reply.status, reply.detail, None
    if reply.image is None:
        return Status.CORRUPT, "the editor returned no image", None
    try:
        facts = images.inspect(reply.image)
    except images.BadImageError as error:
        return Status.CORRUPT, f"the image {error}", images.UNKNOWN
    if facts.is_blank:
        return Status.CORRUPT, "the image is one flat colour", facts
    return Status.OK, reply.detail, facts
