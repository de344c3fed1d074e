"""Runs to look at: a small one that tests may write to, as a copy of one that was built once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from stillme.ledger import Run
from stillme.report.review.desk import Desk
from tests.report.review import wall


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wall.small(tmp_path_factory)


@pytest.fixture
def run(small: Path, tmp_path: Path) -> Path:
    shutil.copytree(small, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def desk(run: Path) -> Iterator[Desk]:
    with Run.join(run) as joined:
        yield Desk(joined)
