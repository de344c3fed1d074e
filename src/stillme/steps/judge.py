"""The judging step: every verdict that is still missing, and nothing else.

A judge behind a network is asked by calls: what is asked about which pictures, by content. Looks that need the
same call share it, so the same question about the same pixels is paid for once. A call and every verdict that is
read off it are one unit in the ledger, written before the verdicts are used.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import chain
from typing import Any

from stillme.core.errors import StillmeError
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
from stillme.engine.backends import Lane, Prepared
from stillme.engine.local import Stop, side_by_side, work
from stillme.engine.progress import Progress, Stage
from stillme.engine.waiting import Ask, wait
from stillme.judges import PICTURES, Judge, Question, RemoteJudge, call_key
from stillme.judges.calibration import planted
from stillme.judges.depiction_form import PeopleForm
from stillme.ledger import Run
from stillme.ledger.objects import Objects
from stillme.ledger.run import attempts, call_row, now, question_row
from stillme.plan.design import Design
from stillme.protocol import Protocol
from stillme.steps import batch
from stillme.steps.budget import JUDGE, Purse, not_made


@dataclass(frozen=True, slots=True)
class Look:
    """One judge's look at one edit. `repeat`: above 0 for looks that are only held against the first."""

    key: str
    judge: str
    trial: Trial
    image: str
    labels: Mapping[str, str]
    disclosed: Mapping[str, str]
    repeat: int = 0
    swapped: bool = False  # the edit is shown as the source, and the source as the edit

    @property
    def source(self) -> str:
        """The picture that is shown first, by its hash."""
        return self.image if self.swapped else self.trial.image

    @property
    def edited(self) -> str:
        return self.trial.image if self.swapped else self.image


def looks(run: Run, design: Design) -> Iterator[Look]:
    """Every look that counts, at the edits that are there. Controls are measured, never judged."""
    return _looks(run, design, list(design.judges), 0, lambda trial: True)


def repeated(run: Run, design: Design) -> Iterator[Look]:
    """The second looks: by judges behind a network, at a share of the edits drawn by hash."""
    share = design.config.audit.judging.repeats
    judges = [name for name in design.judges if design.config.judges[name].lane is Lane.REMOTE]
    if not share or not judges:
        return iter(())
    return _looks(run, design, judges, 1, lambda trial: _drawn(trial) < share)


def _drawn(trial: Trial) -> float:
    return int(digest("repeat", edit=trial.edit)[:12], 16) / 16.0**12


def _looks(
    run: Run, design: Design, judges: Sequence[str], repeat: int, takes: Callable[[Trial], bool]
) -> Iterator[Look]:
    pictures = dict(run.query("SELECT key, image FROM edit WHERE status = ?", (Status.OK.value,)))
    people: dict[str, Portrait] = {portrait.key: portrait for portrait in design.portraits}
    protocol = design.config.protocol
    disclose = design.config.disclose
    told = {k: {name: p.labels[name] for name in disclose if name in p.labels} for k, p in people.items()}
    forms = {DRIFT: form_hash(protocol), PEOPLE: PeopleForm(protocol).hash}
    for trial in design.distinct_edits():
        if _is_judged(trial) and trial.edit in pictures and takes(trial):
            labels, disclosed = people[trial.portrait].labels, told[trial.portrait]
            for judge in judges:
                told_now = disclosed if trial.form == DRIFT else {}  # who is shown is asked of the edit alone
                form = forms[trial.form]
                key = look_key(trial, pictures[trial.edit], design.judges[judge], told_now, form, repeat)
                yield Look(key, judge, trial, pictures[trial.edit], labels, told_now, repeat)


def _is_judged(trial: Trial) -> bool:
    """Whether judges look at it in the course of the audit; calibration pairs have looks of their own."""
    return not trial.is_control and trial.experiment != CALIBRATE


