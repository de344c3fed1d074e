"""Tests of steps look at the rows that a run ends with, not at its page."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def rows_only(without_page: None) -> None:
    pass
