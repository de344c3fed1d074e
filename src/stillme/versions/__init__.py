"""Two versions of an editor on the same persons and prompts: what became better, what became worse, for whom."""

from __future__ import annotations

from stillme.errors import InputError
from stillme.progress import Progress
from stillme.versions import compared as comparing
from stillme.versions import driving
from stillme.versions.compared import Asked, Compared
from stillme.versions.driving import Advance
from stillme.versions.saying import plain, words
from stillme.versions.writing import write

__all__ = ["Asked", "Compared", "compare", "plain", "words", "write"]


def compare(asked: Asked, budget: int | None, advance: Advance, progress: Progress) -> Compared:
    """Runs and tables as they are; audits step by step, under a budget of calls. `advance`: see `driving`."""
    audits = [path for path in (asked.a, asked.b) if driving.is_audit(path)]
    if audits and not (asked.sequential and budget):
        raise InputError(
            f"{audits[0]} is an audit, not a run.",
            "Run it first (`stillme run`) and give its run, or add --sequential --budget CALLS to run both now.",
        )
    if budget and not audits:
        raise InputError(
            "A budget is for audits that are still to be run.",
            "Give at least one audit.yaml, or leave --budget out.",
        )
    return driving.drive(asked, budget, advance, progress) if audits and budget else comparing.compare(asked)
