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
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, Protocol

from stillme.core.atomic import flush_folder
from stillme.core.errors import SurroundingsError, disk
from stillme.core.records import Exchange, Status, digest
from stillme.engine.http import RemoteError
from stillme.engine.local import Stop
from stillme.judges import Batch, Batches, State
from stillme.ledger import Run
from stillme.ledger.batches import Shard, Step, note, plan, recorded, shards

LONGEST_WAIT = 26 * 3600.0  # seconds; services give themselves a day
FIRST_PAUSE, LONGEST_PAUSE, GROWTH = 1.0, 60.0, 1.5  # seconds between two looks
FULL_PAUSE = 300.0  # seconds until a service that was full is asked again, unless a batch ends before
GLANCE = 0.25  # seconds between two glances at `stop`
AT_ONCE = 256  # answers that wait for their commit
RUN, SHARD = "run", "shard"  # tags
_UNKNOWN = 404


class Wanted(Protocol):
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
    wanted: Mapping[str, Wanted],
    keep: Keep,
    room: Callable[[], int | None],
    wait_s: float,
    stop: Stop,
    say: Callable[[str], None],
    folder: Path,
) -> set[str]:
    """Brings home what is under way, sends what is wanted, and returns the calls that are still under way then.

    `room`: how many calls the budget allows besides those under way; with 0 nothing new is sent.
    """
    named = folder / digest("batches", judge=judge, settings=settings)[:16]
    sending = _Shipping(run, judge, settings, batches, wanted, keep, room, stop, say, named)
    return await sending.work(wait_s)


