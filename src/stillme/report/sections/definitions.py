"""Definitions: outcomes and thresholds, axes, presets and statistics, read from the protocol."""

from __future__ import annotations

import polars as pl

from stillme.analysis.numbers import DASH, INTERVAL, listed, lowered, signed
from stillme.protocol import Protocol
from stillme.protocol.schema import Outcome
from stillme.report.blocks import Fold, Section, bullets
from stillme.report.context import Context
from stillme.report.tables import Table, table, words
from stillme.stats.contrast import FEWEST_PERSONS
from stillme.stats.findings import Findings
from stillme.stats.intervals import FEWEST_FOR_INTERVAL

ROUNDING = {
    "half_even": "half even (.5 to the even neighbour)",
    "half_up": "half up (.5 to the higher score)",
    "toward_neutral": "toward neutral (.5 to the score that means no change)",
}


def build(findings: Findings | None, context: Context) -> Section:
    return Section(
        "definitions",
        "Definitions",
        "Definitions",
        (
            _outcomes(context),
            Fold("The scales that judges use", f"{len(context.protocol.axes)} axes", (_axes(context),)),
            _presets(context),
            bullets([*_statistics(), *_measured(findings, context)]),
        ),
    )


def statistics() -> tuple[dict[str, str], ...]:
    """Term -> what it is; terms that belong together stand together."""
    return (
        {
            "Asked": "edits that the design asks for.",
            "Judged": "those with a score.",
            "Missing": "the rest, for any reason.",
        },
        {
            "Decided": "the editor answered with a picture or refused.",
            "Refusal rate": "refused ÷ decided; what failed or was not made is in neither, and is counted "
            "beside it.",
        },
        {
            "Interval": f"Wilson’s {INTERVAL} with the person as the unit: the sample size is divided by the "
            f"design effect. Fewer than {FEWEST_FOR_INTERVAL} persons have a rate and no interval."
        },
        {
            "Max − min": "the highest group rate minus the lowest. It is above zero even when groups are alike, "
            "so it is shown for comparability and is no evidence by itself."
        },
        {
            "Contrast": "everyone else minus the reference group over persons’ own rates, Welch’s interval, a "
            f"stratified permutation p corrected with Holm; it needs {FEWEST_PERSONS} persons on each side."
        },
        {
            "One judge": "scores that rest on one judge because the other gave none.",
            "Flagged": "judges more than a point apart; the primary judge’s score stands.",
        },
    )


def _statistics() -> list[str]:
    told = [" ".join(f"{term}: {said}" for term, said in group.items()) for group in statistics()]
    return [*told, "Groups are how annotators perceived the person in the source portrait."]


def _measured(findings: Findings | None, context: Context) -> list[str]:
    """How figures of instruments become means and scores; nothing where nothing was measured."""
    rules = context.protocol.measures
    if findings is None or findings.measured is None or rules is None:
        return []
    skin, success = (
        lowered(context.protocol.axes[part.axis].label) for part in (rules.skin_tone, rules.no_change)
    )
    cuts = listed([signed(cut, 1) for cut in rules.skin_tone.cut_points])
    return [
        f"Measured mean: the mean of persons’ own means, with Student’s {INTERVAL} over persons. Of fewer than "
        f"{FEWEST_FOR_INTERVAL} persons there is none.",
        f"Instrument’s scores: {skin} by the cut points {cuts} of ΔL*; {success} {rules.no_change.score} where "
        "nothing changed, and missing elsewhere: pixels do not say how good an edit is.",
    ]


def _outcomes(context: Context) -> Table:
    rows = [
        {
            "outcome": outcome.label,
            "rule": context.rule(name),
            "meaning": scores_that_count(outcome, context.protocol),
            "without": prompts_left_out(outcome, context.protocol),
        }
        for name, outcome in context.outcomes.items()
    ]
    columns = [
        words("Outcome", "outcome"),
        words("Counted when", "rule"),
        words("Scores that count", "meaning"),
        words("Prompts left out", "without"),
    ]
    notes = ("Prompts left out ask for the change themselves, or are not judged on the axis.",)
    return table("outcome-rules", "Outcomes and their thresholds", rows, columns, pl.DataFrame(rows), notes=notes)


def scores_that_count(outcome: Outcome, protocol: Protocol) -> str:
    scale = protocol.axes[outcome.axis].scale
    low = outcome.at_least if outcome.at_least is not None else min(scale)
    high = outcome.at_most if outcome.at_most is not None else max(scale)
    return "; ".join(f"{score} {text}" for score, text in scale.items() if low <= score <= high)


def prompts_left_out(outcome: Outcome, protocol: Protocol) -> str:
    asked = [p.id for p in protocol.prompts.prompts if outcome.axis in protocol.axes_of(p.id)]
    kept = {id for id in asked if protocol.unrequested(id, outcome.axis)}
    return ", ".join(p.id for p in protocol.prompts.prompts if p.id not in kept) or DASH


def _axes(context: Context) -> Table:
    points = sorted({score for axis in context.protocol.rubrics.axes for score in axis.scale})
    rows = [
        {"axis": axis.label, **{str(score): axis.scale.get(score, DASH) for score in points}}
        for axis in context.protocol.rubrics.axes
    ]
    columns = [words("Axis", "axis"), *(words(str(score), str(score)) for score in points)]
    return table("axes", "Axes and scales", rows, columns, pl.DataFrame(rows))


def _presets(context: Context) -> Table:
    rows = [
        {
            "preset": f"{name} (this report)" if name == context.preset else name,
            "label": preset.label,
            "rounding": ROUNDING[preset.rounding],
            "denominators": preset.denominators,
            "disclose": ", ".join(f"perceived {d}" for d in preset.disclose) or "nothing",
        }
        for name, preset in context.protocol.presets.items()
    ]
    columns = [
        words("Preset", "preset"),
        words("Meaning", "label"),
        words("Rounding", "rounding"),
        words("Denominators", "denominators"),
        words("Judges are told", "disclose"),
    ]
    return table("presets", "Presets: the choices that change numbers", rows, columns, pl.DataFrame(rows))
