"""A small selection on the shelf, filled and held."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stillme.sources.selection.config import Plan
from stillme.sources.selection.store import Store
from tests.sources.selection import shelf


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return shelf.make_plan(tmp_path, shelf.FEW)


@pytest.fixture
def store(plan: Plan) -> Iterator[Store]:
    with Store.open_for_writing(plan.folder) as held:
        shelf.fill(plan, held)
        yield held
