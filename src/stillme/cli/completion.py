"""What a shell offers after TAB: run folders, terms, parts, presets. Quick, and silent where it cannot tell.

A shell that is offered nothing completes names of files, so nothing is what a doubtful case gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

LEDGER = "ledger.sqlite"
DEPTH = 3  # folders below the typed one in which runs are looked for
MAX_FOLDERS = 200  # looked at: a shell must not wait

# Words that never change, copied so that nothing is loaded for them; a test compares them with their originals.
PARTS = ("html", "tables", "figures", "browse", "pictures", "cards")
FACES = ("show", "blur", "none")
EXPERIMENTS = ("diagnose", "controls", "mitigate", "stereotype")
ENGINES = ("local", "ray")
TABLES = ("parquet", "csv")
ENTRIES = ("plain", "prolific", "signed")


def among(*words: str) -> Callable[[str], list[str]]:
    return lambda incomplete: _starting_with(words, incomplete)


def _starting_with(words: Iterable[str], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]


def runs(incomplete: str) -> list[str]:
    """Folders with a ledger in them, below what is typed so far."""
    typed = Path(incomplete)
    base = typed if incomplete.endswith("/") else typed.parent
    try:
        return _starting_with(map(str, islice(_runs(base, DEPTH), MAX_FOLDERS)), str(typed) if incomplete else "")
    except OSError:
        return []


def _runs(folder: Path, depth: int) -> Iterable[Path]:
    for inner in sorted(islice(folder.iterdir(), MAX_FOLDERS)):
        if inner.name.startswith(".") or not inner.is_dir():
            continue
        if (inner / LEDGER).is_file():
            yield inner
        elif depth > 1:
            yield from _runs(inner, depth - 1)


def terms(incomplete: str) -> list[str]:
    """Terms of one word, as they are written; whoever types a blank knows what to type."""
    from stillme.cli.glossary import names
    from stillme.protocol import builtin

    return _starting_with((name for name in names(builtin()) if " " not in name), incomplete)


def presets(incomplete: str) -> list[str]:
    from stillme.protocol import builtin

    return _starting_with(builtin().presets, incomplete)


def studies(incomplete: str) -> list[str]:
    """The studies that can be built from a run."""
    from stillme.protocol import builtin

    known = builtin().study_presets
    return _starting_with((one.id for one in known.presets) if known else (), incomplete)


def starts(incomplete: str) -> list[str]:
    from stillme.cli.init import STARTS

    return _starting_with(STARTS, incomplete)
