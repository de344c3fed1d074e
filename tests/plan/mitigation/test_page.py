"""What the page on feature prompts shows is what the package takes and does."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from stillme.plan.config import Config
from stillme.plan.mitigation.linter import leaks
from stillme.protocol import Protocol

PAGE = (Path(__file__).parents[3] / "docs/mitigation.md").read_text(encoding="utf-8")
EXAMPLES: list[dict[str, Any]] = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.S)]


@pytest.mark.parametrize("example", [one for one in EXAMPLES if "experiments" in one])
def test_every_example_is_an_audit(load_audit: Callable[..., Config], example: dict[str, Any]) -> None:
    config = load_audit(**example)
    assert config.audit.experiments.mitigate is not None and config.extractor is not None


def test_the_conflicts_shown_are_the_protocols(protocol: Protocol) -> None:
    (shown,) = (one["conflicts"] for one in EXAMPLES if "conflicts" in one)
    assert protocol.mitigation is not None
    assert {prompt: tuple(words) for prompt, words in shown.items()} == protocol.mitigation.conflicts


def test_what_is_said_to_be_found_is_found_and_the_rest_is_not() -> None:
    rows = re.findall(r"^\| ([^|]+;[^|]+) \| ([^|]+;[^|]+) \|$", PAGE, re.M)
    assert len(rows) == 4
    for found, harmless in rows:
        assert [text for text in found.split("; ") if not leaks(text)] == []
        assert [text for text in harmless.split("; ") if leaks(text)] == []