def calibration(run: Run, design: Design) -> Iterator[Look]:
    """Every look at the calibration pairs that are there: as the audit asks, again, and otherwise disclosed."""
    pairs = [trial for trial in design.trials if trial.experiment == CALIBRATE]
    rules, form = design.config.protocol.calibration, form_hash(design.config.protocol)
    if not pairs or rules is None:
        return
    pictures = dict(run.query("SELECT key, image FROM edit WHERE status = ?", (Status.OK.value,)))
    people = {portrait.key: portrait for portrait in design.portraits}
    for trial in pairs:
        if trial.edit in pictures:
            image, labels = pictures[trial.edit], people[trial.portrait].labels
            for told, repeat in views(design):
                known = {name: labels[name] for name in told if name in labels}
                for judge, settings in design.judges.items():
                    key = look_key(trial, image, settings, known, form, repeat)
                    is_swapped = rules.kind(trial.prompt).swaps is not None
                    yield Look(key, judge, trial, image, labels, known, repeat, is_swapped)


def views(design: Design) -> list[tuple[tuple[str, ...], int]]:
    """How often each judge looks at a calibration pair: what it is told of the person, and the look's number."""
    wanted, own = design.config.audit.calibrating, design.config.disclose
    every = [(own, 0)]
    every += [(own, 1)] if wanted.repeats else []
    return every + ([(otherwise_told(design), 0)] if wanted.disclosure else [])


def otherwise_told(design: Design) -> tuple[str, ...]:
    """Everything about the person where the audit does not tell all of it; else nothing."""
    dimensions = tuple(design.config.protocol.groups.dimensions)
    return () if set(design.config.disclose) == set(dimensions) else dimensions


def form_hash(protocol: Protocol) -> str:
    """What judges are asked: the rubric and the template, as they stand."""
    return digest("form", rubrics=protocol.files["rubrics.yaml"], template=protocol.templates["judge_structure"])


def look_key(
    trial: Trial, image: str, settings: str, disclosed: Mapping[str, str], form: str, repeat: int = 0
) -> str:
    again = {"repeat": repeat} if repeat else {}
    return digest(
        "verdict",
        edit=trial.edit,
        image=image,
        settings=settings,
        disclosed=dict(disclosed),
        form=form,
        prompt=trial.prompt,
        **again,
    )


def missing(run: Run, design: Design) -> tuple[list[Look], int]:
    """The looks without a verdict, and how many have one. Judges with equal settings share theirs."""
    todo, there = _sorted_out(run, design)
    return todo, there.total()


def _sorted_out(run: Run, design: Design) -> tuple[list[Look], Counter[str]]:
    """The looks without a verdict; judge -> how many have one."""
    done, every = run.keys("verdict"), wanted(run, design)
    there = Counter(look.judge for look in every if look.key in done)
    return [look for look in every if look.key not in done], there


def wanted(run: Run, design: Design) -> list[Look]:
    """The looks that count, the second ones, and those that calibrate.

    Judges with equal settings share theirs: the last one is asked.
    """
    every = chain(looks(run, design), repeated(run, design), calibration(run, design))
    return list({look.key: look for look in every}.values())


def standing(run: Run, design: Design) -> dict[str, Counter[str]]:
    """Judge -> how its verdicts ended, of those that count."""
    ended = dict(run.query("SELECT key, status FROM verdict"))
    counts: dict[str, Counter[str]] = {judge: Counter() for judge in design.judges}
    for look in looks(run, design):
        if look.key in ended:
            counts[look.judge][ended[look.key]] += 1
    return counts


def judge(run: Run, design: Design, progress: Progress, stop: Stop, purse: Purse) -> None:
    """Asks for the missing verdicts and records each one, whatever came of it. Services are asked side by side."""
    todo, there = _sorted_out(run, design)
    left = Counter(look.judge for look in todo)
    totals = {name: (left[name], there[name]) for name in design.judges}
    with progress.stages("Verdicts", totals, "judge") as stages:
        step = _Step(run, design, stages, stop, purse, progress.say)
        side_by_side([partial(step.run, name, some) for name, some in _lanes(design, todo).items()], stop)


def _lanes(design: Design, todo: Sequence[Look]) -> dict[str, list[Look]]:
    """Quick judges share their threads, under no name; every service is asked beside them on its own."""
    lanes: dict[str, list[Look]] = {}
    for look in todo:
        remote = design.config.judges[look.judge].lane is Lane.REMOTE
        lanes.setdefault(look.judge if remote else "", []).append(look)
    return lanes


