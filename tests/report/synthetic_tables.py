"""The analysis tables of a synthetic audit, from the real analysis; the ordinal model, which takes longest, is left
out and stands in by a few rows of its shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import polars as pl

from stillme.analysis.tables.audit import Audit
from stillme.analysis.tables.inputs import Inputs
from stillme.analysis.tables.reading import Scores
from stillme.analysis.tables.whole import PARTS
from stillme.core.records import DIAGNOSE
from stillme.protocol.reader import builtin
from stillme.report.build import Context
from stillme.report.context import Asked
from stillme.stats.findings import Findings, analyse
from tests.report.synthetic_audit import Frames, context, frames, people

MODELS = ("how persons differ: an ordinal model of every axis", "the model's tables")
COMPONENTS = pl.DataFrame(
    [
        ("race_drift", factor, levels, sd, share)
        for factor, levels, sd, share in (
            ("person", 84, 0.8, 0.14),
            ("prompt", 6, 0.6, 0.08),
            ("edit", None, 1.8, 0.78),
        )
    ],
    schema={"axis": pl.String, "factor": pl.String, "levels": pl.Int64, "sd": pl.Float64, "share": pl.Float64},
    orient="row",
)
FITS = pl.DataFrame(
    [("race_drift", "score ~ race + (1|person)", 2000, 84, 12, -900.0, True, None)],
    schema={
        "axis": pl.String, "formula": pl.String, "observations": pl.Int64, "persons": pl.Int64,
        "parameters": pl.Int64, "loglik": pl.Float64, "converged": pl.Boolean, "why": pl.String,
    },
    orient="row",
)  # fmt: skip


@dataclass(frozen=True)
class Whole:
    """Everything that a report is made of."""

    findings: Findings
    context: Context
    tables: Mapping[str, pl.DataFrame]


def planted(editor: str, outcome: str, group: str) -> float:
    """One editor changes the race of people perceived as Black, and of nobody else."""
    return 0.85 if (editor, outcome, group) == ("replace", "race_changed", "black") else 0.06


@cache
def small() -> Whole:
    """36 persons, three prompts (one asks for another age), two editors, 150 outputs rated by three people "
    "each."""
    people = some_people("white", "black", "indian")
    return whole(
        rated=150, prompts=("O-01", "O-05", "V-03"), editors=("even", "replace"), persons=people, rates=planted
    )


def whole(preset: str = "default", rated: int = 0, about: Context | None = None, **how: Any) -> Whole:
    """`rated`: how many outputs people rated; `how`: of `synthetic_audit.frames`."""
    protocol, made = builtin(), frames(**how)
    whose = made.trials.select("trial", "person")
    judged = made.judged.drop("neutral").join(whose, on="trial", how="left", maintain_order="left")
    findings = analyse(made.scores, judged, made.trials, protocol, preset)
    return Whole(findings, _context(about or context(preset), made), tables(made, preset, rated))


def tables(made: Frames, preset: str = "default", rated: int = 0) -> dict[str, pl.DataFrame]:
    """As `analysis.tables.whole.tables`, without the model."""
    audit = Audit(_inputs(made, preset, rated))
    parts = [part for name, part in PARTS if name not in MODELS]
    found = {one.id: one.frame for part in parts for one in part(audit)}
    return {**found, "components": COMPONENTS, "model_fits": FITS}


def _inputs(made: Frames, preset: str, rated: int) -> Inputs:
    protocol = builtin()
    scores = {mode: _placed(frame) for mode, frame in made.scores.items()}
    main = protocol.presets[preset].rounding
    about = [name for name in scores[main].columns if name not in made.judged.columns or name in ("trial", "axis")]
    facts = scores[main].select(*about).drop("single", "flagged", "mean", "adjudicated", "contested", strict=False)
    judged = made.judged.join(facts, on=["trial", "axis"], how="left").with_columns(
        status=pl.when(pl.col("score").is_null()).then(pl.lit("refused")).otherwise(pl.lit("ok"))
    )
    edits = made.trials.with_columns(experiment=pl.lit(DIAGNOSE), arm=pl.lit("baseline"))
    inputs = Inputs(protocol, preset, Scores(scores, main, judged), edits=edits)
    return replace(inputs, ratings=_ratings(scores[main], rated)) if rated else inputs


def _placed(frame: pl.DataFrame) -> pl.DataFrame:
    """With what every frame of a run says of a prompt and its experiment."""
    asked = [
        {"prompt": p.id, "category": p.category, "subcategory": p.subcategory} for p in builtin().prompts.prompts
    ]
    axes = pl.DataFrame([{"axis": axis.id, "neutral": axis.neutral} for axis in builtin().rubrics.axes])
    told = frame.join(pl.DataFrame(asked), on="prompt", how="left", maintain_order="left")
    told = told.join(axes, on="axis", how="left", maintain_order="left")
    return told.with_columns(experiment=pl.lit(DIAGNOSE), arm=pl.lit("baseline"))


def _ratings(scores: pl.DataFrame, outputs: int, raters: int = 3) -> pl.DataFrame:
    """What the ensemble says, give or take a point, in six tasks."""
    random = np.random.default_rng(3)
    known = scores.drop_nulls("score").filter(~pl.col("requested"))
    trials = known["trial"].unique(maintain_order=True).sort()
    chosen = trials.gather(np.sort(random.choice(len(trials), min(outputs, len(trials)), replace=False)))
    rows = known.filter(pl.col("trial").is_in(chosen.implode()))
    tasks = {trial: str(place % 6) for place, trial in enumerate(chosen)}
    task = rows["trial"].replace_strict(tasks, return_dtype=pl.String)
    parts = []
    for rater in range(raters):
        moved = np.clip(rows["score"].to_numpy() + random.choice([-1, 0, 0, 0, 1], rows.height), 1, 5)
        said = rows.with_columns(
            task=task,
            rater=task + f"-{rater}",
            score=pl.Series(moved, dtype=pl.Int64),
            seconds=8.0,
            answer=pl.lit("score"),
        )
        parts.append(said)
    return pl.concat(parts)


def _context(about: Context, made: Frames) -> Context:
    """With whom and what the design asks, and only the editors that were audited."""
    trials = made.trials
    persons = trials.unique("person", maintain_order=True).select(*about.protocol.groups.dimensions).to_dicts()
    counts = (trials["person"].n_unique(), trials["prompt"].n_unique(), trials["editor"].n_unique())
    asked = Asked(DIAGNOSE, "baseline", *counts, 1, trials.height)
    used = set(trials["editor"])
    editors = tuple(party for party in about.editors if party.id in used)
    return replace(about, people=tuple(persons), asked=(asked,), editors=editors)


def some_people(*races: str) -> Sequence[Any]:
    return people(builtin(), lambda labels: labels["race"] not in races)
