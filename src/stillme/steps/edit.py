"""The editing step: every edit that is still missing, and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any

from stillme.core import images
from stillme.core.records import Attempt, Edit, EditReply, EditRequest, Status, Trial
from stillme.engine.backends import ExecutionMode
from stillme.engine.processes import ProcessPool
from stillme.engine.progress import Progress, Stage
from stillme.engine.ray import ActorPool, Cluster, connected
from stillme.engine.threads import StopEvent, run_side_by_side
from stillme.ledger import Run
from stillme.ledger.run import EditProvenance, StoredImage
from stillme.plan.design import Design
from stillme.steps.budget import EDITOR, Budget, BudgetKey
from stillme.steps.step import Group, Step, TimedReply, group_by_backend

MIN_EDITS_FOR_PROCESSES = 100  # starting a process takes as long as some fifty planted edits


def pending_edits(run: Run, design: Design) -> list[Trial]:
    """One trial for each edit without a final outcome, in the plan's order."""
    done = run.keys("edit")
    return [trial for trial in design.distinct_edits() if trial.edit not in done]


def count_edit_statuses(run: Run, design: Design) -> Counter[str]:
    """How the edits that the design asks for ended."""
    ended = dict(run.query("SELECT key, status FROM edit"))
    return Counter(ended[trial.edit] for trial in design.distinct_edits() if trial.edit in ended)


def edit(run: Run, design: Design, progress: Progress, stop: StopEvent, budget: Budget) -> None:
    """Make the missing edits and record each one, whatever came of it. Models and services work side by side."""
    all_edits, pending = design.distinct_edits(), pending_edits(run, design)
    allowed = budget.allowed_edits(pending, len(all_edits) - len(pending))
    n_all, n_pending, n_now = (Counter(t.editor for t in trials) for trials in (all_edits, pending, allowed))
    totals = {name: (n_now[name], count - n_pending[name]) for name, count in n_all.items()}
    groups = []
    for mode, editors, trials in group_by_backend(allowed, lambda trial: trial.editor, design.config.editor):
        elsewhere = {n: e.factory for n, e in editors.items() if mode is ExecutionMode.MODEL or e.computes}
        groups.append(
            Group(
                mode=mode,
                items=trials,
                make={name: editor.make for name, editor in editors.items()},
                factories={name: factory for name, factory in elsewhere.items() if factory},
                concurrency=max(editor.concurrency for editor in editors.values()),
            )
        )
    with progress.stages("Edits", totals) as stages, _cluster(design, groups, stop) as cluster:
        step = EditStep(run, design, stages, stop, budget, cluster)
        run_side_by_side([partial(step.run, group) for group in groups], stop)


@contextmanager
def _cluster(design: Design, groups: Sequence[Group[Trial]], stop: StopEvent) -> Iterator[Cluster | None]:
    """Ray, where the audit asks for it and something is left that computes."""
    engine = design.config.audit.engine
    if engine.kind == "local" or all(group.mode is ExecutionMode.REMOTE for group in groups):
        yield None
        return
    with connected(engine.address, stop, engine.patience_s) as cluster:
        yield cluster


class EditStep(Step[Trial, EditReply]):
    """The edits of a run: an item is the first trial that needs the edit."""

    min_items_for_processes = MIN_EDITS_FOR_PROCESSES

    def __init__(
        self,
        run: Run,
        design: Design,
        stages: Mapping[str, Stage],
        stop: StopEvent,
        budget: Budget,
        cluster: Cluster | None = None,
    ) -> None:
        super().__init__(run, design.config.audit.engine.threads, stop, budget)
        self.config = design.config
        self.stages = stages
        self.cluster = cluster
        rules = design.config.protocol.measures
        self._editor_controls = {control.id for control in rules.controls_by("editor")} if rules else set()

    def name_of(self, trial: Trial) -> str:
        return trial.editor

    def budget_key(self, trial: Trial) -> BudgetKey:
        return EDITOR, trial.editor

    def request(self, trial: Trial) -> EditRequest:
        makes_control = trial.is_control and trial.prompt in self._editor_controls
        return EditRequest(
            key=trial.edit,
            image=self.source(trial.image),
            instruction=trial.instruction,
            seed=trial.seed,
            control=trial.prompt if makes_control else "",
            references=(self.source(trial.partner_image),) if trial.partner else (),
        )

    def call(self, editor: Any, request: EditRequest) -> Any:
        return editor.edit(request)

    def crash_reply(self, trial: Trial, detail: str) -> EditReply:
        return EditReply(Status.CRASHED, detail=detail)

    def record(self, trial: Trial, timed: TimedReply[EditReply]) -> Future[None]:
        reply = timed.reply
        status, detail, facts = _check(reply)
        self.stages[trial.editor].count(status, reply.cost_usd)
        self.settle(trial, status, reply.cost_usd)
        attempt = Attempt(
            subject=trial.edit,
            status=status,
            started=timed.started,
            seconds=round(timed.seconds, 6),
            cost_usd=reply.cost_usd,
            detail=detail,
            code=reply.code,
            request_id=reply.request_id,
        )
        if not status.is_final:
            return self.ledger.add_attempt(attempt)
        image = self.ledger.store(reply.image, facts) if reply.image is not None and facts else None
        edit = Edit(
            key=trial.edit,
            status=status,
            image=image.sha256 if image else None,
            detail=detail,
            truth=reply.truth,
        )
        return self.ledger.add_edit(edit, attempt, image, self._provenance(reply))

    def _provenance(self, reply: EditReply) -> EditProvenance | None:
        if not (reply.environment or reply.notes or reply.extras):
            return None
        extras: dict[str, StoredImage] = {}
        for name, content in reply.extras.items():
            try:
                facts = images.inspect(content)
            except images.BadImageError:
                facts = (
                    images.UNKNOWN
                )  # an extra that is no image is kept all the same, and costs the edit nothing
            extras[name] = self.ledger.store(content, facts)
        return EditProvenance(circumstances=reply.environment, notes=reply.notes, extras=extras)

    def proxy(self, pool: ProcessPool | ActorPool, name: str) -> Any:
        return pool.editor(name, self.config.editor(name).deadline)

    def together(self, trial: Trial) -> object:
        return trial.image

    def start_pool(self, group: Group[Any]) -> tuple[ProcessPool | ActorPool | None, int]:
        """On a cluster a thread asks one actor; the quick editors of a group share theirs."""
        if self.cluster is None:
            return super().start_pool(group)
        if not group.factories:
            return None, self.threads
        is_model = group.mode is ExecutionMode.MODEL
        wanted = self.config.audit.engine.share(next(iter(group.make)) if is_model else "")
        resources = self.cluster.settle(wanted, is_model, len(group.items))
        return self.cluster.apart(group.factories, resources), resources.most


def _check(reply: EditReply) -> tuple[Status, str, images.ImageInfo | None]:
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
