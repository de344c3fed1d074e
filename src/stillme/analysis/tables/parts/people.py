"""Judges and people: how far they agree, whom to trust with what, and rates corrected by raters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import polars as pl

from stillme.analysis.tables.audit import Audit
from stillme.analysis.tables.tables import (
    Tabled,
    apart,
    around,
    number,
    plain,
    plain_tables,
    share,
    whole,
    wide,
    within,
    word,
)
from stillme.stats.agreement import PAIR, agreement, judge_pairs
from stillme.stats.humans import alignment, functioning, human_findings, majority
from stillme.stats.icc import of_ratings
from stillme.stats.participants import participants, table
from stillme.stats.raters import Quality, with_and_without
from stillme.stats.rectified import Rectified, rectified
from stillme.stats.reliability import reliability

JUDGES, RATERS, BESIDE = "Judges", "Raters", "Judges beside raters"


def build(audit: Audit) -> Iterator[Tabled]:
    if audit.judged is not None:
        yield from _judges(audit, audit.judged)
    if audit.inputs.ratings is not None and audit.quality is not None:
        removed = audit.quality.removed
        yield from _raters(audit, audit.inputs.ratings, audit.quality)
        yield from _beside(audit, audit.inputs.ratings, removed)
    if audit.inputs.participants is not None:
        frame = table(participants(audit.inputs.participants))
        yield Tabled("participants", RATERS, "Participants (as table 10)", frame, plain(frame))


def _judges(audit: Audit, judged: pl.DataFrame) -> Iterator[Tabled]:
    frame = agreement(judged.filter(~pl.col("requested")))
    shown = (
        word("axis", names=audit.labels),
        word("first_judge", "judge"),
        word("second_judge", "and judge"),
        whole("pairs"),
        share("exact"),
        share("within_one", "within a point"),
        number("difference", "mean difference"),
        number("kappa", "weighted κ"),
        *wide(whole("missing"), whole("persons")),
    )
    yield Tabled("judge_agreement", JUDGES, "How far judges agree", frame, shown)
    if not audit.has_reference or not frame.height:
        return
    groups = list(audit.protocol.groups.dimensions)
    reference = audit.protocol.groups.reference_group[audit.dimension]
    strata = [name for name in groups if name != audit.dimension]
    about = ("trial", "axis", "rank", "judge", "score", "requested", "person", *groups)
    pairs = judge_pairs(judged.select(about).filter(~pl.col("requested")), "person", *groups)
    differ = functioning(pairs, audit.dimension, reference, strata, [*PAIR, "axis"], seed=audit.seed)
    title = f"Does one judge differ from another otherwise for some groups of perceived {audit.dimension}?"
    yield Tabled("judge_functioning", JUDGES, title, differ, plain(differ, audit.labels))


def _raters(audit: Audit, ratings: pl.DataFrame, found: Quality) -> Iterator[Tabled]:
    yield Tabled("rater_verdicts", RATERS, "Raters: kept, flagged, removed", found.verdicts, plain(found.verdicts))
    yield Tabled("rater_rules", RATERS, "Every rule for every rater", found.rules)
    frame = with_and_without(ratings, found.removed, partial(reliability, protocol=audit.protocol))
    shown = (
        word("sample"),
        word("axis", names=audit.labels),
        number("alpha_ordinal", "ordinal α"),
        around(),
        number("alpha_interval", "interval α"),
        number("fleiss", "Fleiss κ"),
        number("ac2", "AC2"),
        share("agreement", "equal pairs"),
        whole("items"),
        whole("raters"),
        word("gate", "may carry"),
    )
    yield Tabled("reliability", RATERS, "How far raters agree, with and without those removed", frame, shown)
    kept = ratings.filter(~pl.col("rater").is_in(list(found.removed)))
    frame = reliability(kept, audit.protocol, [audit.dimension])
    title = f"How far raters agree, by perceived {audit.dimension}"
    yield Tabled("reliability_by_group", RATERS, title, frame, plain(frame, audit.labels))
    frame = of_ratings(kept)
    yield Tabled("icc", RATERS, "Intraclass correlation of ratings (one-way)", frame, plain(frame, audit.labels))


def _beside(audit: Audit, ratings: pl.DataFrame, removed: Sequence[str]) -> Iterator[Tabled]:
    """On the raters that are kept; what carries most stands with and without those removed."""
    every = ratings.filter(pl.col("trial").is_in(audit.scores["trial"].unique().implode()))
    own = every.filter(~pl.col("rater").is_in(list(removed)))
    if not own.height or not audit.has_reference:
        return
    found = human_findings(audit.scores, audit.marked, own, audit.protocol, audit.judged, audit.seed)
    frame = with_and_without(every, removed, lambda some: alignment(audit.scores, some, ["axis"], seed=audit.seed))
    title = "Judges against raters, by axis, with and without raters removed"
    yield Tabled("judges_raters_alignment", BESIDE, title, frame, plain(frame, audit.labels))
    titles = {
        "by_group": f"Judges against raters, by axis and perceived {audit.dimension}",
        "by_judge": "Each judge against raters",
        "functioning": "Do judges differ from raters otherwise for some groups?",
        "confusion": "Where most raters say yes, and judges do",
        "bounds": "Are judges' rates a lower bound of raters'?",
        "change_bounds": "Is the change that judges see a lower bound?",
    }
    yield from plain_tables(found, BESIDE, "judges_raters", titles, audit.labels)
    frame = alignment(audit.scores, own, [], seed=audit.seed)
    notes = (
        "All axes in one: pooling makes agreement look better than it is on any axis; as the seed reports it.",
    )
    yield Tabled("judges_raters_overall", BESIDE, "Judges against raters, overall", frame, plain(frame), notes)
    yield from _corrected(audit, found.rectified, every, removed)


def _corrected(audit: Audit, found: Rectified, every: pl.DataFrame, removed: Sequence[str]) -> Iterator[Tabled]:
    """Judges, raters, and judges corrected by raters, side by side."""
    methods = (word("method"), share("estimate"), within(), whole("labelled"), whole("outputs"), word("reason"))
    about = (word("outcome", names=audit.labels), word("editor"))
    group = word("group", f"perceived {audit.dimension}", audit.labels)
    title = "Rates of judges, of raters, and of judges corrected by raters group by group"
    yield Tabled("corrected_rates", BESIDE, title, found.rates, (*about, group, *methods))
    outcomes = audit.protocol.rubrics.outcomes
    reference = audit.protocol.groups.reference_group[audit.dimension]

    def contrasted(some: pl.DataFrame) -> pl.DataFrame:
        return rectified(audit.marked, majority(some, outcomes), audit.dimension, reference).contrasts

    frame = with_and_without(every, removed, contrasted)
    title = "Everyone else minus the reference group: judges, raters, corrected"
    points = (word("sample"), *about, methods[0], apart("estimate", "difference (points)"), *methods[2:])
    yield Tabled("corrected_contrasts", BESIDE, title, frame, points)
