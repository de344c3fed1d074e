"""A protocol folder of one's own, changed by a word, and what stillme says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from stillme.core.errors import ConfigIssuesError
from stillme.protocol import load


def change(folder: Path, file: str, old: str, new: str) -> None:
    path = folder / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def faults(folder: Path) -> str:
    with pytest.raises(ConfigIssuesError) as raised:
        load(folder)
    return str(raised.value)
