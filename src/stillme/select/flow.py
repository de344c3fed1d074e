"""The commands of `stillme sources`, step by step: sample, screen, select, status, export."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from stillme.progress import Progress
from stillme.select import config
from stillme.select import sample as sampling
from stillme.select.config import Plan
from stillme.select.sample import Sampled
from stillme.select.store import Store


def sample(file: Path, pools: int | None, strict: bool, progress: Progress) -> Sampled:
    """Draws the pools that are missing."""
    plan = _plan(file, pools)
    with Store.hold(plan.folder) as store:
        return sampling.sample(plan, store, progress, strict)


def _plan(file: Path, pools: int | None = None) -> Plan:
    plan = config.load(file)
    if pools is None:
        return plan
    chosen = plan.selection.pools.model_copy(update={"count": pools})
    return replace(plan, selection=plan.selection.model_copy(update={"pools": chosen}))


def screen(file: Path, progress: Progress) -> Screened:
    """Measures the candidates that were not measured yet, and counts who passes."""
    from stillme.select import screen as screening

    plan = _plan(file)
    with Store.look(plan.folder):  # a selection that was never sampled is said so, before anything is made
        pass
    with Store.hold(plan.folder) as store:
        screening.screen(store, progress, os.cpu_count() or 1)
        return screening.passing(plan, store)
