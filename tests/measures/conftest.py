from __future__ import annotations

import pytest

from stillme.measures.runner import MeasureRunner
from tests.measures import pairs


@pytest.fixture(scope="session")
def bench() -> MeasureRunner:
    """One for all: the models are loaded once a process."""
    return pairs.new_bench()
