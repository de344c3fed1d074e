"""The editing step: every edit that is still missing, and nothing else."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from functools import lru_cache
from operator import attrgetter

from stillme import images
from stillme.backends import Prepared
from stillme.design import Design
from stillme.editors import Editor
from stillme.engine.apart import Apart, Makes
from stillme.engine.local import Stop, work
from stillme.errors import StillmeError
from stillme.ledger import Run
from stillme.ledger.run import Stored, now
from stillme.progress import Progress, Stage
from stillme.purse import Purse
from stillme.records import Attempt, Edit, EditReply, EditRequest, Status, Trial

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
    """Makes the missing edits and records each one, whatever came of it."""
    todo = missing(run, design)
    already = len(design.distinct_edits()) - len(todo)
    threads = design.config.audit.engine.threads
    needed = {name: design.config.editor(name) for name in {trial.editor: None for trial in todo}}
    many = threads > 1 and len(todo) >= WORTH_A_PROCESS
    recipes = {name: one.recipe for name, one in needed.items() if many and one.computes and one.recipe}
    together = attrgetter("image") if recipes else None  # a process that has seen a portrait is quicker with it
    with progress.stage("Edits", len(todo), already) as stage, _made(needed, recipes) as editors:
        step = _Step(run, design, editors, stage, stop, purse)
        work(purse.allowed_edits(todo, already), step.do, threads, stop, together)


@contextmanager
def _made(needed: Mapping[str, Prepared[Editor]], recipes: Makes) -> Iterator[dict[str, Editor]]:
    """The editors, ready to be asked; those with a recipe here live in processes of their own."""
    apart = Apart(recipes)
    try:
        yield {name: apart.editor(name) if name in recipes else one.make() for name, one in needed.items()}
    finally:
        apart.close()


class _Step:
    """One edit: asked, checked, stored, recorded."""

    def __init__(
        self, run: Run, design: Design, editors: Mapping[str, Editor], stage: Stage, stop: Stop, purse: Purse
    ) -> None:
        self.run, self.editors, self.stage, self.stop, self.purse = run, editors, stage, stop, purse
        self._source = lru_cache(maxsize=64)(run.image)
        rules = design.config.protocol.measures
        self._own_controls = {control.id for control in rules.controls_by("editor")} if rules else set()

    def _request(self, trial: Trial) -> EditRequest:
        own = trial.is_control and trial.prompt in self._own_controls
        control = trial.prompt if own else ""
        return EditRequest(trial.edit, self._source(trial.image), trial.instruction, trial.seed, control)

    def do(self, trial: Trial) -> Future[None]:
        request = self._request(trial)
        started, clock = now(), time.perf_counter()
        reply = _ask(self.editors[trial.editor], request)
        status, detail, facts = _check(reply)
        seconds = time.perf_counter() - clock
        self.stage.count(status, reply.cost_usd)
        self.purse.spend(reply.cost_usd, self.stop)
        attempt = Attempt(trial.edit, status, started, round(seconds, 6), reply.cost_usd, detail)
        if not status.is_final:
            return self.run.add_attempt(attempt)
        stored = self.run.store(reply.image, facts) if reply.image is not None and facts else None
        return self.run.add_edit(_edit(trial, status, detail, stored, reply), attempt, stored)


def _edit(trial: Trial, status: Status, detail: str, stored: Stored | None, reply: EditReply) -> Edit:
    return Edit(trial.edit, status, stored.sha256 if stored else None, detail, reply.truth)


def _ask(editor: Editor, request: EditRequest) -> EditReply:
    """A bug in a backend costs one attempt, not the run."""
    try:
        return editor.edit(request)
    except StillmeError:
        raise  # what the machine lacks would fail every edit: the run ends with that sentence
    except Exception as error:
        return EditReply(Status.CRASHED, detail=f"{type(error).__name__}: {error}")


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
