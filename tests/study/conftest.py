"""What the study's tests share: both databases, and a small bundle."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.study.postgres import postgres, postgres_server

__all__ = ["postgres", "postgres_server"]


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a new database, of both kinds in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'study.db'}"
    address: str = request.getfixturevalue("postgres")
    return address
