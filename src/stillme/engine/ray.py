"""Editors on a Ray cluster: one actor a GPU (or a share of cores), asked by one thread each from here.

An actor is given the same factory as a child process here, so the pictures are the same. Actors know neither the
run nor its ledger: what they answer is recorded here. One that dies, alone or with its node, is replaced, and its
edit is asked again.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from stillme.core.errors import SetupError
from stillme.core.records import EditReply, EditRequest, Status
from stillme.core.yaml import StrictModel
from stillme.engine.processes import Makes, WorkerBackends, WorkerDiedError
from stillme.engine.threads import StopEvent

MAX_ACTORS_PER_EDIT = 3  # an edit that always kills its actor must not go round for ever
MIN_STORE_BYTES = 1_000_000  # larger pictures travel through Ray's object store instead of inside the call
POLL_INTERVAL_S = 0.2  # between two looks at actors that are still to come
OBJECT_STORE_BYTES = 512 * 2**20  # shared memory for a cluster that is started here


class NotStartedError(Exception):
    """The work was stopped before an actor was free: nothing was asked."""


def _whole_above_one(amount: float | None) -> float | None:
    if amount is not None and amount > 1 and amount != int(amount):
        raise ValueError("above one, Ray takes whole numbers only")
    return amount


Amount = Annotated[float, Field(ge=0, le=4096), AfterValidator(_whole_above_one)]


class ActorResources(StrictModel):
    """What one actor takes of a cluster. gpus None: one for a model where the cluster has any, else none."""

    cpus: Amount = 1.0
    gpus: Amount | None = None
    most: int = Field(default=0, ge=0, le=4096)  # actors at a time; 0: as many as there is room for


@contextmanager
def connected(address: str | None, stop: StopEvent, patience: float = 600) -> Iterator[Cluster]:
    """A cluster to ask for actors: the one at `address`, else one of this machine that ends with the work."""
    ray = _ray()
    if ray.is_initialized():  # whoever connected this process disconnects it
        yield Cluster(ray, stop, patience)
        return
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    own = {"address": "local", "include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES}
    try:
        ray.init(**({"address": address} if address else own), **quiet)
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        raise SetupError(
            f"The Ray cluster {address or 'of this machine'} could not be reached: {_first_line(error)}",
            "Start one with `ray start --head`, or give the address of one that runs.",
        ) from error
    try:
        yield Cluster(ray, stop, patience)
    finally:
        ray.shutdown()


def _ray() -> Any:
    if importlib.util.find_spec("ray") is None:
        raise SetupError(
            "The engine 'ray' needs the package ray, which is not installed.",
            "Install it with: pip install 'stillme[ray]'",
        )
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # an audit is nobody else's business
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else it warns of what will change in Ray
    return importlib.import_module("ray")


class Cluster:
    """A Ray cluster that this process is connected to. Safe to use from several threads."""

    def __init__(self, ray: Any, stop: StopEvent, patience: float) -> None:
        self.ray = ray
        self.stop = stop
        self.patience = patience  # seconds that an actor may look for a place while none has one
        self._placed = 0
        self._counting = threading.Lock()

    def settle(self, share: ActorResources, model: bool, work: int) -> ActorResources:
        """The share with its GPUs and its number of actors settled: no more than there is room and work for."""
        gpus = share.gpus
        if gpus is None:
            gpus = 1.0 if model and self.ray.cluster_resources().get("GPU") else 0.0
        settled = share.model_copy(update={"gpus": gpus})
        return settled.model_copy(update={"most": max(1, min(share.most or self._room(settled), work))})

    def _room(self, share: ActorResources) -> int:
        """How many actors fit at the same time; an actor does not span nodes."""
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        amounts = {"CPU": share.cpus, "GPU": share.gpus or 0.0}
        needed = {name: amount for name, amount in amounts.items() if amount} or {"CPU": 1.0}
        return int(sum(min(node.get(name, 0.0) // amount for name, amount in needed.items()) for node in nodes))

    def apart(self, makes: Makes, share: ActorResources) -> ActorPool:
        """Actors for a settled share, started when they are needed."""
        return ActorPool(self, makes, share)

    def count(self, change: int) -> None:
        with self._counting:
            self._placed += change

    def serves(self) -> bool:
        """Whether any actor of this process has its place, so that others may wait for it to be free."""
        return self._placed > 0

    def cannot_place(self, share: ActorResources) -> SetupError:
        resources = sorted(self.ray.cluster_resources().items())
        has = ", ".join(f"{amount:g} {name}" for name, amount in resources if name in ("CPU", "GPU")) or "none"
        return SetupError(
            f"No actor with {share.cpus:g} CPU and {share.gpus:g} GPU found a place in {self.patience:g} s; "
            f"the cluster has in all: {has}.",
            "Add a node, wait until others free theirs, or ask for less in 'engine' (actors: cpus, gpus).",
        )


class _Host:
    """What runs in an actor: answers one question at a time."""

    def __init__(self, makes: Makes) -> None:
        self._made = WorkerBackends(makes)

    def here(self) -> None:
        """Answers as soon as the actor has its place."""

    def load(self) -> Exception | None:
        """May take minutes, and is no part of an edit's deadline."""
        return self._made.load()

    def ask(self, name: str, request: EditRequest, pictures: tuple[bytes, ...]) -> Any:
        if pictures:
            request = replace(request, image=pictures[0], references=pictures[1:])
        return self._made.answer(name, "edit", request)


