"""Frames to draw, computed by the real analysis from a small audit made of numbers, once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import polars as pl

from stillme.core.records import Status
from stillme.protocol.reader import builtin
from stillme.report import plots
from stillme.report.context import Context
from stillme.report.plots import Drawn
from stillme.report.plots.stereotypes import followed
from stillme.stats.disparity import disparities
from stillme.stats.distributed import distributions
from stillme.stats.humans import majority
from stillme.stats.outcomes import mark
from stillme.stats.rates import rates
from stillme.stats.rectified import rectified
from stillme.stats.refusals import refusals
from stillme.stats.shrunken import shrunken
from stillme.stats.stereotype import FIRST_PORTRAIT, NAMED, POSITION, PRONOUN
from stillme.stats.tones import tone_flow
from tests.analysis.tables.scores import rated
from tests.report import synthetic_audit as synthetic

EDITORS = ("even", "lighten", "replace")
DRAWN = ("soft_erasure", "race_changed", "skin_lightened")
Draw = Callable[[pl.DataFrame, Context], Drawn]


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
    effects: pl.DataFrame
    changes: pl.DataFrame
    assigned: pl.DataFrame
    followed: pl.DataFrame


def refuse(editor: str, group: str) -> float:
    return 0.3 if (editor, group) == ("replace", "black") else 0.03


@lru_cache(maxsize=1)
def frames(prompts: int = 4) -> Frames:
    protocol, random = builtin(), np.random.default_rng(3)
    ways = tuple(status.value for status in Status if status.stage)
    people = synthetic.people(protocol)
    trials = synthetic._trials(protocol, people, EDITORS, prompts, (), refuse, ways, random)
    asked = synthetic._asked(protocol, trials, synthetic.chance, random)
    judged = synthetic._judged(asked, 0.02, random)
    scores = synthetic._ensemble(judged, asked, "half_even")
    marked = mark(scores, {name: protocol.rubrics.outcomes[name] for name in DRAWN})
    facts = asked.select("trial", "axis", "person", "editor", "race", "requested")
    ratings = rated(judged.join(facts, on=["trial", "axis"]).drop_nulls("score"), 400)
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
        effects=_effects(),
        changes=_changes(),
        assigned=_assigned(),
        followed=_followed(),
    )


def _tones(trials: pl.DataFrame, random: np.random.Generator) -> pl.DataFrame:
    """Swatches as a measure reads them: one editor lightens, some pictures cannot be read."""
    usual = {"white": 2, "east_asian": 4, "latino": 5, "middle_eastern": 5, "southeast_asian": 6, "indian": 7}
    n = trials.height
    before = trials["race"].replace_strict(usual, default=9, return_dtype=pl.Float64).to_numpy()
    before = np.clip(before + random.integers(-1, 2, n), 1, 10)
    lighter = np.where(trials["editor"].to_numpy() == "lighten", random.integers(0, 4, n), 0)
    after = np.clip(before - lighter + random.integers(-1, 2, n) * (random.random(n) < 0.3), 1, 10)
    seen = pl.Series(random.random(n) < 0.97)
    return tone_flow(
        trials.with_columns(monk_before=pl.Series(before), monk_after=pl.when(seen).then(pl.Series(after)))
    )


def _components() -> pl.DataFrame:
    """As the ordinal model gives them; fitting one takes too long for a figure."""
    factors = {"person": 84, "person:editor": 252, "prompt": 20, "edit": 5040, "residual": None}
    shares = {"edit_success": (0.1, 0.02, 0.2, 0.3, 0.38), "race_drift": (0.213, 0.05, 0.037, 0.0, 0.7)}
    rows = [
        (axis, factor, levels, 1.0, share)
        for axis, each in shares.items()
        for (factor, levels), share in zip(factors.items(), each, strict=True)
    ]
    return pl.DataFrame(rows, schema=["axis", "factor", "levels", "sd", "share"], orient="row")


def _effects() -> pl.DataFrame:
    """As `mitigation_effects`."""
    rows = [
        ("feature", "baseline", "edit_success", 4.13, 3.76, -0.37, -0.59, -0.14, 0.027),
        ("placebo", "baseline", "edit_success", 4.14, 4.13, -0.01, -0.22, 0.21, 1.0),
        ("feature", "baseline", "race_drift", 0.99, 0.38, -0.61, -0.85, -0.37, 0.002),
        ("placebo", "baseline", "race_drift", None, None, None, None, None, None),
    ]
    names = ["arm", "against", "axis", "first_mean", "second_mean", "difference", "low", "high", "p_holm"]
    frame = pl.DataFrame(rows, schema=names, orient="row")
    return frame.with_columns(pairs=234, cases=240, first_only=4, second_only=2, persons=84)


def _changes() -> pl.DataFrame:
    """As `mitigation_by_group`."""
    groups = {"white": (1.17, 1.29), "black": (2.14, 1.81), "indian": (2.6, 1.35), "latino": (None, None)}
    rows = [
        (
            "feature",
            "baseline",
            axis,
            "race",
            group,
            first,
            second,
            None if first is None or second is None else second - first,
        )
        for axis in ("race_drift", "edit_success")
        for group, (first, second) in groups.items()
    ]
    names = ["arm", "against", "axis", "dimension", "group", "first_mean", "second_mean", "difference"]
    return pl.DataFrame(rows, schema=names, orient="row").with_columns(pairs=33, cases=35, persons=12)


SENTENCES = {"all": "All", "with_pronoun": "With a pronoun"}


def _assigned() -> pl.DataFrame:
    """As `beside` makes it: the first follows the words, the last the stereotype."""
    rows = [
        ("even", "all", 12, 12, 1.0, 0.735, 1.0, 12, 0.0, -0.2, 0.2),
        ("even", "with_pronoun", 8, 8, 1.0, 0.63, 1.0, 8, 0.01, None, None),
        ("lighten", "all", 12, 10, 0.5, 0.187, 0.813, 12, -0.05, -0.3, 0.2),
        ("replace", "all", 12, 12, 0.833, 0.516, 0.979, 12, 0.651, 0.5, 0.8),
    ]
    names = ["editor", "group", "asked", "clear", "rate", "rate_low", "rate_high", "prompts", "gap", "low", "high"]
    return pl.DataFrame(rows, schema=names, orient="row")


def _followed() -> pl.DataFrame:
    gaps = _assigned().rename({"group": "sentences"}).with_columns(p_holm=pl.lit(0.03))
    rows = [
        (editor, effect, 12, value, value - 0.1, value + 0.1, 0.001 if value > 0.5 else 0.8)
        for editor, value in {"even": 0.9, "lighten": 0.02, "replace": -0.031}.items()
        for effect in (PRONOUN, NAMED, POSITION, FIRST_PORTRAIT)
    ]
    names = ["editor", "effect", "prompts", "difference", "low", "high", "p_holm"]
    return followed(pl.DataFrame(rows, schema=names, orient="row"), gaps)


# Kind -> the frame that it is drawn from, and how
KINDS: dict[str, tuple[str, Draw]] = {
    "forest": ("by_race", lambda f, c: plots.forest("f1", "Forest", f, c, "race_changed", "race")),
    "ladder": ("disparity", lambda f, c: plots.ladder("f2", "Ladder", f, c)),
    "distributions": ("spread", lambda f, c: plots.distributions("f3", "Skin", f, c, "skin_tone", "race")),
    "amounts": ("spread", lambda f, c: plots.distributions("f4", "Race", f, c, "race_drift", "race")),
    "corrected": (
        "corrected",
        lambda f, c: plots.corrected("f5", "People", f, c, "race_changed", "race", c.editors[-1].id),
    ),
    "components": ("components", lambda f, c: plots.components("f6", "Components", f, c)),
    "arms": ("effects", lambda f, c: plots.arms("f7", "Arms", f, c)),
    "slopes": ("changes", lambda f, c: plots.slopes("f8", "Slopes", f, c, "race", "feature", "baseline")),
    "bars": ("by_race", lambda f, c: plots.bars("f9", "Bars", f, c, "race", c.tables.panels)),
    "heatmap": ("cells", lambda f, c: plots.heatmap("f10", "Cells", f, c, "race_changed", "race")),
    "flow": ("tones", lambda f, c: plots.flow("f11", "Tones", f, c)),
    "stereotypes": ("assigned", lambda f, c: plots.stereotypes("f13", "Given", f, c, SENTENCES, True)),
    "cues": ("followed", lambda f, c: plots.cues("f14", "Cues", f, c, joint=True)),
    "refusal_bars": ("refused", lambda f, c: plots.refusal_bars("f12", "Refusals", f, c, "race")),
}


def draw(kind: str, change: Callable[[pl.DataFrame], pl.DataFrame] | None = None, **about: object) -> Drawn:
    """A figure of the kind; `change`: what is done to its frame before; `about`: to the context."""
    name, make = KINDS[kind]
    frame = getattr(frames(), name)
    return make(frame if change is None else change(frame), synthetic.context(**about))  # type: ignore[arg-type]