@dataclass(frozen=True, slots=True)
class _Call:
    """What is asked of a service: a question about two pictures, and the looks that wait for it."""

    key: str
    question: Question
    looks: tuple[Look, ...]

    @property
    def first(self) -> Look:
        return self.looks[0]


class _Step:
    """The verdicts of a run: asked, checked, recorded."""

    def __init__(
        self,
        run: Run,
        design: Design,
        stages: Mapping[str, Stage],
        stop: Stop,
        purse: Purse,
        say: Callable[[str], None],
    ) -> None:
        self.held, self.design, self.protocol = run, design, design.config.protocol
        self.stages, self.stop, self.purse, self.say = stages, stop, purse, say
        self.source = lru_cache(maxsize=64)(run.image)
        self._simulated = {name for name, one in design.config.judges.items() if one.simulated}

    def run(self, judge: str, todo: Sequence[Look]) -> None:
        if judge:
            for form in (DRIFT, PEOPLE):
                some = [look for look in todo if look.trial.form == form]
                if some:
                    _Service(self, judge, self.design.config.judges[judge], form).run(some)
            return
        judges = {name: self.design.config.judges[name].make() for name in {look.judge for look in todo}}
        work(todo, partial(self._do, judges), self.design.config.audit.engine.threads, self.stop)

    def _do(self, judges: Mapping[str, Judge], look: Look) -> Future[None]:
        if not self.purse.wait((JUDGE, look.judge), self.stop):
            return not_made()
        request = self._with_truth(
            look, self.request(look, self.source(look.source), self.held.image(look.edited))
        )
        started, clock = now(), time.perf_counter()
        reply = self.checked(_ask(judges[look.judge], request), look.trial)
        seconds = round(time.perf_counter() - clock, 6)
        self.count([look], reply)
        attempt = Attempt(look.key, reply.status, started, seconds, reply.cost_usd, reply.detail)
        return self.held.add_verdicts(self.verdicts([look], reply), [attempt])

    def request(self, look: Look, source: bytes = b"", edited: bytes = b"") -> JudgeRequest:
        """What a judge is sent: nothing that was planted."""
        trial = look.trial
        return JudgeRequest(
            look.key,
            source,
            edited,
            self._told(trial),
            self.asked(trial),
            look.disclosed,
            prompt=trial.prompt,
            repeat=look.repeat,
            form=trial.form,
        )

    def _told(self, trial: Trial) -> str:
        """What a judge is told was asked for: the same in every arm, so it does not know which one it sees."""
        if trial.experiment == CALIBRATE and self.protocol.calibration is not None:
            return self.protocol.calibration.asked(self.protocol.calibration.kind(trial.prompt))
        asked = self.protocol.prompt.get(trial.prompt)
        return asked.text if asked else trial.instruction

    def asked(self, trial: Trial) -> tuple[str, ...]:
        """What a form asks about: axes, or the occupations that people may be shown in, in one order."""
        if trial.form == DRIFT:
            return self.protocol.axes_of(trial.prompt)
        pair = self.protocol.pair[trial.prompt]
        return tuple(sorted((pair.target, pair.other)))

    def _with_truth(self, look: Look, request: JudgeRequest) -> JudgeRequest:
        """Only a simulated judge is given the planted truth."""
        if look.judge not in self._simulated:
            return request
        return replace(request, planted=self._truth(look.trial), planted_labels=look.labels)

    def _truth(self, trial: Trial) -> Mapping[str, float]:
        """What was planted; of a calibration pair, what is true of it as it is shown."""
        if trial.experiment == CALIBRATE:
            return planted(self.protocol, trial.prompt)
        return self.held.truth(trial.edit)

    def checked(self, reply: JudgeReply, trial: Trial) -> JudgeReply:
        """Scores count only when every axis asked has a point of its scale: nothing is guessed."""
        if reply.status is not Status.OK or trial.form != DRIFT:
            return reply
        axes = self.asked(trial)
        wrong = [axis for axis in axes if reply.scores.get(axis) not in self.protocol.axes[axis].scale]
        wrong += [axis for axis in reply.scores if axis not in axes]
        if not wrong:
            return reply
        return replace(reply, status=Status.MALFORMED, scores={}, detail=f"no usable score for {', '.join(wrong)}")

    def count(self, looks: Sequence[Look], reply: JudgeReply) -> None:
        who = (JUDGE, looks[0].judge)
        self.purse.settle(who, reply.cost_usd, reply.status is Status.OK)
        if reply.status is Status.QUOTA:
            self.purse.exhaust(who)
        self.tell(looks, reply.status, reply.cost_usd)

    def tell(self, looks: Sequence[Look], status: Status, cost_usd: float) -> None:
        for number, look in enumerate(looks):
            self.stages[look.judge].count(status, 0.0 if number else cost_usd)

    def verdicts(self, looks: Sequence[Look], reply: JudgeReply, call: str = "") -> Iterator[Verdict]:
        """None where the call did not end for good: it is asked again on the next run."""
        for look in looks if reply.status.is_final else ():
            yield Verdict(
                look.key,
                look.trial.edit,
                look.judge,
                self.design.judges[look.judge],
                reply.status,
                reply.scores,
                reply.evidence,
                reply.detail,
                reply.observations,
                call,
                look.repeat,
                reply.people,
            )


