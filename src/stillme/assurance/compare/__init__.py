"""Two versions of an editor on the same persons and prompts: what became better, what became worse, for whom."""

from __future__ import annotations

from stillme.assurance.compare.comparison import CompareOptions, ComparisonResult, compare_sides
from stillme.assurance.compare.findings import sentences, to_dict, write
from stillme.assurance.compare.sequential import Advance, drive, is_audit
from stillme.core.errors import InputError
from stillme.engine.progress import Progress

__all__ = ["CompareOptions", "ComparisonResult", "compare", "sentences", "to_dict", "write"]


def compare(options: CompareOptions, budget: int | None, advance: Advance, progress: Progress) -> ComparisonResult:
    """Runs and tables as they are; audits step by step, under a budget of calls. `advance`: see `sequential`."""
    audits = [path for path in (options.a, options.b) if is_audit(path)]
    if audits and not (options.sequential and budget):
        raise InputError(
            f"{audits[0]} is an audit, not a run.",
            "Run it first (`stillme run`) and give its run, or add --sequential --budget CALLS to run both now.",
        )
    if budget and not audits:
        raise InputError(
            "A budget is for audits that are still to be run.",
            "Give at least one audit.yaml, or leave --budget out.",
        )
    return drive(options, budget, advance, progress) if audits and budget else compare_sides(options)
