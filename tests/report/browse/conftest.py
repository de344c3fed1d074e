"""Runs that tests only read, and what was written of them once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.report.browse import made


@pytest.fixture(scope="session")
def wall_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made.build_wall(tmp_path_factory.mktemp("wall"))


@pytest.fixture(scope="session")
def heads_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made.build_heads(tmp_path_factory.mktemp("heads"))


@pytest.fixture(scope="session")
def walled(wall_run: Path) -> Path:
    """Written into the run's own folder, as the report is."""
    return made.write(wall_run, wall_run / "report")


@pytest.fixture(scope="session")
def blurred(heads_run: Path) -> Path:
    return made.write(heads_run, heads_run / "blurred", "blur")