class _Service:
    """One judge behind a network: in batches where it is asked so, and live for whatever is left."""

    def __init__(self, step: _Step, name: str, prepared: Prepared[RemoteJudge], form: str = DRIFT) -> None:
        self.step, self.name, self.prepared, self.form, self.held = step, name, prepared, form, step.held
        self.settings = step.design.judges[name]
        self._asked: set[str] = set()  # questions that this session has noted
        self._ended: set[str] = set()  # calls that ended for good
        self._in_folder = isinstance(step.held.objects, Objects)

    def run(self, todo: Sequence[Look]) -> None:
        calls = self._copied(self._calls(todo))
        under_way = self._shipped({call.key: call for call in calls})
        left = [call for call in calls if call.key not in under_way and call.key not in self._ended]
        wait(left, self._opened, self._keep, self.prepared.concurrency, self.step.stop, recorders=0)

    def _calls(self, todo: Sequence[Look]) -> list[_Call]:
        """In the plan's order; looks at the same pixels with the same question share one."""
        judge = self.prepared.filling(self.form)
        shared: dict[str, _Call] = {}
        for look in todo:
            question = judge.question(self.step.request(look))
            key = call_key(question, look.source, look.edited, look.repeat)
            others = shared[key].looks if key in shared else ()
            shared[key] = _Call(key, question, (*others, look))
        return list(shared.values())

    def _copied(self, calls: Sequence[_Call]) -> list[_Call]:
        """The calls that are still to be made; verdicts of those that were made before are read off them."""
        answered = dict(self.held.query("SELECT call, min(key) FROM verdict WHERE call <> '' GROUP BY call"))
        for committed in [self._copy(call, answered[call.key]) for call in calls if call.key in answered]:
            committed.result()
        return [call for call in calls if call.key not in answered]

    def _copy(self, call: _Call, verdict: str) -> Future[None]:
        reply = _recalled(self.held, verdict)
        self.step.tell(call.looks, reply.status, 0.0)
        return self.held.add_verdicts(self.step.verdicts(call.looks, reply, call.key), [])

    # In batches

    def _shipped(self, calls: Mapping[str, _Call]) -> set[str]:
        """Calls whose batch is still under way. Batches of an earlier session are fetched in live mode too."""
        wait_s = self.prepared.batch_wait_s
        if wait_s is None and not batch.is_open(self.held, self.name, self.settings):
            return set()
        return asyncio.run(self._ship(calls, wait_s))

    async def _ship(self, calls: Mapping[str, _Call], wait_s: float | None) -> set[str]:
        judge = self.prepared.filling(self.form)
        try:
            if judge.batches is None:
                return set()
            wanted = {key: _Wanted(self, call) for key, call in calls.items()}
            room = (lambda: 0) if wait_s is None else partial(self.step.purse.room, (JUDGE, self.name))
            return await batch.ship(
                self.held,
                self.name,
                self.settings,
                judge.batches,
                wanted,
                partial(self._keep_shipped, calls),
                room,
                batch.LONGEST_WAIT if wait_s is None else wait_s,
                self.step.stop,
                self.step.say,
                self.held.path / "batches",
            )
        finally:
            await judge.close()

    def _keep_shipped(self, calls: Mapping[str, _Call], key: str, exchange: Exchange) -> Future[None]:
        """What came of a call in a batch: final, or only an attempt; then it is asked live.

        So is one that was rejected: live it is known whether the call is wrong, or a parameter, or the key.
        """
        call, ended = calls[key], exchange.status
        again = ended in (Status.MALFORMED, Status.TRUNCATED, Status.REJECTED) or not ended.is_final
        reply = self.step.checked(JudgeReply.of((exchange,)), call.first.trial)
        self.step.purse.spend(reply.cost_usd)
        if again or reply.status is not exchange.status:
            return self.held.add_verdicts([], attempts(call.key, reply), self._noted(call))
        self._ended.add(key)
        self.step.tell(call.looks, reply.status, reply.cost_usd)
        return self._recorded(call, reply)

    # Live

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[Ask[_Call, JudgeReply | None]]:
        judge = self.prepared.filling(self.form)
        try:
            yield partial(self._ask, judge)
        finally:
            await judge.close()

    async def _ask(self, judge: RemoteJudge, call: _Call) -> JudgeReply | None:
        if not await self.step.purse.wait_on_loop((JUDGE, self.name), self.step.stop):
            return None
        try:
            reply = await judge.judge(self.step.request(call.first, *await self._pictures(call)))
            return self.step.checked(reply, call.first.trial)
        except StillmeError:
            raise
        except Exception as error:
            return JudgeReply(Status.CRASHED, detail=f"{type(error).__name__}: {error}")

    async def _pictures(self, call: _Call) -> tuple[bytes, bytes]:
        """Read here where they lie on this disk; waited for elsewhere, so that other calls go on."""
        if self._in_folder:
            return self.pictures(call)
        return await asyncio.to_thread(self.pictures, call)

    def pictures(self, call: _Call) -> tuple[bytes, bytes]:
        return self.step.source(call.first.source), self.held.image(call.first.edited)

    def _keep(self, call: _Call, reply: JudgeReply | None) -> Future[None]:
        if reply is None:
            return not_made()
        self.step.count(call.looks, reply)
        return self._recorded(call, reply)

    def _recorded(self, call: _Call, reply: JudgeReply) -> Future[None]:
        """Other calls go on meanwhile, so it may be committed with theirs."""
        verdicts = self.step.verdicts(call.looks, reply, call.key)
        return self.held.add_verdicts(verdicts, attempts(call.key, reply), self._noted(call), patient=True)

    def _noted(self, call: _Call) -> Iterator[Any]:
        """Rows that say what was asked: the question once a session, the call each time."""
        if call.question.hash not in self._asked:
            self._asked.add(call.question.hash)
            yield question_row(call.question.hash, call.question.content)
        first = call.first
        yield call_row(call.key, call.question.hash, first.source, first.edited, first.repeat)

    def axes(self, call: _Call) -> tuple[str, ...]:
        return self.step.asked(call.first.trial)


