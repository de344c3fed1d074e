"""Runs on clusters that are not the tests' own: a lost node, Ctrl-C."""

from __future__ import annotations

import importlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from stillme.ledger.run import LEDGER
from tests.conftest import dump_audit
from tests.ray import audits

WORK = {
    "sources": [{"id": "heads", "kind": "synthetic", "settings": {"groups": {"age": ["20s", "60s"]}}}],
    "editors": [{"id": "even", "kind": "planted", "settings": {"truth": "even"}}],
    "judges": [],
    "engine": {"kind": "ray", "actors": {"cpus": 1, "most": 2}},
}
QUIET = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 100 * 2**20}


@pytest.fixture
def nodes() -> Iterator[Any]:
    """Two nodes of one core each, as processes of this machine."""
    module = importlib.import_module("ray.cluster_utils")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Ray's own making
        cluster = module.Cluster(initialize_head=True, head_node_args=QUIET)
        cluster.add_node(num_cpus=1, object_store_memory=100 * 2**20)
    yield cluster
    cluster.shutdown()


def recorded(run: Path) -> int:
    try:
        with closing(sqlite3.connect(f"file:{run / LEDGER}?mode=ro", uri=True)) as connection:
            return int(connection.execute("SELECT count(*) FROM edit").fetchone()[0])
    except sqlite3.Error:
        return 0


def wait_for(process: subprocess.Popen[bytes], run: Path, edits: int) -> None:
    limit = time.monotonic() + 120
    while process.poll() is None and recorded(run) < edits and time.monotonic() < limit:
        time.sleep(0.02)
    assert process.poll() is None


@pytest.mark.slow
def test_a_lost_node_costs_no_edit(nodes: Any, tmp_path: Path) -> None:
    dump_audit(tmp_path / "here.yaml", run="here", **{**WORK, "engine": {"kind": "local"}})
    dump_audit(tmp_path / "away.yaml", run="away", **WORK)
    command = [sys.executable, "-m", "stillme", "run", str(tmp_path / "away.yaml"), "--address", nodes.address]
    process = subprocess.Popen([*command, "--engine", "ray"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    wait_for(process, tmp_path / "away", 20)
    nodes.remove_node(next(iter(nodes.worker_nodes)), allow_graceful=False)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors.decode()
    audits.edit(tmp_path / "here.yaml")
    here, away = audits.rows(tmp_path / "here"), audits.rows(tmp_path / "away")
    assert {**away, "making": [], "circumstances": []} == {**here, "making": [], "circumstances": []}
    assert len(away["edit"]) == len(away["attempt"]) == 84


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_done_and_ends_the_cluster_of_this_machine(tmp_path: Path) -> None:
    plenty = {"diagnose": {"prompts": "all"}}  # more than is made before the signal arrives
    dump_audit(tmp_path / "audit.yaml", **WORK, experiments=plenty)
    command = [sys.executable, "-m", "stillme", "run", str(tmp_path / "audit.yaml")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    wait_for(process, tmp_path / "run", 10)
    family = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to everyone
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130 and b"Everything done is kept" in errors
    assert 10 <= recorded(tmp_path / "run") < 28 * 20
    assert {row[1] for row in audits.rows(tmp_path / "run")["attempt"]} == {"ok"}
    _, alive = psutil.wait_procs(family, timeout=60)
    assert alive == []
