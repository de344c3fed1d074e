"""The judging step: every verdict that is still missing, and nothing else."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import lru_cache

from stillme.design import Design
from stillme.engine.local import Stop, work
from stillme.judges import Judge
from stillme.ledger import Run
from stillme.ledger.run import now
from stillme.progress import Progress, Stage
from stillme.protocol import Protocol
from stillme.purse import JUDGE, Purse, not_made
from stillme.records import Attempt, JudgeReply, JudgeRequest, Portrait, Status, Trial, Verdict, digest


@dataclass(frozen=True)
class Look:
    """One judge's look at one edit."""

    key: str
    judge: str
    trial: Trial
    image: str
    labels: Mapping[str, str]
    disclosed: Mapping[str, str]


def looks(run: Run, design: Design) -> Iterator[Look]:
    """Every look that the design asks for, at the edits that are there. Controls are measured, never judged."""
    pictures = dict(run.query("SELECT key, image FROM edit WHERE status = ?", (Status.OK.value,)))
    people: dict[str, Portrait] = {portrait.key: portrait for portrait in design.portraits}
    protocol = design.config.protocol
    disclose = protocol.presets[design.config.audit.preset].disclose
    form = form_hash(protocol)
    for trial in design.distinct_edits():
        if not trial.is_control and trial.edit in pictures:
            labels = people[trial.portrait].labels
            disclosed = {name: labels[name] for name in disclose if name in labels}
            for judge, settings in design.judges.items():
                key = look_key(trial, pictures[trial.edit], settings, disclosed, form)
                yield Look(key, judge, trial, pictures[trial.edit], labels, disclosed)


def form_hash(protocol: Protocol) -> str:
    """What judges are asked: the rubric and the template, as they stand."""
    return digest("form", rubrics=protocol.files["rubrics.yaml"], template=protocol.templates["judge_structure"])


def look_key(trial: Trial, image: str, settings: str, disclosed: Mapping[str, str], form: str) -> str:
    return digest(
        "verdict",
        edit=trial.edit,
        image=image,
        settings=settings,
        disclosed=dict(disclosed),
        form=form,
        prompt=trial.prompt,
    )


def missing(run: Run, design: Design) -> tuple[list[Look], int]:
    """The looks without a verdict, and how many have one. Judges with equal settings share theirs."""
    done = run.keys("verdict")
    wanted = {look.key: look for look in looks(run, design)}
    todo = [look for look in wanted.values() if look.key not in done]
    return todo, len(wanted) - len(todo)


def standing(run: Run, design: Design) -> dict[str, Counter[str]]:
    """Judge -> how its verdicts ended, of those that the design asks for."""
    ended = dict(run.query("SELECT key, status FROM verdict"))
    counts: dict[str, Counter[str]] = {judge: Counter() for judge in design.judges}
    for look in looks(run, design):
        if look.key in ended:
            counts[look.judge][ended[look.key]] += 1
    return counts


def judge(run: Run, design: Design, progress: Progress, stop: Stop, purse: Purse) -> None:
    """Asks for the missing verdicts and records each one, whatever came of it."""
    todo, already = missing(run, design)
    judges = {name: design.config.judges[name].make() for name in {look.judge for look in todo}}
    simulated = [name for name, prepared in design.config.judges.items() if prepared.simulated]
    with progress.stage("Verdicts", len(todo), already) as stage:
        step = _Step(run, design, judges, simulated, stage, stop, purse)
        work(todo, step.do, design.config.audit.engine.threads, stop)


class _Step:
    """One verdict: asked, checked, recorded."""

    def __init__(
        self,
        run: Run,
        design: Design,
        judges: Mapping[str, Judge],
        simulated: Sequence[str],
        stage: Stage,
        stop: Stop,
        purse: Purse,
    ) -> None:
        self.run, self.design, self.judges = run, design, judges
        self.simulated, self.stage, self.stop, self.purse = simulated, stage, stop, purse
        self._image = lru_cache(maxsize=64)(run.image)

    def do(self, look: Look) -> Future[None]:
        if not self.purse.wait((JUDGE, look.judge), self.stop):
            return not_made()
        request = self._request(look)
        started, clock = now(), time.perf_counter()
        reply = _check(_ask(self.judges[look.judge], request), request, self.design.config.protocol)
        seconds = time.perf_counter() - clock
        self.stage.count(reply.status, reply.cost_usd)
        self.purse.settle((JUDGE, look.judge), reply.cost_usd, reply.status is Status.OK)
        attempt = Attempt(look.key, reply.status, started, round(seconds, 6), reply.cost_usd, reply.detail)
        if not reply.status.is_final:
            return self.run.add_attempt(attempt)
        return self.run.add_verdict(self._verdict(look, reply), attempt)

    def _request(self, look: Look) -> JudgeRequest:
        """What the judge is sent. Only a simulated judge is given the planted truth."""
        axes = self.design.config.protocol.axes_of(look.trial.prompt)
        source, edited = self._image(look.trial.image), self._image(look.image)
        request = JudgeRequest(look.key, source, edited, look.trial.instruction, axes, look.disclosed)
        if look.judge not in self.simulated:
            return request
        truth = self.run.truth(look.trial.edit)
        return JudgeRequest(
            look.key, source, edited, look.trial.instruction, axes, look.disclosed, truth, look.labels
        )

    def _verdict(self, look: Look, reply: JudgeReply) -> Verdict:
        settings = self.design.judges[look.judge]
        return Verdict(
            look.key,
            look.trial.edit,
            look.judge,
            settings,
            reply.status,
            reply.scores,
            reply.evidence,
            reply.detail,
        )


def _ask(judge: Judge, request: JudgeRequest) -> JudgeReply:
    """A bug in a backend costs one attempt, not the run."""
    try:
        return judge.judge(request)
    except Exception as error:
        return JudgeReply(Status.CRASHED, detail=f"{type(error).__name__}: {error}")


def _check(reply: JudgeReply, request: JudgeRequest, protocol: Protocol) -> JudgeReply:
    """Scores count only when every axis asked has a point of its scale: nothing is guessed."""
    if reply.status is not Status.OK:
        return reply
    wrong = [axis for axis in request.axes if reply.scores.get(axis) not in protocol.axes[axis].scale]
    wrong += [axis for axis in reply.scores if axis not in request.axes]
    if not wrong:
        return reply
    detail = f"no usable score for {', '.join(wrong)}"
    return JudgeReply(Status.MALFORMED, detail=detail, evidence=reply.evidence, cost_usd=reply.cost_usd)
