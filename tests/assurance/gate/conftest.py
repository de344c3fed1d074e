"""Made once: a run, and tables of scores."""

from __future__ import annotations

from pathlib import Path

import pytest

from stillme.protocol import Protocol
from tests.assurance.gate import runs


@pytest.fixture(scope="session")
def gated_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return runs.make_run(tmp_path_factory.mktemp("gated"))


@pytest.fixture(scope="session")
def planted_scores(tmp_path_factory: pytest.TempPathFactory, protocol: Protocol) -> Path:
    return runs.make_scores(protocol, tmp_path_factory.mktemp("scores") / "scores.parquet")
