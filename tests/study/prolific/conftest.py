"""The stage on which Prolific's side is tested."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from stillme.study.db import seats
from stillme.study.db.store import open_store, write_now
from stillme.study.rehearsal.fake.app import Options
from stillme.study.rehearsal.fake.world import World
from tests.study.prolific.stage import TOKEN, Stage, Switch, listening, small


@pytest.fixture(scope="session")
def switch() -> Iterator[Switch]:
    made = Switch()
    with listening(made, lifespan="off") as made.base:
        yield made


@pytest.fixture
def staged(tmp_path: Path, switch: Switch) -> Iterator[Callable[..., Stage]]:
    """Makes a stage: `staged(database="", **of the bundle)`."""
    with ExitStack() as ends:

        def make(database: str = "", **changes: Any) -> Stage:
            bundle = small(**changes)
            store = open_store(database or f"sqlite:///{tmp_path / 'study.db'}")
            ends.callback(store.close)
            write_now(store.engine, lambda c: seats.attach(c, bundle, 0.0))
            world, options = World(tmp_path / "fake.json", TOKEN), Options(log=[])
            return Stage(bundle, store, world, options, switch.show(world, options), tmp_path)

        yield make


@pytest.fixture
def stage(staged: Callable[..., Stage]) -> Stage:
    return staged()
