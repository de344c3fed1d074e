"""Made once: a run, and tables of scores."""

from __future__ import annotations

from pathlib import Path

import pytest

from stillme.protocol import Protocol
from tests import prepared
from tests.assurance.gate import runs


@pytest.fixture(scope="session")
def gated_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared.once(tmp_path_factory, "gated", runs.make_run) / "run"


@pytest.fixture(scope="session")
def planted_scores(tmp_path_factory: pytest.TempPathFactory, protocol: Protocol) -> Path:
    made = prepared.once(
        tmp_path_factory, "scores", lambda folder: runs.make_scores(protocol, folder / "scores.parquet")
    )
    return made / "scores.parquet"
