"""The judging step: every verdict that is still missing, and nothing else.

A judge behind a network is asked by calls: what is asked about which pictures, by content. Tasks that need the
same call share it, so the same question about the same pixels is paid for once. A call and every verdict that is
read from it are one unit in the ledger, written before the verdicts are used.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

from stillme.core.records import (
    CALIBRATE,
    DRIFT,
    PEOPLE,
    Attempt,
    Exchange,
    JudgeReply,
    JudgeRequest,
    Portrait,
    Status,
    Trial,
    Verdict,
    digest,
)
from stillme.engine.backends import ExecutionMode
from stillme.engine.progress import Progress, Stage
from stillme.engine.threads import StopEvent, run_side_by_side
from stillme.judges import PICTURES, Question, call_key
from stillme.judges.calibration import planted
from stillme.judges.depiction_form import PeopleForm
from stillme.ledger import Run
from stillme.ledger.run import attempts, call_row, question_row
from stillme.ledger.writer import RowInsert
from stillme.plan.design import Design
from stillme.protocol import Protocol
from stillme.steps import batch
from stillme.steps.budget import JUDGE, Budget, BudgetKey
from stillme.steps.step import Group, Step, TimedReply, group_by_backend


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeTask:
    """One verdict to be given: one judge, one edit.

    Attributes:
        labels: The groups of the source person; only simulated judges are given them.
        disclosed: Labels of the source person that the judge is given.
        repeat: 0 for scoring; above 0 for calls that are only compared with the first one.
        is_swapped: Whether the edit is shown as the source, and the source as the edit.
    """

    key: str
    judge: str
    trial: Trial
    image: str
    labels: Mapping[str, str]
    disclosed: Mapping[str, str]
    repeat: int = 0
    is_swapped: bool = False

    @property
    def source(self) -> str:
        """The picture that is shown first, by its hash."""
        return self.image if self.is_swapped else self.trial.image

    @property
    def edited(self) -> str:
        return self.trial.image if self.is_swapped else self.image


# Which verdicts are asked for


def judge_tasks(run: Run, design: Design) -> Iterator[JudgeTask]:
    """Every task that counts, for the edits that are there. Controls are measured, never judged."""
    return _tasks(run, design, list(design.judges), 0, lambda trial: True)


def repeat_tasks(run: Run, design: Design) -> Iterator[JudgeTask]:
    """The second calls: of judges behind a network, for a share of the edits drawn by hash."""
    share = design.config.audit.judging.repeats
    judges = [name for name in design.judges if design.config.judges[name].is_remote]
    if not share or not judges:
        return iter(())
    return _tasks(run, design, judges, 1, lambda t: int(digest("repeat", edit=t.edit)[:12], 16) / 16.0**12 < share)


def _tasks(
    run: Run, design: Design, judges: Sequence[str], repeat: int, is_chosen: Callable[[Trial], bool]
) -> Iterator[JudgeTask]:
    pictures = dict(run.query("SELECT key, image FROM edit WHERE status = ?", (Status.OK.value,)))
    people: dict[str, Portrait] = {portrait.key: portrait for portrait in design.portraits}
    protocol = design.config.protocol
    disclose = design.config.disclose
    disclosed = {k: {name: p.labels[name] for name in disclose if name in p.labels} for k, p in people.items()}
    forms = {DRIFT: form_hash(protocol), PEOPLE: PeopleForm(protocol).hash}
    for trial in design.distinct_edits():
        # Calibration pairs have tasks of their own, see below.
        is_judged = not trial.is_control and trial.experiment != CALIBRATE
        if is_judged and trial.edit in pictures and is_chosen(trial):
            image = pictures[trial.edit]
            # Who is shown is asked of the edit alone, so nothing of the source person is disclosed there.
            labels = disclosed[trial.portrait] if trial.form == DRIFT else {}
            for judge in judges:
                yield JudgeTask(
                    key=look_key(trial, image, design.judges[judge], labels, forms[trial.form], repeat),
                    judge=judge,
                    trial=trial,
                    image=image,
                    labels=people[trial.portrait].labels,
                    disclosed=labels,
                    repeat=repeat,
                )


def calibration(run: Run, design: Design) -> Iterator[JudgeTask]:
    """Every task for the calibration pairs that are there: as audited, repeated, and otherwise disclosed."""
    pairs = [trial for trial in design.trials if trial.experiment == CALIBRATE]
    rules, form = design.config.protocol.calibration, form_hash(design.config.protocol)
    if not pairs or rules is None:
        return
    pictures = dict(run.query("SELECT key, image FROM edit WHERE status = ?", (Status.OK.value,)))
    people = {portrait.key: portrait for portrait in design.portraits}
    for trial in pairs:
        if trial.edit not in pictures:
            continue
        image, labels = pictures[trial.edit], people[trial.portrait].labels
        for dimensions, repeat in views(design):
            disclosed = {name: labels[name] for name in dimensions if name in labels}
            for judge, settings in design.judges.items():
                yield JudgeTask(
                    key=look_key(trial, image, settings, disclosed, form, repeat),
                    judge=judge,
                    trial=trial,
                    image=image,
                    labels=labels,
                    disclosed=disclosed,
                    repeat=repeat,
                    is_swapped=rules.kind(trial.prompt).swaps is not None,
                )


def views(design: Design) -> list[tuple[tuple[str, ...], int]]:
    """How often each judge sees a calibration pair: the disclosed dimensions, and the repeat."""
    options, disclosed = design.config.audit.calibrating, design.config.disclose
    all_views = [(disclosed, 0)]
    all_views += [(disclosed, 1)] if options.repeats else []
    return all_views + ([(alternative_disclosure(design), 0)] if options.disclosure else [])


def alternative_disclosure(design: Design) -> tuple[str, ...]:
    """All dimensions of the person where the audit does not disclose all of them; otherwise none."""
    dimensions = tuple(design.config.protocol.groups.dimensions)
    return () if set(design.config.disclose) == set(dimensions) else dimensions


def form_hash(protocol: Protocol) -> str:
    """What judges are asked: the rubric and the template, word for word."""
    return digest("form", rubrics=protocol.files["rubrics.yaml"], template=protocol.templates["judge_structure"])


def look_key(
    trial: Trial, image: str, settings: str, disclosed: Mapping[str, str], form: str, repeat: int = 0
) -> str:
    """The key of a verdict. The names of these parts are hashed with them, so they do not change."""
    return digest(
        "verdict",
        edit=trial.edit,
        image=image,
        settings=settings,
        disclosed=dict(disclosed),
        form=form,
        prompt=trial.prompt,
        **({"repeat": repeat} if repeat else {}),
    )


def all_judge_tasks(run: Run, design: Design) -> list[JudgeTask]:
    """The tasks that count, the repeated ones, and those that calibrate.

    Judges with equal settings share theirs: the last one is asked.
    """
    tasks = chain(judge_tasks(run, design), repeat_tasks(run, design), calibration(run, design))
    return list({task.key: task for task in tasks}.values())


def pending_judge_tasks(run: Run, design: Design) -> list[JudgeTask]:
    """The tasks without a verdict. Judges with equal settings share theirs."""
    done = run.keys("verdict")
    return [task for task in all_judge_tasks(run, design) if task.key not in done]


def count_verdict_statuses(run: Run, design: Design) -> dict[str, Counter[str]]:
    """Judge -> how its verdicts ended, of those that count."""
    ended = dict(run.query("SELECT key, status FROM verdict"))
    counts: dict[str, Counter[str]] = {judge: Counter() for judge in design.judges}
    for task in judge_tasks(run, design):
        if task.key in ended:
            counts[task.judge][ended[task.key]] += 1
    return counts


# Asking for them


def judge(run: Run, design: Design, progress: Progress, stop: StopEvent, budget: Budget) -> None:
    """Ask for the missing verdicts and record each one, whatever came of it. Services are asked side by side."""
    done, tasks = run.keys("verdict"), all_judge_tasks(run, design)
    pending = [task for task in tasks if task.key not in done]
    n_pending, n_all = (Counter(task.judge for task in some) for some in (pending, tasks))
    totals = {name: (n_pending[name], n_all[name] - n_pending[name]) for name in design.judges}
    jobs: list[list[Group[JudgeTask]]] = []
    for mode, judges, members in group_by_backend(
        pending, lambda task: task.judge, design.config.judges.__getitem__
    ):
        if mode is not ExecutionMode.REMOTE:
            make = {name: prepared.make for name, prepared in judges.items()}
            jobs.append([Group(mode=mode, items=members, make=make)])
            continue
        ((name, prepared),) = judges.items()
        jobs.append(
            [
                Group(
                    mode=mode,
                    items=[task for task in members if task.trial.form == form],
                    make={name: partial(prepared.make_for, form)},
                    concurrency=prepared.concurrency,
                )
                for form in (DRIFT, PEOPLE)
                if any(task.trial.form == form for task in members)
            ]
        )
    with progress.stages("Verdicts", totals, "judge") as stages:
        step = JudgeStep(run, design, stages, stop, budget, progress.say)
        run_side_by_side([partial(step.run, *groups) for groups in jobs], stop)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeCall:
    """What a judge is asked at once, and the tasks that wait for it.

    A judge in this process is asked for one task at a time: then `question` is None and the key is the task's.
    """

    key: str
    tasks: tuple[JudgeTask, ...]
    question: Question | None = None

    @property
    def first(self) -> JudgeTask:
        return self.tasks[0]


class JudgeStep(Step[JudgeCall, JudgeReply]):
    """The verdicts of a run."""

    budget: Budget
    recorders = 0  # nothing is decoded or stored for a verdict, so the loop itself records it

    def __init__(
        self,
        run: Run,
        design: Design,
        stages: Mapping[str, Stage],
        stop: StopEvent,
        budget: Budget,
        log: Callable[[str], None],
    ) -> None:
        super().__init__(run, design.config.audit.engine.threads, stop, budget)
        self.design = design
        self.protocol = design.config.protocol
        self.stages = stages
        self.log = log
        self._noted_questions: set[tuple[str, str]] = set()  # (judge, question) that this session has noted

    def name_of(self, call: JudgeCall) -> str:
        return call.first.judge

    def budget_key(self, call: JudgeCall) -> BudgetKey:
        return JUDGE, call.first.judge

    def remaining(self, group: Group[Any]) -> Sequence[JudgeCall]:
        """A call for each task; of a service, one for all tasks that need it, unless a batch has answered it."""
        if group.mode is not ExecutionMode.REMOTE:
            return [JudgeCall(key=task.key, tasks=(task,)) for task in group.items]
        ((name, make),) = group.make.items()
        calls = self._without_answered(self._share_calls(make(), group.items))
        elsewhere = self._exchange_batches(name, make, {call.key: call for call in calls})
        return [call for call in calls if call.key not in elsewhere]

    def request(self, call: JudgeCall) -> JudgeRequest:
        """What a judge is sent. Only a simulated one is given what was planted."""
        task = call.first
        request = self._question_request(task)
        request = replace(request, source=self.source(task.source), edited=self.ledger.image(task.edited))
        if not self.design.config.judges[task.judge].simulated:
            return request
        is_pair = task.trial.experiment == CALIBRATE  # what is true of it as it is shown
        truth = planted(self.protocol, task.trial.prompt) if is_pair else self.ledger.truth(task.trial.edit)
        return replace(request, planted=truth, planted_labels=task.labels)

    def _question_request(self, task: JudgeTask) -> JudgeRequest:
        """The request without pictures. Its instruction has the same words in every arm, so judges do not know
        which one they see."""
        trial, calibrates = task.trial, self.protocol.calibration
        if trial.experiment == CALIBRATE and calibrates is not None:
            instruction = calibrates.asked(calibrates.kind(trial.prompt))
        else:
            prompt = self.protocol.prompt.get(trial.prompt)
            instruction = prompt.text if prompt else trial.instruction
        return JudgeRequest(
            key=task.key,
            source=b"",
            edited=b"",
            instruction=instruction,
            axes=self.axes(trial),
            disclosed=task.disclosed,
            prompt=trial.prompt,
            repeat=task.repeat,
            form=trial.form,
        )

    def axes(self, trial: Trial) -> tuple[str, ...]:
        """What a form asks about: axes, or the occupations that people may be shown in, in one order."""
        if trial.form == DRIFT:
            return self.protocol.axes_of(trial.prompt)
        pair = self.protocol.pair[trial.prompt]
        return tuple(sorted((pair.target, pair.other)))

    def call(self, judge: Any, request: JudgeRequest) -> Any:
        return judge.judge(request)

    def crash_reply(self, call: JudgeCall, detail: str) -> JudgeReply:
        return JudgeReply(Status.CRASHED, detail=detail)

    def record(self, call: JudgeCall, timed: TimedReply[JudgeReply]) -> Future[None]:
        reply = self._check(call, timed.reply)
        self.settle(call, reply.status, reply.cost_usd)
        self._count(call, reply.status, reply.cost_usd)
        if call.question is not None:
            return self._record_call(call, call.question, reply)
        attempt = Attempt(
            subject=call.key,
            status=reply.status,
            started=timed.started,
            seconds=round(timed.seconds, 6),
            cost_usd=reply.cost_usd,
            detail=reply.detail,
        )
        return self.ledger.add_verdicts(self._verdicts(call, reply), [attempt])

    def _check(self, call: JudgeCall, reply: JudgeReply) -> JudgeReply:
        """Scores count only when every axis asked has a point of its scale: nothing is guessed."""
        trial = call.first.trial
        if reply.status is not Status.OK or trial.form != DRIFT:
            return reply
        axes = self.axes(trial)
        wrong = [axis for axis in axes if reply.scores.get(axis) not in self.protocol.axes[axis].scale]
        wrong += [axis for axis in reply.scores if axis not in axes]
        if not wrong:
            return reply
        return replace(reply, status=Status.MALFORMED, scores={}, detail=f"no usable score for {', '.join(wrong)}")

    def _count(self, call: JudgeCall, status: Status, cost_usd: float) -> None:
        """Every task counts; the first one bears the cost."""
        for number, task in enumerate(call.tasks):
            self.stages[task.judge].count(status, 0.0 if number else cost_usd)

    def _verdicts(self, call: JudgeCall, reply: JudgeReply) -> Iterator[Verdict]:
        """One verdict per task, or none if the call did not end for good: it is asked again on the next run."""
        for task in call.tasks if reply.status.is_final else ():
            yield Verdict(
                key=task.key,
                edit=task.trial.edit,
                judge=task.judge,
                settings=self.design.judges[task.judge],
                status=reply.status,
                scores=reply.scores,
                evidence=reply.evidence,
                detail=reply.detail,
                observations=reply.observations,
                call=call.key if call.question is not None else "",
                repeat=task.repeat,
                people=reply.people,
            )

    # Services: calls that several tasks share

    def _share_calls(self, judge: Any, tasks: Sequence[JudgeTask]) -> list[JudgeCall]:
        """In the plan's order; tasks with the same pixels and the same question share a call."""
        shared: dict[str, JudgeCall] = {}
        for task in tasks:
            question = judge.question(self._question_request(task))
            key = call_key(question, task.source, task.edited, task.repeat)
            others = shared[key].tasks if key in shared else ()
            shared[key] = JudgeCall(key=key, tasks=(*others, task), question=question)
        return list(shared.values())

    def _without_answered(self, calls: Sequence[JudgeCall]) -> list[JudgeCall]:
        """The calls that are still to be made; verdicts of those that were made before are copied from theirs."""
        rows = self.ledger.query("SELECT call, min(key) FROM verdict WHERE call <> '' GROUP BY call")
        verdict_by_call = dict(rows)
        copies = []
        for call in calls:
            if call.key in verdict_by_call:
                reply = _reply_of_verdict(self.ledger, verdict_by_call[call.key])
                self._count(call, reply.status, 0.0)
                copies.append(self.ledger.add_verdicts(self._verdicts(call, reply), []))
        for copied in copies:
            copied.result()
        return [call for call in calls if call.key not in verdict_by_call]

    def _record_call(self, call: JudgeCall, question: Question, reply: JudgeReply) -> Future[None]:
        """Other calls continue meanwhile, so it may be committed with theirs."""
        return self.ledger.add_verdicts(
            self._verdicts(call, reply), attempts(call.key, reply), self._call_rows(call, question), patient=True
        )

    def _call_rows(self, call: JudgeCall, question: Question) -> Iterator[RowInsert]:
        """What was asked: the question once a session, the call each time."""
        first = call.first
        if (first.judge, question.hash) not in self._noted_questions:
            self._noted_questions.add((first.judge, question.hash))
            yield question_row(question.hash, question.content)
        yield call_row(call.key, question.hash, first.source, first.edited, first.repeat)

    # Services: batches

    def _exchange_batches(self, name: str, make: Callable[[], Any], calls: Mapping[str, JudgeCall]) -> set[str]:
        """Send and collect batches; return the calls that they answered, and those that are still under way.

        Batches of an earlier session are fetched in live mode too.
        """
        wait_s = self.design.config.judges[name].batch_wait_s
        settings = self.design.judges[name]
        if wait_s is None and not batch.is_open(self.ledger, name, settings):
            return set()
        answered: set[str] = set()

        async def exchange() -> set[str]:
            judge = make()
            try:
                if judge.batches is None:
                    return set()
                return await batch.ship(
                    run=self.ledger,
                    judge=name,
                    settings=settings,
                    batches=judge.batches,
                    wanted={key: _BatchedCall(self, call) for key, call in calls.items()},
                    keep=lambda key, ended: self._record_batched(calls[key], ended, answered),
                    room=(lambda: 0) if wait_s is None else partial(self.budget.room, (JUDGE, name)),
                    wait_s=batch.MAX_WAIT_S if wait_s is None else wait_s,
                    stop=self.stop,
                    log=self.log,
                    folder=self.ledger.path / "batches",
                )
            finally:
                await judge.close()

        return asyncio.run(exchange()) | answered

    def _record_batched(self, call: JudgeCall, exchange: Exchange, answered: set[str]) -> Future[None]:
        """What came of a call in a batch: its verdicts, or only an attempt; then it is asked live.

        So is one that was rejected: live it is known whether the call is wrong, or a parameter, or the key.
        """
        assert call.question is not None  # only services have batches
        reply = self._check(call, JudgeReply.of((exchange,)))
        self.budget.spend(reply.cost_usd)
        ended = exchange.status
        is_unusable = ended in (Status.MALFORMED, Status.TRUNCATED, Status.REJECTED) or not ended.is_final
        if is_unusable or reply.status is not ended:
            rows = self._call_rows(call, call.question)
            return self.ledger.add_verdicts([], attempts(call.key, reply), rows)
        answered.add(call.key)
        self._count(call, reply.status, reply.cost_usd)
        return self._record_call(call, call.question, reply)


class _BatchedCall:
    """A call as a batch takes it."""

    def __init__(self, step: JudgeStep, call: JudgeCall) -> None:
        self._step = step
        self._call = call
        self.key = call.key

    @property
    def axes(self) -> tuple[str, ...]:
        return self._step.axes(self._call.first.trial)

    def body(self) -> bytes:
        question, task = self._call.question, self._call.first
        assert question is not None
        pictures = self._step.source(task.source), self._step.ledger.image(task.edited)
        shown = dict(zip(PICTURES, pictures, strict=True))
        return question.body(*(base64.b64encode(shown[name]) for name in question.pictures))


def _reply_of_verdict(run: Run, verdict: str) -> JudgeReply:
    """How the call ended that a verdict was read from."""
    sql = "SELECT status, evidence, detail, observations FROM verdict WHERE key = ?"
    ((status, evidence, detail, observations),) = run.query(sql, (verdict,))
    return JudgeReply(
        status=Status(status),
        scores=run.scores(verdict),
        evidence=evidence,
        detail=detail,
        observations=json.loads(observations) if observations else {},
        people=run.people(verdict),
    )
