"""Draws the cases of the mitigation experiment: portraits × prompts × editors, even in every margin (S0 H.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stillme.protocol.schema import Groups, Prompt
from stillme.records import Portrait, digest


class Cell(NamedTuple):
    """One case: keys of a portrait, a prompt and an editor."""

    portrait: str
    prompt: str
    editor: str


def stratified(
    portraits: Sequence[Portrait],
    prompts: Sequence[Prompt],
    editors: Sequence[str],
    size: int,
    seed: int,
    groups: Groups,
) -> list[Cell]:
    """`size` cells of the grid, or all where it has fewer; in the grid's order, the same for the same seed."""
    grid = [Cell(p.key, prompt.id, editor) for p in portraits for prompt in prompts for editor in editors]
    drawn = set(sorted(grid, key=lambda cell: digest("drawn", seed=seed, cell=list(cell)))[:size])
    return [cell for cell in grid if cell in drawn]
