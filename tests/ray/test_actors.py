from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from stillme.core.errors import SetupError
from stillme.core.records import EditReply, EditRequest, Status
from stillme.engine.ray import MIN_STORE_BYTES, ActorPool, ActorResources, Cluster, NotStartedError
from stillme.engine.threads import StopEvent


class Odd:
    """An editor that lives in an actor and does as its instruction says."""

    def __init__(self, marks: Path | None = None) -> None:
        self.marks = marks

    def edit(self, request: EditRequest) -> EditReply:
        word = request.instruction
        if word == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if word == "die once" and self.marks and not (self.marks / "died").exists():
            (self.marks / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if word == "fail":
            raise ValueError("no")
        time.sleep({"rest": 0.3, "sleep": 60}.get(word, 0))
        told = {"pid": os.getpid(), "threads": os.environ["OMP_NUM_THREADS"], "size": len(request.image)}
        return EditReply(
            Status.OK, request.image[-9:], environment=told, notes={"n": str(len(request.references))}
        )


def cannot_be_made() -> Odd:
    raise SetupError("The weights are damaged.", "Install again.")


def is_a_bug() -> Odd:
    raise ValueError("no such part")


def dies_when_made() -> Odd:
    os.kill(os.getpid(), signal.SIGKILL)
    return Odd()


def asked(words: str = "go", image: bytes = b"", references: tuple[bytes, ...] = ()) -> EditRequest:
    return EditRequest("k", image, words, 0, references=references)


@pytest.fixture
def cluster(ray: Any) -> Cluster:
    return Cluster(ray, StopEvent(), patience=60)


@pytest.fixture
def actors(cluster: Cluster, tmp_path: Path) -> Iterator[ActorPool]:
    made = cluster.apart({"odd": partial(Odd, tmp_path)}, ActorResources(most=2, gpus=0.0))
    yield made
    made.close()


def test_an_actor_is_kept_from_edit_to_edit_and_ends_with_the_work(cluster: Cluster) -> None:
    actors = cluster.apart({"odd": Odd}, ActorResources(most=2, gpus=0.0))
    editor = actors.editor("odd")
    first, second = editor.edit(asked()), editor.edit(asked())
    assert first.environment["pid"] == second.environment["pid"] != os.getpid()
    assert first.environment["threads"] == "1"
    actors.close()
    process = psutil.Process(first.environment["pid"]) if psutil.pid_exists(first.environment["pid"]) else None
    if process is not None:
        process.wait(timeout=20)


def test_two_threads_have_two_actors(actors: ActorPool) -> None:
    pids: set[int] = set()
    gate = threading.Barrier(2)

    def ask() -> None:
        gate.wait()
        while len(pids) < 2:
            pids.add(actors.editor("odd").edit(asked("rest")).environment["pid"])

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert len(pids) == 2


def test_an_actor_that_dies_is_replaced_and_its_edit_asked_again(actors: ActorPool) -> None:
    reply = actors.editor("odd").edit(asked("die once"))
    assert reply.status is Status.OK
    assert reply.notes["asked_again"] == "actors that ended first: 1"


def test_an_edit_that_always_kills_its_actor_costs_three(actors: ActorPool) -> None:
    reply = actors.editor("odd").edit(asked("die"))
    assert reply.status is Status.CRASHED
    assert reply.detail.startswith("3 actors ended during this edit")
    assert actors.editor("odd").edit(asked()).status is Status.OK


def test_an_error_in_the_actor_is_raised_here(actors: ActorPool) -> None:
    with pytest.raises(RuntimeError, match="ValueError: no"):
        actors.editor("odd").edit(asked("fail"))
    assert actors.editor("odd").edit(asked()).status is Status.OK


def test_after_the_deadline_the_actor_is_ended(actors: ActorPool) -> None:
    pid = actors.editor("odd").edit(asked()).environment["pid"]
    late = actors.editor("odd", deadline=1.0).edit(asked("sleep"))
    assert late.status is Status.TIMEOUT and late.detail == "no answer after 1 s; its actor was ended"
    assert actors.editor("odd", deadline=30).edit(asked()).environment["pid"] != pid


@pytest.mark.parametrize("size", [10, MIN_STORE_BYTES - 1, MIN_STORE_BYTES, 3 * MIN_STORE_BYTES])
def test_pictures_of_every_size_arrive_whole(actors: ActorPool, size: int) -> None:
    image = bytes(size - 9) + b"ends here"
    reply = actors.editor("odd").edit(asked(image=image, references=(b"one", b"two")))
    assert (reply.environment["size"], reply.image, reply.notes["n"]) == (size, b"ends here", "2")


def test_what_the_machine_lacks_reaches_the_user_as_a_sentence(cluster: Cluster) -> None:
    actors = cluster.apart({"odd": cannot_be_made}, ActorResources(most=1, gpus=0.0))
    with pytest.raises(SetupError, match=r"^The weights are damaged\. Install again\.$"):
        actors.editor("odd").edit(asked())
    actors.close()


def test_a_bug_while_loading_costs_an_attempt_with_its_words(cluster: Cluster) -> None:
    actors = cluster.apart({"odd": is_a_bug}, ActorResources(most=1, gpus=0.0))
    with pytest.raises(RuntimeError, match="ValueError: no such part"):
        actors.editor("odd").edit(asked())
    actors.close()


def test_an_actor_that_dies_while_loading_is_tried_three_times(cluster: Cluster) -> None:
    actors = cluster.apart({"odd": dies_when_made}, ActorResources(most=1, gpus=0.0))
    assert actors.editor("odd").edit(asked()).status is Status.CRASHED
    actors.close()


def test_an_actor_without_a_place_is_a_sentence(ray: Any) -> None:
    cluster = Cluster(ray, StopEvent(), patience=1)
    actors = cluster.apart({"odd": Odd}, ActorResources(cpus=64, gpus=0.0, most=1))
    with pytest.raises(SetupError, match=r"No actor with 64 CPU and 0 GPU found a place in 1 s; .* 2 CPU"):
        actors.editor("odd").edit(asked())
    actors.close()


def test_waiting_for_a_place_ends_when_the_work_is_stopped(ray: Any) -> None:
    stop = StopEvent()
    actors = Cluster(ray, stop, patience=60).apart({"odd": Odd}, ActorResources(cpus=64, gpus=0.0, most=1))
    threading.Timer(0.5, stop.set, ("enough",)).start()
    with pytest.raises(NotStartedError):
        actors.editor("odd").edit(asked())
    actors.close()


def test_work_that_waits_for_a_place_gets_it_when_other_work_ends(cluster: Cluster) -> None:
    """Two models, room for one: the second waits, and needs no more patience than it takes."""
    one, two = (cluster.apart({"odd": Odd}, ActorResources(cpus=2, gpus=0.0, most=1)) for _ in range(2))
    assert one.editor("odd").edit(asked()).status is Status.OK
    later: list[EditReply] = []
    thread = threading.Thread(target=lambda: later.append(two.editor("odd").edit(asked())))
    thread.start()
    thread.join(timeout=1)
    assert thread.is_alive() and not later
    one.close()
    thread.join(timeout=60)
    assert later[0].status is Status.OK
    two.close()


def test_no_more_actors_than_there_is_room_or_work_for(cluster: Cluster) -> None:
    assert cluster.settle(ActorResources(), model=True, work=100) == ActorResources(cpus=1, gpus=0, most=2)
    assert cluster.settle(ActorResources(cpus=0.5), model=False, work=3).most == 3
    assert cluster.settle(ActorResources(most=7), model=False, work=100).most == 7
    assert cluster.settle(ActorResources(cpus=8), model=False, work=100).most == 1
