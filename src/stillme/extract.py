"""The extracting step: what is read off each sampled portrait, once, before any edit asks to keep it."""

from __future__ import annotations

from collections.abc import Sequence

from stillme.config import Config
from stillme.engine.local import Stop
from stillme.ledger import Run
from stillme.progress import Progress
from stillme.purse import Purse
from stillme.records import Portrait


def extract(
    run: Run,
    config: Config,
    portraits: Sequence[Portrait],
    progress: Progress,
    stop: Stop,
    purse: Purse,
    only: Sequence[str] = (),
) -> None:
    """Reads the features that are still missing and records each, whatever came of it."""


def missing(run: Run, config: Config, portraits: Sequence[Portrait]) -> list[Portrait]:
    """Sampled portraits off which nothing was read for good."""
    return []


def standing(run: Run, config: Config, portraits: Sequence[Portrait]) -> dict[str, int]:
    """How the reading went."""
    return {}
