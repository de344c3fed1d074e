"""What can be said of the Ray engine without Ray; tests/ray has the rest."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from stillme import pipeline
from stillme.core.errors import ConfigIssuesError, SetupError
from stillme.engine.progress import Progress
from stillme.engine.ray import ActorResources, Cluster, connected
from stillme.engine.threads import StopEvent
from stillme.plan import config
from tests.conftest import Write


@pytest.fixture
def without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "ray" else find(name))


def test_a_missing_ray_names_the_install_command_and_nothing_is_begun(
    without_ray: None, write_audit: Write
) -> None:
    audit = config.load(write_audit(), engine={"kind": "ray"})
    with pytest.raises(SetupError, match=r"needs the package ray, .* pip install 'stillme\[ray\]'"):
        pipeline.run(audit, Progress())
    assert not audit.run.exists()


def test_so_does_connecting(without_ray: None) -> None:
    with pytest.raises(SetupError, match=r"pip install 'stillme\[ray\]'"), connected("auto", StopEvent()):
        pass


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        ({"kind": "rey"}, r"engine.kind: input should be 'local' or 'ray'"),
        ({"adress": "auto"}, "engine.adress: is not a known key; did you mean 'address'"),
        ({"actors": {"gpus": 1.5}}, r"engine.actors.gpus: above one, Ray takes whole numbers only"),
        ({"actors": {"cpus": -1}}, "engine.actors.cpus: input should be greater than or equal to 0"),
        (
            {"editors": {"evn": {"gpus": 2}}},
            "engine.editors: 'evn' is not an editor of this audit; known: even, er",
        ),
    ],
)
def test_faults_are_named(write_audit: Write, engine: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigIssuesError, match=said):
        config.load(write_audit(engine=engine))


def test_what_the_command_line_says_replaces_what_the_file_says(write_audit: Write) -> None:
    path = write_audit(engine={"kind": "local", "workers": 3, "actors": {"gpus": 0.5}})
    engine = config.load(path, engine={"kind": "ray", "address": "auto"}).audit.engine
    assert (engine.kind, engine.address, engine.workers) == ("ray", "auto", 3)
    assert engine.share("even").gpus == 0.5
    with pytest.raises(ConfigIssuesError, match=r"engine\.kind: input should be"):
        config.load(path, engine={"kind": "slurm"})


def test_an_editor_may_have_a_share_of_its_own(write_audit: Write) -> None:
    engine = {"kind": "ray", "actors": {"cpus": 4}, "editors": {"even": {"gpus": 2, "most": 3}}}
    found = config.load(write_audit(engine=engine)).audit.engine
    assert found.share("even") == ActorResources(gpus=2, most=3)
    assert found.share("erases") == ActorResources(cpus=4)


class Nodes:
    """Ray as far as it says what a cluster has."""

    def __init__(self, *nodes: dict[str, float]) -> None:
        self._nodes = nodes

    def nodes(self) -> list[dict[str, Any]]:
        gone = {"Alive": False, "Resources": {"CPU": 99.0, "GPU": 99.0}}
        return [gone, *({"Alive": True, "Resources": node} for node in self._nodes)]

    def cluster_resources(self) -> dict[str, float]:
        return {name: sum(node.get(name, 0.0) for node in self._nodes) for node in self._nodes for name in node}


GPUS = Nodes({"CPU": 16.0, "GPU": 8.0}, {"CPU": 4.0, "GPU": 8.0}, {"CPU": 64.0})
CORES = Nodes({"CPU": 3.0}, {"CPU": 3.0})


@pytest.mark.parametrize(
    ("nodes", "share", "model", "work", "settled"),
    [
        (GPUS, ActorResources(), True, 1000, ActorResources(cpus=1, gpus=1, most=12)),
        (GPUS, ActorResources(cpus=4), True, 1000, ActorResources(cpus=4, gpus=1, most=5)),
        (GPUS, ActorResources(), False, 1000, ActorResources(cpus=1, gpus=0, most=84)),
        (GPUS, ActorResources(), True, 5, ActorResources(cpus=1, gpus=1, most=5)),
        (CORES, ActorResources(cpus=2), True, 1000, ActorResources(cpus=2, gpus=0, most=2)),
        (CORES, ActorResources(gpus=1), True, 1000, ActorResources(gpus=1, most=1)),
        (CORES, ActorResources(cpus=0, gpus=0), True, 1000, ActorResources(cpus=0, gpus=0, most=6)),
    ],
)
def test_actors_do_not_span_nodes(
    nodes: Nodes, share: ActorResources, model: bool, work: int, settled: ActorResources
) -> None:
    assert Cluster(nodes, StopEvent(), 1).settle(share, model, work) == settled


def test_a_cluster_without_the_place_says_what_it_has() -> None:
    told = str(Cluster(CORES, StopEvent(), 5).cannot_place(ActorResources(gpus=1.0)))
    assert told.startswith("No actor with 1 CPU and 1 GPU found a place in 5 s; the cluster has in all: 6 CPU.")
