"""Frames to draw, computed by the real analysis from a small audit made of numbers, once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import polars as pl

from stillme.analysis.disparity import disparities
from stillme.analysis.distributed import distributions
from stillme.analysis.humans import majority
from stillme.analysis.mitigation import Mitigation, mitigation_findings
from stillme.analysis.outcomes import mark
from stillme.analysis.rates import rates
from stillme.analysis.rectified import rectified
from stillme.analysis.refusals import refusals
from stillme.analysis.shrunken import shrunken
from stillme.analysis.tones import tone_flow
from stillme.protocol.reader import builtin
from stillme.records import Status
from tests.analysing.scores import rated
from tests.mitigation.simulated import cases, truth
from tests.mitigation.simulated import scores as arms_of
from tests.report import synthetic_audit as synthetic

EDITORS = ("even", "lighten", "replace")


@dataclass(frozen=True)
class Frames:
    by_race: pl.DataFrame
    disparity: pl.DataFrame
    spread: pl.DataFrame
    cells: pl.DataFrame
    corrected: pl.DataFrame
    refused: pl.DataFrame
    tones: pl.DataFrame
    components: pl.DataFrame


@lru_cache(maxsize=1)
def frames(prompts: int = 8) -> Frames:
    protocol, random = builtin(), np.random.default_rng(3)

    def refuse(editor: str, group: str) -> float:
        return 0.18 if (editor, group) == ("replace", "black") else 0.03

    ways = tuple(status.value for status in Status if status.stage)
    people = synthetic.people(protocol)
    trials = synthetic._trials(protocol, people, EDITORS, prompts, (), refuse, ways, random)
    asked = synthetic._asked(protocol, trials, synthetic.chance, random)
    judged = synthetic._judged(asked, 0.02, random)
    scores = synthetic._ensemble(judged, asked, "half_even")
    marked = mark(scores, protocol.rubrics.outcomes)
    facts = asked.select("trial", "axis", "person", "editor", "race", "requested")
    ratings = rated(judged.join(facts, on=["trial", "axis"]).drop_nulls("score"), 600)
    labels = majority(ratings.join(facts, on=["trial", "axis"]), protocol.rubrics.outcomes)
    return Frames(
        by_race=rates(marked, ["editor", "race"]),
        disparity=disparities(marked, protocol, "race", 1),
        spread=distributions(scores, protocol, ["editor", "race"]),
        cells=shrunken(marked, "race"),
        corrected=rectified(marked, labels, "race", "white").rates,
        refused=refusals(trials, protocol).by_group,
        tones=_tones(trials, random),
        components=_components(),
    )


def _tones(trials: pl.DataFrame, random: np.random.Generator) -> pl.DataFrame:
    """Swatches as a measure reads them: one editor lightens, some pictures cannot be read."""
    darkest = {"white": 2, "east_asian": 4, "latino": 5, "middle_eastern": 5, "southeast_asian": 6, "indian": 7}
    before = trials["race"].replace_strict(darkest, default=9, return_dtype=pl.Float64).to_numpy()
    before = np.clip(before + random.integers(-1, 2, len(before)), 1, 10)
    lighter = np.where(trials["editor"].to_numpy() == "lighten", random.integers(0, 4, len(before)), 0)
    after = np.clip(
        before - lighter + random.integers(-1, 2, len(before)) * (random.random(len(before)) < 0.3), 1, 10
    )
    seen = pl.Series(random.random(len(before)) < 0.97)
    read = trials.with_columns(monk_before=pl.Series(before), monk_after=pl.when(seen).then(pl.Series(after)))
    return tone_flow(read)


def _components() -> pl.DataFrame:
    """As the ordinal model gives them; fitting one takes too long for a figure."""
    rows = [
        (axis, factor, levels, sd, share)
        for axis, shares in (
            ("edit_success", (0.1, 0.02, 0.2, 0.3, 0.38)),
            ("race_drift", (0.21, 0.05, 0.04, 0, 0.7)),
        )
        for factor, levels, sd, share in zip(
            ("person", "person:editor", "prompt", "edit", "residual"),
            (84, 252, 20, 5040, None),
            (1.0,) * 5,
            shares,
            strict=True,
        )
    ]
    return pl.DataFrame(rows, schema=["axis", "factor", "levels", "sd", "share"], orient="row")


@lru_cache(maxsize=1)
def mitigation() -> Mitigation:
    protocol = builtin()
    made = arms_of(protocol, truth(protocol), cases(protocol, 240, 0), 0)
    return mitigation_findings(made, protocol, selected_on_outcome=False)
