"""What raters say of a treatment: ratings of both arms, which of two edits they chose, and their other answers."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from stillme.analysis.tables.audit import Audit
from stillme.analysis.tables.tables import (
    Shown,
    Tabled,
    around,
    change,
    number,
    plain,
    probability,
    share,
    whole,
    wide,
    within,
    word,
)
from stillme.core.records import MITIGATE
from stillme.protocol import Protocol
from stillme.stats.drift import CASE, changes
from stillme.stats.mitigation import contrasts, effects, paired
from stillme.stats.preferences import AGAINST, CHOSEN, preferences

RATED, CHOICES, ANSWERS = "Mitigation, as raters see it", "What raters choose", "Other answers of raters"
NOTE = "Share: of the answers that chose one of the two; one half means that neither is better."


def build(audit: Audit) -> Iterator[Tabled]:
    if audit.inputs.ratings is not None:
        yield from _rated(audit, audit.inputs.ratings)
    if audit.inputs.choices is not None:
        yield from _choices(audit.inputs.choices)
    if audit.inputs.answers is not None:
        yield from _answers(audit.inputs.answers)


def _rated(audit: Audit, ratings: pl.DataFrame) -> Iterator[Tabled]:
    """The change that raters see in an edit, the mean of those who are kept; arm against arm on the same cases."""
    removed = [] if audit.quality is None else list(audit.quality.removed)
    own = ratings.filter((pl.col("experiment") == MITIGATE) & ~pl.col("rater").is_in(removed))
    if own["arm"].n_unique() < 2:
        return
    dimensions = list(audit.protocol.groups.dimensions)
    valued = changes(own.with_columns(requested=_requested(audit.protocol)), audit.protocol)
    each = valued.group_by(*CASE, "arm", "axis", *dimensions, maintain_order=True).agg(pl.col("value").mean())
    wanted = contrasts(audit.protocol, set(own["arm"]), bool(audit.inputs.selected))
    frame = effects(paired(each, wanted, dimensions), audit.seed)
    shown = (
        word("axis", names=audit.labels),
        word("arm"),
        word("against"),
        number("first_mean", "before"),
        number("second_mean", "after"),
        change("difference"),
        around(),
        *wide(whole("pairs"), whole("persons")),
        probability("p"),
        probability("p_holm", "p corrected"),
    )
    title = "What each arm changes in the eyes of raters, on the same cases"
    yield Tabled("rated_effects", RATED, title, frame, shown, first=True)


def _requested(protocol: Protocol) -> pl.Expr:
    """Whether the prompt itself asks for a change on the axis."""
    asked = [
        (pl.col("prompt") == prompt) & (pl.col("axis") == axis)
        for prompt in protocol.prompt
        for axis in protocol.axes
        if not protocol.unrequested(prompt, axis)
    ]
    return pl.any_horizontal(asked) if asked else pl.lit(False)


def _choices(choices: pl.DataFrame) -> Iterator[Tabled]:
    frame = preferences(choices)
    title = "Which of two edits raters chose, with and without the sentence before the prompt"
    yield Tabled("preferences", CHOICES, title, frame, _shown(frame), (NOTE,), first=True)
    frame = preferences(choices, ["editor"])
    yield Tabled("preferences_by_editor", CHOICES, "The same, by editor", frame, (word("editor"), *_shown(frame)))


def _shown(frame: pl.DataFrame) -> tuple[Shown, ...]:
    fixed = {"question", "arm", "against", "editor", CHOSEN, AGAINST, "answers", "raters", "persons"}
    others = [name for name in frame.columns if name not in fixed | {"share", "low", "high"}]
    counts = (whole(CHOSEN, "arm chosen"), whole(AGAINST, "the other"), *wide(*(whole(name) for name in others)))
    return (word("question"), word("arm"), *counts, share("share"), within(), whole("persons"))


def _answers(answers: pl.DataFrame) -> Iterator[Tabled]:
    """How often each answer was given, by the stereotype of the occupation where there is one."""
    said = pl.col("value").fill_null(pl.col("answer"))
    by = ["study", "question", "stereotype", "source_gender", "editor"]
    frame = answers.group_by(*by, said.alias("value"), maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("answers"), pl.col("rater").n_unique().cast(pl.Int64).alias("raters")
    )
    ordered = frame.sort(*by, "value")
    title = "How often each answer was given"
    yield Tabled("rater_answers", ANSWERS, title, ordered, plain(ordered, leave=("study",)))
