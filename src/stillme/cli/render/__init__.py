"""Results as text for a terminal and as JSON for scripts; what a result is stays in its own room.

One module per subject: `plan`, `run`, `pair`, `help`, `release`, `selection`.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

WIDTH = 100  # columns: what a terminal beside an editor has


def to_json(result: Any) -> str:
    """Return a result as JSON: its fields, or its `to_dict` where scripts read more or less than these."""
    return json.dumps(_to_data(result), default=str)  # paths and times as text


def _to_data(value: Any) -> Any:
    if hasattr(value, "to_dicts"):  # a polars table: row by row
        return value.to_dicts()
    if is_dataclass(value) and not isinstance(value, type):
        if hasattr(value, "to_dict"):
            return _to_data(value.to_dict())
        return {field.name: _to_data(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {name: _to_data(item) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_to_data(item) for item in value]
    return value


def wrap(
    text: str,
    first: str = "",
    rest: str | None = None,
    *,
    width: int = WIDTH,
    long_words: bool = False,
    hyphens: bool = True,
) -> list[str]:
    """Return the lines of a paragraph: `first` stands before the first, `rest` (default: the same) before others.

    `long_words`: leave words whole that are longer than a line, such as paths. `hyphens`: break at these, too.
    """
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=first if rest is None else rest,
        break_long_words=not long_words,
        break_on_hyphens=hyphens,
    )


def print_highlighted(text: str, good: str, bad: str) -> None:
    """Print a text; on a terminal its headings and what the two patterns match stand out."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        print(text)
        return
    highlighted = Text(text)
    highlighted.highlight_regex(r"(?m)^\S.*$", "bold")
    highlighted.highlight_regex(good, "green")
    highlighted.highlight_regex(bad, "yellow")
    console.print(highlighted)
