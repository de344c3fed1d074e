"""The commands of `stillme sources`, step by step: sample, screen, select, status, export."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from stillme import backends
from stillme.progress import Progress
from stillme.select import config
from stillme.select import sample as sampling
from stillme.select.config import Plan
from stillme.select.grid import Grid
from stillme.select.sample import Sampled
from stillme.select.standing import Standing, standing
from stillme.select.store import Store


def sample(file: Path, pools: int | None, strict: bool, progress: Progress) -> Sampled:
    """Draws the pools that are missing."""
    plan = _plan(file, pools)
    with Store.hold(plan.folder) as store:
        return sampling.sample(plan, store, progress, strict)


def grid(file: Path) -> Grid:
    return config.load(file).grid


def _plan(file: Path, pools: int | None = None) -> Plan:
    plan = config.load(file)
    if pools is None:
        return plan
    chosen = plan.selection.pools.model_copy(update={"count": pools})
    return replace(plan, selection=plan.selection.model_copy(update={"pools": chosen}))


def status(file: Path) -> Standing:
    """How far a selection is; reads beside the selection tool."""
    plan = _plan(file)
    with Store.look(plan.folder) as store:
        return standing(plan, store)


def select(file: Path, reviewers: Sequence[str], host: str, port: int) -> None:
    """Serves the selection tool until it is stopped."""
    backends.require_packages(["starlette", "uvicorn", "itsdangerous"], "The selection tool")
    from stillme.select.app import serve

    plan = _plan(file)
    with Store.look(plan.folder):  # a selection that was never sampled is said so before anything is made
        pass
    with Store.hold(plan.folder) as store:
        serve(plan, store, reviewers, host, port)


def export(file: Path, to: Path, partial: bool) -> Path:
    """Writes the chosen portraits."""
    from stillme.select import manifest

    plan = _plan(file)
    with Store.look(plan.folder) as store:
        return manifest.export(plan, store, to, partial)
