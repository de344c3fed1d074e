"""Calls that travel to a service in batches, at half the price. Killed at any line, nothing is paid for twice.

A shard of calls is written to a file and noted; the file is uploaded and noted; a batch is made of it, with the
run's and the shard's names, and noted. Whoever comes after a killed process asks the service which batches there
are before making any. Answers are downloaded whole, then recorded one by one; a line that is recorded already is
passed over. What was not answered is left to whoever asks live.
"""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from stillme.core.atomic import flush_folder
from stillme.core.errors import SetupError, disk
from stillme.core.records import Exchange, Status, digest
from stillme.engine.http import RemoteError
from stillme.engine.threads import StopEvent
from stillme.judges import Batches, State
from stillme.ledger import Run
from stillme.ledger.batches import Shard, Step, note, plan, recorded, shards

MAX_WAIT_S = 26 * 3600.0  # services give themselves a day; the rest is for fetching what came at its end
# A small batch may be done in seconds, a large one takes hours: polls start close together and become rarer.
FIRST_POLL_S, MAX_POLL_S, POLL_GROWTH = 1.0, 60.0, 1.5
FULL_SERVICE_PAUSE_S = 300.0  # until a service that was full is asked again, unless a batch ends before
STOP_POLL_S = 0.25  # how soon Ctrl-C ends a wait
MAX_UNCOMMITTED = 256  # answers that wait for their commit: a batch may have 50,000, too many to keep in memory
RUN, SHARD = "run", "shard"  # tags
_UNKNOWN = 404


class BatchRequest(Protocol):
    """A call to be made. `body` is called in a thread of its own, one call after the other."""

    @property
    def key(self) -> str: ...

    @property
    def axes(self) -> tuple[str, ...]: ...

    def body(self) -> bytes: ...


Keep = Callable[[str, Exchange], "Future[None]"]


def is_open(run: Run, judge: str, settings: str) -> bool:
    """Whether a batch of the judge is, or may be, under way."""
    return any(shard.is_open for shard in shards(run, judge, settings))


async def ship(
    run: Run,
    judge: str,
    settings: str,
    batches: Batches,
    wanted: Mapping[str, BatchRequest],
    keep: Keep,
    room: Callable[[], int | None],
    wait_s: float,
    stop: StopEvent,
    log: Callable[[str], None],
    folder: Path,
) -> set[str]:
    """Fetch what is under way, send what is wanted, and return the calls that are still under way then.

    `room`: how many calls the budget allows besides those under way; with 0 nothing new is sent.
    """
    sender = _BatchSubmitter(
        run=run,
        judge=judge,
        settings=settings,
        batches=batches,
        wanted=wanted,
        keep=keep,
        room=room,
        stop=stop,
        log=log,
        folder=folder / digest("batches", judge=judge, settings=settings)[:16],
    )
    return await sender.work(wait_s)


