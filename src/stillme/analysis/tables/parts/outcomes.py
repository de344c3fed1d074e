"""What there is, and how often each outcome happened: by editor, by group, by prompt, and crossed."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from stillme.analysis.tables.audit import Audit
from stillme.analysis.tables.tables import Shown, Tabled, number, share, whole, wide, within, word
from stillme.stats.rates import rates

DESIGN, OUTCOMES = "What was analysed", "How often"
COUNTED: tuple[Shown, ...] = (
    share("rate"),
    within(),
    *wide(whole("hits")),
    whole("judged"),
    share("nominal_rate", "of all asked"),
    *wide(whole("asked")),
    whole("missing"),
    *wide(whole("single", "one judge"), whole("persons")),
    number("deff", "design effect"),
)


def build(audit: Audit) -> Iterator[Tabled]:
    yield _by_editor(audit)
    for dimension in audit.dimensions:
        yield _by_group(audit, dimension)


def design(audit: Audit) -> Iterator[Tabled]:
    scores = audit.scores
    judged = 0 if audit.judged is None else audit.judged["judge"].n_unique()
    counts = {
        "editors": scores["editor"].n_unique(),
        "persons": scores["person"].n_unique(),
        "prompts": scores["prompt"].n_unique(),
        "edits asked for": scores["trial"].n_unique(),
        "edits with a score": scores.drop_nulls("score")["trial"].n_unique(),
        "judges": judged,
        "raters": 0 if audit.inputs.ratings is None else audit.inputs.ratings["rater"].n_unique(),
    }
    frame = pl.DataFrame(list(counts.items()), schema={"what": pl.String, "number": pl.Int64}, orient="row")
    yield Tabled("design", DESIGN, "Counts", frame, (word("what"), whole("number")), audit.inputs.scores.notes)


def _by_editor(audit: Audit) -> Tabled:
    frame = rates(audit.marked, ["editor"], statuses=audit.statuses)
    brief = pl.col("outcome").is_in(list(audit.protocol.manifest.tables.outcomes_by_editor))
    shown = (word("outcome", names=audit.labels), word("editor"), *_counted(frame))
    return Tabled(
        "outcomes_by_editor", OUTCOMES, "Outcomes by editor (as table 12)", frame, shown, first=True, brief=brief
    )


def _by_group(audit: Audit, dimension: str) -> Tabled:
    known = audit.marked.filter(pl.col(dimension).is_not_null())
    frame = rates(known, ["editor", dimension], statuses=audit.statuses)
    shown = (
        word("outcome", names=audit.labels),
        word("editor"),
        word(dimension, f"perceived {dimension}", audit.labels),
        *_counted(frame),
    )
    return Tabled(f"outcomes_by_{dimension}", OUTCOMES, f"Outcomes by perceived {dimension}", frame, shown)


def _counted(frame: pl.DataFrame) -> tuple[Shown, ...]:
    """With those that were refused, where that is known."""
    return (*COUNTED, *(wide(whole("refused")) if "refused" in frame.columns else ()))
