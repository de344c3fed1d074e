"""All tables of one audit, computed once from the tidy frames. What the report prints, and nothing it decides."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import polars as pl

from stillme.protocol import Protocol
from stillme.stats.agreement import agreement
from stillme.stats.contrast import contrasts
from stillme.stats.disparity import max_minus_min
from stillme.stats.judging import Judging
from stillme.stats.measured import Measured
from stillme.stats.outcomes import mark
from stillme.stats.rates import rates
from stillme.stats.refusals import Refusals, refusals


@dataclass(frozen=True)
class Findings:
    """The audit's tables. Every rate has asked, judged, missing, persons, low and high beside it."""

    by_editor: pl.DataFrame  # outcome × editor (the seed's table 12)
    by_group: Mapping[str, pl.DataFrame]  # dimension -> outcome × editor × group (table 13 for race)
    disparity: pl.DataFrame  # outcome × editor: max − min over the groups of the protocol's main table
    contrasts: pl.DataFrame  # editor × outcome: everyone else minus the reference group
    rounding: pl.DataFrame  # mode × outcome × editor
    statuses: pl.DataFrame  # editor × group × status: how many edits ended how
    refusals: Refusals  # who was refused an edit
    agreement: pl.DataFrame  # pair of judges × axis
    planted: pl.DataFrame | None  # outcome × editor × group: the planted rate beside the estimate
    measured: Measured | None = None  # what instruments read; None where nothing was measured
    judging: Judging | None = None  # what judges did besides scoring; None where nobody was asked


def analyse(
    scores: Mapping[str, pl.DataFrame],
    judged: pl.DataFrame,
    edits: pl.DataFrame,
    protocol: Protocol,
    preset: str,
    planted: pl.DataFrame | None = None,
    measured: Measured | None = None,
    judging: Judging | None = None,
) -> Findings:
    """`scores`: rounding mode -> ensemble scores (trial × axis); `judged`: every judge's own scores;
    `edits`: one row a trial with how it ended, without controls; `planted`: trial × outcome with the planted
    probability; `measured`, `judging`: the tables of measurements and of judges, passed on as they are."""
    about = (*_COUNTED, "trial", "prompt", *protocol.groups.dimensions)
    main = mark(_only(scores[protocol.presets[preset].rounding], about), protocol.rubrics.outcomes)
    by = protocol.manifest.tables.change_by_group.by
    by_group = {d: rates(main, ["editor", d]) for d in protocol.groups.dimensions}
    reference = protocol.groups.reference_group
    dimension = next(iter(reference))
    strata = [name for name in protocol.groups.dimensions if name != dimension]
    return Findings(
        by_editor=rates(main, ["editor"]),
        by_group=by_group,
        disparity=max_minus_min(by_group[by], ["outcome", "editor"], by),
        contrasts=contrasts(main, protocol.manifest.tables.contrasts, dimension, reference[dimension], strata),
        rounding=_under_each_rounding(scores, protocol),
        statuses=edits.group_by("editor", by, "status", maintain_order=True).len("edits"),
        refusals=refusals(edits, protocol),
        agreement=agreement(judged),
        planted=None if planted is None else beside_planted(main, planted, by),
        measured=measured,
        judging=judging,
    )


def _under_each_rounding(scores: Mapping[str, pl.DataFrame], protocol: Protocol) -> pl.DataFrame:
    """One after the other, and only the columns that count: a large audit's marks fill the memory."""
    parts = []
    for mode, frame in scores.items():
        found = rates(mark(_only(frame, _COUNTED), protocol.rubrics.outcomes), ["editor"])
        parts.append(found.with_columns(rounding=pl.lit(mode)))
    return pl.concat(parts)


def _only(frame: pl.DataFrame, names: Collection[str]) -> pl.DataFrame:
    return frame.select([name for name in frame.columns if name in names])


_COUNTED = ("editor", "person", "axis", "requested", "score", "single", "flagged", "adjudicated")


def beside_planted(marked: pl.DataFrame, planted: pl.DataFrame, dimension: str) -> pl.DataFrame:
    """The planted rate of each group beside its estimate, over the trials that were judged."""
    both = marked.join(planted, on=["trial", "outcome"], how="inner", validate="1:1").drop("trial")
    keys = ["outcome", "editor", dimension]
    expected = both.filter(pl.col("hit").is_not_null()).group_by(keys, maintain_order=True)
    means = expected.agg(pl.col("planted").mean())
    estimates = rates(both, ["editor", dimension])
    inside = (pl.col("low") <= pl.col("planted")) & (pl.col("planted") <= pl.col("high"))
    joined = estimates.join(means, on=keys, how="left", validate="1:1", maintain_order="left")
    return joined.with_columns(recovered=inside)
