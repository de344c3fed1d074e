"""The extracting step: what is read off each sampled portrait, once, before any edit asks to keep it.

Whoever reads is asked a second time where an answer names race, ethnicity, gender or age, or does not start as it
was asked to; what is still wrong then is marked and used. Every call is kept, however it ended, under the key of
what it was to give.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from stillme.core.errors import StillmeError
from stillme.core.records import (
    FEATURES,
    MITIGATE,
    Feature,
    JudgeReply,
    JudgeRequest,
    Portrait,
    Status,
)
from stillme.engine.backends import Lane
from stillme.engine.local import Stop
from stillme.engine.progress import Progress, Stage
from stillme.engine.waiting import Ask, wait
from stillme.ledger import Run
from stillme.ledger.run import attempts
from stillme.plan import design as designs
from stillme.plan import trials
from stillme.plan.config import Config
from stillme.plan.mitigation import linter, sentences
from stillme.protocol.schema import Mitigation
from stillme.steps.budget import EXTRACTOR, Purse, not_made

AGAIN = "again"  # what a form is told when it is filled in for the second time


def extract(
    run: Run,
    config: Config,
    portraits: Sequence[Portrait],
    progress: Progress,
    stop: Stop,
    purse: Purse,
    only: Sequence[str] = (),
) -> None:
    """Reads the features that are still missing and records each, whatever came of it."""
    if (only and MITIGATE not in only) or config.extractor is None or stop:
        return
    every = wanted(run, config, portraits)
    if not every:
        return
    todo = _left(run, config, every)
    settings = run.add_settings("judge", config.extractor.effective)
    with progress.stage("Features", len(todo), len(every) - len(todo)) as stage:
        if todo:
            _Step(run, config, settings, stage, stop, purse).run(todo)


def wanted(run: Run, config: Config, portraits: Sequence[Portrait]) -> list[Portrait]:
    """The portraits that features are read off, those with the same pixels once; none while no cases are drawn."""
    if config.extractor is None:
        return []
    cells = trials.cells(config, portraits, designs.known(run, config, portraits)) or ()
    people = {cell.portrait for cell in cells}
    return list({portrait.image: portrait for portrait in portraits if portrait.key in people}.values())


def missing(run: Run, config: Config, portraits: Sequence[Portrait]) -> list[Portrait]:
    """The sampled portraits that nothing was read off yet."""
    return _left(run, config, wanted(run, config, portraits))


def _left(run: Run, config: Config, every: Sequence[Portrait]) -> list[Portrait]:
    keys = designs.feature_keys(config, every)
    done = run.features(keys.values())
    return [portrait for portrait in every if keys[portrait.image] not in done]


def standing(run: Run, config: Config, portraits: Sequence[Portrait]) -> dict[str, Any]:
    """How many are wanted, missing, ok and marked, and how all ended by status; empty where none is wanted.

    `marked`: ok, and with something wrong in it that a second answer did not mend.
    """
    every = wanted(run, config, portraits)
    if not every:
        return {}
    found = list(run.features(designs.feature_keys(config, every).values()).values())
    ok = [one for one in found if one.status is Status.OK]
    return {
        "wanted": len(every),
        "missing": len(every) - len(found),
        "ok": len(ok),
        "marked": sum(one.is_marked for one in ok),
        "statuses": dict(sorted(Counter(one.status.value for one in found).items())),
    }


@dataclass(frozen=True, slots=True)
class Faults:
    """What is wrong with an answer that could be read."""

    leaks: tuple[str, ...] = ()
    said: str = ""

    def __len__(self) -> int:
        return len(self.leaks) + bool(self.said)


def faults(features: Mapping[str, str], rules: Mitigation) -> Faults:
    """Words for groups in any of its texts, and a sentence that does not start as asked."""
    found = dict.fromkeys(leak.word for text in features.values() for leak in linter.leaks(text))
    opens = sentences.opens(features[sentences.SENTENCE], rules)
    return Faults(tuple(found), "" if opens else f"the sentence does not start with “{rules.opening}”")


class _Step:
    """The features of a run: asked for, checked, recorded."""

    def __init__(self, run: Run, config: Config, settings: str, stage: Stage, stop: Stop, purse: Purse) -> None:
        assert config.extractor is not None and config.extractor_row is not None
        assert config.protocol.mitigation is not None  # the configuration was checked
        self.held, self.config, self.settings, self.prepared = run, config, settings, config.extractor
        self.stage, self.stop, self.purse, self.rules = stage, stop, purse, config.protocol.mitigation
        self.who = (EXTRACTOR, config.extractor_row.id)
        self.keys: Mapping[str, str] = {}

    def run(self, todo: Sequence[Portrait]) -> None:
        self.keys = designs.feature_keys(self.config, todo)
        many = self.prepared.concurrency if self._is_remote else self.config.audit.engine.threads
        wait(todo, self._opened, self._keep, many, self.stop, recorders=0)

    @property
    def _is_remote(self) -> bool:
        return self.prepared.lane is Lane.REMOTE

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[Ask[Portrait, Sequence[JudgeReply]]]:
        judge = self.prepared.filling(FEATURES)
        try:
            yield partial(self._ask, judge)
        finally:
            if self._is_remote:
                await judge.close()

    async def _ask(self, judge: Any, portrait: Portrait) -> Sequence[JudgeReply]:
        """One answer, or two where something is wrong with the first; fewer where the budget does not allow it."""
        picture = await asyncio.to_thread(self.held.image, portrait.image)
        replies: list[JudgeReply] = []
        for instruction in ("", AGAIN):
            if not await self.purse.wait_on_loop(self.who, self.stop):
                break
            replies.append(await self._answered(judge, self._request(portrait, picture, instruction)))
            self._settle(replies[-1])
            if not self._is_faulty(replies[-1]):
                break
        return replies

    def _request(self, portrait: Portrait, picture: bytes, instruction: str) -> JudgeRequest:
        """A portrait and the dimensions asked about; never who the person is."""
        asked = tuple(self.rules.dimensions)
        return JudgeRequest(self.keys[portrait.image], picture, b"", instruction, asked, form=FEATURES)

    async def _answered(self, judge: Any, request: JudgeRequest) -> JudgeReply:
        """A bug in a backend costs one attempt, not the run."""
        try:
            if self._is_remote:
                reply: JudgeReply = await judge.judge(request)
            else:
                reply = await asyncio.to_thread(judge.judge, request)
        except StillmeError:
            raise
        except Exception as error:
            return JudgeReply(Status.CRASHED, detail=f"{type(error).__name__}: {error}")
        return reply

    def _settle(self, reply: JudgeReply) -> None:
        self.purse.settle(self.who, reply.cost_usd, reply.status is Status.OK)
        if reply.status is Status.QUOTA:
            self.purse.exhaust(self.who)

    def _is_faulty(self, reply: JudgeReply) -> bool:
        return reply.status is Status.OK and bool(self._faults(reply))

    def _faults(self, reply: JudgeReply) -> Faults:
        found = faults(reply.features, self.rules)
        kept = sentences.can_be_kept(reply.features, self.rules)
        return found if kept else Faults(found.leaks, "it describes nothing that every prompt leaves to be kept")

    def _keep(self, portrait: Portrait, replies: Sequence[JudgeReply]) -> Future[None]:
        if not replies:
            return not_made()
        self.stage.count(replies[-1].status, sum(reply.cost_usd for reply in replies))
        key = self.keys[portrait.image]
        made = [attempt for reply in replies for attempt in attempts(key, reply)]
        feature = self._feature(portrait, replies)
        if feature is None:
            return self.held.add_verdicts([], made)
        return self.held.add_feature(feature, made)

    def _feature(self, portrait: Portrait, replies: Sequence[JudgeReply]) -> Feature | None:
        """None where it did not end for good: it is asked for again on the next run."""
        last = replies[-1]
        if not last.status.is_final or (len(replies) == 1 and self._is_faulty(last)):
            return None
        named = (self.keys[portrait.image], portrait.image, self.settings)
        readable = [reply for reply in reversed(replies) if reply.status is Status.OK]
        if not readable:
            return Feature(*named, last.status, detail=last.detail)
        best = min(readable, key=lambda reply: len(self._faults(reply)))
        found = self._faults(best)
        if not sentences.can_be_kept(best.features, self.rules):
            return Feature(*named, Status.MALFORMED, detail=found.said)
        return Feature(*named, Status.OK, best.features, found.leaks, _noted(found, last))


def _noted(found: Faults, last: JudgeReply) -> str:
    """What is still wrong, and how the second answer ended where it was none."""
    ended = "" if last.status is Status.OK else f"the second answer: {last.status.label}"
    return "; ".join(said for said in (found.said, ended) if said)
