"""The feature step: what is read from each sampled portrait, once, before any edit asks to keep it.

The extractor is asked a second time where an answer names race, ethnicity, gender or age, or does not start as it
was asked to; what is still wrong then is marked and used. Every call is kept, however it ended, under the key of
what it was to give.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from stillme.core.records import (
    FEATURES,
    MITIGATE,
    Feature,
    JudgeReply,
    JudgeRequest,
    Portrait,
    Status,
)
from stillme.engine.backends import ExecutionMode
from stillme.engine.progress import Progress, Stage
from stillme.engine.threads import StopEvent
from stillme.judges import Judge
from stillme.ledger import Run
from stillme.ledger.run import attempts
from stillme.plan.config import Config
from stillme.plan.design import feature_keys, load_plan_inputs, mitigation_cases
from stillme.plan.mitigation import linter, sentences
from stillme.protocol.schema import Mitigation
from stillme.steps.budget import EXTRACTOR, Budget, BudgetKey
from stillme.steps.step import Group, Step, TimedReply

AGAIN = "again"  # the instruction of a form that is filled in for the second time


def extract_features(
    run: Run,
    config: Config,
    portraits: Sequence[Portrait],
    progress: Progress,
    stop: StopEvent,
    budget: Budget,
    only: Sequence[str] = (),
) -> None:
    """Read the features that are still missing and record each, whatever came of it."""
    extractor = config.extractor
    if (only and MITIGATE not in only) or extractor is None or stop:
        return
    described = portraits_to_describe(run, config, portraits)
    if not described:
        return
    pending = _without_features(run, config, described)
    settings = run.add_settings("judge", extractor.effective)
    make = partial(extractor.make_for, FEATURES)
    group = Group(
        mode=ExecutionMode.REMOTE,  # judges of this machine, too, are asked from the loop
        items=pending,
        make={"extractor": make if extractor.is_remote else lambda: _LocalExtractor(make())},
        concurrency=extractor.concurrency if extractor.is_remote else config.audit.engine.threads,
    )
    with progress.stage("Features", len(pending), len(described) - len(pending)) as stage:
        FeatureStep(run, config, settings, stage, stop, budget).run(group)


def portraits_to_describe(run: Run, config: Config, portraits: Sequence[Portrait]) -> list[Portrait]:
    """The portraits that features are read off, those with the same pixels once; none while no cases are drawn."""
    if config.extractor is None:
        return []
    cells = mitigation_cases(config, portraits, load_plan_inputs(run, config, portraits)) or ()
    people = {cell.portrait for cell in cells}
    return list({portrait.image: portrait for portrait in portraits if portrait.key in people}.values())


def portraits_without_features(run: Run, config: Config, portraits: Sequence[Portrait]) -> list[Portrait]:
    """The sampled portraits that nothing was read off yet."""
    return _without_features(run, config, portraits_to_describe(run, config, portraits))


def _without_features(run: Run, config: Config, portraits: Sequence[Portrait]) -> list[Portrait]:
    keys = feature_keys(config, portraits)
    done = run.features(keys.values())
    return [portrait for portrait in portraits if keys[portrait.image] not in done]


def count_features(run: Run, config: Config, portraits: Sequence[Portrait]) -> dict[str, Any]:
    """How many are wanted, missing, ok and marked, and how all ended by status; empty where none is wanted.

    `marked`: ok, and with something wrong in it that a second answer did not mend.
    """
    described = portraits_to_describe(run, config, portraits)
    if not described:
        return {}
    features = list(run.features(feature_keys(config, described).values()).values())
    ok = [feature for feature in features if feature.status is Status.OK]
    return {
        "wanted": len(described),
        "missing": len(described) - len(features),
        "ok": len(ok),
        "marked": sum(feature.is_marked for feature in ok),
        "statuses": dict(sorted(Counter(feature.status.value for feature in features).items())),
    }


@dataclass(frozen=True, slots=True)
class AnswerFaults:
    """What is wrong with an answer that could be read."""

    leaks: tuple[str, ...] = ()
    message: str = ""

    def __len__(self) -> int:
        return len(self.leaks) + bool(self.message)


def find_faults(features: Mapping[str, str], rules: Mitigation) -> AnswerFaults:
    """Words for groups in any of its texts, and a sentence that does not start as asked or has nothing to keep."""
    leaks = dict.fromkeys(leak.word for text in features.values() for leak in linter.leaks(text))
    if not sentences.can_be_kept(features, rules):
        message = "it describes nothing that every prompt leaves to be kept"
    elif not sentences.opens(features[sentences.SENTENCE], rules):
        message = f"the sentence does not start with “{rules.opening}”"
    else:
        message = ""
    return AnswerFaults(leaks=tuple(leaks), message=message)


class _LocalExtractor:
    """A judge of this machine, asked like a service: each call in a thread."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    async def judge(self, request: JudgeRequest) -> JudgeReply:
        return await asyncio.to_thread(self._judge.judge, request)

    async def close(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class FeatureTask:
    """One portrait to be described. `instruction`: AGAIN where it is asked for the second time."""

    portrait: Portrait
    instruction: str = ""


class FeatureStep(Step[FeatureTask, Sequence[JudgeReply]]):
    """The features of a run: an item is a portrait; its reply is one answer, or two where the first is faulty."""

    budget: Budget
    recorders = 0  # nothing is decoded or stored for an answer, so the loop itself records it

    def __init__(
        self, run: Run, config: Config, settings: str, stage: Stage, stop: StopEvent, budget: Budget
    ) -> None:
        super().__init__(run, config.audit.engine.threads, stop, budget)
        assert config.extractor_row is not None
        assert config.protocol.mitigation is not None  # the configuration was checked
        self.config = config
        self.settings = settings
        self.stage = stage
        self.rules = config.protocol.mitigation
        self.extractor = config.extractor_row.id
        self.keys: Mapping[str, str] = {}  # of the portraits that are asked about, by image

    def remaining(self, group: Group[Any]) -> Sequence[FeatureTask]:
        self.keys = feature_keys(self.config, group.items)
        return [FeatureTask(portrait) for portrait in group.items]

    def name_of(self, task: FeatureTask) -> str:
        return self.extractor

    def budget_key(self, task: FeatureTask) -> BudgetKey:
        return EXTRACTOR, self.extractor

    def request(self, task: FeatureTask) -> JudgeRequest:
        """A portrait and the dimensions asked about; never who the person is."""
        return JudgeRequest(
            key=self.keys[task.portrait.image],
            source=self.source(task.portrait.image),
            edited=b"",
            instruction=task.instruction,
            axes=tuple(self.rules.dimensions),
            form=FEATURES,
        )

    async def call(self, judge: Any, request: JudgeRequest) -> Sequence[JudgeReply]:
        return [await judge.judge(request)]

    def crash_reply(self, task: FeatureTask, detail: str) -> Sequence[JudgeReply]:
        return [JudgeReply(Status.CRASHED, detail=detail)]

    async def ask_remote(self, judge: Any, task: FeatureTask) -> TimedReply[Sequence[JudgeReply]] | None:
        """One answer, or two where something is wrong with the first; fewer where the budget does not allow it."""
        first = await super().ask_remote(judge, task)
        if first is None:
            return None
        (reply,) = first.reply
        self.settle(task, reply.status, reply.cost_usd)  # at once: the budget may not allow for both at a time
        if task.instruction or reply.status is not Status.OK or not find_faults(reply.features, self.rules):
            return first
        second = await self.ask_remote(judge, replace(task, instruction=AGAIN))
        if second is None:
            return first
        return TimedReply([reply, *second.reply], first.started, first.seconds + second.seconds)

    def record(self, task: FeatureTask, timed: TimedReply[Sequence[JudgeReply]]) -> Future[None]:
        replies, image = timed.reply, task.portrait.image
        self.stage.count(replies[-1].status, sum(reply.cost_usd for reply in replies))
        calls = [attempt for reply in replies for attempt in attempts(self.keys[image], reply)]
        feature = self._feature(image, replies)
        return self.ledger.add_verdicts([], calls) if feature is None else self.ledger.add_feature(feature, calls)

    def _feature(self, image: str, replies: Sequence[JudgeReply]) -> Feature | None:
        """None where it did not end for good: it is asked for again on the next run."""
        last = replies[-1]
        is_faulty = last.status is Status.OK and bool(find_faults(last.features, self.rules))
        if not last.status.is_final or (len(replies) == 1 and is_faulty):
            return None
        feature = Feature(key=self.keys[image], image=image, settings=self.settings, status=last.status)
        readable = [reply for reply in reversed(replies) if reply.status is Status.OK]
        if not readable:
            return replace(feature, detail=last.detail)
        best = min(readable, key=lambda reply: len(find_faults(reply.features, self.rules)))
        faults = find_faults(best.features, self.rules)
        if not sentences.can_be_kept(best.features, self.rules):
            return replace(feature, status=Status.MALFORMED, detail=faults.message)
        # What is still wrong, and how the second answer ended where it was none.
        second_failed = "" if last.status is Status.OK else f"the second answer: {last.status.label}"
        detail = "; ".join(filter(None, (faults.message, second_failed)))
        return replace(feature, status=Status.OK, features=best.features, leaks=faults.leaks, detail=detail)
