"""Experiment 3: which portraits meet which sentence about two occupations, in which orders. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stillme.protocol import Protocol
from stillme.records import Portrait

PUBLISHED = "published"  # the arm with the sentence as it was printed


@dataclass(frozen=True)
class Scene:
    """One request: a sentence, and the portrait or the two that it starts from."""

    prompt: str
    arm: str
    text: str
    portrait: Portrait
    partner: Portrait | None = None
    about: Mapping[str, Any] = field(default_factory=dict)


def scenes(
    protocol: Protocol,
    portraits: Sequence[Portrait],
    prompts: Sequence[str],
    mode: str,
    counterbalanced: bool,
    seed: int,
) -> Iterator[Scene]:
    return iter(())