@dataclass
class _Shipping:
    run: Run
    judge: str
    settings: str
    batches: Batches
    wanted: Mapping[str, Wanted]
    keep: Keep
    room: Callable[[], int | None]
    stop: Stop
    say: Callable[[str], None]
    folder: Path
    shards: dict[str, Shard] = field(init=False)  # those under way whose answers are wanted
    is_planned: bool = False
    rests_until: float = 0.0  # nothing is sent before

    def __post_init__(self) -> None:
        every = shards(self.run, self.judge, self.settings)
        self.known = [shard for shard in every if shard.is_open]
        self.shards = {one.key: one for one in self.known if not self.wanted.keys().isdisjoint(one.calls)}
        self.taken = {call for shard in self.known for call in shard.calls}
        self.in_doubt = bool(self._unsent())  # whether a batch may be there that nobody noted

    async def work(self, wait_s: float) -> set[str]:
        ends, pause = time.monotonic() + wait_s, FIRST_PAUSE
        await self._tidy()
        while True:
            for step in (self._send, self._collect):
                await self._tried(step)
            if not self.shards or self.stop or time.monotonic() >= ends:
                break
            await self._wait(min(ends, time.monotonic() + pause))
            pause = min(LONGEST_PAUSE, GROWTH * pause)
        return {call for shard in self.shards.values() for call in shard.calls} & self.wanted.keys()

    async def _wait(self, until: float) -> None:
        while not self.stop and (left := until - time.monotonic()) > 0:
            await asyncio.sleep(min(GLANCE, left))

    async def _tried(self, step: Callable[[], Awaitable[None]]) -> None:
        """What may pass is tried again after a pause; the client has tried several times by then."""
        try:
            await step()
        except RemoteError as error:
            if not error.retryable and error.kind is not Status.TIMEOUT:
                raise self._refused(str(error)) from None
            self.say(f"{self.judge}: {error}; its batches wait")

    async def _note(self, shard: Shard, step: Step, **told: str | tuple[str, ...]) -> Shard:
        """On disk before anything else is done."""
        shard, committed = note(self.run, shard, step, **told)
        await asyncio.wrap_future(committed)
        self.shards[shard.key] = shard
        if not shard.is_open:
            del self.shards[shard.key]
            self._clear(shard.key)
        return shard

    # On the way out

    def _unsent(self) -> list[Shard]:
        return [shard for shard in self.shards.values() if not shard.is_sent]

    async def _send(self) -> None:
        if self.in_doubt:
            await self._find()
        if not self.is_planned:
            await self._plan()
        for shard in self._unsent():
            if self.stop or time.monotonic() < self.rests_until:
                return
            await self._deliver(shard)

    async def _find(self) -> None:
        """Batches that were made without anybody noting it: by a killed process, or their answer was lost."""
        async for batch in self.batches.every():
            shard = self.shards.get(batch.tags.get(SHARD, ""))
            if shard and not shard.is_sent and self._is_ours(batch):
                await self._note(shard, Step.CREATED, batch=batch.id)
                if not self._unsent():
                    break
        self.in_doubt = False

    def _is_ours(self, batch: Batch) -> bool:
        return batch.tags.get(RUN) == self.run.id and batch.state is not State.FULL

    async def _plan(self) -> None:
        """Shards that were never sent and do not fit any more are given up; what is in none is cut anew."""
        fits = self._room() >= 0
        for shard in self._unsent():
            if self._is_stale(shard) or not fits:
                await self._note(shard, Step.FAILED, detail="it was not sent")
                self.taken.difference_update(shard.calls)
        new = [one for key, one in self.wanted.items() if key not in self.taken]
        await self._cut(deque(new[: max(0, self._room())]))
        self.is_planned = True

    def _room(self) -> int:
        """How many calls may go out besides those in shards; below 0: not even all of those."""
        room = self.room()
        return len(self.wanted) if room is None else room - sum(len(one.calls) for one in self.shards.values())

    def _is_stale(self, shard: Shard) -> bool:
        """Some of its calls are not wanted any more, or its file is gone."""
        is_gone = shard.step is Step.PLANNED and not self._file(shard).exists()
        return is_gone or not self.wanted.keys() >= set(shard.calls)

    async def _cut(self, left: deque[Wanted]) -> None:
        """Every shard is written before the first is sent."""
        while left and not self.stop:
            shard = await asyncio.to_thread(self._written, left)
            await asyncio.wrap_future(plan(self.run, self.judge, self.settings, shard))
            self.shards[shard.key] = shard
            self.taken.update(shard.calls)

    def _written(self, left: deque[Wanted]) -> Shard:
        """A shard of as many calls as fit; they are taken off `left`."""
        shard = Shard(uuid.uuid4().hex, ())
        path = self._file(shard)
        with disk(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            aside = path.with_suffix(".part")
            with aside.open("wb") as file:
                calls = tuple(self._fill(file, left))
                file.flush()
                os.fsync(file.fileno())
            aside.replace(path)
            flush_folder(path.parent)
        return replace(shard, calls=calls)

    def _fill(self, file: BinaryIO, left: deque[Wanted]) -> Iterator[str]:
        size = count = 0
        while left and count < self.batches.most_requests:
            line = self.batches.line(left[0].key, left[0].body()) + b"\n"
            size, count = size + len(line), count + 1
            if count > 1 and size > self.batches.most_bytes:
                return
            file.write(line)
            yield left.popleft().key

    async def _deliver(self, shard: Shard) -> None:
        if shard.step is Step.PLANNED:
            uploaded = await self.batches.upload(self._file(shard), shard.key)
            shard = await self._note(shard, Step.UPLOADED, file=uploaded)
        batch = await self._created(shard)
        await self._note(shard, Step.CREATED, batch=batch.id)
        self.say(f"{self.judge}: a batch of {len(shard.calls):,} calls is under way")

    async def _created(self, shard: Shard) -> Batch:
        """After an answer that was lost, the batch may be there."""
        try:
            return await self.batches.create(shard.file, {RUN: self.run.id, SHARD: shard.key})
        except RemoteError as error:
            self.in_doubt = True
            if error.kind in (Status.REJECTED, Status.QUOTA):
                await self._note(shard, Step.FAILED, detail=str(error))
            raise

    # On the way back

    async def _collect(self) -> None:
        for shard in list(self.shards.values()):
            if shard.is_sent:
                await self._known(shard, self._advance)

    async def _known(self, shard: Shard, advance: Callable[[Shard], Awaitable[None]]) -> None:
        """What a service does not know may be another account's: that is said once before it is asked anew."""
        try:
            await advance(shard)
        except RemoteError as error:
            if error.status_code != _UNKNOWN:
                raise
            if shard.detail:
                await self._note(shard, Step.FAILED, detail=str(error))
                self.say(f"{self.judge}: its batch {shard.batch} is lost; the calls are asked anew")
                return
            await self._note(shard, shard.step, detail=str(error))
            raise SurroundingsError(
                f"The service of the judge '{self.judge}' does not know its batch {shard.batch}: {error.message}.",
                "It may have been made with another account's key: then run again with that one. With this one, "
                "its calls are paid for and asked anew.",
            ) from None

    async def _advance(self, shard: Shard) -> None:
        if shard.step is Step.CREATED:
            shard = await self._looked_at(shard)
        if shard.step is Step.ENDED:
            await self._import(shard)

    async def _looked_at(self, shard: Shard) -> Shard:
        batch = await self.batches.look(shard.batch)
        if batch.state is State.ENDED:
            self.rests_until = 0.0
            return await self._note(shard, Step.ENDED, outputs=batch.outputs)
        if batch.state is State.FULL:
            self.rests_until = time.monotonic() + FULL_PAUSE
            self.say(f"{self.judge}: the service is full, a batch waits: {batch.detail}")
            return await self._note(shard, Step.UPLOADED, batch="")
        if batch.state is State.FAILED:
            await self._note(shard, Step.FAILED, detail=batch.detail)
            raise self._refused(batch.detail)
        return shard

    async def _import(self, shard: Shard) -> None:
        """Answers that nobody wants today stay where they are: they are paid for, and may be wanted again."""
        axes = {key: self.wanted[key].axes for key in shard.calls if key in self.wanted}
        done = recorded(self.run, shard.calls, shard.made)
        for number, output in enumerate(shard.outputs):
            path = self._file(shard, f"{number}.answers")
            if not path.exists():
                await self.batches.download(output, path)
            await self._keep_all(shard, path, axes, done)
        self.say(f"{self.judge}: {len(done):,} of {len(shard.calls):,} answers of a batch have come")
        if set(shard.calls) <= self.wanted.keys() | done:
            await self._note(shard, Step.IMPORTED)
        self.shards.pop(shard.key, None)

    async def _keep_all(
        self, shard: Shard, path: Path, axes: Mapping[str, tuple[str, ...]], done: set[str]
    ) -> None:
        """Each call once, however often it is killed in between: its attempt bears the batch's own time."""
        waiting: list[Future[None]] = []
        for key, exchange in self.batches.answers(path, axes):
            if key not in done:
                done.add(key)
                waiting.append(self.keep(key, _dated(exchange, shard)))
            if len(waiting) >= AT_ONCE:
                await _committed(waiting)
        await _committed(waiting)

    # Files

    def _file(self, shard: Shard, kind: str = "jsonl") -> Path:
        return self.folder / f"{shard.key}.{kind}"

    async def _tidy(self) -> None:
        """What a killed process left: a shard that nothing is missing of, files that no shard needs."""
        for shard in self.known:
            if shard.key not in self.shards and set(shard.calls) <= recorded(self.run, shard.calls, shard.made):
                await self._note(shard, Step.IMPORTED if shard.step is Step.ENDED else Step.FAILED)
        needed = {shard.key for shard in self.known}
        for name in {path.name.partition(".")[0] for path in self.folder.glob("*")} - needed:
            self._clear(name)

    def _clear(self, shard: str) -> None:
        with disk(self.folder):
            for path in self.folder.glob(f"{shard}.*"):
                path.unlink()

    def _refused(self, said: str) -> SurroundingsError:
        return SurroundingsError(
            f"The service of the judge '{self.judge}' does not take its calls as a batch: {said.rstrip('.')}.",
            "Mend what it names and run again, or ask with mode: live, which costs about twice as much.",
        )


def _dated(exchange: Exchange, shard: Shard) -> Exchange:
    """As the batch's own."""
    return replace(exchange, started=shard.made, request_id=exchange.request_id or shard.batch)


async def _committed(waiting: list[Future[None]]) -> None:
    for one in waiting:
        await asyncio.wrap_future(one)
    waiting.clear()
