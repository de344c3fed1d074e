"""The commands of `stillme sources`, step by step: sample, screen, select, status, export."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from stillme.core.errors import InputError, SurroundingsError
from stillme.engine import backends
from stillme.engine.progress import Progress
from stillme.sources.selection import config
from stillme.sources.selection import sample as sampling
from stillme.sources.selection.config import Plan
from stillme.sources.selection.sample import Sampled
from stillme.sources.selection.standing import Standing, standing
from stillme.sources.selection.store import Store

if TYPE_CHECKING:
    from stillme.sources.selection.rates import Screening


def sample(file: Path, pools: int | None, strict: bool, progress: Progress) -> Sampled:
    """Draws the pools that are missing."""
    settled = plan(file, pools)
    with Store.hold(settled.folder) as store:
        return sampling.sample(settled, store, progress, strict)


def plan(file: Path, pools: int | None = None) -> Plan:
    """The selection's configuration; `pools` in place of the file's number."""
    found = config.load(file)
    if pools is None:
        return found
    chosen = found.selection.pools.model_copy(update={"count": pools})
    return replace(found, selection=found.selection.model_copy(update={"pools": chosen}))


def screen(file: Path, progress: Progress) -> Screening:
    """Measures the candidates that were not measured yet, and counts who passes."""
    from stillme.sources.selection import screen as screens
    from stillme.sources.selection.rates import screening

    with _held(file) as (settled, store):
        screens.screen(store, progress, os.cpu_count() or 1)
        found = screening(settled, store, store.readings(screens.settings()))
    if found is None:
        raise SurroundingsError("Nothing could be screened.", "Run the command again with --debug.")
    return found


def status(file: Path) -> Standing:
    """How far a selection is; reads beside the selection tool."""
    with _looked_at(file) as (settled, store):
        return standing(settled, store)


def select(file: Path, reviewers: Sequence[str], host: str, port: int, public: str = "") -> None:
    """Serves the selection tool until it is stopped; `public`: its address behind a proxy with TLS."""
    backends.require_packages(["starlette", "uvicorn", "itsdangerous"], "The selection tool")
    from stillme.sources.selection.app import serve

    with _held(file) as (settled, store):
        found = _screening(settled, store)
        findings = found.findings if found else ()
        serve(settled, store, reviewers, host, port, public, findings, say=partial(print, flush=True))


def export(file: Path, to: Path, incomplete: bool, progress: Progress) -> Path:
    """Writes the chosen portraits; `incomplete`: although cells are undecided."""
    from stillme.sources.selection import manifest

    with _looked_at(file) as (settled, store):
        found = _screening(settled, store)
        return manifest.export(settled, store, to, incomplete, found.rates if found else None, progress)


def _screening(settled: Plan, store: Store) -> Screening | None:
    from stillme.sources.selection.rates import screening
    from stillme.sources.selection.screen import readings

    return screening(settled, store, readings(store))


_Opened = Iterator[tuple[Plan, Store]]


@contextmanager
def _looked_at(file: Path) -> _Opened:
    """A selection that was sampled, for reading. The data sets themselves need not be there any more."""
    settled = config.load(file, data_sets=False)
    with Store.look(settled.folder) as store:
        if not store.pools():
            said = f"{settled.folder} holds no candidates: nothing was sampled yet."
            raise InputError(said, "Run `stillme sources sample` first.")
        sampling.refuse_other_grid(settled, store)
        yield settled, store


@contextmanager
def _held(file: Path) -> _Opened:
    """The same, for writing."""
    with _looked_at(file) as (settled, _):
        pass
    with Store.hold(settled.folder) as store:
        yield settled, store
