"""Who is treated worse: the declared endpoints, how far groups lie apart, and how editors differ in it."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from stillme.analysis.tables.audit import Audit
from stillme.analysis.tables.tables import (
    Shown,
    Tabled,
    apart,
    number,
    plain,
    probability,
    share,
    whole,
    wide,
    within,
    word,
    yes,
)
from stillme.stats.between import between
from stillme.stats.contrast import endpoints, primary
from stillme.stats.disparity import disparities
from stillme.stats.equivalence import equivalence
from stillme.stats.gee import gee
from stillme.stats.simultaneous import deviations, family, pairs

PART = "Who is treated worse"


def build(audit: Audit) -> Iterator[Tabled]:
    if audit.has_reference:
        yield _primary(audit)
        yield _sampled(audit)
        yield _alike(audit)
    for dimension in audit.dimensions:
        yield _apart(audit, dimension)
        yield from _groups(audit, dimension)
    if audit.has_reference and audit.scores["editor"].n_unique() > 1:
        yield _between(audit)
    if audit.has_reference:
        frame = gee(audit.marked, audit.protocol)
        title = "Odds by estimating equations (sensitivity of the contrasts)"
        yield Tabled("odds_by_equations", PART, title, frame, plain(frame, audit.labels))


def _primary(audit: Audit) -> Tabled:
    reference = audit.labels[audit.protocol.groups.reference_group[audit.dimension]]
    frame = primary(audit.marked, audit.scores, audit.protocol, audit.seed)
    at_once = family(endpoints(audit.marked, audit.scores, audit.protocol), audit.protocol, audit.seed)
    keys = ["editor", "outcome"]
    frame = frame.join(
        at_once.select(*keys, "p_max_t"), on=keys, how="left", validate="1:1", maintain_order="left"
    )
    shown = (
        word("outcome", "endpoint", audit.labels),
        word("kind"),
        word("editor"),
        apart("others_rate", "everyone else"),
        apart("reference_rate", reference),
        apart("difference", "difference (points)"),
        within(),
        *wide(whole("others_persons", "persons"), whole("reference_persons", f"{reference} persons")),
        probability("p"),
        probability("p_holm", "p corrected"),
        *wide(probability("p_max_t", "p by max-T")),
    )
    notes = (
        "Everyone else minus the reference group, persons as the unit; a net direction is the share above less "
        "the share below no change. p permutes persons within strata of the other dimensions; corrected by Holm.",
    )
    return Tabled("primary", PART, "Declared endpoints", frame, shown, notes, first=True)


def _sampled(audit: Audit) -> Tabled:
    """The same for all prompts that could have been asked, of which these are a sample."""
    frame = primary(audit.marked, audit.scores, audit.protocol, audit.seed, prompts="sample")
    title = "Declared endpoints, if prompts are a sample too (two-way intervals)"
    return Tabled("primary_prompts_sampled", PART, title, frame, plain(frame, audit.labels))


def _groups(audit: Audit, dimension: str) -> Iterator[Tabled]:
    asked = (audit.marked, audit.protocol, dimension, audit.seed)
    for id, title, frame in (
        (
            f"pairs_by_{dimension}",
            f"Every two groups of perceived {dimension}, bounds for all at once",
            pairs(*asked),
        ),
        (
            f"mean_by_{dimension}",
            f"Each group of perceived {dimension} against their mean, bounds for all",
            deviations(*asked),
        ),
    ):
        yield Tabled(id, PART, title, frame, plain(frame, audit.labels))


def _alike(audit: Audit) -> Tabled:
    frame = equivalence(audit.marked, audit.protocol, audit.protocol.analysis.primary.outcomes)
    margin = audit.protocol.analysis.equivalence_points
    title = f"May two rates be called alike? (within ± {margin:g} points)"
    return Tabled("equivalence", PART, title, frame, plain(frame, audit.labels))


def _apart(audit: Audit, dimension: str) -> Tabled:
    frame = disparities(audit.marked, audit.protocol, dimension, audit.seed)
    shown: tuple[Shown, ...] = (
        word("outcome", names=audit.labels),
        word("editor"),
        word("highest_group", "highest", audit.labels),
        *wide(share("highest", "rate")),
        word("lowest_group", "lowest", audit.labels),
        *wide(share("lowest", "rate")),
        apart("disparity", "max − min"),
        apart("expected", "by chance"),
        apart("corrected", "corrected"),
        within(),
        probability("p_rank", "p"),
        *wide(yes("gated", "gate passed"), number("sd", "between-group SD", 3), whole("persons")),
    )
    notes = (
        "Max − min is above zero even where all groups are alike; 'by chance' says by how much. The interval of "
        "the corrected difference starts at 0 unless p, of persons' shares permuted, is at most 0.05. Rows are "
        "not corrected for each other: no claim rests on them.",
    )
    is_main = dimension == audit.dimension
    brief = pl.col("outcome").is_in(list(audit.protocol.analysis.primary.outcomes))
    title = f"How far groups of perceived {dimension} lie apart, in percentage points"
    return Tabled(f"disparity_by_{dimension}", PART, title, frame, shown, notes, first=is_main, brief=brief)


def _between(audit: Audit) -> Tabled:
    frame = between(audit.marked, audit.protocol, audit.seed)
    title = "Editors against each other, on the persons that they share"
    return Tabled("between_editors", PART, title, frame, plain(frame, audit.labels))
