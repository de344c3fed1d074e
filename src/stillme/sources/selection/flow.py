"""The commands of `stillme sources`, step by step: sample, screen, select, status, export."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from stillme.core.errors import InputError, SetupError
from stillme.engine.backends import require_packages
from stillme.engine.progress import Progress
from stillme.sources.selection.config import Plan, load
from stillme.sources.selection.progress import SelectionProgress, load_progress
from stillme.sources.selection.sample import Sampled, refuse_other_grid, sample_pools
from stillme.sources.selection.screen import (
    Screening,
    load_readings,
    screen_candidates,
    screening_settings,
    summarize_screening,
)
from stillme.sources.selection.store import Store


def sample(file: Path, pools: int | None, strict: bool, progress: Progress) -> Sampled:
    """Draw the pools that are missing."""
    selected = plan(file, pools)
    with Store.open_for_writing(selected.folder) as store:
        return sample_pools(selected, store, progress, strict)


def plan(file: Path, pools: int | None = None) -> Plan:
    """The selection's configuration; `pools` instead of the file's number."""
    from_file = load(file)
    if pools is None:
        return from_file
    pool_settings = from_file.selection.pools.model_copy(update={"count": pools})
    return replace(from_file, selection=from_file.selection.model_copy(update={"pools": pool_settings}))


def screen(file: Path, progress: Progress) -> Screening:
    """Measure the candidates that were not measured yet, and count who passes."""
    with _open_for_writing(file) as (selected, store):
        screen_candidates(store, progress, os.cpu_count() or 1)
        current = store.readings(screening_settings())
        summary = summarize_screening(selected, store, current)
    if summary is None:
        raise SetupError("Nothing could be screened.", "Run the command again with --debug.")
    return summary


def status(file: Path) -> SelectionProgress:
    """How far a selection is; can be read while the selection tool is running."""
    with _open_readonly(file) as (selected, store):
        return load_progress(selected, store)


def select(file: Path, reviewers: Sequence[str], host: str, port: int, public: str = "") -> None:
    """Serve the selection tool until it is stopped; `public`: its address behind a proxy with TLS."""
    require_packages(["starlette", "uvicorn", "itsdangerous"], "The selection tool")
    from stillme.sources.selection.app import serve

    with _open_for_writing(file) as (selected, store):
        summary = summarize_screening(selected, store, load_readings(store))
        findings = summary.findings if summary else ()
        serve(selected, store, reviewers, host, port, public, findings, say=partial(print, flush=True))


def export(file: Path, to: Path, incomplete: bool, progress: Progress) -> Path:
    """Write the chosen portraits; `incomplete`: although cells are undecided."""
    from stillme.sources.selection.export import export_portraits

    with _open_readonly(file) as (selected, store):
        summary = summarize_screening(selected, store, load_readings(store))
        return export_portraits(selected, store, to, incomplete, summary.rates if summary else None, progress)


@contextmanager
def _open_readonly(file: Path) -> Iterator[tuple[Plan, Store]]:
    """A selection that was sampled. The data sets themselves need not be there any more."""
    selected = load(file, data_sets=False)
    with Store.open_readonly(selected.folder) as store:
        if not store.pools():
            message = f"{selected.folder} holds no candidates: nothing was sampled yet."
            raise InputError(message, "Run `stillme sources sample` first.")
        refuse_other_grid(selected, store)
        yield selected, store


@contextmanager
def _open_for_writing(file: Path) -> Iterator[tuple[Plan, Store]]:
    with _open_readonly(file) as (selected, _):
        pass  # the same checks, before anything is created or locked
    with Store.open_for_writing(selected.folder) as store:
        yield selected, store