@dataclass(frozen=True, eq=False)
class _Actor:
    handle: Any
    here: Any
    loaded: Any


class ActorPool:
    """Up to `share.most` actors that serve the same editors; a thread borrows one for each edit.

    A thread takes any actor that is free, so an actor that never finds a place keeps no edit waiting; and when
    other work frees its place, it comes.
    """

    def __init__(self, cluster: Cluster, makes: Makes, share: ActorResources) -> None:
        self._cluster = cluster
        self._ray = cluster.ray
        self._share = share
        self.makes = dict(makes)
        self._lock = threading.Lock()
        self._free: list[_Actor] = []
        self._coming: list[_Actor] = []
        self._serving: set[_Actor] = set()
        self._every: set[_Actor] = set()
        self._waiting = 0

    def editor(self, name: str, deadline: float | None = None) -> Distant:
        return Distant(self, name, deadline)

    def ask(self, name: str, request: EditRequest, deadline: float | None) -> EditReply:
        """What the editor answers in some actor; TimeoutError after the deadline, WorkerDiedError if the actor
        dies."""
        actor = self._take()
        pictures = (request.image, *request.references)
        stored: Any = ()
        if sum(map(len, pictures)) >= MIN_STORE_BYTES:
            request, stored = replace(request, image=b"", references=()), self._ray.put(pictures)
        try:
            reply: EditReply | Exception = self._get(actor.handle.ask.remote(name, request, stored), deadline)
        except BaseException:
            self._drop(actor)
            raise
        with self._lock:
            self._free.append(actor)
        if isinstance(reply, Exception):
            raise reply
        return reply

    def close(self) -> None:
        for actor in list(self._every):
            self._drop(actor)

    def _get(self, reference: Any, deadline: float | None = None) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.get(reference, timeout=deadline)
        except errors.GetTimeoutError:
            raise TimeoutError from None
        except errors.RayTaskError as error:  # the call went wrong, not the actor
            raise RuntimeError(_first_line(error)) from None
        except errors.RayError as error:
            raise WorkerDiedError(_first_line(error)) from None

    def _take(self) -> _Actor:
        """An actor that is loaded and free; more are started while threads wait and there may be more."""
        with self._lock:
            self._waiting += 1
        try:
            return self._wait()
        finally:
            with self._lock:
                self._waiting -= 1

    def _wait(self) -> _Actor:
        since = time.monotonic()
        while True:
            with self._lock:
                if self._free:
                    return self._free.pop()
                if len(self._coming) < self._waiting and len(self._every) < self._share.most:
                    self._start()
                coming = list(self._coming)
            if self._cluster.stop:
                raise NotStartedError
            self._welcome(coming)
            if self._cluster.serves() or any(self._ray.wait([actor.here], timeout=0)[0] for actor in coming):
                since = time.monotonic()
            elif time.monotonic() - since > self._cluster.patience:
                raise self._cluster.cannot_place(self._share)

    def _start(self) -> None:
        share = self._share
        # the thread count is the one of every machine, not the actor's share of cores: it changes pixels
        variables = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
        takes = {"num_cpus": share.cpus, "num_gpus": share.gpus, "runtime_env": {"env_vars": variables}}
        handle = self._ray.remote(_Host).options(max_restarts=0, **takes).remote(self.makes)
        actor = _Actor(handle, handle.here.remote(), handle.load.remote())
        self._coming.append(actor)
        self._every.add(actor)

    def _welcome(self, coming: Sequence[_Actor]) -> None:
        """Looks whether some that are coming are loaded; a failure to load is raised in one thread only."""
        if not coming:
            time.sleep(POLL_INTERVAL_S)
            return
        loaded, _ = self._ray.wait([actor.loaded for actor in coming], timeout=POLL_INTERVAL_S)
        for actor in coming:
            with self._lock:
                is_mine = actor.loaded in loaded and actor in self._coming  # else another thread admits it
                if is_mine:
                    self._coming.remove(actor)
            if is_mine:
                self._check(actor)

    def _check(self, actor: _Actor) -> None:
        try:
            failure = self._get(actor.loaded)
            if failure is not None:
                raise failure
        except BaseException:
            self._drop(actor)
            raise
        self._cluster.count(1)
        with self._lock:
            self._serving.add(actor)
            self._free.append(actor)

    def _drop(self, actor: _Actor) -> None:
        with self._lock:
            served = actor in self._serving
            self._serving.discard(actor)
            self._every.discard(actor)
        self._cluster.count(-1 if served else 0)
        self._ray.kill(actor.handle)


@dataclass(frozen=True)
class Distant:
    """An editor that lives in the actors."""

    actors: ActorPool
    name: str
    deadline: float | None = None  # seconds

    def edit(self, request: EditRequest) -> EditReply:
        ended: list[str] = []
        while len(ended) < MAX_ACTORS_PER_EDIT:
            try:
                reply = self.actors.ask(self.name, request, self.deadline)
            except TimeoutError:
                return EditReply(
                    Status.TIMEOUT, detail=f"no answer after {self.deadline:g} s; its actor was ended"
                )
            except WorkerDiedError as error:
                ended.append(str(error))
                continue
            if not ended:
                return reply
            return replace(reply, notes={**reply.notes, "asked_again": f"actors that ended first: {len(ended)}"})
        return EditReply(
            Status.CRASHED, detail=f"{MAX_ACTORS_PER_EDIT} actors ended during this edit; the last: {ended[-1]}"
        )


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
