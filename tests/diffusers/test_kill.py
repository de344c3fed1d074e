"""Two tiny models and a served one: killed at random points they end as if nothing had happened; so on a cluster."""

from __future__ import annotations

import importlib.util
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from stillme.ledger.run import LEDGER
from tests.conftest import dump_audit
from tests.diffusers.editing import QUICK
from tests.ray.audits import files, rows

KILLS = 10
EDITS = 12
WORK = {
    "sources": [
        {
            "id": "heads",
            "kind": "synthetic",
            "settings": {"groups": {"race": ["black"], "gender": ["female"], "age": ["20s", "60s"]}},
        }
    ],
    "experiments": {"diagnose": {"prompts": ["O-01", "V-02"]}},
    "judges": [],
    "engine": {"actors": {"most": 2}},
}
Editors = list[dict[str, Any]]


@pytest.fixture(scope="module")
def editors(flux2_folder: Path, qwen_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editors]:
    """Three editors, four edits each: two models in processes of this machine, one behind a server."""
    from tests.diffusers import standin
    from tests.diffusers.served import served

    place = tmp_path_factory.mktemp("served")
    model = {"source": str(standin.save(place / "step1x")), "device": "cpu", "num_inference_steps": 28}
    dump_audit(place / "audit.yaml", editors=[{"id": "step", "kind": "step1x", "settings": model}])
    with served(place / "audit.yaml", "step") as asked:
        yield [
            _model("flux2", flux2_folder),
            _model("qwen", qwen_folder),
            {"id": "served", "kind": "openai", "seed": 42, "settings": asked},
        ]


def _model(kind: str, folder: Path) -> dict[str, Any]:
    settings = {"source": str(folder), "device": "cpu", **QUICK[kind]}
    return {"id": kind, "kind": kind, "seed": 42, "settings": settings}


@pytest.fixture(scope="module")
def calm(editors: Editors, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The audit, undisturbed."""
    folder = tmp_path_factory.mktemp("calm")
    dump_audit(folder / "audit.yaml", editors=editors, **WORK)
    finish(folder)
    assert len(what(folder)["edit"]) == EDITS
    return folder


def start(folder: Path, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "stillme", "run", str(folder / "audit.yaml"), *options]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def finish(folder: Path, *options: str) -> None:
    _, errors = (process := start(folder, *options)).communicate(timeout=600)
    assert process.returncode == 0, errors.decode()


def wait_for(process: subprocess.Popen[bytes], folder: Path, edits: int) -> None:
    """Until so many edits are recorded, or the run has ended."""
    limit = time.monotonic() + 300
    while process.poll() is None and recorded(folder) < edits and time.monotonic() < limit:
        time.sleep(0.01)


def recorded(folder: Path) -> int:
    try:
        with closing(sqlite3.connect(f"file:{folder / 'run' / LEDGER}?mode=ro", uri=True)) as connection:
            return int(connection.execute("SELECT count(*) FROM edit").fetchone()[0])
    except sqlite3.Error:
        return 0


def kill(process: subprocess.Popen[bytes]) -> bool:
    """SIGKILL; False where it had ended by itself."""
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return process.returncode == -signal.SIGKILL


def what(folder: Path) -> dict[str, list[tuple[object, ...]]]:
    """What was asked and made, and how; attempts by status alone, as a server numbers its answers."""
    found = rows(folder / "run")
    return {**found, "attempt": [(row[0], row[1]) for row in found["attempt"]]}


@pytest.mark.slow
def test_killed_ten_times_and_still_the_same(editors: Editors, calm: Path, tmp_path: Path) -> None:
    dump_audit(tmp_path / "audit.yaml", editors=editors, **WORK)
    chance = random.Random(10)
    points = sorted(chance.randrange(EDITS) for _ in range(KILLS - 2))
    killed = 0
    for edits in [0, 0, *points]:
        process = start(tmp_path)
        wait_for(process, tmp_path, edits)
        time.sleep(chance.uniform(0, 3 if edits == 0 else 0.3))
        killed += kill(process)
    assert killed >= KILLS - 2, "the others came after the last edit"
    finish(tmp_path)
    assert recorded(tmp_path) == EDITS
    assert what(tmp_path) == what(calm)
    assert files(tmp_path / "run") == files(calm / "run")


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs Ray")
def test_on_ray_with_an_actor_killed_and_then_the_run_itself(editors: Editors, calm: Path, tmp_path: Path) -> None:
    dump_audit(tmp_path / "audit.yaml", editors=editors, **WORK)
    process = start(tmp_path, "--engine", "ray")
    wait_for(process, tmp_path, 1)
    some_actor(process).kill()
    wait_for(process, tmp_path, random.Random(6).randint(3, 6))
    assert process.poll() is None
    left = list(actors(process))
    assert kill(process)
    _, alive = psutil.wait_procs(left, timeout=60)
    assert alive == [], "the models of a run end with it"
    process = start(tmp_path, "--engine", "ray")
    wait_for(process, tmp_path, recorded(tmp_path) + 1)
    some_actor(process).kill()
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors.decode()
    assert recorded(tmp_path) == EDITS
    for table in ("object", "trial", "edit", "circumstances", "attempt"):
        assert what(tmp_path)[table] == what(calm)[table]
    assert files(tmp_path / "run") == files(calm / "run")


def some_actor(process: subprocess.Popen[bytes]) -> psutil.Process:
    """One of the run's actors, as soon as there is one."""
    limit = time.monotonic() + 120
    while time.monotonic() < limit:
        for actor in actors(process):
            return actor
        time.sleep(0.05)
    raise AssertionError("the run has no actor")


def actors(process: subprocess.Popen[bytes]) -> Iterator[psutil.Process]:
    for child in psutil.Process(process.pid).children(recursive=True):
        with suppress(psutil.Error):
            if " ".join(child.cmdline()).startswith("ray::_Host"):
                yield child