class _Wanted:
    """A call as a batch wants it."""

    def __init__(self, service: _Service, call: _Call) -> None:
        self._service, self._call, self.key = service, call, call.key

    @property
    def axes(self) -> tuple[str, ...]:
        return self._service.axes(self._call)

    def body(self) -> bytes:
        question = self._call.question
        shown = dict(zip(PICTURES, self._service.pictures(self._call), strict=True))
        return question.body(*(base64.b64encode(shown[name]) for name in question.pictures))


def _recalled(run: Run, verdict: str) -> JudgeReply:
    """How the call ended that a verdict was read off."""
    columns = "status, evidence, detail, observations"
    ((status, evidence, detail, seen),) = run.query(f"SELECT {columns} FROM verdict WHERE key = ?", (verdict,))  # noqa: S608 (names are ours, values are parameters)
    observations = json.loads(seen) if seen else {}
    scores, people = run.scores(verdict), run.people(verdict)
    return JudgeReply(Status(status), scores, evidence, detail, observations=observations, people=people)


def _ask(judge: Judge, request: JudgeRequest) -> JudgeReply:
    """A bug in a backend costs one attempt, not the run."""
    try:
        return judge.judge(request)
    except Exception as error:
        return JudgeReply(Status.CRASHED, detail=f"{type(error).__name__}: {error}")
