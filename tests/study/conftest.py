"""What the study's tests share: both databases, and a run that studies are built of."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from stillme import pipeline
from stillme.study.builder import tutorial
from tests import prepared
from tests.study.postgres import postgres, postgres_server

__all__ = ["postgres", "postgres_server"]


ON_BOTH_DATABASES = pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a new database, of both kinds in turn; tests that need both every time say so."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'study.db'}"
    address: str = request.getfixturevalue("postgres")
    return address


@pytest.fixture(scope="session")
def studied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of `tests.studies.make_run` without its report; tests only read it."""
    from tests.studies import make_run  # which imports tests, and those may be imported only now

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "report", lambda held, design, progress: held.path)
        return prepared.once(tmp_path_factory, "studied", make_run) / "run"


@pytest.fixture(scope="session")
def tutorials_drawn_once() -> Iterator[None]:
    """Every bundle of a preset has the same tutorial, whose pictures are what takes longest to build."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tutorial, "_drawn", cache(tutorial._drawn))
        yield
