"""What is missing: whose edits and scores, why, whether evenly, and how far it could move every number."""

from __future__ import annotations

from collections.abc import Iterator

from stillme.analysis.tables.audit import Audit
from stillme.analysis.tables.tables import (
    Shown,
    Tabled,
    apart,
    plain,
    probability,
    share,
    whole,
    within,
    word,
    yes,
)
from stillme.stats.missingness import answers, missingness, unevenness

PART = "What is missing"


def build(audit: Audit) -> Iterator[Tabled]:
    found = missingness(audit.scores, audit.protocol, audit.edits, audit.judged, seed=audit.seed)
    who = (word("editor"), word("dimension"), word("group", names=audit.labels))
    yield Tabled(
        "missing_counts",
        PART,
        "How edits, verdicts and scores ended",
        found.counts,
        plain(found.counts, audit.labels),
    )
    tested = (
        word("reason"),
        *who,
        share("share"),
        within(),
        share("others_share", "everyone else"),
        probability("p_holm", "p corrected"),
        yes("uneven"),
    )
    yield Tabled("missing_by_group", PART, "Is anything missing more often for some groups?", found.tests, tested)
    frame = unevenness(audit.scores, audit.protocol, audit.edits, audit.judged, seed=audit.seed)
    title = "How far groups lie apart in what is missing, in percentage points"
    yield Tabled("missing_disparity", PART, title, frame, _apart(audit))
    least = (share("rate"), within(), share("lowest"), share("highest"), whole("missing"), whole("asked"))
    outcome = word("outcome", names=audit.labels)
    title = "Every rate between its bounds: no missing score a hit, or every one"
    yield Tabled("bounds", PART, title, found.bounds, (outcome, *who, *least, yes("informative")))
    for id, title, frame, key in (
        (
            "bounds_of_contrasts",
            "Everyone else − reference group between its bounds",
            found.contrasts,
            "difference",
        ),
        ("bounds_of_disparities", "Max − min between its bounds", found.ranges, "disparity"),
    ):
        ends = (apart(key, "points"), apart("least", "least"), apart("most", "most"), yes("informative"))
        about = (outcome, word("editor"), *((word("dimension"),) if "dimension" in frame.columns else ()))
        yield Tabled(id, PART, title, frame, (*about, *ends))
    if audit.inputs.ratings is not None:
        frame = answers(audit.inputs.ratings, audit.protocol, seed=audit.seed)
        yield Tabled("ratings_missing", PART, "What raters did not score, by the person shown", frame, tested)


def _apart(audit: Audit) -> tuple[Shown, ...]:
    return (
        word("outcome", "missing"),
        word("editor"),
        word("dimension"),
        word("highest_group", "highest", audit.labels),
        word("lowest_group", "lowest", audit.labels),
        apart("disparity", "max − min"),
        apart("expected", "by chance"),
        apart("corrected", "corrected"),
        within(),
        probability("p_rank", "p"),
    )
