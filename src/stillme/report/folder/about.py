"""What a report folder says of itself: of which state of the run it is, how faces are treated, what is in it."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import stillme
from stillme.ledger import Run
from stillme.ledger.run import state_of

FILE = "about.json"


def write(folder: Path, run: Run, faces: str, counts: Mapping[str, int]) -> None:
    content = {
        "stillme": stillme.__version__,
        "run": run.id,
        "state": state_of(run),
        "faces": faces,
        "files": dict(counts),
    }
    (folder / FILE).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def read(folder: Path) -> dict[str, Any]:
    """Empty where there is nothing that can be read."""
    try:
        found = json.loads((folder / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def counts(folder: Path) -> dict[str, int]:
    """Part -> how many files it has."""
    found = read(folder).get("files")
    return found if isinstance(found, dict) else {}


def shows(folder: Path, run: Run, faces: str | None, parts: Collection[str]) -> bool:
    found = read(folder)
    is_same = found.get("state") == state_of(run) and faces in (None, found.get("faces"))
    return is_same and all(part in counts(folder) for part in parts)
