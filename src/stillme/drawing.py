"""Draws the cases of the mitigation experiment by what was observed, where the audit asks for that."""

from __future__ import annotations

from stillme.design import Design
from stillme.ledger import Run
from stillme.progress import Progress


def draw(run: Run, design: Design, progress: Progress) -> bool:
    """True where a sample was drawn just now, so that there is more to plan."""
    return False


def waits(run: Run, design: Design) -> str:
    """Why the cases cannot be drawn yet, in a sentence; empty where there is nothing to wait for."""
    return ""
