"""The gate's files: each is written whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stillme.assurance.gate.junit import junit
from stillme.assurance.gate.results import Gated
from stillme.assurance.gate.sarif import sarif
from stillme.assurance.gate.saying import page
from stillme.core.atomic import replace_file
from stillme.core.errors import disk


@dataclass(frozen=True)
class Files:
    """Where to write what; None: nowhere."""

    junit: Path | None = None
    sarif: Path | None = None
    markdown: Path | None = None


def write(gated: Gated, files: Files) -> list[Path]:
    """Everything is made before anything is written."""
    made = list(_made(gated, files))
    for path, content in made:
        with disk(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, content)
    return [path for path, _ in made]


def _made(gated: Gated, files: Files) -> Iterator[tuple[Path, bytes]]:
    if files.junit is not None:
        yield files.junit, junit(gated)
    if files.sarif is not None:
        yield files.sarif, sarif(gated)
    if files.markdown is not None:
        yield files.markdown, page(gated).encode("utf-8", "replace")
