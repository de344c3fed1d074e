"""Runs that tests only read, and what was written of them once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.report.browse import made


@pytest.fixture(scope="session")
def wall_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made.wall_run(tmp_path_factory)


@pytest.fixture(scope="session")
def heads_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made.heads_run(tmp_path_factory)


@pytest.fixture(scope="session")
def walled(wall_run: Path) -> Path:
    return wall_run / "report"