@dataclass
class _BatchSubmitter:
    run: Run
    judge: str
    settings: str
    batches: Batches
    wanted: Mapping[str, BatchRequest]
    keep: Keep
    room: Callable[[], int | None]
    stop: StopEvent
    log: Callable[[str], None]
    folder: Path
    shards: dict[str, Shard] = field(init=False)  # those under way whose answers are wanted
    is_planned: bool = False
    rests_until: float = 0.0  # nothing is sent before

    def __post_init__(self) -> None:
        self.open_shards = [s for s in shards(self.run, self.judge, self.settings) if s.is_open]
        self.shards = {s.key: s for s in self.open_shards if not self.wanted.keys().isdisjoint(s.calls)}
        self.taken = {call for shard in self.open_shards for call in shard.calls}
        self.in_doubt = bool(self._unsent())  # whether a batch may be there that was not noted

    async def work(self, wait_s: float) -> set[str]:
        ends, pause = time.monotonic() + wait_s, FIRST_POLL_S
        await self._tidy()
        while True:
            await self._retrying(self._send)
            await self._retrying(self._collect)
            if not self.shards or self.stop or time.monotonic() >= ends:
                break
            await self._wait(min(ends, time.monotonic() + pause))
            pause = min(MAX_POLL_S, POLL_GROWTH * pause)
        return {call for shard in self.shards.values() for call in shard.calls} & self.wanted.keys()

    async def _wait(self, until: float) -> None:
        while not self.stop and (left := until - time.monotonic()) > 0:
            await asyncio.sleep(min(STOP_POLL_S, left))

    async def _retrying(self, step: Callable[[], Awaitable[None]]) -> None:
        """What may pass is tried again after a pause; the client has tried several times by then."""
        try:
            await step()
        except RemoteError as error:
            if not error.retryable and error.kind is not Status.TIMEOUT:
                raise self._refused(str(error)) from None
            self.log(f"{self.judge}: {error}; its batches wait")

    async def _note(self, shard: Shard, step: Step, **details: str | tuple[str, ...]) -> Shard:
        """On disk before anything else is done."""
        shard, committed = note(self.run, shard, step, **details)
        await asyncio.wrap_future(committed)
        self.shards[shard.key] = shard
        if not shard.is_open:
            del self.shards[shard.key]
            self._delete_files(shard.key)
        return shard

    # Sending

    def _unsent(self) -> list[Shard]:
        return [shard for shard in self.shards.values() if not shard.is_sent]

    async def _send(self) -> None:
        if self.in_doubt:
            await self._find_batches()
        if not self.is_planned:
            await self._plan()
        for shard in self._unsent():
            if self.stop or time.monotonic() < self.rests_until:
                return
            if shard.step is Step.PLANNED:
                uploaded = await self.batches.upload(self._file(shard), shard.key)
                shard = await self._note(shard, Step.UPLOADED, file=uploaded)
            try:
                batch = await self.batches.create(shard.file, {RUN: self.run.id, SHARD: shard.key})
            except RemoteError as error:
                self.in_doubt = True  # after an answer that was lost, the batch may be there
                if error.kind in (Status.REJECTED, Status.QUOTA):
                    await self._note(shard, Step.FAILED, detail=str(error))
                raise
            await self._note(shard, Step.CREATED, batch=batch.id)
            self.log(f"{self.judge}: a batch of {len(shard.calls):,} calls is under way")

    async def _find_batches(self) -> None:
        """Batches that were made and not noted: by a killed process, or because the answer was lost."""
        async for batch in self.batches.every():
            shard = self.shards.get(batch.tags.get(SHARD, ""))
            is_ours = batch.tags.get(RUN) == self.run.id and batch.state is not State.FULL
            if shard and not shard.is_sent and is_ours:
                await self._note(shard, Step.CREATED, batch=batch.id)
                if not self._unsent():
                    break
        self.in_doubt = False

    async def _plan(self) -> None:
        """Shards that were never sent and do not fit any more are given up; what is in none is cut anew."""
        fits = self._room() >= 0
        for shard in self._unsent():
            is_gone = shard.step is Step.PLANNED and not self._file(shard).exists()
            is_stale = is_gone or not self.wanted.keys() >= set(shard.calls)  # some calls are not wanted any more
            if is_stale or not fits:
                await self._note(shard, Step.FAILED, detail="it was not sent")
                self.taken.difference_update(shard.calls)
        new = [call for key, call in self.wanted.items() if key not in self.taken]
        left = deque(new[: max(0, self._room())])
        while left and not self.stop:  # every shard is written before the first is sent
            shard = await asyncio.to_thread(self._write_shard, left)
            await asyncio.wrap_future(plan(self.run, self.judge, self.settings, shard))
            self.shards[shard.key] = shard
            self.taken.update(shard.calls)
        self.is_planned = True

    def _room(self) -> int:
        """How many calls may go out besides those in shards; below 0: not even all of those."""
        room = self.room()
        return len(self.wanted) if room is None else room - sum(len(one.calls) for one in self.shards.values())

    def _write_shard(self, left: deque[BatchRequest]) -> Shard:
        """A shard of as many calls as fit; they are taken off `left`."""
        shard = Shard(uuid.uuid4().hex, ())
        path = self._file(shard)
        calls: list[str] = []
        size = 0
        with disk(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_suffix(".part")
            with part.open("wb") as file:
                while left and len(calls) < self.batches.most_requests:
                    line = self.batches.line(left[0].key, left[0].body()) + b"\n"
                    size += len(line)
                    if calls and size > self.batches.most_bytes:
                        break
                    file.write(line)
                    calls.append(left.popleft().key)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
            flush_folder(path.parent)
        return replace(shard, calls=tuple(calls))

    # Collecting

    async def _collect(self) -> None:
        for shard in list(self.shards.values()):
            if not shard.is_sent:
                continue
            try:
                polled = await self._poll(shard) if shard.step is Step.CREATED else shard
                if polled.step is Step.ENDED:
                    await self._import(polled)
            except RemoteError as error:
                if error.status_code != _UNKNOWN:
                    raise
                await self._report_unknown(shard, error)

    async def _report_unknown(self, shard: Shard, error: RemoteError) -> None:
        """What a service does not know may be another account's: that is said once before it is asked again."""
        if shard.detail:
            await self._note(shard, Step.FAILED, detail=str(error))
            self.log(f"{self.judge}: its batch {shard.batch} is lost; the calls are asked anew")
            return
        await self._note(shard, shard.step, detail=str(error))
        raise SetupError(
            f"The service of the judge '{self.judge}' does not know its batch {shard.batch}: {error.message}.",
            "It may have been made with another account's key: then run again with that one. With this one, "
            "its calls are paid for and asked anew.",
        ) from None

    async def _poll(self, shard: Shard) -> Shard:
        batch = await self.batches.look(shard.batch)
        if batch.state is State.ENDED:
            self.rests_until = 0.0
            return await self._note(shard, Step.ENDED, outputs=batch.outputs)
        if batch.state is State.FULL:
            self.rests_until = time.monotonic() + FULL_SERVICE_PAUSE_S
            self.log(f"{self.judge}: the service is full, a batch waits: {batch.detail}")
            return await self._note(shard, Step.UPLOADED, batch="")
        if batch.state is State.FAILED:
            await self._note(shard, Step.FAILED, detail=batch.detail)
            raise self._refused(batch.detail)
        return shard

    async def _import(self, shard: Shard) -> None:
        """Each call once, however often it is killed in between: its attempt has the batch's own time.

        Answers that are not wanted today stay where they are: they are paid for, and may be wanted again.
        """
        axes = {key: self.wanted[key].axes for key in shard.calls if key in self.wanted}
        done = recorded(self.run, shard.calls, shard.created_at)
        waiting: list[Future[None]] = []

        async def wait_for_commits() -> None:
            for committed in waiting:
                await asyncio.wrap_future(committed)
            waiting.clear()

        for number, output in enumerate(shard.outputs):
            path = self._file(shard, f"{number}.answers")
            if not path.exists():
                await self.batches.download(output, path)
            for key, exchange in self.batches.answers(path, axes):
                if key not in done:
                    done.add(key)
                    request_id = exchange.request_id or shard.batch
                    waiting.append(
                        self.keep(key, replace(exchange, started=shard.created_at, request_id=request_id))
                    )
                if len(waiting) >= MAX_UNCOMMITTED:
                    await wait_for_commits()
            await wait_for_commits()
        self.log(f"{self.judge}: {len(done):,} of {len(shard.calls):,} answers of a batch have come")
        if set(shard.calls) <= self.wanted.keys() | done:
            await self._note(shard, Step.IMPORTED)
        self.shards.pop(shard.key, None)

    # Files

    def _file(self, shard: Shard, kind: str = "jsonl") -> Path:
        return self.folder / f"{shard.key}.{kind}"

    async def _tidy(self) -> None:
        """What a killed process left: a shard that nothing is missing of, files that no shard needs."""
        for shard in self.open_shards:
            if shard.key not in self.shards and set(shard.calls) <= recorded(
                self.run, shard.calls, shard.created_at
            ):
                await self._note(shard, Step.IMPORTED if shard.step is Step.ENDED else Step.FAILED)
        needed = {shard.key for shard in self.open_shards}
        for name in {path.name.partition(".")[0] for path in self.folder.glob("*")} - needed:
            self._delete_files(name)

    def _delete_files(self, shard: str) -> None:
        with disk(self.folder):
            for path in self.folder.glob(f"{shard}.*"):
                path.unlink()

    def _refused(self, message: str) -> SetupError:
        return SetupError(
            f"The service of the judge '{self.judge}' does not take its calls as a batch: {message.rstrip('.')}.",
            "Mend what it names and run again, or ask with mode: live, which costs about twice as much.",
        )
