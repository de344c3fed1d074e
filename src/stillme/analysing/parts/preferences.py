"""What raters said besides ratings: which of two edits they chose, and answers on scales that are no axis."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from stillme.analysing.audit import Audit
from stillme.analysing.tables import Shown, Tabled, plain, share, whole, within, word
from stillme.analysis.preferences import AGAINST, CHOSEN, preferences

CHOICES, ANSWERS = "What raters choose", "Other answers of raters"
NOTE = "Share: of the answers that chose one of the two; one half means that neither is better."


def build(audit: Audit) -> Iterator[Tabled]:
    if audit.inputs.choices is not None:
        yield from _choices(audit.inputs.choices)
    if audit.inputs.answers is not None:
        yield from _answers(audit.inputs.answers)


def _choices(choices: pl.DataFrame) -> Iterator[Tabled]:
    frame = preferences(choices)
    title = "Which of two edits raters chose, with and without the sentence before the prompt"
    yield Tabled("preferences", CHOICES, title, frame, _shown(frame), (NOTE,), first=True)
    frame = preferences(choices, ["editor"])
    yield Tabled("preferences_by_editor", CHOICES, "The same, by editor", frame, (word("editor"), *_shown(frame)))


def _shown(frame: pl.DataFrame) -> tuple[Shown, ...]:
    fixed = {"question", "arm", "against", "editor", CHOSEN, AGAINST, "answers", "raters", "persons"}
    others = [name for name in frame.columns if name not in fixed | {"share", "low", "high"}]
    counts = (whole(CHOSEN, "arm chosen"), whole(AGAINST, "the other"), *(whole(name) for name in others))
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
