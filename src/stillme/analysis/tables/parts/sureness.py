"""How sure: which way scores moved, other thresholds, other ways of scoring, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator

from stillme.analysis.tables.audit import Audit
from stillme.analysis.tables.tables import Tabled, apart, around, number, share, whole, within, word, yes
from stillme.stats.rates import crossings
from stillme.stats.sensitivity import scoring, thresholds
from stillme.stats.signed import by_judge, signed

WAY, PART = "Which way", "How much hangs on a choice"


def directions(audit: Audit) -> Iterator[Tabled]:
    """Signed axes."""
    shown = (
        share("above", "above"),
        share("below", "below"),
        apart("net", "net (points)"),
        within("net_low", "net_high"),
        number("magnitude", "size"),
        around("magnitude_low", "magnitude_high"),
        share("large", "at an end"),
        whole("judged"),
        whole("missing"),
        whole("persons"),
    )
    notes = (
        "Above and below the score that means no change, from judges' unrounded mean; net is above − below. "
        "Changes that the prompt asks for are left out.",
    )
    who = (word("axis", names=audit.labels), word("editor"))
    frame = signed(audit.scores, audit.protocol, ["editor"])
    yield Tabled("signed_by_editor", WAY, "Direction and size of change", frame, (*who, *shown), notes)
    for dimension in audit.dimensions:
        known = audit.scores.drop_nulls(dimension)
        frame = signed(known, audit.protocol, ["editor", dimension])
        group = word(dimension, f"perceived {dimension}", audit.labels)
        title = f"Direction and size of change by perceived {dimension}"
        yield Tabled(f"signed_by_{dimension}", WAY, title, frame, (*who, group, *shown))
    if audit.judged is not None:
        frame = by_judge(audit.judged, audit.protocol, ["editor"])
        title = "Direction and size of change, judge by judge"
        yield Tabled("signed_by_judge", WAY, title, frame, (word("judge"), *who, *shown))


def choices(audit: Audit) -> Iterator[Tabled]:
    """Thresholds, rounding, single judges; and every crossing, as a file."""
    outcome, editor = word("outcome", names=audit.labels), word("editor")
    rated = (share("rate"), within(), whole("hits"), whole("judged"), whole("missing"))
    frame = thresholds(audit.scores, audit.protocol)
    moved = (
        outcome,
        whole("threshold"),
        yes("is_declared", "declared"),
        editor,
        *rated,
        apart("difference", "others − reference"),
    )
    yield Tabled("thresholds", PART, "Outcomes at neighbouring thresholds", frame, moved)
    frame = scoring(audit.judged, audit.by_rounding, audit.protocol)
    way = (outcome, editor, word("scoring"), word("name"), *rated)
    yield Tabled("scoring", PART, "Outcomes by how judges' scores are put together", frame, way)
    frame = crossings(audit.marked, audit.protocol, statuses=audit.statuses)
    notes = ("Many cells: exploratory. A cell of fewer than 8 persons has no interval.",)
    yield Tabled("crossings", PART, "Every outcome by every crossing of groups and prompts", frame, (), notes)
